"""Rich text as tables: what a leaf, a section, a list and a quote may hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bot.sandbox.blockkit.objects import (
    CHANNEL,
    GROUP,
    ID,
    LINK,
    TEAM,
    USER,
    Check,
    array,
    flag,
    not_empty,
    number,
    one_of,
    record,
    text,
    union,
)

LEAF_STYLE = record(
    {},
    dict.fromkeys(
        (
            "bold",
            "italic",
            "strike",
            "underline",
            "code",
            "highlight",
            "client_highlight",
            "unlink",
        ),
        flag,
    ),
    not_empty,
)


def _leaf(need: Mapping[str, Check], may: Mapping[str, Check] | None = None) -> Check:
    return record(need, {"style": LEAF_STYLE, **(may or {})})


LEAF = union(
    {
        "text": _leaf({"text": text()}),
        "link": _leaf({"url": LINK}, {"text": text(), "unsafe": flag}),
        "user": _leaf({"user_id": text(form=USER)}),
        "usergroup": _leaf({"usergroup_id": text(form=GROUP)}),
        "channel": _leaf({"channel_id": text(form=CHANNEL)}),
        "team": _leaf({"team_id": text(form=TEAM)}),
        "emoji": _leaf({"name": text()}, {"skin_tone": number(1, 6), "unicode": text()}),
        "broadcast": _leaf({"range": one_of("here", "channel", "everyone")}),
        "color": _leaf({"value": text(form="#?[0-9a-fA-F]{6}")}),
        "date": _leaf(
            {"timestamp": number(0), "format": text()}, {"url": LINK, "fallback": text(low=0)}
        ),
    }
)
_LEAVES = {"elements": array(LEAF, low=0)}
_BORDER = {"border": one_of(0, 1)}
_SECTION = record(_LEAVES)
_LIST = record(
    {
        "style": one_of("bullet", "ordered"),
        "elements": array(union({"rich_text_section": _SECTION})),
    },
    {"indent": number(0), "offset": number(0), **_BORDER},
)
RICH_PARTS = array(
    union(
        {
            "rich_text_section": _SECTION,
            "rich_text_list": _LIST,
            "rich_text_preformatted": record(_LEAVES, {"language": text(), **_BORDER}),
            "rich_text_quote": record(_LEAVES, _BORDER),
        }
    ),
    low=0,
)
RICH_TEXT = record({"elements": RICH_PARTS}, {"block_id": ID})
RICH_TEXT_OBJECT = union({"rich_text": RICH_TEXT})
