"""What a button or a dialog is about. Pure: a claim of the payload's, to be looked up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallTarget:
    """One call, at the revision that was shown."""

    call: str
    revision: int


@dataclass(frozen=True, slots=True)
class CardTarget:
    """All that waits on one card, if its plan is still at the revision that was shown."""

    plan: str
    revision: int
    card: int  # the message's number in the outbox


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A whole request."""

    run: str


@dataclass(frozen=True, slots=True)
class Rating:
    """Somebody's opinion of the answer to a request."""

    run: str
    good: bool


Target = CallTarget | CardTarget | RunTarget | Rating
