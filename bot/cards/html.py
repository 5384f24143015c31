"""Slack blocks as HTML, for pages that show a person what a card or a dialog shows. Pure.

It draws every block that says something on a card or in a dialog, and leaves out what is pressed or
typed into. What it does not know it refuses: nobody is shown a part of a call as if it were all.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from bot.cards import slack_text
from bot.cards.block_kit import Json

# what is pressed, chosen or typed into says nothing about the call
_INTERACTIVE = frozenset({"actions", "context_actions", "input"})
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
    drawn = (_render_block(each, find_name) for each in blocks if each["type"] not in _INTERACTIVE)
    return "\n".join(drawn)


def _render_block(block: Json, find_name: NameFinder) -> str:
    match block["type"]:
        case "header":
            return _element("h2", _render_text(block["text"], find_name))
        case "section" if "fields" not in block:
            return _element("p", _render_text(block["text"], find_name))
        case "section" if "text" not in block:
            return _render_text_group("fields", block["fields"], find_name)
        case "context":
            return _render_text_group("small", block["elements"], find_name)
        case "divider":
            return "<hr>"
        case "rich_text":
            return "".join(_render_rich_element(each, find_name) for each in block["elements"])
    raise UnknownBlockError(f"a block {block['type']!r}")


def _render_text_group(name: str, texts: Sequence[Json], find_name: NameFinder) -> str:
    inner = "".join(_element("p", _render_text(each, find_name)) for each in texts)
    return f'<div class="{name}">{inner}</div>'


def _element(tag: str, inner: str) -> str:
    """Return an element whose direction is that of its text."""
    first = "\n" if tag == "pre" else ""  # a line end that begins it is not drawn
    return f'<{tag} dir="auto">{first}{inner}</{tag}>'


def _render_text(text: Json, find_name: NameFinder) -> str:
    """Draw a text object: plain text as it is, mrkdwn as Slack formats it."""
    match text["type"]:
        case "plain_text":
            return _escape(text["text"])
        case "mrkdwn":
            return _render_mrkdwn(text["text"], find_name)
    raise UnknownBlockError(f"a text {text['type']!r}")


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


def _render_rich_element(element: Json, find_name: NameFinder) -> str:
    if element["type"] == "rich_text_list":
        lines = (_render_rich_element(each, find_name) for each in element["elements"])
        return f"<ul>{''.join(f'<li>{each}</li>' for each in lines)}</ul>"
    if element["type"] not in _TAGS:
        raise UnknownBlockError(f"an element {element['type']!r}")
    inner = "".join(_render_leaf(each, find_name) for each in element["elements"])
    return _element(_TAGS[element["type"]], inner)


def _render_leaf(leaf: Json, find_name: NameFinder) -> str:
    match leaf["type"]:
        case "text":
            drawn = _escape(leaf["text"])
        case "user":
            drawn = _render_name("@", leaf["user_id"], find_name)
        case "channel":
            drawn = _render_name("#", leaf["channel_id"], find_name)
        case "date":
            drawn = _render_time(leaf["timestamp"], leaf["fallback"])
        case "link":
            drawn = _render_link(leaf["url"], leaf.get("text", ""))
        case unknown:
            raise UnknownBlockError(f"a part {unknown!r}")
    for style, tag in _STYLES:
        if leaf.get("style", {}).get(style):
            drawn = f"<{tag}>{drawn}</{tag}>"
    return drawn
