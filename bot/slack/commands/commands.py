"""The slash command `/approvals`: questions about approvals, answered to who asks.

It reads, but for `revoke`, which is one transaction of its own; so nothing is stored in the inbox:
an answer that is lost can be asked for again, and no run hangs on it. It is acknowledged first;
people are looked up after that, on threads of its own, so that a slow Slack holds up no other
acknowledgement. The answer goes to the response_url, which also reaches channels that the bot is
not in.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from slack_bolt import App

from bot.explain.typed_call import MistypedError
from bot.messages import quoting
from bot.messages.answers import notice_blocks
from bot.messages.sentences import refusals
from bot.messages.text import plainly
from bot.policy.directory import LookupFailedError
from bot.slack.commands.questions import COMMAND, QUESTIONS, Answerer, SlashCommand

log = logging.getLogger("countersign.commands")
_QUOTES = str.maketrans("“”„‘’", '"""\'\'')  # what keyboards make of quotation marks
MOST = 11_000  # characters of one answer


class Commands:
    """Answers the slash command."""

    def __init__(self, answerer: Answerer) -> None:
        """Hears nothing before `listen`."""
        self._answerer = answerer
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="command")

    def listen(self, app: App) -> None:
        """Hang the command on the Bolt app."""
        app.command(COMMAND)(self._asked)

    def close(self) -> None:
        """Answer nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _asked(
        self, ack: Callable[[], None], body: dict[str, Any], respond: Callable[..., Any]
    ) -> None:
        ack()
        self._pool.submit(self._respond, body, respond)

    def _respond(self, body: dict[str, Any], respond: Callable[..., Any]) -> None:
        try:
            asked = SlashCommand(
                str(body["user_id"]), str(body["channel_id"]), (), str(body.get("trigger_id") or "")
            )
            text = self._answer(asked, str(body.get("text") or ""))
        except Exception:
            log.exception("a question could not be answered")
            text = refusals.could_not(False)
        if not text:
            return
        try:
            text = _short(text)
            respond(text=plainly(text), blocks=notice_blocks(text), response_type="ephemeral")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the person can ask again
            log.warning("an answer to %s could not be given: %s", COMMAND, type(error).__name__)

    def _answer(self, asked: SlashCommand, text: str) -> str:
        try:
            if not self._answerer.grounds.authority.colleague(asked.person):
                return "I answer full members of this workspace only."
            name, *words = _split(text) or ["help"]
            question = QUESTIONS.get(name.lower())
            if question is None:
                raise MistypedError(f"I do not know {COMMAND} {name!r}.")
            return question.answer(self._answerer, replace(asked, words=words))
        except MistypedError as error:
            return f"{quoting.said(str(error), 1200)} See {COMMAND} help."
        except LookupFailedError:
            return "I could not ask Slack about this just now. Please try again in a minute."


def _short(text: str) -> str:
    """As many of its lines as one message takes, and how many there are more."""
    lines, kept = text.split("\n"), 0
    while kept < len(lines) and sum(len(each) + 1 for each in lines[: kept + 1]) <= MOST:
        kept += 1
    more = len(lines) - kept
    return (
        "\n".join([*lines[:kept], f"… and {more} more lines: ask on the command line"])
        if more
        else text
    )


def _split(text: str) -> list[str]:
    """The words as a shell would split them; raises MistypedError."""
    try:
        return shlex.split(text.translate(_QUOTES))
    except ValueError:
        raise MistypedError("A quotation mark is not closed.") from None
