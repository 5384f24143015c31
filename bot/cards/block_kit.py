"""Builders of Slack blocks, buttons and rich text, and the frame around a model's Markdown.

Pure; cards, dialogs and answers are made of these pieces, which have no wording of their own.

Text that others wrote may go into `plain_text` and `rich_text` only; `mrkdwn` is for the bot's own
words, mentions and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from bot.cards import button_codec, slack_text
from bot.cards.action_names import (
    OVERFLOW_MENU_ACTION_ID,
    Action,
    DialogId,
    InputBlockId,
    InputElementId,
)

MAX_PART_CHARS = 11_000  # of one message's frame; Slack takes 12,000 of Markdown
MIN_PART_CHARS = 200  # not split below this, even if framing many line ends makes a part too long
MAX_UNFINISHED_LINK_CHARS = 400
_LINK_LABEL = r"(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,200}\]){0,300}"
_URL = r"(?:[^\s()<>]|\([^\s()<>]{0,500}\)){1,2000}"
_LINK_TITLE = r"(?:\s{1,3}(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|\([^()\n]{0,300}\)))?"
_AUTHORITY_CHAR = r"[^\s/?#<>()\[\]|]"  # in a URL's host, or in the user name before it
_LINK_PATTERN = re.compile(
    rf"\[(?P<label>{_LINK_LABEL})\]\([ \t]{{0,3}}<?(?P<url>{_URL})>?{_LINK_TITLE}[ \t]{{0,3}}\)"
    r"|<(?P<slack>[a-z][a-z0-9+.-]{1,30}:[^|<>\s]{1,2000})\|(?P<named>[^<>\n]{0,300})>"
    # otherwise, a link in another notation, or a bare address
    rf"|\](?=[(\[:])|(?<!\w)(?P<bare>https?:)//(?P<at>{_AUTHORITY_CHAR}*)",
    re.IGNORECASE,
)
_SCHEME_END_PATTERN = re.compile(r"://")
_SCHEME_PATTERN = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)
_MAX_HOST_CHARS = 300  # no real host name is longer
_UNFINISHED_URL_PATTERN = re.compile(
    rf"(?<!\w)https?:(?P<rest>/(?:/{_AUTHORITY_CHAR}*)?)\Z", re.IGNORECASE
)
# characters that change the direction of writing
_BIDI_CONTROL_ESCAPES = {ord(each): f"⟨U+{ord(each):04X}⟩" for each in "\u061c\u200e\u200f"}
_BIDI_CONTROL_ESCAPES |= {
    at: f"⟨U+{at:04X}⟩" for at in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_OPEN_BRACKET_PATTERN = re.compile(r"[\[<][^\n]*\Z")


def format_as_blockquote(text: str) -> str:
    """Return a model's Markdown as a quotation in which each link shows its host; "" for no text.

    Nothing in the frame notifies anybody.
    """
    lines = re.split(
        r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]",
        show_link_hosts(slack_text.replace_notifying_mentions(text)),
    )
    last = len(lines) - 1
    return "\n".join(
        f"> {line}" if line.strip() else ">" if number < last else ""
        for number, line in enumerate(lines)
    )


def show_link_hosts(text: str) -> str:
    """Return Markdown in which each link shows the host it leads to, behind its label.

    "[Approve](https://evil.example/x)" becomes "Approve ([evil.example](https://evil.example/x))".
    A link without a web or mail host, and a bare address whose host is disguised, become plain
    text.
    """
    return _LINK_PATTERN.sub(_replace_link, text.translate(_BIDI_CONTROL_ESCAPES))


def _replace_link(match: re.Match[str]) -> str:
    if match["bare"] is not None:
        at = match["at"]
        honest = at.isascii() and len(at) <= _MAX_HOST_CHARS and not re.search(r"[@\\%]", at)
        return match[0] if honest else f"{match['bare']} //{at}"
    label = match["label"] if match["label"] is not None else match["named"]
    url = match["url"] or match["slack"]
    if label is None or url is None:
        return "] "  # the space keeps Markdown from reading a link
    label, host = show_link_hosts(label), _find_link_host(url)
    if not host:
        return f"[{label}] ({_SCHEME_END_PATTERN.sub(': //', url, count=1)})"
    bare = _SCHEME_PATTERN.sub("", url).rstrip("/")
    seen = _SCHEME_PATTERN.sub("", label.strip()).rstrip("/")
    says_so = seen.isascii() and seen.casefold() in (bare.casefold(), host.casefold())
    link = f"[{seen if says_so else host}]({url})"
    gap = " " if match.string[: match.start()].endswith("!") else ""  # else it is an image
    return gap + (link if says_so or not label.strip() else f"{label} ({link})")


def _find_link_host(url: str) -> str:
    """Return the host or the mail address that a link leads to; "" if it has neither.

    A host in other letters than ASCII is returned in its IDNA form, so that it looks like no other.
    A link with a back-slash has none: browsers end the host there, and Python does not.
    """
    if "\\" in url:
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or (parts.path if parts.scheme.lower() == "mailto" else "")
        if not host or parts.scheme.lower() not in ("http", "https", "mailto"):
            return ""
        plain = host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # includes UnicodeError
        return ""
    return plain if re.fullmatch(r"[\w.@+:-]{1,255}", plain) else ""


def split_into_message_parts(text: str, limit: int = MAX_PART_CHARS) -> list[str]:
    """Split a model's Markdown into parts that each fit into one Slack message once framed."""
    found: list[str] = []
    for part in slack_text.split_markdown(text, limit):
        whole = (
            limit <= MIN_PART_CHARS
            or slack_text.count_slack_characters(format_as_blockquote(part)) <= MAX_PART_CHARS
        )
        found += [part] if whole else split_into_message_parts(part, limit // 2)
    return found


def cut_before_unfinished_link(text: str) -> str:
    """Return the part of a growing text that can be framed: all before an unfinished link."""
    found = _OPEN_BRACKET_PATTERN.search(text)
    while found:
        rest = text[found.start() :]
        if len(rest) <= MAX_UNFINISHED_LINK_CHARS and not _is_settled_link(rest):
            return text[: found.start()]
        found = _OPEN_BRACKET_PATTERN.search(text, found.start() + 1)
    growing = _UNFINISHED_URL_PATTERN.search(text)
    return (
        text[: growing.start("rest")]
        if growing and len(growing[0]) <= MAX_UNFINISHED_LINK_CHARS
        else text
    )


def _is_settled_link(rest: str) -> bool:
    """Return whether text that begins with a bracket stays a link, or no link, whatever follows."""
    if rest.startswith("<"):
        return ">" in rest
    match = _LINK_PATTERN.match(rest)
    if match is not None and match["label"] is not None:
        return True
    # in "[x] y", nothing that follows can turn the bracket into a link
    return re.match(rf"\[{_LINK_LABEL}\](?![(\[:]|\Z)", rest) is not None


def quote_on_one_line(text: str) -> str:
    """Return a model's words for a notification: literal, on one line, in quotation marks."""
    words = " ".join(slack_text.show_hidden_characters(text).split())
    return f"“{slack_text.isolate_right_to_left_text(words)}”"


Json = dict[str, Any]
MAX_DIALOG_TEXT_CHARS = 500  # of a text entered in a dialog


def plain_text(text: str) -> Json:
    """Return a plain_text object, which Slack shows literally, without emoji codes."""
    return {"type": "plain_text", "text": text, "emoji": False}


def mrkdwn(text: str) -> Json:
    """Return a mrkdwn object, which Slack formats: for our own words, mentions and times only."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def header_block(block_id: str, text: str) -> Json:
    """Return a header block: big, bold text of at most 150 characters."""
    return {"type": "header", "block_id": block_id, "text": plain_text(text)}


def section_block(block_id: str, text: Json) -> Json:
    """Return a section block of one text object, never folded away behind "see more"."""
    return {"type": "section", "block_id": block_id, "text": text, "expand": True}


def plain_text_section_block(text: str) -> Json:
    """Return a section block of plain text, shortened to what Slack takes."""
    return {"type": "section", "text": plain_text(slack_text.shorten_text(text, 3_000))}


def two_column_section(block_id: str, cells: Sequence[Json]) -> Json:
    """Return a section block of at most ten text objects in two columns, read left to right."""
    return {"type": "section", "block_id": block_id, "fields": list(cells)[:10]}


def context_block(block_id: str, elements: Sequence[Json]) -> Json:
    """Return a context block (small print) of at most ten text objects."""
    return {"type": "context", "block_id": block_id, "elements": list(elements)[:10]}


def actions_block(block_id: str, elements: Sequence[Json]) -> Json:
    """Return an actions block: a row of buttons and menus."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def divider_block(block_id: str) -> Json:
    """Return a divider block: a horizontal line."""
    return {"type": "divider", "block_id": block_id}


def rich_text_block(block_id: str, elements: Sequence[Json]) -> Json:
    """Return a rich_text block of sections, quotes and preformatted parts."""
    return {"type": "rich_text", "block_id": block_id, "elements": list(elements)}


def button(
    action: Action,
    label: str,
    target: button_codec.Target,
    *,
    style: str = "",
    confirm: Json | None = None,
) -> Json:
    """Return a button that does `action` to `target`; `style` is "", "primary" or "danger"."""
    element: Json = {
        "type": "button",
        "action_id": action,
        "text": plain_text(label),
        "value": button_codec.encode_button_value(target),
    }
    if style:
        element["style"] = style
    if confirm:
        element["confirm"] = confirm
    return element


def channel_select(action: Action, asks: str, channel: str) -> Json:
    """Return a menu of the reader's channels; `channel`: the one chosen at first, "" for none."""
    return {
        "type": "conversations_select",
        "action_id": action,
        "placeholder": plain_text(asks),
        "filter": {"include": ["public", "private"]},
        **({"initial_conversation": channel} if channel else {}),
    }


def overflow_menu(choices: Sequence[tuple[str, button_codec.Click]]) -> Json:
    """Return an overflow menu of at most five choices, each with its label."""
    options = [
        {"text": plain_text(label), "value": button_codec.encode_button_value(click)}
        for label, click in choices
    ]
    return {"type": "overflow", "action_id": OVERFLOW_MENU_ACTION_ID, "options": options}


def confirmation_dialog(title: str, text: str, yes: str) -> Json:
    """Return the question before a click is sent (limits: 100, 300, 30, 30 characters)."""
    return {
        "title": plain_text(title),
        "text": plain_text(text),
        "confirm": plain_text(yes),
        "deny": plain_text("Go back"),
        "style": "danger",
    }


def dialog_view(
    subject: button_codec.DialogSubject,
    title: str,
    blocks: Sequence[Json],
    *,
    submit: str = "",
    close: str,
) -> Json:
    """Return the view of a dialog; without `submit` it can only be closed."""
    view: Json = {
        "type": "modal",
        "callback_id": subject.dialog,
        "private_metadata": button_codec.encode_dialog_metadata(subject),
        "title": plain_text(slack_text.shorten_text(title, 24)),
        "close": plain_text(close),
        "blocks": list(blocks),
    }
    if subject.dialog in (DialogId.REVIEW, DialogId.EDIT):  # the card shows who has it open
        view["notify_on_close"] = True
    return {**view, "submit": plain_text(submit)} if submit else view


def choose_dialog_title(title: str, instead: str) -> str:
    """Return the title if it fits at the top of a dialog, else `instead`."""
    return title if 0 < slack_text.count_slack_characters(title.strip()) <= 24 else instead


def build_input_block(
    block_id: str, label: str, element: Json, *, optional: bool = False, hint: str = ""
) -> Json:
    """Build an input block of a dialog; `hint` stands below the input in small print."""
    block: Json = {
        "type": "input",
        "block_id": block_id,
        "label": plain_text(label),
        "element": element,
        "optional": optional,
    }
    return {**block, "hint": plain_text(hint)} if hint else block


def build_text_input(placeholder: str = "") -> Json:
    """Build a text element for a few lines of a person's own words."""
    element: Json = {
        "type": "plain_text_input",
        "action_id": InputElementId.TEXT,
        "multiline": True,
        "max_length": MAX_DIALOG_TEXT_CHARS,
    }
    return {**element, "placeholder": plain_text(placeholder)} if placeholder else element


def get_chosen_person(state_values: Mapping[str, Any], block: InputBlockId) -> str:
    """Return who was chosen in that input of a submitted dialog; "" for nobody."""
    found = get_input_state(state_values, block, InputElementId.PERSON)
    person = found.get("selected_user")
    return (
        person if isinstance(person, str) and slack_text.USER_ID_PATTERN.fullmatch(person) else ""
    )


def get_entered_text(state_values: Mapping[str, Any], field: InputBlockId) -> str:
    """Return the text that was entered in this input, without blanks around it."""
    return str(get_input_state(state_values, field, InputElementId.TEXT).get("value") or "").strip()


def get_chosen_option_value(
    state_values: Mapping[str, Any], field: InputBlockId, entry: InputElementId
) -> str:
    """Return the value of the option chosen in this input; "" for none."""
    option = get_input_state(state_values, field, entry).get("selected_option") or {}
    return str(option.get("value", ""))


def get_input_state(
    state_values: Mapping[str, Any], field: InputBlockId, entry: InputElementId
) -> Mapping[str, Any]:
    """Return the state of this input as Slack sent it; empty if it was not sent."""
    block = state_values.get(field)
    element = block.get(entry) if isinstance(block, Mapping) else None
    return element if isinstance(element, Mapping) else {}


def text_leaf(text: str, **style: bool) -> Json:
    """Return a rich-text leaf with literal text; styles are bold, italic, strike, code."""
    leaf: Json = {"type": "text", "text": text}
    if style:
        leaf["style"] = style
    return leaf


def user_mention_leaf(user: str) -> Json:
    """Return a rich-text leaf that mentions a person; "someone" if `user` is no user id."""
    return (
        {"type": "user", "user_id": user}
        if slack_text.USER_ID_PATTERN.fullmatch(user)
        else text_leaf("someone")
    )


def text_leaves_with_mentions(text: str, **style: bool) -> list[Json]:
    """Return a text as leaves in which mentions name people and channels; all else is literal.

    Use it only for the bot's own texts: nobody else's text may mention anybody.
    """
    leaves: list[Json] = []
    # every second part is the inside of a mention
    for number, part in enumerate(re.split(r"<(@[UW][A-Z0-9]+|#[CG][A-Z0-9]+)>", text)):
        if number % 2 and part[0] == "#":
            leaves.append({"type": "channel", "channel_id": part[1:]})
        elif part:
            leaves.append(user_mention_leaf(part[1:]) if number % 2 else text_leaf(part, **style))
    return leaves


def time_leaf(at: datetime, date_format: str = slack_text.DATE_FORMAT) -> Json:
    """Return a rich-text leaf with a time, shown in the reader's own time zone."""
    return {
        "type": "date",
        "timestamp": int(at.timestamp()),
        "format": date_format,
        "fallback": slack_text.format_in_utc(at),
    }


def link_leaf(url: str, text: str) -> Json:
    """Return a rich-text leaf that is a link."""
    return {"type": "link", "url": url, "text": text}


def rich_text_line(*leaves: Json) -> Json:
    """Return a rich-text section: one line of leaves."""
    return {"type": "rich_text_section", "elements": list(leaves)}


def rich_text_list(lines: Sequence[Json]) -> Json:
    """Return rich-text lines as a bulleted list."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(lines)}


def rich_text_preformatted(text: str) -> Json:
    """Return text in a frame, line ends kept, so that it cannot look like a part of the card."""
    return {"type": "rich_text_preformatted", "elements": [text_leaf(text)]}


def rich_text_quote(text: str, *before: Json) -> Json:
    """Return somebody's words as a quotation, marked by a bar; the leaves `before` come first."""
    return {"type": "rich_text_quote", "elements": [*before, text_leaf(text)]}


def count_text_characters(thing: Any) -> int:
    """Return the characters of text, counted as Slack does, in a block, an element or a list."""
    total = 0
    if isinstance(thing, dict):
        for key, value in thing.items():
            if isinstance(value, str):
                if key in ("text", "fallback"):
                    is_ours = thing.get("type") == "mrkdwn"
                    total += len(value) if is_ours else slack_text.count_slack_characters(value)
            elif isinstance(value, dict | list):
                total += count_text_characters(value)
    elif isinstance(thing, list):
        for each in thing:
            total += count_text_characters(each)
    return total


def pack_into_rich_text_blocks(
    elements: Iterable[Json], limit: int, name: Callable[[int], str]
) -> list[Json]:
    """Put the elements into as few rich_text blocks of `limit` characters each as possible.

    `name` makes a block's id from its number; an element over the limit has a block of its own.
    """
    blocks: list[Json] = []
    current: list[Json] = []
    used = 0
    for element in elements:
        size = count_text_characters(element)
        if current and used + size > limit:
            blocks.append(rich_text_block(name(len(blocks)), current))
            current, used = [], 0
        current.append(element)
        used += size
    return [*blocks, rich_text_block(name(len(blocks)), current)] if current else blocks
