"""The gallery's rich text: every kind of leaf, and the elements around them."""

from __future__ import annotations

from sandbox.tests.blockkit.gallery.builders import Json, words

LEAVES: dict[str, list[Json]] = {
    "text": [
        words("plain, "),
        words("bold, ", "bold"),
        words("italic, ", "italic"),
        words("struck, ", "strike"),
        words("underlined, ", "underline"),
        words("code", "code"),
        words(" and all", "bold", "italic", "strike"),
    ],
    "link": [
        {"type": "link", "url": "https://shop.example/7"},
        words(" or "),
        {
            "type": "link",
            "url": "https://shop.example/8",
            "text": "order 8",
            "style": {"bold": True},
        },
    ],
    "user": [{"type": "user", "user_id": "UANA00001"}, words(" please look")],
    "usergroup": [{"type": "usergroup", "usergroup_id": "S0LEADS"}, words(" please look")],
    "channel": [words("see "), {"type": "channel", "channel_id": "C0SUPPORT"}],
    "team": [{"type": "team", "team_id": "T0SANDBOX"}],
    "emoji": [
        {"type": "emoji", "name": "wave", "skin_tone": 3},
        {"type": "emoji", "name": "tada", "unicode": "1f389"},
    ],
    "broadcast": [{"type": "broadcast", "range": each} for each in ("here", "channel", "everyone")],
    "color": [{"type": "color", "value": "#1f2937"}],
    "date": [
        {
            "type": "date",
            "timestamp": 1772280000,
            "format": "{date_long_pretty} at {time}",
            "fallback": "28 February",
        },
        {
            "type": "date",
            "timestamp": 1772280000,
            "format": "{ago}",
            "url": "https://shop.example/7",
        },
    ],
}


def paragraph(*leaves: Json) -> Json:
    """A rich_text_section."""
    return {"type": "rich_text_section", "elements": list(leaves)}


def bullets(*lines: str, style: str = "bullet", indent: int = 0, **more: int) -> Json:
    """A rich_text_list of plain lines."""
    items = [paragraph(words(line)) for line in lines]
    return {"type": "rich_text_list", "style": style, "indent": indent, "elements": items, **more}


CODE = {
    "type": "rich_text_preformatted",
    "elements": [words("print('hello')\n")],
    "language": "python",
    "border": 1,
}
QUOTE = {"type": "rich_text_quote", "elements": [words("so it was said")]}
TALL: Json = {
    "type": "rich_text",
    "elements": [
        paragraph(words("Before the lists.\n")),
        bullets("one", "two"),
        bullets("deeper", indent=1),
        bullets("first", "second", style="ordered", offset=2, border=1),
        QUOTE,
        CODE,
    ],
}
