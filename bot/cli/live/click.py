"""One click of a person's, from its arrival to what it changes: acknowledged, answered by a dialog,
shown in the message.

Takes deliveries of this try alone; whatever else Slack delivers meanwhile is not acknowledged, so
that Slack delivers it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from bot.cli.live.live_steps import OK, LiveStep, LiveSteps, said_of
from bot.cli.live.visit import Visit
from bot.slack.socket import GREETED
from bot.slack.socket_client import ByLine, Hello, SocketClient

WAIT = 120.0  # seconds that a person has to click
ASKED = "Please click once, so that Countersign can measure how a click arrives."
DONE = "Thank you: your click has arrived."
CONNECT = "connect by Socket Mode"
CLICK = "wait for a click"
_METHOD = "apps.connections.open"


class ClickListener:
    """A connection by Socket Mode that hears of one click."""

    def __init__(self, client: WebClient, token: str, key: str) -> None:
        """`key`: the id of the button, and of the dialog behind it."""
        self._key = key
        self._hello: Queue[Hello] = Queue()
        self.clicks: Queue[tuple[dict[str, Any], float, float]] = Queue()
        self._socket = SocketClient(
            token,
            client.logger,
            client,
            proxy=client.proxy,
            deal=self._hear,
            greeted=self._hello.put,
        )

    def open(self) -> Hello:
        """Connect, and return Slack's first word; raises what keeps it from that."""
        self._socket.connect()
        try:
            return self._hello.get(timeout=GREETED)
        except Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def _hear(self, client: ByLine, request: SocketModeRequest) -> None:
        """Acknowledge what is this try's, and keep a click with its times."""
        arrived = time.perf_counter()
        payload = request.payload or {}
        actions = payload.get("actions") or [{}]
        is_click = actions[0].get("action_id") == self._key
        if not is_click and (payload.get("view") or {}).get("callback_id") != self._key:
            return
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        if is_click:
            self.clicks.put((payload, arrived, time.perf_counter()))


def connect(
    client: WebClient, steps: LiveSteps, token: str, key: str
) -> tuple[ClickListener, Hello] | None:
    """Open a line; None where that failed, which is told."""
    line = ClickListener(client, token, key)
    hello = steps.take(CONNECT, _METHOD, line.open)
    if hello is None:
        line.close()
        return None
    return line, hello


def one_click(
    visit: Visit, line: ClickListener | None, why: str, ask: Callable[[str], None]
) -> None:
    """Ask the person for a click, and time it; without a `line`, say `why` there is none."""
    steps = visit.steps
    if line is None or not visit.channel:
        steps.leave_out(CLICK, "block_actions", why if line is None else "no direct messages")
        return
    asked = visit.post("post a button", ASKED, _button(visit.key))
    if not asked:
        steps.leave_out(CLICK, "block_actions", "no button")
        return
    ask(f"Click the button in your direct messages with the bot, within {WAIT:.0f} seconds.")
    begun = time.perf_counter()
    try:
        payload, arrived, acknowledged = line.clicks.get(timeout=WAIT)
    except Empty:
        steps.add(LiveStep(CLICK, "block_actions", f"no click within {WAIT:.0f} s", WAIT))
        return
    steps.add(LiveStep(CLICK, "block_actions", OK, arrived - begun))
    steps.add(
        LiveStep("acknowledge it (from its arrival)", "block_actions", OK, acknowledged - arrived)
    )
    _open_dialog(visit, str(payload.get("trigger_id") or ""))
    try:
        visit.client.chat_update(channel=visit.channel, ts=asked, text=DONE, blocks=[])
        result = OK
    except (SlackApiError, OSError) as error:
        result = said_of(error)
    took = time.perf_counter() - arrived
    steps.add(LiveStep("show its effect (from its arrival)", "chat.update", result, took))


def _open_dialog(visit: Visit, trigger: str) -> None:
    """Open a dialog, and leave in it that it can be closed: no app can close one."""
    client, take = visit.client, visit.steps.take
    opened = take(
        "open a dialog",
        "views.open",
        lambda: client.views_open(trigger_id=trigger, view=_dialog(visit.key, DONE))["view"]["id"],
    )
    if opened:
        words = "All is done; please close this window."
        step = "change the dialog"
        view = _dialog(visit.key, words)
        take(step, "views.update", lambda: client.views_update(view_id=str(opened), view=view))


def _button(key: str) -> list[dict[str, Any]]:
    label = {"type": "plain_text", "text": "Click here"}
    button = {"type": "button", "action_id": key, "text": label, "value": key}
    words = {"type": "section", "text": {"type": "plain_text", "text": ASKED}}
    return [words, {"type": "actions", "elements": [button]}]


def _dialog(key: str, words: str) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": key,
        "title": {"type": "plain_text", "text": "Countersign"},
        "close": {"type": "plain_text", "text": "Close"},
        "blocks": [{"type": "section", "text": {"type": "plain_text", "text": words}}],
    }
