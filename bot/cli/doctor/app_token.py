"""The check of the app-level token: whether Socket Mode opens, and for the bot's own app."""

from __future__ import annotations

import re
from queue import Empty, Queue

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.checks.check import Check, fail, ok
from bot.checks.slack_client import UNREACHABLE, reason
from bot.config.settings import Settings
from bot.slack.socket import GREETED
from bot.slack.socket_client import Hello, SocketClient

_APP_IN_TOKEN = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")  # as Slack makes them


def check_app_token(client: WebClient, settings: Settings, own_app: str) -> Check:
    """Whether Socket Mode would open, and with a token of the bot's own app (`own_app`, "" where
    that is not known).

    Where the token itself names that app the connection is left unused: a bot that works beside it
    would miss what Slack delivers there.
    """
    token = settings.slack_app_token.get_secret_value()
    try:
        client.apps_connections_open(app_token=token)
        named = _APP_IN_TOKEN.match(token)
        is_own = not own_app or (named is not None and named[1] == own_app)
        app = own_app if is_own else greeted_app(client, token)
    except (SlackApiError, *UNREACHABLE) as error:
        remedy = "Make an app-level token with connections:write, and turn Socket Mode on"
        return fail("app token", reason(error), remedy)
    if own_app and app and app != own_app:
        text = f"it is of the app {app}, and the bot token of the app {own_app}"
        return fail("app token", text, "Take both tokens from one app's page at Slack")
    if not app:
        text = "Socket Mode opens; of which app the token is was not told"
        return ok("app token", text)
    return ok("app token", f"Socket Mode opens, for the app {app}")


def greeted_app(client: WebClient, token: str) -> str:
    """Connect with an app-level token for as long as Slack's first word takes; return the id of the
    app that it names, "" where it names none.

    Raises what slack_sdk raises where no connection opens.
    """
    said: Queue[Hello] = Queue()
    socket = SocketClient(
        token,
        client.logger,
        client,
        proxy=client.proxy,
        deal=lambda _client, _request: None,
        greeted=said.put,
    )
    try:
        socket.connect()
        return said.get(timeout=GREETED).app
    except Empty:
        return ""
    finally:
        socket.close()
