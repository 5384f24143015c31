"""The check of Slack's signatures, and how long they are remembered."""

from __future__ import annotations

from bot.http.slack_endpoint import MAX_AGE_SECONDS, SignatureChecker, SignedRequestStatus
from slack_sandbox.delivery.signing import signature
from slack_sandbox.workspace.clock import ShiftedClock

SECRET = "secret-of-the-app"


def test_a_signature_is_remembered_as_long_as_it_is_valid() -> None:
    """It is forgotten afterwards, so the memory does not grow."""
    clock = ShiftedClock()
    signatures = SignatureChecker(SECRET, clock)
    now = int(clock.now().timestamp())
    soon = now + MAX_AGE_SECONDS - 10  # by a clock that is ahead: valid for almost twice as long
    first, ahead = (signature(SECRET, each, b"{}") for each in (now, soon))
    assert signatures.register_signed_request(str(now), first) is SignedRequestStatus.NEVER
    assert signatures.register_signed_request(str(soon), ahead) is SignedRequestStatus.NEVER
    clock.advance(MAX_AGE_SECONDS + 5)
    assert not signatures.has_plausible_headers(str(now), first)
    assert signatures.has_plausible_headers(str(soon), ahead)
    assert signatures.register_signed_request(str(soon), ahead) is SignedRequestStatus.UNDER_WAY
    clock.advance(MAX_AGE_SECONDS)
    assert not signatures.has_plausible_headers(str(soon), ahead)
    for at, each in ((now, first), (soon, ahead)):  # both are forgotten
        assert signatures.register_signed_request(str(at), each) is SignedRequestStatus.NEVER


def test_a_signature_is_valid_for_one_body_time_and_secret() -> None:
    """A change of any of them makes it invalid."""
    signatures = SignatureChecker(SECRET, ShiftedClock())
    now = int(ShiftedClock().now().timestamp())
    good = signature(SECRET, now, b"{}")
    assert signatures.is_valid_signature("{}", str(now), good)
    assert not signatures.is_valid_signature("{ }", str(now), good)
    assert not signatures.is_valid_signature("{}", str(now + 1), good)
    assert not SignatureChecker("another-secret", ShiftedClock()).is_valid_signature(
        "{}", str(now), good
    )
