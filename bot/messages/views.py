"""What a card shows, as plain data: made from rows for the outbox, drawn by `cards`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.messages.actions.targets import CallTarget, CardTarget
from bot.tools.effect_source import EffectSource
from storage.states import CallStatus

UNSET = "—"  # a text of just this is put in quotes


@dataclass(frozen=True, slots=True)
class Value:
    """One argument as a person reads it."""

    label: str  # the field's title
    text: str  # "—" for unset, "(empty)" for an empty string, a mask for what is declared secret
    before: str | None = None  # what it was before the latest edit, where that differs
    secret: bool = False  # its tool's author declared it secret: it is masked for everybody
    partly: bool = False  # something within it is secret, and masked
    # the keys in the arguments at which what it shows stands
    path: tuple[str, ...] = field(default=(), compare=False)

    @property
    def says_something(self) -> bool:
        """Whether it is set, or was until the latest edit."""
        return self.text != UNSET or self.before is not None


@dataclass(frozen=True, slots=True)
class Missing:
    """So many more people of these, as a step without an order lacks them."""

    count: int
    groups: tuple[str, ...] = ()  # user-group ids
    users: tuple[str, ...] = ()
    channel: str = ""  # whose members may


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call that takes more than one yes or no has come."""

    approved: tuple[str, ...]  # Slack user ids, in order
    rejected: tuple[str, ...]
    needed: int  # more people in the open stage
    stage: int = 1  # the one that is open, from 1
    stages: int = 1
    veto: int = 1  # so many rejections end it
    missing: tuple[Missing, ...] = ()  # of whom, where the steps have no order
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # who has voted for whom


@dataclass(frozen=True, slots=True)
class CallView:
    """One call of a plan, with all that its reader may need.

    Made in full for those who decide; `bot.messages.onlookers` makes of it what a card shows.
    """

    id: str
    revision: int
    title: str  # "Refund an order"
    effect: str  # "Refund 40.00 EUR of order 1042"
    does: str  # read | write | destructive
    status: CallStatus
    values: tuple[Value, ...]
    digest: str  # hex; the card shows the first 8
    deadline: datetime | None = None
    preview: str = ""  # plain text from the tool
    # names of what everybody who sees the card is shown less of than those who decide
    covered: tuple[str, ...] = ()
    has_rows: bool = False  # the preview shows a part of its rows; all may be sent
    agent_reason: str = ""  # the words of whoever proposed it
    by_agent: bool = True  # the agent proposed it, and would make another plan
    agent: str = "The agent"  # whoever that is: a sub-agent, a program; "" for who asked
    chain: tuple[str, ...] = ()  # who asked whom for what on the way to it, a line each
    program: str = ""  # plain words about the program that asks and does it itself; "" for none
    handed_on: bool = False  # that program has it, has not said how it went, and nobody is asked
    stated: EffectSource = EffectSource.BY_AUTHOR  # who says what it does
    edited_by: str = ""  # Slack user id of the last editor
    decided_by: tuple[str, ...] = ()  # Slack user ids; none for the clock, policy, or nobody yet
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # who has decided for whom
    decided_at: datetime | None = None
    good_until: datetime | None = None  # where it starts later than that, it is asked again
    note: str = ""  # why: a person's reason, policy's reason, what went wrong
    midway: bool = False  # it failed once it had begun
    quoted: bool = False  # what it came to, or what went wrong, is not in a tool's own sentence
    result: str = ""  # the first line of the text that it returned
    outcome: str = ""  # what it came to, as its tool says it to people
    # who approved with words of their own, and the words
    remarks: tuple[tuple[str, str], ...] = ()
    editable: bool = True
    progress: Progress | None = None  # where it waits, and one yes is not enough
    needs_words: bool = False  # who approves has to say why
    no_needs_words: bool = False  # who rejects has to
    # what an approver may have remembered, in words, in the gate's order
    offers: tuple[str, ...] = ()

    @property
    def target(self) -> CallTarget:
        """What the buttons for this call are about."""
        return CallTarget(self.id, self.revision)


@dataclass(frozen=True, slots=True)
class Errand:
    """What one sub-agent was asked on the way to a call."""

    agent: str  # its tool's title
    by: str  # who asked it: another sub-agent's title, "" for the requester's agent
    what: str  # its tool's effect: "Ask the refund desk: refund order 1042"


@dataclass(frozen=True, slots=True)
class CardView:
    """One message: the calls of one plan that go to one approver route (or one part of them)."""

    plan_id: str
    revision: int  # of the card: what waits on it
    run_id: str
    requester: str
    calls: tuple[CallView, ...]
    approver_users: tuple[str, ...] = ()
    approver_groups: tuple[str, ...] = ()  # user-group ids (S…)
    approver_channel: str = ""  # channel id whose members may decide
    self_approval: bool = False
    notes: tuple[str, ...] = ()  # what else matters to who decides; mrkdwn of our own words
    # the requester's words: what began the request, and what they wrote last
    asked: tuple[str, ...] = ()
    # what messages of the request read now that were edited after the agent had read them
    reworded: tuple[str, ...] = ()
    errands: tuple[Errand, ...] = ()  # the sub-agents between the requester's agent and the calls
    origin: str = ""  # permalink of the request when the card is shown elsewhere
    undecided: bool = False  # whether one that is approved waits for others of the plan
    questions: int = 0  # of the plan that wait for their answers, in messages of their own
    card: int = 0  # the message's number in the outbox: what the buttons for all of it are about
    part: int = 1
    parts: int = 1
    client: str = ""  # the program by which the requester asks; "" for none that has a key

    @property
    def target(self) -> CardTarget:
        """What the buttons for all of the card are about."""
        return CardTarget(self.plan_id, self.revision, self.card)
