"""What a model wrote, in a frame of its own: each line quoted, each link with where it leads. Pure.

Whatever shows a model's words in Markdown goes through `framed`, so that none of them can pass for
a line of ours: those stand below, outside of the frame.

It is made from the left: the frame of a text begins with the frame of each beginning of it, as far
as no link is cut in two (`settled`). So words can be shown while they come.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from bot.messages.text import apart, neutral_markdown, slack_length, split_markdown, visible

PART = 11_000  # characters of one message's frame; it holds 12,000 of Markdown
LEAST = 200  # characters into which a part is divided that has hardly any but line ends
HELD_BACK = 400  # characters of a link that is not at its end yet
_LABEL = r"(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,200}\]){0,300}"
_URL = r"(?:[^\s()<>]|\([^\s()<>]{0,500}\)){1,2000}"
_TITLE = r"(?:\s{1,3}(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|\([^()\n]{0,300}\)))?"
_AT = r"[^\s/?#<>()\[\]|]"  # of an address: the part that says where it leads, and as whom
_LINK = re.compile(
    rf"\[(?P<label>{_LABEL})\]\([ \t]{{0,3}}<?(?P<url>{_URL})>?{_TITLE}[ \t]{{0,3}}\)"
    r"|<(?P<slack>[a-z][a-z0-9+.-]{1,30}:[^|<>\s]{1,2000})\|(?P<named>[^<>\n]{0,300})>"
    # what is left may be a link that is written otherwise, or the address of one that is named
    rf"|\](?=[(\[:])|(?<!\w)(?P<bare>https?:)//(?P<at>{_AT}*)",
    re.IGNORECASE,
)
_SCHEME_END = re.compile(r"://")
_SCHEME = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)
_LONGEST_HOST = 300  # characters; no network knows a longer one
_GROWING = re.compile(rf"(?<!\w)https?:(?P<rest>/(?:/{_AT}*)?)\Z", re.IGNORECASE)
# what turns the order of letters round
_TURNING = {ord(each): f"⟨U+{ord(each):04X}⟩" for each in "\u061c\u200e\u200f"}
_TURNING |= {at: f"⟨U+{at:04X}⟩" for at in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_OPEN = re.compile(r"[\[<][^\n]*\Z")


def framed(text: str) -> str:
    """Return Markdown that a model wrote as Markdown in a frame; "" for none.

    Nothing in it notifies anybody, each link shows the host it leads to, each line is quoted.
    """
    lines = re.split(
        r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]", shown_links(neutral_markdown(text))
    )
    last = len(lines) - 1
    return "\n".join(
        f"> {line}" if line.strip() else ">" if number < last else ""
        for number, line in enumerate(lines)
    )


def shown_links(text: str) -> str:
    """Return Markdown in which each link says where it leads, behind its label.

    "[Approve](https://evil.example/x)" becomes "Approve ([evil.example](https://evil.example/x))".
    What leads nowhere on the web, or elsewhere than its beginning says, is no link any more.
    """
    return _LINK.sub(_shown, text.translate(_TURNING))


def _shown(match: re.Match[str]) -> str:
    if match["bare"] is not None:
        at = match["at"]
        honest = at.isascii() and len(at) <= _LONGEST_HOST and not re.search(r"[@\\%]", at)
        return match[0] if honest else f"{match['bare']} //{at}"
    label = match["label"] if match["label"] is not None else match["named"]
    url = match["url"] or match["slack"]
    if label is None or url is None:
        return "] "  # a bracket, and then a space: so it is no link
    label, host = shown_links(label), _host(url)
    if not host:
        return f"[{label}] ({_SCHEME_END.sub(': //', url, count=1)})"
    bare, seen = _SCHEME.sub("", url).rstrip("/"), _SCHEME.sub("", label.strip()).rstrip("/")
    says_so = seen.isascii() and seen.casefold() in (bare.casefold(), host.casefold())
    link = f"[{seen if says_so else host}]({url})"
    apart = " " if match.string[: match.start()].endswith("!") else ""  # so it is no picture
    return apart + (link if says_so or not label.strip() else f"{label} ({link})")


def _host(url: str) -> str:
    """Return the host, or the address of mail, that a link leads to; "" where it is neither.

    In letters that look like no others. A back-slash ends it for browsers, and not for Python.
    """
    if "\\" in url:
        return ""
    try:
        parts = urlsplit(url)
        found = parts.hostname or (parts.path if parts.scheme.lower() == "mailto" else "")
        if not found or parts.scheme.lower() not in ("http", "https", "mailto"):
            return ""
        plain = found if found.isascii() else found.encode("idna").decode()
    except ValueError:  # UnicodeError is one
        return ""
    return plain if re.fullmatch(r"[\w.@+:-]{1,255}", plain) else ""


def parts_of(text: str, limit: int = PART) -> list[str]:
    """Split a model's Markdown into parts whose frames Slack takes as one message each."""
    found: list[str] = []
    for part in split_markdown(text, limit):
        whole = limit <= LEAST or slack_length(framed(part)) <= PART
        found += [part] if whole else parts_of(part, limit // 2)
    return found


def settled(text: str) -> str:
    """Return what of a growing text can be framed already: nothing of a link that is not whole."""
    found = _OPEN.search(text)
    while found:
        rest = text[found.start() :]
        if len(rest) <= HELD_BACK and not _is_whole(rest):
            return text[: found.start()]
        found = _OPEN.search(text, found.start() + 1)
    growing = _GROWING.search(text)
    return text[: growing.start("rest")] if growing and len(growing[0]) <= HELD_BACK else text


def _is_whole(rest: str) -> bool:
    """Return whether what begins with a bracket cannot become a link by what comes next."""
    if rest.startswith("<"):
        return ">" in rest
    match = _LINK.match(rest)
    if match is not None and match["label"] is not None:
        return True
    # "[x] y": whatever follows the bracket is no address
    return re.match(rf"\[{_LABEL}\](?![(\[:]|\Z)", rest) is not None


def quoted_line(text: str) -> str:
    """Return a model's words as they stand in a notification: literal, on one line, in quotes."""
    return f"“{apart(' '.join(visible(text).split()))}”"
