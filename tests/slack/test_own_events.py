"""Events that tell the bot only what it did itself, as Bolt sees them."""

from __future__ import annotations

import pytest
from slack_bolt import App, BoltRequest, BoltResponse
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient

from bot.slack.client import is_own_event

EVENTS = {
    "a post": {"type": "message", "bot_id": "B1"},
    "a change": {"type": "message", "subtype": "message_changed", "message": {"user": "UBOT"}},
    "a reaction": {"type": "reaction_added", "user": "UBOT"},
    "a person": {"type": "user_change", "user": {"id": "UBOT"}},
    "joining": {"type": "member_joined_channel", "user": "UBOT"},
    "leaving": {"type": "member_left_channel", "user": "UBOT"},
    "another's": {"type": "message", "user": "UANA", "bot_id": "B2"},
    "nobody's": {"type": "tokens_revoked"},
}
DELETION = {
    "type": "message",
    "subtype": "message_deleted",
    "previous_message": {"user": "UBOT", "bot_id": "B1"},
}


def is_ignored_by_bolt(event: dict[str, object]) -> bool:
    """Return whether Bolt keeps an event from every listener."""
    body = {"type": "event_callback", "team_id": "T1", "event_id": "E1", "event": event}
    heard = []

    def hear() -> BoltResponse:
        heard.append(body)
        return BoltResponse(status=200)

    app = App(
        client=WebClient(retry_handlers=[]),
        token_verification_enabled=False,
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None, team_id="T1", bot_token="xoxb-1", bot_id="B1", bot_user_id="UBOT"
        ),
    )
    app.middleware(hear)
    assert app.dispatch(BoltRequest(mode="socket_mode", body=body)).status == 200
    return not heard


@pytest.mark.parametrize("name", EVENTS)
def test_own_events_are_those_that_bolt_ignores(name: str) -> None:
    """The bot acknowledges before Bolt what Bolt would keep from every listener."""
    assert is_own_event({"event": EVENTS[name]}, {"UBOT", "B1"}) == is_ignored_by_bolt(EVENTS[name])


def test_the_deletion_of_an_own_message_is_not_ignored() -> None:
    """Bolt would ignore it, although the bot need not have done it."""
    assert is_ignored_by_bolt(DELETION)
    assert not is_own_event({"event": DELETION}, {"UBOT", "B1"})


def test_a_click_is_never_the_bots_own_event() -> None:
    """Only events are; and a bot without known ids has none."""
    assert not is_own_event({"type": "block_actions", "user": {"id": "UBOT"}}, {"UBOT"})
    assert not is_own_event({"event": {"type": "message", "user": "UBOT"}}, ())
