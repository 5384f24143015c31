"""Requests as the API writes them, and the errors that say why a call did not run. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RequestStatus(StrEnum):
    """The status of a request."""

    PREPARING = "preparing"  # nobody has been asked yet
    PENDING = "pending"  # people decide
    APPROVED = "approved"  # it may run; a handed-over call may be claimed
    REJECTED = "rejected"
    EXPIRED = "expired"  # nobody decided in time
    CANCELLED = "cancelled"
    REFUSED = "refused"  # by policy, or it could not be asked
    INVALIDATED = "invalidated"  # the tool, the policy or the key has changed since it was shown
    SUPERSEDED = "superseded"  # the requester asked for something else instead
    RUNNING = "running"  # it is being executed; a handed-over call has been claimed
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it started, and its outcome is unknown until somebody records it
    ANSWERED = "answered"  # only questions


CRYPTOGRAPHY_MISSING_ERROR = "Receipts need cryptography: pip install 'countersign-client[verify]'."
S = RequestStatus
UNDECIDED_STATUSES = frozenset({S.PREPARING, S.PENDING})
UNFINISHED_STATUSES = UNDECIDED_STATUSES | {S.APPROVED, S.RUNNING, S.UNKNOWN}
DECLINED_STATUSES = frozenset({S.REJECTED, S.REFUSED, S.CANCELLED, S.INVALIDATED, S.SUPERSEDED})


class Does(StrEnum):
    """The kind of effect a call has on the world; policy rules match on it."""

    READ = "read"  # changes nothing
    WRITE = "write"  # its changes can be undone
    DESTRUCTIVE = "destructive"  # cannot be undone


@dataclass(frozen=True, slots=True)
class OwnAction:
    """An action that a program runs itself once it is approved, described in the program's words.

    `name`: letters, digits and underscores, 64 at most. `effect`: a sentence with {field} for the
    arguments. `does`: if left out, the action counts as destructive, and people are told that it
    was left out. `schema`: the JSON Schema of the arguments, an object.
    """

    name: str
    title: str
    effect: str
    does: Does | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})

    def to_json(self) -> dict[str, Any]:
        """Return the action as JSON for the API."""
        return {
            "name": self.name,
            "title": self.title,
            "effect": self.effect,
            **({"does": self.does.value} if self.does else {}),
            "schema": dict(self.schema),
        }


def escape_braces(text: str) -> str:
    """Return text as an effect without placeholders: its braces are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True, slots=True)
class Request:
    """One request that people decide or answer, in its state when it was read."""

    id: str
    status: RequestStatus
    arguments: dict[str, Any]  # as executed, or as last proposed; people may have edited them
    handed_over: bool  # the program runs it itself
    result: Any  # text or JSON; None until it ended
    note: str  # why it was refused, rejected, …
    link: str  # to its card
    decided_by: tuple[str, ...]  # Slack user ids
    edited_by: tuple[str, ...]
    raw: Mapping[str, Any]  # the API's whole answer

    @property
    def is_decided(self) -> bool:
        """Whether people no longer have to decide."""
        return self.status not in UNDECIDED_STATUSES

    @property
    def has_ended(self) -> bool:
        """Whether the status is final."""
        return self.status not in UNFINISHED_STATUSES


@dataclass(frozen=True, slots=True)
class Handout:
    """What a program may run now, once: the approved arguments and the lease."""

    arguments: dict[str, Any]  # as they were approved
    revision: int
    digest: str  # the fingerprint of what was approved, in hex
    lease: float  # seconds; the claim has to be renewed before they are over
    receipt: Mapping[str, Any]  # the signed decision (a DSSE envelope); {} from an older bot


def parse_request(body: Mapping[str, Any]) -> Request:
    """Parse a request from the API's JSON; raises KeyError, TypeError or ValueError if invalid."""
    return Request(
        id=body["id"],
        status=RequestStatus(body["status"]),
        arguments=dict(body.get("arguments") or {}),
        handed_over=bool(body.get("handed_over")),
        result=body.get("result"),
        note=body.get("note") or "",
        link=body.get("link") or "",
        decided_by=tuple(body.get("decided_by") or ()),
        edited_by=tuple(body.get("edited_by") or ()),
        raw=body,
    )


def parse_handout(body: Mapping[str, Any]) -> Handout:
    """Parse the API's answer to a claim; raises KeyError, TypeError or ValueError for bad JSON."""
    lease = float(body["lease_seconds"])
    receipt = dict(body.get("receipt") or {})
    revision, digest = int(body["revision"]), str(body["digest"])
    return Handout(dict(body["arguments"]), revision, digest, lease, receipt)


class CountersignError(Exception):
    """A call did not run, or its outcome is unknown; `request` is its last known state, or None."""

    def __init__(self, sentence: str, request: Request | None = None) -> None:
        """Store a `sentence` for people, and for an agent that has to go on without the call."""
        super().__init__(sentence)
        self.request = request


class Rejected(CountersignError):
    """Raised when a request was rejected, refused by policy, cancelled, invalidated or superseded.

    Nothing was done.
    """


class Expired(CountersignError):
    """Raised when nobody decided in time. Nothing was done."""


class Undecided(CountersignError):
    """Raised when nobody has decided yet and this process does not wait. Nothing was done."""


class NotAllowed(CountersignError):
    """Raised when Countersign does not accept a request from this key; the message says why."""


class Unreachable(CountersignError):
    """Raised when Countersign does not answer, or the answer is not Countersign's."""


class NoAnswer(Unreachable):
    """Raised when no usable answer came; the same request may get one later."""


class TooManyRequests(NotAllowed):
    """Raised when this key asks too often or waits for too much at once; it may ask again later."""


class AlreadyTaken(CountersignError):
    """Raised when a call was handed out before, to another process or an earlier life of this one.

    The call is not run again.
    """


class NotVerified(CountersignError):
    """Raised when a claimed call's receipt is not valid; the call is not run."""


class DidNotWork(CountersignError):
    """Raised when an approved call was tried and failed, or nobody knows how it ended."""


def find_request_error(request: Request) -> CountersignError | None:
    """Return the error for a declined, expired, failed or unknown request; None for any other."""
    why = f": {request.note}" if request.note else "."
    match request.status:
        case RequestStatus.EXPIRED:
            return Expired(f"Nobody approved it in time{why}", request)
        case RequestStatus.FAILED:
            return DidNotWork(f"It was approved, and failed{why}", request)
        case RequestStatus.UNKNOWN:
            return DidNotWork("Outcome unknown: it was started, but never confirmed.", request)
        case each if each in DECLINED_STATUSES:
            return Rejected(f"It was {each.value}{why}", request)
    return None


# Text from others, made harmless to a terminal and to a model.

_ZERO_WIDTH_JOINER = "\u200d"  # between the parts of one emoji
_CONTROL_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # a terminal may act upon these


def escape_control_characters(text: str) -> str:
    """Return text from others with control characters written out, harmless to a terminal.

    Tabs, line ends and emoji stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(each):04X}⟩" if _is_control_character(each) else each for each in text)


def _is_control_character(char: str) -> bool:
    return (
        char not in "\n\t" + _ZERO_WIDTH_JOINER
        and unicodedata.category(char) in _CONTROL_CATEGORIES
    )
