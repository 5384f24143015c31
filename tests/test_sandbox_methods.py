"""The sandbox's facts about Web API methods against a scrape of Slack's own reference."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bot.sandbox.methods import ANYWHERE, ERRORS, SCOPES, TIERS, scope_for

REFERENCE = Path(__file__).parents[2] / "shared" / "fixtures" / "slack_methods.json"
needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="Slack's reference is not on this machine")
PER_MINUTE = {"t1": 1, "t2": 20, "t3": 50, "t4": 100, "t5": 600}

SCOPE_DIFFERENCES = {
    "apps.connections.open": "the reference lists bot scopes only; this is the app-level token's",
}
# Codes the sandbox may answer that the reference does not list for the method: "method code" and why.
ERROR_DIFFERENCES = {
    r" (invalid_auth|internal_error|invalid_arguments)$": "any method answers these; the reference lists some of them",
    r"^chat\.(postMessage|startStream) invalid_thread_ts$": "measured: a thread_ts that is no timestamp",
    r"^chat\.(update|postEphemeral|scheduleMessage) msg_blocks_too_long$": "the same limit as in a post",
    r"^chat\.stopStream (stopped_by_user|invalid_blocks_format)$": "as its siblings",
    r"^conversations\.replies not_in_channel$": "as conversations.history: a thread is read by members",
}


@cache
def reference() -> dict[str, Any]:
    """The methods of Slack's reference by name."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text())
    return found


def test_the_three_tables_are_about_the_same_methods() -> None:
    """Every method the sandbox knows has scopes, a rate and error codes."""
    assert set(SCOPES) == set(TIERS) == set(ERRORS)
    assert all(codes >= ANYWHERE for codes in ERRORS.values())


@needs_reference
def test_scopes_are_slacks() -> None:
    """Each method's scopes are those of the reference, or listed with a reason."""
    different = {name for name, scopes in SCOPES.items() if set(scopes) != set(reference()[name]["bot_scopes"] or ())}
    assert different == set(SCOPE_DIFFERENCES)


@needs_reference
def test_rates_are_slacks() -> None:
    """Each method's requests per minute are those of its tier."""
    assert {name: PER_MINUTE[reference()[name]["tier"]] for name in TIERS} == TIERS


@needs_reference
def test_error_codes_are_slacks() -> None:
    """The sandbox answers no error code that Slack's reference does not know for the method, or it is listed."""
    extra = {f"{name} {code}" for name, codes in ERRORS.items() for code in codes - set(reference()[name]["errors"])}
    used = {each for each in ERROR_DIFFERENCES if any(re.search(each, one) for one in extra)}
    assert {one for one in extra if not any(re.search(each, one) for each in ERROR_DIFFERENCES)} == set()
    assert used == set(ERROR_DIFFERENCES), "a listed difference no longer exists"


@pytest.mark.parametrize(
    ("method", "kind", "scopes"),
    [
        ("conversations.info", "channels", {"channels:read"}),
        ("conversations.history", "groups", {"groups:history"}),
        ("conversations.open", "im", {"im:write"}),
        ("conversations.create", "channels", {"channels:manage", "channels:write"}),
        ("conversations.invite", "groups", {"groups:write", "groups:write.invites"}),
        ("conversations.join", "groups", {"channels:join"}),
        ("chat.postMessage", "mpim", {"chat:write"}),
        ("views.open", "im", set()),
    ],
)
def test_scopes_follow_the_kind_of_conversation(method: str, kind: str, scopes: set[str]) -> None:
    """A scope for public channels does not open private ones, nor the other way round."""
    assert set(scope_for(method, kind)) == scopes


def test_an_unknown_kind_is_a_mistake() -> None:
    """A kind of conversation that does not exist raises instead of asking for no scope."""
    with pytest.raises(ValueError, match="dms"):
        scope_for("conversations.info", "dms")
