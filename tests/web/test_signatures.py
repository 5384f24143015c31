"""What is remembered of signatures, and for how long."""

from __future__ import annotations

from bot.http.slack_endpoint import WINDOW, Signatures, SignatureStatus
from slack_sandbox.delivery.signing import signature
from slack_sandbox.workspace.clock import ShiftedClock

SECRET = "secret-of-the-app"


def test_remembered_as_long_as_it_could_come_again() -> None:
    """To the end of the time in which it is good, and no longer: the memory does not grow."""
    clock = ShiftedClock()
    signatures = Signatures(SECRET, clock)
    now = int(clock.now().timestamp())
    soon = now + WINDOW - 10  # from a clock that is ahead: good for almost twice as long
    first, ahead = (signature(SECRET, each, b"{}") for each in (now, soon))
    assert signatures.admit(str(now), first) is SignatureStatus.NEVER
    assert signatures.admit(str(soon), ahead) is SignatureStatus.NEVER
    clock.advance(WINDOW + 5)
    assert not signatures.may_be(str(now), first)
    assert signatures.may_be(str(soon), ahead)
    assert signatures.admit(str(soon), ahead) is SignatureStatus.UNDER_WAY
    clock.advance(WINDOW)
    assert not signatures.may_be(str(soon), ahead)
    later = int(clock.now().timestamp())
    signatures.admit(str(later), signature(SECRET, later, b"{}"))
    assert signatures.remembered == 1


def test_good_for_one_body_at_one_time() -> None:
    """Body, time and secret all count."""
    signatures = Signatures(SECRET, ShiftedClock())
    now = int(ShiftedClock().now().timestamp())
    good = signature(SECRET, now, b"{}")
    assert signatures.is_good("{}", str(now), good)
    assert not signatures.is_good("{ }", str(now), good)
    assert not signatures.is_good("{}", str(now + 1), good)
    assert not Signatures("another-secret", ShiftedClock()).is_good("{}", str(now), good)
