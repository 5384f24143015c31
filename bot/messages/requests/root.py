"""The message that a request begins with which a person made with a form. Pure."""

from __future__ import annotations

import re

from bot.messages.answers import notice_blocks
from bot.messages.parts import Json, context, line, mrkdwn, rich, words
from bot.messages.sentences import requests
from bot.messages.sentences.modes import mode_note
from storage.states import Mode

_LINK = re.compile(r"https?://[!-~]{1,500}")


def root_message(
    person: str, effect: str, link: str, mode: Mode = Mode.ASK
) -> tuple[str, list[Json]]:
    """Return its words and blocks; `link`: the message that it is about, "" for none; `mode`: in
    which it is asked.
    """
    text = requests.asks(person, effect)
    blocks = notice_blocks(text)
    if mode is not Mode.ASK:
        blocks.append(context("mode", [mrkdwn(mode_note(mode))]))
    if _LINK.fullmatch(link):
        there = {"type": "link", "url": link, "text": "The message it is about"}
        blocks.append(rich("about", [line(words("💬 "), there)]))
    return text, blocks
