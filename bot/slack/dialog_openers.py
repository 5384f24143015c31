"""The ways into a request without the agent: the slash command and the app's shortcuts.

They only open a dialog; its submission is stored like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slack_bolt import App
from slack_sdk import WebClient

from bot.cards.action_names import Shortcut
from bot.cards.answers import notice_blocks
from bot.cards.button_codec import Setting
from bot.cards.request_form import MOST_QUOTED
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import message_text, team_of
from bot.slack.dialogs import view_of, why_not_opened

if TYPE_CHECKING:
    from bot.slack.request_dialogs import RequestDialogs

log = logging.getLogger("countersign.requests")


class RequestOpeners:
    """Opens the dialogs of requests; any thread."""

    def __init__(self, dialogs: RequestDialogs, client: WebClient, team: str) -> None:
        """`client` opens dialogs; `team`: the only workspace that is heard."""
        self._dialogs = dialogs
        self._client = client
        self._team = team

    def listen(self, app: App) -> None:
        """Hang the shortcuts on the Bolt app."""
        for each in Shortcut:
            app.shortcut(each)(self._shortcut)

    def asked(self, person: str, channel: str, trigger: str, words: str) -> str:
        """Open the dialog in which to choose, or the form of what `words` name.

        Returns why not, in mrkdwn, or "". Looks people up.
        """
        return self._open(person, self._team, trigger, Setting(channel), words)

    def _shortcut(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        person, message = body["user"]["id"], body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        quoted = message_text(message, "")[:MOST_QUOTED]
        link = self._link(channel, str(message.get("ts") or "")) if message else ""
        setting = Setting(channel, quoted, link)
        told = self._open(person, team_of(body), body["trigger_id"], setting)
        if told:
            self._tell(person, told)

    def _open(self, person: str, team: str, trigger: str, setting: Setting, words: str = "") -> str:
        view = view_of(self._dialogs.picker(person, team, setting, words))
        if isinstance(view, str):
            return view
        try:
            self._client.views_open(trigger_id=trigger, view=view)
        except Exception as error:  # noqa: BLE001 - the person is told, and may try again
            log.warning("the request dialog for %s: %s", person, error)
            return why_not_opened(error)
        return ""

    def _link(self, channel: str, ts: str) -> str:
        try:
            found = self._client.chat_getPermalink(channel=channel, message_ts=ts)
        except Exception as error:  # noqa: BLE001 - a link is a comfort
            log.info("no link to a message: %s", error)
            return ""
        return str(found["permalink"])

    def _tell(self, person: str, text: str) -> None:
        """Say why nothing opened; nothing hangs on it, so it is not kept."""
        try:
            opened = self._client.conversations_open(users=person)
            self._client.chat_postMessage(
                channel=str(opened["channel"]["id"]),
                text=strip_mrkdwn(text),
                blocks=notice_blocks(text),
            )
        except Exception as error:  # noqa: BLE001 - they can ask again
            log.warning("%s could not be told why: %s", person, error)
