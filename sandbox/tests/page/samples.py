"""Blocks and views for the page's tests: one of each kind, short."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def plain(text: str) -> Json:
    """A plain_text object with emoji off."""
    return {"type": "plain_text", "text": text, "emoji": False}


def mrkdwn(text: str) -> Json:
    """A mrkdwn object."""
    return {"type": "mrkdwn", "text": text}


def button(text: str, action_id: str, **more: Any) -> Json:
    """A button with the value "v"."""
    return {"type": "button", "text": plain(text), "action_id": action_id, "value": "v"} | more


def actions(*elements: Json, block_id: str = "acts") -> Json:
    """An actions block."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def run(text: str, **style: bool) -> Json:
    """A rich text leaf."""
    return {"type": "text", "text": text} | ({"style": style} if style else {})


def rich(*leaves: Json) -> Json:
    """A rich_text block of one section."""
    return {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": list(leaves)}],
    }


def field(block_id: str, element: Json, **more: Any) -> Json:
    """An input block; its label is the block's id."""
    return {
        "type": "input",
        "block_id": block_id,
        "label": plain(block_id),
        "element": {"action_id": "v"} | element,
    } | more


def options(*values: str) -> list[Json]:
    """Options whose text is their value in capitals."""
    return [{"text": plain(value.upper()), "value": value} for value in values]


def modal(*blocks: Json, title: str = "Edit") -> Json:
    """A modal with a submit button."""
    view = {"type": "modal", "callback_id": "edit", "title": plain(title), "submit": plain("Save")}
    return view | {"blocks": list(blocks)}


CONFIRM: Json = {
    "title": plain("Sure?"),
    "text": plain("It cannot be taken back."),
    "confirm": plain("Do it"),
    "deny": plain("No"),
}
CARD: list[Json] = [
    {"type": "header", "text": plain("Refund an order")},
    {
        "type": "section",
        "text": mrkdwn("*40.00 EUR* of order `1042`"),
        "fields": [plain("one field"), mrkdwn("_two_")],
    },
    {"type": "divider"},
    {"type": "context", "elements": [mrkdwn("Asked by <@UBEN00001>, for <!subteam^S0LEADS>")]},
    actions(
        button("Approve", "approve", style="primary"),
        button("Reject", "reject", style="danger", confirm=CONFIRM),
    ),
]
EVERY_INPUT: list[Json] = [
    field("line", {"type": "plain_text_input", "initial_value": "old"}),
    field("lines", {"type": "plain_text_input", "multiline": True}),
    field(
        "number",
        {
            "type": "number_input",
            "is_decimal_allowed": True,
            "min_value": "0.01",
            "max_value": "400",
        },
    ),
    field("ticks", {"type": "checkboxes", "options": options("a", "b", "c")}),
    field("radio", {"type": "radio_buttons", "options": options("x", "y")}),
    field("menu", {"type": "static_select", "options": options("m", "n")}),
    field("many", {"type": "multi_static_select", "options": options("p", "q", "r")}),
    field("day", {"type": "datepicker"}),
    field("moment", {"type": "datetimepicker"}),
    field("hour", {"type": "timepicker"}),
    field("mail", {"type": "email_text_input"}),
    field("site", {"type": "url_text_input"}),
    field("left", {"type": "plain_text_input"}, optional=True),
]
