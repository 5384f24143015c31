"""Where the block checker and others judge differently, why, and an example of each.

`STRICTER` and `VIEWS`: what the checker says (with its pointer) while the JSON schema of Block Kit
takes the example. `LAXER`: what the schema says while the checker takes it. `UNSEEN`: what
slack_sdk's models do not look at.
"""

from __future__ import annotations

from typing import Any

from sandbox.tests.blockkit.samples import ELEMENTS, OTHER, Json, plain
from slack_sandbox.blockkit.layouts import Surface

DIVIDER: Json = {"type": "divider"}


def input_block(element: Json, **more: Any) -> Json:
    """An input block around a sample element with some fields changed."""
    return {"type": "input", "label": plain("Value"), "element": {**element, **more}}


def telling(text: str) -> Json:
    """A rich_text block with that text."""
    return {"type": "rich_text", "elements": [_section(text)]}


def _section(text: str) -> Json:
    return {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}


def _cells(*texts: str) -> list[Json]:
    return [{"type": "raw_text", "text": text} for text in texts]


def _box(**more: Any) -> Json:
    return {"type": "container", "title": plain("Box"), "child_blocks": [DIVIDER], **more}


def _actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


TABLE: Json = {
    "type": "data_table",
    "caption": "Orders",
    "rows": [_cells("a", "b"), _cells("c", "d")],
}
_POINT = {"label": "May", "value": 1}
_SERIES = {"name": "EUR", "data": [_POINT]}
CHART = {"type": "line", "series": [_SERIES], "axis_config": {"categories": ["May"]}}
VISUAL: Json = {"type": "data_visualization", "title": "Refunds", "chart": CHART}

STRICTER: dict[str, tuple[str, Surface, Json]] = {
    r"must be a valid URL": (
        "the schema only names the format",
        "message",
        {"type": "image", "image_url": "no address", "alt_text": "a cat"},
    ),
    r"initial options must match": (
        "docs.slack.dev: an initial option is one of those offered",
        "modal",
        input_block(ELEMENTS["static_select"], initial_option={**OTHER, "value": "3"}),
    ),
    r"must be at least 1000000000": (
        "docs.slack.dev: ten digits",
        "modal",
        input_block(ELEMENTS["datetimepicker"], initial_date_time=0),
    ),
    r"must be a date that exists": (
        "a pattern knows no calendar",
        "modal",
        input_block(ELEMENTS["datepicker"], initial_date="2026-02-30"),
    ),
    r"must be less than 3001 characters .*/initial_value\]": (
        "no input holds more than 3,000 characters",
        "modal",
        input_block(ELEMENTS["plain_text_input"], initial_value="x" * 3001),
    ),
    r"must be less than 2001 characters .*/alt_text\]": (
        "2,000 characters, as in the image block",
        "message",
        {"type": "context", "elements": [{**ELEMENTS["image"], "alt_text": "x" * 2001}]},
    ),
    r"must be more than 0 characters .*/elements/\d+/text\]": (
        "Slack refuses an empty text in rich text",
        "message",
        telling(""),
    ),
    r"min_length must not exceed": (
        "a schema cannot compare fields",
        "modal",
        input_block(ELEMENTS["plain_text_input"], min_length=9, max_length=8),
    ),
    r"does not hold|decimals are not allowed": (
        "a schema cannot compare fields",
        "modal",
        input_block(ELEMENTS["number_input"], min_value="9"),
    ),
    r"must be a valid IANA timezone": (
        "docs.slack.dev: an IANA name",
        "modal",
        input_block(ELEMENTS["timepicker"], timezone="Berlin"),
    ),
    r"same number of cells|must name a column|header row": (
        "docs.slack.dev, data table block; a schema cannot compare fields",
        "message",
        {**TABLE, "rows": [*TABLE["rows"], _cells("e")]},
    ),
    r"names of series must|exactly one data point": (
        "docs.slack.dev, data visualization block; a schema cannot compare fields",
        "message",
        {**VISUAL, "chart": {**CHART, "series": [_SERIES, _SERIES]}},
    ),
    r"all table cells together must": (
        "10,000 characters in all cells of a message; a schema cannot add",
        "message",
        {"type": "table", "rows": [_cells("x" * 6000, "x" * 6000)]},
    ),
    r"only_one_table_allowed": (
        "one table per message, those in containers counted; a schema cannot count siblings",
        "message",
        _box(child_blocks=[{"type": "table", "rows": [_cells("a")]}] * 2),
    ),
    r"action_id must be unique": (
        "unique within a block; a schema cannot compare",
        "message",
        _actions(ELEMENTS["button"], ELEMENTS["button"]),
    ),
    r"block_id must be unique": (
        "unique within a payload; a schema cannot compare",
        "message",
        _box(block_id="b", child_blocks=[{**DIVIDER, "block_id": "b"}]),
    ),
    r"focus_on_load is allowed once": (
        "one element of a view has the focus",
        "message",
        _actions({**ELEMENTS["datepicker"], "action_id": "x"}, ELEMENTS["timepicker"]),
    ),
    r"response_url_enabled is only": (
        "only inputs of a modal give response_urls",
        "message",
        input_block(ELEMENTS["channels_select"], response_url_enabled=True),
    ),
    r"has_header_divider is not allowed": (
        "slack_sdk refuses it; the schema says that Slack ignores it",
        "message",
        _box(is_collapsible=True, has_header_divider=True),
    ),
    r"unsupported type: file \[": (
        "a file block is only ever read",
        "message",
        {"type": "file", "external_id": "F1", "source": "remote"},
    ),
    r"unsupported type: file_input \[": (
        "files are asked for in modals only",
        "message",
        input_block(ELEMENTS["file_input"]),
    ),
    r"unsupported type: \w+ \[json-pointer:/(view/)?blocks/\d+/type\]": (
        "not on this surface",
        "modal",
        {"type": "markdown", "text": "# Hello"},
    ),
}
LAXER: dict[str, tuple[str, Surface, Json]] = {
    r"'(agent_prompt|agent_prompt_display|visible_to_user_ids)'": (
        "newer than the schema; slack_sdk has them",
        "message",
        _actions({**ELEMENTS["button"], "agent_prompt": "hello", "visible_to_user_ids": ["U123"]}),
    ),
    r"'(min_lines|max_lines)'": (
        "newer than the schema; docs.slack.dev has them",
        "modal",
        input_block(ELEMENTS["rich_text_input"], min_lines=2, max_lines=5),
    ),
}
VIEWS: dict[str, tuple[str, Json]] = {
    r"invalid additional property: submit_disabled": (
        "only for modals that configure a workflow's step",
        {"submit_disabled": True},
    ),
}
# What the checker says at the edge of a length or count while slack_sdk's models take it, and why
# they do. What they refuse the checker refuses as well, without exception.
UNSEEN: dict[str, str] = {
    r"^must be more than 0 characters": "the models look at no lower end of a text, but for "
    "whole text objects",
    r"^no fewer than 1 items": "nor of a list",
    r"^must be one of|^must match|^must be a|^initial options": "nor at the form of a value, nor "
    "at what is offered",
    r"^items must be unique": "nor at repetitions",
    r"^all table cells together|^no more than \d+ items .*/(rows|rows/0|column_settings)\]": (
        "nor into tables"
    ),
    r"^no more than (2|10) items .*/(options|actions|trigger_actions_on)\]": "nor how many "
    "options there are",
    r"^must be less than (76|151|3001) characters .*/options/\d+/": "options in an element are "
    "checked by no validator",
    r"^must be less than (76|2001|3001) characters .*/(elements|fields)/\d+/": "nor are texts in "
    "a list",
    r"^must be less than \d+ characters .*/(hero_image|alert|text|description|initial_value)": (
        "nor are these texts"
    ),
}
