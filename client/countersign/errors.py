"""Why something was not done, each a sentence for whoever asked."""

from __future__ import annotations

from countersign.request import DECLINED, Request, RequestStatus


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
