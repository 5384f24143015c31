"""The Bolt app that Slack's deliveries come in by."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from slack_bolt import App as BoltApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient

from bot.identity import Identity
from bot.slack.client import SlackClient


def make_bolt(me: Identity, posting: SlackClient) -> BoltApp:
    """Make the Bolt app; it only receives."""
    return BoltApp(
        name="countersign",  # else Bolt searches the whole stack for one, which takes long
        # the token comes from authorize; Bolt only takes its settings from it, and never calls
        client=WebClient(base_url=posting.base_url, ssl=posting.ssl, retry_handlers=[]),
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None,
            team_id=me.team,
            bot_token=posting.token,
            bot_id=me.bot,
            bot_user_id=me.user,
        ),
        token_verification_enabled=False,
        listener_executor=ThreadPoolExecutor(20, thread_name_prefix="listener"),
    )
