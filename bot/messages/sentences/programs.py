"""What programs are told in words of what they asked for. Pure: plain text out."""

from __future__ import annotations

from storage.states import CallStatus

C = CallStatus
_NOT_DONE = {
    C.REJECTED: "It was rejected",
    C.EXPIRED: "Nobody decided in time",
    C.CANCELLED: "It was taken back",
    C.REFUSED: "It was refused, and nobody was asked",
    C.INVALIDATED: "It is no longer what was asked",
    C.SUPERSEDED: "Something else was asked in its place",
    C.FAILED: "It did not work",
}


def not_done(status: CallStatus) -> str:
    """Begin to tell a program why what it asked for was not done; "" where it was, or may be."""
    return _NOT_DONE.get(status, "")
