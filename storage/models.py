"""The tables. Times are UTC, stored as whole microseconds; JSON is stored as text, verbatim.

Only `storage.moves` writes status columns. The tables `audit`, `revision`, `vote`, `signature`,
`answer`, `attempt`, `mode` and `item` are append-only.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field

from storage import columns, states

PURGED = "{}"  # what a purge leaves of arguments and of transcript items


def new_id() -> str:
    """Return an unguessable id, safe in a Slack button value: 22 URL-safe characters, 128 bits.

    It never begins with a "-", so it can be typed as an argument of a command.
    """
    while (found := secrets.token_urlsafe(16)).startswith("-"):
        pass
    return found


class Delivery(columns.Row, table=True):
    """The inbox: one row for each thing Slack delivered, stored before it was acknowledged."""

    __tablename__ = "delivery"
    __table_args__ = (Index("ix_delivery_thread", "team", "channel", "thread_ts"),)
    seq: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)  # the same for a redelivery
    kind: states.DeliveryKind = columns.enum_column(states.DeliveryKind, index=False)
    team: str
    user: str
    channel: str = ""
    thread_ts: str = ""
    body: str = columns.text_column("{}")  # JSON: the raw payload
    received_at: datetime = columns.time_column()
    status: states.DeliveryStatus = columns.enum_column(
        states.DeliveryStatus, states.DeliveryStatus.NEW
    )
    run_id: str | None = Field(default=None, index=True)
    note: str = ""  # the outcome of its processing
    attempts: int = 0
    surface: states.Surface = columns.enum_column(states.Surface, states.Surface.SLACK, index=False)
    answer: str = columns.text_column("")  # the reply to its person, if not sent in Slack


class Run(columns.Row, table=True):
    """One request being worked on, in one Slack thread."""

    __tablename__ = "run"
    __table_args__ = (
        Index("ix_run_thread", "team", "channel", "thread_ts"),
        Index("ix_run_requester", "team", "requester", "status"),
        Index("ix_run_lately", "team", "requester", "updated_at"),
        Index("ix_run_client", "client", "created_at"),
    )
    id: str = Field(default_factory=new_id, primary_key=True)
    team: str
    channel: str
    thread_ts: str  # "" until its first message is posted; no worker takes the run before
    requester: str
    source: states.RunSource = columns.enum_column(
        states.RunSource, states.RunSource.MESSAGE, index=False
    )
    client: str = ""  # the name of the API key by which a program asked; "" without one
    root_id: str = Field(default="", index=True)  # the request's first run, or this one
    parent_call: str = ""  # the call that a sub-agent works on, or during which a server asks
    status: states.RunStatus = columns.enum_column(states.RunStatus, states.RunStatus.READY)
    fence: int = 0
    lease_until: datetime | None = columns.time_column(nullable=True)
    created_at: datetime = columns.time_column()
    updated_at: datetime = columns.time_column()
    turns: int = 0
    calls: int = 0
    cards: int = 0
    tokens: int = 0
    rounds: int = 0  # how often its plan was sent back
    error: str = ""
    # JSON: the new texts of messages that were edited after they were stored, by Slack ts
    reworded: str = columns.text_column("{}")
    purged_at: datetime | None = columns.time_column(nullable=True)  # when a purge emptied it
    # the channel where it was made, which it may have left; policy and modes use this one
    asked_in: str = Field(default="", sa_column_kwargs={"server_default": ""})

    @property
    def origin_channel(self) -> str:
        """Return the channel that policy uses: where the request was made, else where it is now."""
        return self.asked_in or self.channel


class Item(columns.Row, table=True):
    """One entry of a thread's transcript, verbatim as the model sends and sees it; append-only."""

    __tablename__ = "item"
    seq: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    turn: int = 0
    body: str = columns.text_column("{}")  # JSON: one Responses API item
    created_at: datetime = columns.time_column()


class Plan(columns.Row, table=True):
    """The calls proposed in one model turn, shown and decided together."""

    __tablename__ = "plan"
    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    turn: int
    revision: int = 1  # grows with each change in the plan
    answered: bool = False  # the transcript has the output of every call
    created_at: datetime = columns.time_column()


class Call(columns.Row, table=True):
    """One tool call the model proposed."""

    __tablename__ = "call"
    __table_args__ = (
        Index("ix_call_due", "status", "deadline", "asked_at", "starts_at"),
        Index(
            "ix_call_next",
            "status",
            "next_at",
            **columns.build_partial_index_options("next_at IS NOT NULL"),
        ),
        Index(
            "ix_call_look",
            "look_due_at",
            **columns.build_partial_index_options("look_due_at IS NOT NULL"),
        ),
        Index("ix_call_decided", "decided_at"),
        Index("ix_call_asked", "run_id", "asked_at"),
        Index("ix_call_tool", "tool", "finished_at"),
    )
    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id")  # the index ix_call_asked begins with it
    plan_id: str = Field(foreign_key="plan.id", index=True)
    position: int  # in the model's order, from 0
    provider_id: str  # the model's call id; used in the transcript only
    tool: str
    does: str = ""  # effect class, see bot.tools.Effect
    schema_digest: str = ""
    # the index ix_call_due begins with it
    status: states.CallStatus = columns.enum_column(states.CallStatus, index=False)
    revision: int = 1
    digest: str = Field(default="", index=True)  # of exactly what the current revision would run
    key_id: str = ""  # id of the key that the digest was made with
    gate: str = columns.text_column("{}")  # JSON of the gate that people were shown
    deadline: datetime | None = columns.time_column(nullable=True)
    # when an approved call is to start, if its gate sets a time; it is PENDING until this deadline
    starts_at: datetime | None = columns.time_column(nullable=True)
    # when people were asked; reminders count from here
    asked_at: datetime | None = columns.time_column(nullable=True)
    next_at: datetime | None = columns.time_column(nullable=True)  # when people are next notified
    told_moments: int = 0  # how many of the gate's reminder times are done
    told_stage: int = 0  # people up to this stage have been notified
    # when people are next asked to look at what ran without approval; None if nobody has to
    look_due_at: datetime | None = columns.time_column(nullable=True)
    # the person to whom this revision was handed over: reminders name only them; "" for nobody
    assignee: str = Field(default="", sa_column_kwargs={"server_default": ""})
    assigned_by: str = Field(default="", sa_column_kwargs={"server_default": ""})
    grant_id: str = ""  # the remembered approval that it runs on
    reason: str = columns.text_column("")  # the agent's own words, for the approver
    preview: str = columns.text_column("")  # shown to those who may decide
    names: str = columns.text_column("{}")  # names of the ids in its arguments, as JSON
    # a program's description of what it runs itself, as JSON; "" for a tool of the bot's
    action: str = columns.text_column("")
    claimant: str = ""  # SHA-256 of the claimant's id; "" if nobody has claimed it
    # the end of the claim's lease, while the call is RUNNING
    held_until: datetime | None = columns.time_column(nullable=True)
    # the preview that everybody in the thread may see; None: the same
    preview_in_thread: str | None = columns.text_column(nullable=True)
    # all rows that the preview shows a part of, for those who may decide, as JSON; "" for none
    preview_rows: str = columns.text_column("")
    # what must still hold at the start, as the preview said; in the tool's own words
    expects: str = columns.text_column("")
    output: str = columns.text_column("")  # for the model
    note: str = columns.text_column("")  # the reason why it ended, for people
    created_at: datetime = columns.time_column()
    decided_at: datetime | None = columns.time_column(nullable=True)
    finished_at: datetime | None = columns.time_column(nullable=True)


class Revision(columns.Row, table=True):
    """The arguments of a call at one moment; append-only."""

    __tablename__ = "revision"
    __table_args__ = (UniqueConstraint("call_id", "number"),)
    seq: int | None = Field(default=None, primary_key=True)
    call_id: str = Field(foreign_key="call.id")  # the unique index begins with it
    number: int
    # canonical JSON after validation, coercion and defaults
    arguments: str = columns.text_column("{}")
    digest: str
    author: str  # "agent", "form" or the Slack user id of the editor
    created_at: datetime = columns.time_column()


class Vote(columns.Row, table=True):
    """One person's vote on one revision of a call; append-only.

    It approves, rejects, runs the call without approval (BREAK_GLASS), or is the verdict of a
    person who looked at such a call.
    """

    __tablename__ = "vote"
    __table_args__ = (
        UniqueConstraint("call_id", "revision", "person", "verb"),
        Index("ix_vote_lately", "person", "created_at"),
    )
    seq: int | None = Field(default=None, primary_key=True)
    call_id: str = Field(foreign_key="call.id")  # the unique index begins with it
    revision: int
    person: str
    verb: states.CallVerb = columns.enum_column(states.CallVerb, index=False)
    stage: int = 0  # the gate's stage that it was given in, from 0
    also: str = ""  # further stages where it may count ("1,2"), if they have no order
    digest: str = ""  # of the revision; filled in when the vote is stored
    reason: str = columns.text_column("")
    for_person: str = ""  # the person whose right the voter used; "" for their own
    created_at: datetime = columns.time_column()
    # the passkey that signed it; the signature is a row of its own
    passkey_id: str = Field(default="", sa_column_kwargs={"server_default": ""})

    @property
    def counted_person(self) -> str:
        """Return the person the vote counts for: the delegator if there is one, else the voter."""
        return self.for_person or self.person

    @property
    def stages(self) -> tuple[int, ...]:
        """Return the stages of the gate in which it may count, the one it was given in first."""
        return (self.stage, *(int(each) for each in self.also.split(",") if each))


class PersonAnswer(columns.Row, table=True):
    """One person's answer to a question (a call that asks people); append-only."""

    __tablename__ = "answer"
    seq: int | None = Field(default=None, primary_key=True)
    call_id: str = Field(foreign_key="call.id", unique=True)  # a question is answered only once
    revision: int
    person: str
    # JSON: canonical values by field; {} if the person declined
    given: str = columns.text_column("{}")
    declined: bool = False  # the person said that they cannot tell
    created_at: datetime = columns.time_column()


class ModeSwitch(columns.Row, table=True):
    """A channel's mode (its limit on calls), valid from `at` on; append-only, the newest counts."""

    __tablename__ = "mode"
    seq: int | None = Field(default=None, primary_key=True)
    team: str
    channel: str = Field(index=True)
    mode: states.ChannelMode = columns.enum_column(states.ChannelMode, index=False)
    person: str  # Slack user id, or system
    at: datetime = columns.time_column()


class Attempt(columns.Row, table=True):
    """A start of a call that may have had its effect, although the call failed or is to run again.

    A row is made if the tool failed midway, or if the requester of a call with an unknown outcome
    says that it did not happen, or runs it again.
    """

    __tablename__ = "attempt"
    seq: int | None = Field(default=None, primary_key=True)
    call_id: str = Field(foreign_key="call.id", index=True)
    revision: int
    at: datetime = columns.time_column()  # when the outcome became known


class Audit(columns.Row, table=True):
    """One event, chained to the previous by a keyed hash; triggers refuse update and delete."""

    __tablename__ = "audit"
    seq: int | None = Field(default=None, primary_key=True)
    at: datetime = columns.time_column()
    run_id: str = Field(default="", index=True)
    call_id: str = ""
    actor: str  # a Slack user id, or agent | policy | clock | worker | system
    event: str
    data: str = columns.text_column("{}")
    # JSON of the arguments, with a seal in `data`; a purge empties it
    payload: str = columns.text_column("")
    key_id: str  # id of the key that it is sealed with
    previous: str  # the seal of the previous row
    hash: str  # the seal; it covers `seq`, so no two rows have the same


class Message(columns.Row, table=True):
    """The outbox: one row for each Slack message.

    A card's row is drawn again whenever `wanted` passes `shown`.
    """

    __tablename__ = "message"
    seq: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)  # also in the Slack message's metadata
    kind: states.MessageKind = columns.enum_column(states.MessageKind, index=False)
    run_id: str = Field(default="", index=True)
    plan_id: str = Field(default="", index=True)
    channel: str  # C…/D… or, before the DM is opened, U…
    thread_ts: str = ""
    recipient: str = ""  # the only person who sees it, if it is private
    body: str = columns.text_column("{}")  # JSON: what drawing it needs besides the rows
    status: states.MessageStatus = columns.enum_column(
        states.MessageStatus, states.MessageStatus.PENDING
    )
    wanted: int = 1
    shown: int = 0
    # JSON: the revision of each call that a card shows, by call id
    showing: str = columns.text_column("")
    ts: str = Field(default="", index=True)  # also used to find the request of a link
    attempts: int = 0
    due_at: datetime | None = columns.time_column(nullable=True)
    error: str = ""


# The append-only tables, and the changes that a purge may make in them.

APPEND_ONLY_TABLES = ("audit", "revision", "vote", "signature", "answer", "attempt", "item", "mode")
_RUN_ID_EXPRESSION = "OLD.run_id"
_SELECT_RUN_ID_OF_CALL = 'SELECT run_id FROM "call" WHERE id = OLD.call_id'
# By table: the column that a purge empties, its empty value, the columns that must stay as they
# are, and how to find the request of a row.
EMPTIED_COLUMN_BY_TABLE = {
    "audit": (
        "payload",
        "",
        "seq at run_id call_id actor event data key_id previous hash",
        _RUN_ID_EXPRESSION,
    ),
    "revision": (
        "arguments",
        "{}",
        "seq call_id number digest author created_at",
        _SELECT_RUN_ID_OF_CALL,
    ),
    "answer": (
        "given",
        "{}",
        "seq call_id revision person declined created_at",
        _SELECT_RUN_ID_OF_CALL,
    ),
    "item": ("body", "{}", "seq run_id turn created_at", _RUN_ID_EXPRESSION),
}
# Rows of these may be deleted with a purged request: what the model was told and said.
DELETABLE_TABLES = ("item",)
