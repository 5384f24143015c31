"""The message that a request begins with where the bot begins its thread. Pure."""

from __future__ import annotations

import re

from bot.messages.answers import notice_blocks
from bot.messages.parts import Json, context, line, mrkdwn, rich, words
from bot.messages.sentences import requests
from bot.messages.sentences.modes import mode_note
from storage.states import Mode

_LINK = re.compile(r"https?://[!-~]{1,500}")


def root_message(
    person: str, effect: str, link: str, mode: Mode = Mode.ASK, client: str = ""
) -> tuple[str, list[Json]]:
    """Return words and blocks of one without the agent; `link`: the message that it is about, ""
    for none; `mode`: in which it is asked; `client`: the program that asks for that person.
    """
    text = requests.asks(person, effect, client)
    blocks = [*notice_blocks(text), *mode_line(mode)]
    if _LINK.fullmatch(link):
        there = {"type": "link", "url": link, "text": "The message it is about"}
        blocks.append(rich("about", [line(words("💬 "), there)]))
    return text, blocks


def mode_line(mode: Mode) -> list[Json]:
    """Return the small print that names the mode in which a request is asked; none for ASK."""
    return [] if mode is Mode.ASK else [context("mode", [mrkdwn(mode_note(mode))])]
