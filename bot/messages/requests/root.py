"""The message that a request begins with which a person made with a form. Pure."""

from __future__ import annotations

import re

from bot.messages.answers import notice_blocks
from bot.messages.parts import Json, line, rich, words
from bot.messages.sentences import requests

_LINK = re.compile(r"https?://[!-~]{1,500}")


def root_message(person: str, effect: str, link: str) -> tuple[str, list[Json]]:
    """Return its words and blocks; `link`: the message that it is about, "" for none."""
    text = requests.asks(person, effect)
    blocks = notice_blocks(text)
    if _LINK.fullmatch(link):
        there = {"type": "link", "url": link, "text": "The message it is about"}
        blocks.append(rich("about", [line(words("💬 "), there)]))
    return text, blocks
