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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from slack_bolt import App

from bot.approvals.terms.grants import GrantList
from bot.explain.explain import explain
from bot.explain.grounds import Grounds
from bot.explain.typed_call import MistypedError, typed_call
from bot.messages import quoting
from bot.messages.answers import notice_blocks
from bot.messages.sentences import refusals
from bot.messages.text import CHANNEL, channel_mention, escape, group_mention, mention, plainly
from bot.policy.directory import Directory, LookupFailedError
from bot.tools import Registry
from storage.models import Run

log = logging.getLogger("countersign.commands")
COMMAND = "/approvals"
_QUOTES = str.maketrans("“”„‘’", '"""\'\'')  # what keyboards make of quotation marks
MOST = 11_000  # characters of one answer


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """Who asks, where, and the words behind the command's own."""

    person: str
    channel: str
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that can be asked."""

    usage: str  # behind the command
    says: str
    # mrkdwn; may look people up, and raise MistypedError or LookupFailedError
    answer: Callable[[Answerer, SlashCommand], str]


@dataclass(frozen=True, slots=True)
class Answerer:
    """What it takes to answer the questions."""

    grounds: Grounds
    grants: GrantList
    tools: Registry


class SlackWords:
    """People, groups and places as mentions, all else literal; see `bot.explain.words.Words`."""

    def __init__(self, directory: Directory) -> None:
        """Groups and channels are looked up by name."""
        self._directory = directory

    def person(self, user: str) -> str:
        """A mention."""
        return mention(user)

    def group(self, handle: str) -> str:
        """A mention, or the handle where it cannot be looked up."""
        try:
            found = self._directory.group(handle)
        except LookupFailedError:
            found = None
        return group_mention(found.id) if found else escape(f"@{handle}")

    def channel(self, channel: str) -> str:
        """A mention, or the name where it cannot be looked up."""
        try:
            found = channel if CHANNEL.fullmatch(channel) else self._directory.channel(channel)
        except LookupFailedError:
            found = None
        return channel_mention(found) if found else escape(channel)

    def quoted(self, text: str) -> str:
        """Made visible, on one line, escaped."""
        return quoting.said(text, 1200)


def _explain(can: Answerer, asked: SlashCommand) -> str:
    tool, args = typed_call(can.tools, asked.words, can.grounds.sources.directory, asked.person)
    now = can.grounds.sources.clock.now()
    run = Run(
        team=can.grants.team,
        channel=asked.channel,
        thread_ts="",
        requester=asked.person,
        created_at=now,
        updated_at=now,
    )
    return "\n".join(
        explain(can.grounds, SlackWords(can.grounds.sources.directory), run, tool, args)
    )


def _help(_can: Answerer, _asked: SlashCommand) -> str:
    lines = [f"{COMMAND} {each.usage} — {each.says}" for each in QUESTIONS.values()]
    return "\n".join(["You can ask me:", *(f"• {escape(line)}" for line in lines)])


def _grants(can: Answerer, asked: SlashCommand) -> str:
    return can.grants.listed(asked.person)


def _revoke(can: Answerer, asked: SlashCommand) -> str:
    if len(asked.words) != 1:
        raise MistypedError("Name one remembered approval by its id.")
    return can.grants.revoke(asked.words[0].strip("`"), asked.person)


QUESTIONS: dict[str, Question] = {
    "explain": Question(
        "explain <tool> key=value …",
        "what would become of this call if you asked for it here, and why",
        _explain,
    ),
    "grants": Question(
        "grants", "what is remembered for you, and what you had remembered", _grants
    ),
    "revoke": Question(
        "revoke <id>", "end a remembered approval: the next such call is asked again", _revoke
    ),
    "help": Question("help", "this list", _help),
}


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
            text = self._answer(
                str(body["user_id"]), str(body["channel_id"]), str(body.get("text") or "")
            )
        except Exception:
            log.exception("a question could not be answered")
            text = refusals.could_not(False)
        try:
            text = _short(text)
            respond(text=plainly(text), blocks=notice_blocks(text), response_type="ephemeral")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the person can ask again
            log.warning("an answer to %s could not be given: %s", COMMAND, type(error).__name__)

    def _answer(self, person: str, channel: str, text: str) -> str:
        try:
            if not self._answerer.grounds.authority.colleague(person):
                return "I answer full members of this workspace only."
            name, *words = _split(text) or ["help"]
            question = QUESTIONS.get(name.lower())
            if question is None:
                raise MistypedError(f"I do not know {COMMAND} {name!r}.")
            return question.answer(self._answerer, SlashCommand(person, channel, words))
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
