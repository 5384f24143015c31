"""Sound Block Kit blocks and elements with every field filled in.

The tests break them in every place.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def plain(words: str = "hello") -> Json:
    """A plain_text object."""
    return {"type": "plain_text", "text": words, "emoji": False}


def mrkdwn(words: str = "*hello*") -> Json:
    """A mrkdwn object."""
    return {"type": "mrkdwn", "text": words, "verbatim": True}


URL = "https://shop.example/a"
CONFIRM = {
    "title": plain("Sure?"),
    "text": mrkdwn(),
    "confirm": plain("Yes"),
    "deny": plain("No"),
    "style": "danger",
}
OPTION = {"text": plain("One"), "value": "1", "description": plain("first")}
OTHER = {"text": plain("Two"), "value": "2"}
STYLE = {"bold": True, "code": False}
LEAVES: list[Json] = [
    {"type": "text", "text": "hello", "style": STYLE},
    {"type": "link", "url": URL, "text": "there", "unsafe": False, "style": STYLE},
    {"type": "user", "user_id": "U123", "style": STYLE},
    {"type": "usergroup", "usergroup_id": "S123", "style": STYLE},
    {"type": "channel", "channel_id": "C123", "style": STYLE},
    {"type": "team", "team_id": "T123", "style": STYLE},
    {"type": "emoji", "name": "wave", "skin_tone": 2, "unicode": "1f44b", "style": STYLE},
    {"type": "broadcast", "range": "here", "style": STYLE},
    {"type": "color", "value": "#1f2937", "style": STYLE},
    {
        "type": "date",
        "timestamp": 1720710212,
        "format": "{date}",
        "url": URL,
        "fallback": "July",
        "style": STYLE,
    },
]
SECTION = {"type": "rich_text_section", "elements": [{"type": "text", "text": "hello"}]}
RICH: Json = {
    "type": "rich_text",
    "block_id": "rich",
    "elements": [
        {"type": "rich_text_section", "elements": LEAVES[:1]},
        {
            "type": "rich_text_list",
            "style": "bullet",
            "indent": 1,
            "offset": 0,
            "border": 1,
            "elements": [SECTION],
        },
        {
            "type": "rich_text_preformatted",
            "elements": LEAVES[:1],
            "border": 0,
            "language": "python",
        },
        {"type": "rich_text_quote", "elements": LEAVES[:1], "border": 1},
    ],
}
SHORT_RICH = {"type": "rich_text", "elements": [SECTION]}
DISPATCH = {"trigger_actions_on": ["on_enter_pressed"]}
ASK = {"action_id": "a", "focus_on_load": True}
PICK = {**ASK, "confirm": CONFIRM, "placeholder": plain("pick")}
MANY = {**PICK, "max_selected_items": 2}
TYPE = {**ASK, "placeholder": plain("type"), "dispatch_action_config": DISPATCH}
FILTER = {
    "include": ["public"],
    "exclude_external_shared_channels": True,
    "exclude_bot_users": True,
}
FEEDBACK = {"text": plain("Good"), "value": "good", "accessibility_label": "good answer"}
GROUPS = [{"label": plain("All"), "options": [OPTION, OTHER]}]
BUTTON = {"type": "button", "text": plain("Approve")}
IMAGE = {"type": "image", "image_url": URL, "alt_text": "a cat"}

ELEMENTS: dict[str, Json] = {
    "button": {
        **BUTTON,
        "action_id": "a",
        "url": URL,
        "value": "v",
        "style": "primary",
        "confirm": CONFIRM,
        "accessibility_label": "approve",
    },
    "workflow_button": {
        "text": plain("Run"),
        "workflow": {
            "trigger": {"url": URL, "customizable_input_parameters": [{"name": "a", "value": "b"}]}
        },
        "action_id": "a",
        "style": "danger",
        "accessibility_label": "run",
    },
    "icon_button": {
        "icon": "trash",
        "text": plain("Delete"),
        "action_id": "a",
        "value": "v",
        "confirm": CONFIRM,
        "accessibility_label": "delete",
        "visible_to_user_ids": ["U123"],
    },
    "feedback_buttons": {
        "positive_button": FEEDBACK,
        "negative_button": FEEDBACK,
        "action_id": "a",
    },
    "overflow": {"options": [{**OPTION, "url": URL}], "action_id": "a", "confirm": CONFIRM},
    "checkboxes": {
        "options": [OPTION, OTHER],
        "initial_options": [OPTION],
        **ASK,
        "confirm": CONFIRM,
    },
    "radio_buttons": {
        "options": [OPTION, OTHER],
        "initial_option": OTHER,
        **ASK,
        "confirm": CONFIRM,
    },
    "static_select": {"options": [OPTION, OTHER], "initial_option": OPTION, **PICK},
    "multi_static_select": {"option_groups": GROUPS, "initial_options": [OPTION], **MANY},
    "external_select": {"initial_option": OPTION, "min_query_length": 3, **PICK},
    "multi_external_select": {"initial_options": [OPTION], "min_query_length": 3, **MANY},
    "users_select": {"initial_user": "U123", **PICK},
    "multi_users_select": {"initial_users": ["U123"], **MANY},
    "conversations_select": {
        "initial_conversation": "C123",
        "default_to_current_conversation": True,
        "response_url_enabled": False,
        "filter": FILTER,
        **PICK,
    },
    "multi_conversations_select": {
        "initial_conversations": ["C123"],
        "default_to_current_conversation": True,
        "filter": FILTER,
        **MANY,
    },
    "channels_select": {"initial_channel": "C123", "response_url_enabled": False, **PICK},
    "multi_channels_select": {"initial_channels": ["C123"], **MANY},
    "datepicker": {"initial_date": "2026-02-28", **PICK},
    "timepicker": {"initial_time": "23:59", "timezone": "Europe/Berlin", **PICK},
    "datetimepicker": {"initial_date_time": 1720710212, **ASK, "confirm": CONFIRM},
    "plain_text_input": {
        "initial_value": "v",
        "multiline": True,
        "min_length": 1,
        "max_length": 3000,
        **TYPE,
    },
    "email_text_input": {"initial_value": "a@b.example", **TYPE},
    "url_text_input": {"initial_value": URL, **TYPE},
    "number_input": {
        "is_decimal_allowed": True,
        "initial_value": "1.5",
        "min_value": "-1",
        "max_value": "20",
        **TYPE,
    },
    "rich_text_input": {"initial_value": SHORT_RICH, **TYPE},
    "file_input": {"action_id": "a", "filetypes": ["png"], "max_files": 3},
    "image": IMAGE,
    "url": {"url": URL, "text": "source"},
}
for _name, _sample in ELEMENTS.items():
    _sample["type"] = _name

CELLS: list[Json] = [
    {"type": "raw_text", "text": "a"},
    {"type": "rich_text", "elements": [SECTION]},
]
TASK: Json = {
    "type": "task_card",
    "task_id": "t1",
    "title": "Look up",
    "status": "complete",
    "details": SHORT_RICH,
    "output": SHORT_RICH,
    "sources": [ELEMENTS["url"]],
}
CARD: Json = {
    "hero_image": IMAGE,
    "icon": IMAGE,
    "title": mrkdwn(),
    "subtitle": plain(),
    "body": mrkdwn(),
    "actions": [BUTTON],
}
SERIES = [{"name": "EUR", "data": [{"label": "May", "value": 1.5}]}]
BLOCKS: dict[str, Json] = {
    "section": {"text": mrkdwn(), "fields": [plain()], "accessory": BUTTON, "expand": True},
    "header": {"text": plain("Head"), "level": 2},
    "divider": {},
    "image": {"alt_text": "a cat", "slack_file": {"id": "F123"}, "title": plain("cat")},
    "context": {"elements": [mrkdwn(), plain(), IMAGE]},
    "actions": {"elements": [BUTTON]},
    "context_actions": {
        "elements": [{"type": "icon_button", "icon": "trash", "text": plain("Delete")}]
    },
    "input": {
        "label": plain("Amount"),
        "element": {"type": "plain_text_input"},
        "hint": plain("in EUR"),
        "optional": True,
        "dispatch_action": True,
    },
    "rich_text": RICH,
    "markdown": {"text": "# hello"},
    "table": {"rows": [CELLS], "column_settings": [{"align": "right", "is_wrapped": True}, None]},
    "data_table": {
        "caption": "Orders",
        "rows": [CELLS[:1], [{"type": "raw_number", "value": 3, "text": "three"}]],
        "page_size": 5,
        "row_header_column_index": 0,
    },
    "data_visualization": {
        "title": "Refunds",
        "chart": {
            "type": "bar",
            "series": SERIES,
            "axis_config": {"categories": ["May"], "x_label": "month", "y_label": "EUR"},
        },
    },
    "task_card": TASK,
    "plan": {"title": "Plan", "tasks": [{"task_id": "t1", "title": "Look up"}]},
    "alert": {"text": plain("Careful"), "level": "warning"},
    "card": CARD,
    "carousel": {"elements": [{"type": "card", "body": plain()}]},
    "container": {
        "child_blocks": [{"type": "divider"}],
        "title": plain(),
        "subtitle": plain(),
        "icon": IMAGE,
        "width": "wide",
        "is_collapsible": True,
        "default_collapsed": True,
    },
    "video": {
        "alt_text": "a film",
        "title": plain("Film"),
        "thumbnail_url": URL,
        "video_url": URL,
        "author_name": "Ana",
        "description": plain(),
        "provider_icon_url": URL,
        "provider_name": "Films",
        "title_url": URL,
    },
}
BLOCKS["auth_provider"] = {
    "value": "shop",
    "name": plain("Shop"),
    "is_connected": True,
    "description": plain(),
    "icon_url": URL,
    "auth_url": URL,
    "disconnect_url": URL,
    "connected_identity": plain("ana"),
    "connected_context": plain("Shop Ltd"),
    "accessory": ELEMENTS["overflow"],
    "fallback": [{"type": "divider"}],
}
for _name, _sample in BLOCKS.items():
    _sample.update(type=_name, block_id="b")

LEAF_BLOCKS: list[Json] = [
    {"type": "rich_text", "elements": [{**SECTION, "elements": [leaf]}]} for leaf in LEAVES
]
PIE: Json = {"type": "pie", "segments": [{"label": "A", "value": 1}]}
SURFACE_OF = {"alert": "modal"}  # all others fit a message
