"""Every Block Kit block as a table, and which surface takes which. Pure: no I/O, no state.

`BLOCKS` holds, for each surface, the Check of its list of blocks, one block at a time; what
concerns a payload as a whole (unique ids, one table, cumulative markdown …) is in `blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from slack_sandbox.blockkit.elements import (
    ELEMENTS,
    IN_ACTIONS,
    IN_CONTEXT_ACTIONS,
    IN_INPUT,
    IN_SECTION,
    element,
)
from slack_sandbox.blockkit.objects import (
    ID,
    LINK,
    RICH_PARTS,
    RICH_TEXT,
    RICH_TEXT_OBJECT,
    SHORT_LINK,
    SLACK_FILE,
    Check,
    Rule,
    any_of,
    array,
    exactly_one,
    flag,
    number,
    one_of,
    plain,
    record,
    text,
    texts,
    union,
    words,
)

Surface = Literal["message", "modal", "home"]
MARKDOWN_LIMIT = 12_000  # characters of one markdown block, and of all in a message together


def _input_rule(value: Mapping[str, Any]) -> str | None:
    file_input = value["element"]["type"] == "file_input" and value.get("dispatch_action")
    return "dispatch_action is not allowed with file_input" if file_input else None


def _container_rule(value: Mapping[str, Any]) -> str | None:
    if value.get("default_collapsed") and not value.get("is_collapsible"):
        return "default_collapsed needs is_collapsible"
    if value.get("has_header_divider") and value.get("is_collapsible"):
        return "has_header_divider is not allowed with is_collapsible"
    return None


def _data_table_rule(value: Mapping[str, Any]) -> str | None:
    rich = any(cell["type"] == "rich_text" for cell in value["rows"][0])
    if value.get("row_header_column_index", 0) >= len(value["rows"][0]):
        return "row_header_column_index must name a column"
    if len({len(row) for row in value["rows"]}) > 1:
        return "all rows must have the same number of cells"
    return "rich_text is not allowed in the header row" if rich else None


def _series_rule(value: Mapping[str, Any]) -> str | None:
    names = [series["name"] for series in value["series"]]
    if len(set(names)) < len(names):
        return "the names of series must be unique"
    wanted = sorted(value["axis_config"]["categories"])
    fits = all(
        sorted(point["label"] for point in series["data"]) == wanted for series in value["series"]
    )
    return None if fits else "each series must have exactly one data point for each category"


_IMAGE = element("image")
_CELLS = {"raw_text": record({"text": text(low=0)}), "rich_text": record({"elements": RICH_PARTS})}
_CELL = union(_CELLS)
_DATA_CELL = union(
    {
        "raw_text": record({"text": text()}),
        "raw_number": record({"value": number(whole=False)}, {"text": text()}),
        "rich_text": _CELLS["rich_text"],
    }
)
_COLUMN = record({}, {"align": one_of("left", "center", "right"), "is_wrapped": flag})
_POINT = record({"label": text(20), "value": number(whole=False)})
_SERIES = record(
    {
        "series": array(record({"name": text(20), "data": array(_POINT, 20)}), 6),
        "axis_config": record(
            {"categories": array(text(20), 20, low=0)},
            {"x_label": text(50, low=0), "y_label": text(50, low=0)},
        ),
    },
    {},
    _series_rule,
)
_SLICE = record({"label": text(20), "value": number(0, whole=False, above=True)})
_CHART = union(
    {
        **dict.fromkeys(("line", "bar", "area"), _SERIES),
        "pie": record({"segments": array(_SLICE, 6)}),
    }
)
_TASK = {
    "details": RICH_TEXT_OBJECT,
    "output": RICH_TEXT_OBJECT,
    "sources": array(element("url"), low=0),
    "status": one_of("pending", "in_progress", "complete", "error"),
    "block_id": ID,
}
_HTTPS = text(form=r"https://\S+", says="must be an https URL")
_SHORT_HTTPS = text(3000, form=r"https://\S+", says="must be an https URL")


def _maybe(check: Check) -> Check:
    return lambda value, at: iter(()) if value is None else check(value, at)


def _title(value: Any, at: str) -> Iterator[str]:
    yield from (text() if isinstance(value, str) else plain())(value, at)


def _inline_task(value: Any, at: str) -> Iterator[str]:
    task = (
        {"type": "task_card", **value} if isinstance(value, dict) else value
    )  # in a plan, the type may be left out
    yield from union({"task_card": _CHECKS["task_card"]})(task, at)


def _instead(value: Any, at: str) -> Iterator[str]:
    """Check the fallback blocks for clients that do not know the block itself."""
    kinds = {name: check for name, check in _CHECKS.items() if name != "auth_provider"}
    yield from array(union(kinds))(value, at)


def _block(
    need: Mapping[str, Check], may: Mapping[str, Check] | None = None, *rules: Rule
) -> Check:
    return record(need, {"block_id": ID, **(may or {})}, *rules)


_CARD = _block(
    {},
    {
        "hero_image": _IMAGE,
        "icon": _IMAGE,
        "title": words(150),
        "subtitle": words(150),
        "body": words(200),
        "actions": array(element("button"), 2),
    },
    any_of("hero_image", "title", "actions", "body"),
)
_CHECKS: dict[str, Check] = {
    "section": _block(
        {},
        {
            "text": words(3000),
            "fields": array(words(2000), 10),
            "accessory": element(*IN_SECTION),
            "expand": flag,
        },
        any_of("text", "fields"),
    ),
    "header": _block({"text": plain(150)}, {"level": number(1, 4)}),
    "divider": _block({}),
    "image": _block(
        {"alt_text": text(2000)},
        {"image_url": SHORT_LINK, "slack_file": SLACK_FILE, "title": plain(2000)},
        exactly_one("image_url", "slack_file"),
    ),
    "context": _block({"elements": array(union({**texts(), "image": ELEMENTS["image"]}), 10)}),
    "actions": _block({"elements": array(element(*IN_ACTIONS), 25)}),
    "context_actions": _block({"elements": array(element(*IN_CONTEXT_ACTIONS), 5)}),
    "input": _block(
        {"label": plain(2000), "element": element(*IN_INPUT)},
        {"hint": plain(2000), "optional": flag, "dispatch_action": flag},
        _input_rule,
    ),
    "rich_text": RICH_TEXT,
    "markdown": _block({"text": text(MARKDOWN_LIMIT)}),
    "table": _block(
        {"rows": array(array(_CELL, 20), 100)},
        {"column_settings": array(_maybe(_COLUMN), 20, low=0)},
    ),
    "data_table": _block(
        {"caption": text(), "rows": array(array(_DATA_CELL, 20), 101, low=2)},
        {"page_size": number(1, 100), "row_header_column_index": number(0, 19)},
        _data_table_rule,
    ),
    "data_visualization": _block({"title": text(50), "chart": _CHART}),
    "task_card": _block({"task_id": text(), "title": text()}, _TASK),
    "plan": _block({"title": _title}, {"tasks": array(_inline_task, low=0)}),
    "alert": _block(
        {"text": words()}, {"level": one_of("default", "info", "warning", "error", "success")}
    ),
    "card": _CARD,
    "carousel": _block({"elements": array(union({"card": _CARD}), 10)}),
    "video": _block(
        {"alt_text": text(), "title": plain(199), "thumbnail_url": LINK, "video_url": _HTTPS},
        {
            "author_name": text(49, low=0),
            "description": plain(199),
            "provider_icon_url": LINK,
            "provider_name": text(),
            "title_url": _HTTPS,
        },
    ),
    "auth_provider": _block(
        {"value": text(150), "name": plain(75), "is_connected": flag},
        {
            "description": plain(150),
            "connected_identity": plain(75),
            "connected_context": plain(75),
            **dict.fromkeys(("icon_url", "auth_url", "disconnect_url"), _SHORT_HTTPS),
            "accessory": element("overflow"),
            "fallback": _instead,
        },
    ),
}
_CHILDREN = (
    "actions",
    "context",
    "divider",
    "header",
    "image",
    "input",
    "rich_text",
    "section",
    "table",
    "video",
)
_CHECKS["container"] = _block(
    {"child_blocks": array(union({name: _CHECKS[name] for name in _CHILDREN}), 10)},
    {
        "title": plain(150),
        "rich_text_title": RICH_TEXT_OBJECT,
        "subtitle": words(150),
        "icon": _IMAGE,
        "width": one_of("narrow", "standard", "wide", "full"),
        **dict.fromkeys(("is_collapsible", "default_collapsed", "has_header_divider"), flag),
    },
    any_of("title", "rich_text_title"),
    _container_rule,
)
# Slack returns file and call blocks but accepts none: they are refused as unknown types.
_MESSAGE = (
    "context_actions",
    "markdown",
    "table",
    "data_table",
    "data_visualization",
    "task_card",
    "plan",
)
_ONLY: dict[str, tuple[Surface, ...]] = {
    **dict.fromkeys(_MESSAGE, ("message",)),
    **dict.fromkeys(("card", "carousel", "container"), ("message", "home")),
    "alert": ("modal",),
}


def _list_of_blocks(surface: Surface) -> Check:
    kinds = {
        name: check for name, check in _CHECKS.items() if surface in _ONLY.get(name, (surface,))
    }
    return array(union(kinds), 50, low=0) if surface == "message" else array(union(kinds), 100)


BLOCKS: dict[Surface, Check] = {surface: _list_of_blocks(surface) for surface in get_args(Surface)}
