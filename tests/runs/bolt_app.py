"""The real Bolt app with our listeners, and a click that is delivered to it."""

from __future__ import annotations

from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient

from bot.app import build_command_handler, build_listeners
from bot.core import Core
from bot.slack.client import SlackClient
from tests.runs.fakes import ANA
from tests.storage.builders import TEAM


def make_bolt_app(core: Core) -> App:
    """The real Bolt app with our listeners; nothing here calls Slack."""
    app = App(
        client=WebClient(retry_handlers=[]),
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None,
            team_id=TEAM,
            bot_token="xoxb-1",
            bot_id="BBOT00001",
            bot_user_id="UBOT00001",
        ),
        token_verification_enabled=False,
    )
    client = SlackClient("xoxb-1", retry_handlers=[])
    build_listeners(
        core, app, build_command_handler(core, client, core.directory), client, core.directory
    )
    return app


def deliver_click(app: App, ts: str, team: str = TEAM) -> int:
    """Deliver a click on Approve over Socket Mode; return the status of the answer."""
    body = {
        "type": "block_actions",
        "team": {"id": team},
        "user": {"id": ANA, "team_id": team},
        "api_app_id": "A1",
        "channel": {"id": "C0SUPPORT"},
        "container": {"type": "message", "channel_id": "C0SUPPORT", "message_ts": "1.1"},
        "message": {"ts": "1.1", "thread_ts": "1.0"},
        "actions": [
            {
                "action_id": "approve",
                "block_id": "b",
                "type": "button",
                "value": "x:1",
                "action_ts": ts,
            }
        ],
    }
    return app.dispatch(BoltRequest(body=body, mode="socket_mode")).status
