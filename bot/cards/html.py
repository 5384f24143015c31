"""Slack blocks as HTML, for pages that show a person what a card or a dialog shows. Pure.

It draws every block that says something on a card or in a dialog, and leaves out what is pressed or
typed into. What it does not know it refuses: nobody is shown a part of a call as if it were all.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from bot.cards import slack_text
from bot.cards.block_kit import Json

# what is pressed, chosen or typed into says nothing about the call
_INTERACTIVE = frozenset({"actions", "input"})
_TAGS = {
    "rich_text_section": "p",
    "rich_text_quote": "blockquote",
    "rich_text_preformatted": "pre",
}
_STYLES = (("bold", "strong"), ("italic", "em"), ("strike", "s"), ("code", "code"))
_LONGEST_NAME = 80  # characters, as in Slack's profiles
# a mention, a time or a link; bold text, in which these may stand
_MARKED = re.compile(
    r"<(?P<inner>[^<>\n]+)>"
    r"|(?<![\w*])\*(?=\S)(?P<bold>(?:<[^<>\n]+>|[^*<>\n])+)(?<=\S)\*(?![\w*])"
)
_OUR_MARKS = re.compile("([\u2068\u2069])")  # around what is written from right to left
_WEB = re.compile(r"(?:https?://|mailto:)[^\s\\]+", re.IGNORECASE)

# the name of the person, user group or channel with this id; "" for one that is not known
NameFinder = Callable[[str], str]


class UnknownBlockError(ValueError):
    """Raised for a block, or a part of one, that cannot be drawn as HTML."""


def render_blocks_as_html(blocks: Iterable[Json], find_name: NameFinder) -> str:
    """Return the blocks as HTML in which every text of theirs is escaped and whole.

    People, groups and channels are shown by name, links with the address they lead to, and times in
    UTC. Raises UnknownBlockError.
    """
    shown = (each for each in blocks if each["type"] not in _INTERACTIVE)
    return "\n".join(_render(each, find_name) for each in shown)


def _render(thing: Json, find_name: NameFinder) -> str:
    """Draw a block, or a part of one."""
    draw = partial(_render, find_name=find_name)
    match thing:
        case {"type": "divider"}:
            return "<hr>"
        case {"type": "header", "text": text}:
            return _element("h2", draw(text))
        case {"type": "section", "text": text} if "fields" not in thing:
            return _element("p", draw(text))
        case {"type": "section", "fields": texts} if "text" not in thing:
            return f'<div class="fields">{_join("p", map(draw, texts))}</div>'
        case {"type": "context", "elements": texts}:
            return f'<div class="small">{_join("p", map(draw, texts))}</div>'
        case {"type": "rich_text", "elements": parts}:
            return "".join(map(draw, parts))
        case {"type": "rich_text_list", "elements": lines}:
            return f"<ul>{_join('li', map(draw, lines))}</ul>"
        case {"type": named, "elements": leaves} if named in _TAGS:
            return _element(_TAGS[named], "".join(map(draw, leaves)))
        case {"type": "plain_text", "text": text}:
            return _escape(text)
        case {"type": "mrkdwn", "text": text}:
            return _render_mrkdwn(text, find_name)
        case {"type": "text", "text": text}:
            tags = [tag for style, tag in _STYLES if thing.get("style", {}).get(style)]
            opened, closed = (f"<{each}>" for each in tags), (f"</{each}>" for each in tags[::-1])
            return "".join([*opened, _escape(text), *closed])
        case {"type": "user", "user_id": person}:
            return _render_name("@", person, find_name)
        case {"type": "channel", "channel_id": channel}:
            return _render_name("#", channel, find_name)
        case {"type": "date", "timestamp": at, "fallback": words}:
            return _render_time(at, words)
        case {"type": "link", "url": url}:
            return _render_link(url, thing.get("text", ""))
    raise UnknownBlockError(f"{thing['type']!r} cannot be drawn")


def _element(tag: str, inner: str) -> str:
    """Return an element whose direction is that of its text."""
    first = "\n" if tag == "pre" else ""  # a line end that begins it is not drawn
    return f'<{tag} dir="auto">{first}{inner}</{tag}>'


def _join(tag: str, parts: Iterable[str]) -> str:
    return "".join(_element(tag, each) for each in parts)


def _render_mrkdwn(text: str, find_name: NameFinder) -> str:
    drawn, end = [], 0
    for found in _MARKED.finditer(text):
        drawn.append(_escape(slack_text.unescape_mrkdwn(text[end : found.start()])))
        if found["inner"]:
            drawn.append(_render_marked(found["inner"], find_name))
        else:
            drawn.append(f"<strong>{_render_mrkdwn(found['bold'], find_name)}</strong>")
        end = found.end()
    return "".join([*drawn, _escape(slack_text.unescape_mrkdwn(text[end:]))])


def _escape(text: str) -> str:
    """Return a text for HTML, with what a reader cannot see written out but for our own marks."""
    parts = _OUR_MARKS.split(text)
    parts[::2] = map(slack_text.show_hidden_characters, parts[::2])
    return html.escape("".join(parts))


def _render_marked(inner: str, find_name: NameFinder) -> str:
    """Draw what stood between "<" and ">" in mrkdwn."""
    target, _, label = inner.partition("|")
    words = slack_text.unescape_mrkdwn(label)
    command, *rest = target.split("^")
    if command == "!date" and rest and re.fullmatch(r"[0-9]{1,11}", rest[0]):
        return _render_time(int(rest[0]), words)
    if command == "!subteam" and rest:
        return _render_name("@", rest[0], find_name)
    if target.startswith(("@", "#")):
        return _render_name(target[0], target[1:], find_name)
    if target.startswith("!"):
        return _escape(f"@{words or target[1:]}")
    return _render_link(slack_text.unescape_mrkdwn(target), words)


def _render_name(sign: str, name_id: str, find_name: NameFinder) -> str:
    name = slack_text.sanitise_as_plain_text(find_name(name_id).lstrip("@#"), _LONGEST_NAME)
    return f"<bdi>{sign}{_escape(name or name_id)}</bdi>"


def _render_time(timestamp: int, in_words: str) -> str:
    at = datetime.fromtimestamp(timestamp, UTC)
    return f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{_escape(in_words)}</time>'


def _render_link(url: str, label: str) -> str:
    """Draw a link and where it leads; an address of another kind than the web's is text."""
    seen, target = _escape(label), _escape(url)
    if not _WEB.fullmatch(url):
        return f"{seen} ({target})" if label else target
    link = f'<a href="{target}" rel="noreferrer noopener" target="_blank">{seen or target}</a>'
    return link if label in ("", url) else f"{link} ({target})"
