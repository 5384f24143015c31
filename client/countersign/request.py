"""A request as the API writes it, and the errors that say why one was not done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# What is asked and what is heard of it, as the API writes it. Pure.


class RequestStatus(StrEnum):
    """Where a request stands."""

    PREPARING = "preparing"  # nobody has been asked yet
    PENDING = "pending"  # people decide
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # by policy
    INVALIDATED = "invalidated"
    SUPERSEDED = "superseded"
    RUNNING = "running"  # somebody has taken it
    ENTRUSTED = "entrusted"  # a sub-agent works on it
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it was begun, and nobody knows how it ended
    ANSWERED = "answered"  # a question


S = RequestStatus
UNDECIDED = frozenset({S.PREPARING, S.PENDING})
UNENDED = UNDECIDED | {S.APPROVED, S.RUNNING, S.ENTRUSTED, S.UNKNOWN}
DECLINED = frozenset({S.REJECTED, S.REFUSED, S.CANCELLED, S.INVALIDATED, S.SUPERSEDED})


class Does(StrEnum):
    """What a call does to the world; the policy's rules go by it."""

    READ = "read"  # changes nothing
    WRITE = "write"  # changes what can be put right
    DESTRUCTIVE = "destructive"  # cannot be taken back


@dataclass(frozen=True, slots=True)
class OwnAction:
    """What a program wants to do itself, in its own words.

    `name`: letters, digits and underscores, 64 at most. `effect`: a sentence with {field} for the
    arguments. `does`: unsaid, it counts as destructive, and people are told that it was not said.
    `schema`: the JSON Schema of the arguments, an object.
    """

    name: str
    title: str
    effect: str
    does: Does | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})

    def written(self) -> dict[str, Any]:
        """Return it as the API reads it."""
        return {
            "name": self.name,
            "title": self.title,
            "effect": self.effect,
            **({"does": self.does.value} if self.does else {}),
            "schema": dict(self.schema),
        }


def as_effect(text: str) -> str:
    """Return words as an effect that names no argument."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True, slots=True)
class Request:
    """One call that was put before people, as it stood when it was looked at."""

    id: str
    status: RequestStatus
    arguments: dict[str, Any]  # as they ran, or were last proposed: people may have edited them
    handed_over: bool  # the program runs it itself
    result: Any  # text or JSON; None until it ended
    note: str  # why it was refused, rejected, …
    link: str  # to its card
    decided_by: tuple[str, ...]  # Slack user ids
    edited_by: tuple[str, ...]
    raw: Mapping[str, Any]  # all that the API says

    @property
    def is_decided(self) -> bool:
        """Whether nobody is asked any more."""
        return self.status not in UNDECIDED

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status not in UNENDED


@dataclass(frozen=True, slots=True)
class Handout:
    """What a program may run now, once."""

    arguments: dict[str, Any]  # as they were approved
    revision: int
    digest: str  # the fingerprint of what was approved, in hex
    lease: float  # seconds; a sign of life is due before they are over


def request_of(said: Mapping[str, Any]) -> Request:
    """Read a request as the API writes it; raises KeyError, TypeError and ValueError."""
    return Request(
        id=said["id"],
        status=RequestStatus(said["status"]),
        arguments=dict(said.get("arguments") or {}),
        handed_over=bool(said.get("handed_over")),
        result=said.get("result"),
        note=said.get("note") or "",
        link=said.get("link") or "",
        decided_by=tuple(said.get("decided_by") or ()),
        edited_by=tuple(said.get("edited_by") or ()),
        raw=said,
    )


def handout_of(said: Mapping[str, Any]) -> Handout:
    """Read what a claim is answered with; raises KeyError, TypeError and ValueError."""
    lease = float(said["lease_seconds"])
    return Handout(dict(said["arguments"]), int(said["revision"]), str(said["digest"]), lease)


class CountersignError(Exception):
    """It was not done, or nobody knows; `request` is what was heard last, if anything was."""

    def __init__(self, sentence: str, request: Request | None = None) -> None:
        """`sentence`: for people, and for an agent that is to go on without it."""
        super().__init__(sentence)
        self.request = request


class Rejected(CountersignError):
    """Somebody said no, policy refuses it, or it was taken back. Nothing was done."""


class Expired(CountersignError):
    """Nobody decided in time. Nothing was done."""


class Undecided(CountersignError):
    """Nobody has decided yet, and it is not waited for here. Nothing was done."""


class NotAllowed(CountersignError):
    """Countersign does not take this request from this key; says why."""


class Unreachable(CountersignError):
    """Countersign does not answer, or not as Countersign would."""


class NoAnswer(Unreachable):
    """No answer came that says anything; it may come another time."""


class TooManyAtOnce(NotAllowed):
    """Too much is asked, or waited for, with this key; it may be asked again later."""


class AlreadyTaken(CountersignError):
    """It was approved and handed out before, to somebody else or to an earlier life of this
    program. It is not done again.
    """


class DidNotWork(CountersignError):
    """It was approved and tried, and it failed; or nobody knows how it ended."""


def trouble_of(request: Request) -> CountersignError | None:
    """Return why a request that nobody decides about any more was not done; None where it was."""
    why = f": {request.note}" if request.note else "."
    match request.status:
        case RequestStatus.EXPIRED:
            return Expired(f"Nobody approved it in time{why}", request)
        case RequestStatus.FAILED:
            return DidNotWork(f"It was approved, and failed{why}", request)
        case RequestStatus.UNKNOWN:
            return DidNotWork("It was begun, and nobody knows how it ended.", request)
        case each if each in DECLINED:
            return Rejected(f"It was {each.value}{why}", request)
    return None
