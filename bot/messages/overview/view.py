"""What `/approvals` shows a person, as plain data: made from rows, drawn beside this. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.messages.parts import Json
from storage.states import CallStatus, RunStatus, Verb


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that comes with an answer."""

    name: str
    title: str
    alt: str  # for who does not see it
    content: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: what Slack notifies of, and what it shows."""

    text: str
    blocks: list[Json]
    file: Callable[[], Attached] | None = None  # made once the rest was given


@dataclass(frozen=True, slots=True)
class ListedCall:
    """One call in a list."""

    run: str
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    status: CallStatus
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    at: datetime | None  # when it was decided
    deciders: tuple[str, ...] = ()  # as mentions and words: "<@U…>", "<@U…> for <@U…>"
    link: str = ""  # to its card, else to its request


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One request in a list."""

    run: str
    words: str  # what was asked; "" where nobody wrote anything, or it has not been read yet
    at: datetime
    status: RunStatus
    # how each stands, its effect, whether it is a question to people, and was declined
    calls: tuple[tuple[CallStatus, str, bool, bool], ...]
    more: int = 0  # calls that are not among these
    link: str = ""
    how: str = ""  # how it was asked, where nobody wrote anything; plain text


@dataclass(frozen=True, slots=True)
class PastRevision:
    """The arguments of a call at one moment."""

    number: int
    by: str  # a Slack user id; "" for the agent
    at: datetime
    values: Mapping[str, str]  # by field; secrets masked


@dataclass(frozen=True, slots=True)
class PastVote:
    """What one person said of one revision."""

    revision: int
    person: str  # Slack user id
    giver: str  # for whom they voted; "" for themselves
    verb: Verb
    at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call, from its proposal to its end."""

    effect: str
    tool: str  # its name
    status: CallStatus
    digest: str
    reason: str  # the words of who proposed it
    revisions: tuple[PastRevision, ...]
    votes: tuple[PastVote, ...]
    deadline: datetime | None
    decided_at: datetime | None
    finished_at: datetime | None
    note: str  # why it ended, or what came of it
    agent: str = "the agent"  # which one proposed it, where one did
    declined: bool = False  # a question that who was asked could not answer


@dataclass(frozen=True, slots=True)
class Life:
    """One request, from its first word to its end."""

    run: str
    words: str
    requester: str
    channel: str
    at: datetime
    status: RunStatus
    calls: tuple[PastCall, ...]
    link: str
    how: str = ""  # how it was asked, where nobody wrote anything; plain text
