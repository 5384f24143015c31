"""The gallery's elements, several of a kind where options differ."""

from __future__ import annotations

from sandbox.tests.blockkit.gallery.builders import Json, button, mrkdwn, option, plain, rich, words

SURE = {
    "title": plain("Pay back 40 EUR?"),
    "text": mrkdwn("The money leaves *at once*."),
    "confirm": plain("Pay back"),
    "deny": plain("Not yet"),
    "style": "danger",
}
COLOURS = [option("Red"), option("Green", about="like grass"), option("Blue")]
GROUPS = [
    {"label": plain("Warm"), "options": [option("Red"), option("Orange")]},
    {"label": plain("Cold"), "options": [option("Blue"), option("Green")]},
]
PICK = plain("Pick one")
ELEMENTS: dict[str, Json] = {
    "button": button("Approve", "approve"),
    "button primary with confirm": button("Approve", "approve", style="primary", confirm=SURE),
    "button danger": button(
        "Reject", "reject", style="danger", accessibility_label="Reject the refund of 40 EUR"
    ),
    "button link": {
        "type": "button",
        "text": plain("Open order"),
        "action_id": "open",
        "url": "https://shop.example/7",
    },
    "button for some": button("Approve", "approve", visible_to_user_ids=["UANA00001"]),
    "workflow_button": {
        "type": "workflow_button",
        "text": plain("Start the return"),
        "action_id": "start",
        "workflow": {"trigger": {"url": "https://slack.com/shortcuts/Ft0123/xyz"}},
    },
    "overflow": {
        "type": "overflow",
        "action_id": "more",
        "options": [option("Details"), option("Copy link")],
    },
    "overflow with links": {
        "type": "overflow",
        "action_id": "more",
        "options": [
            option("Details", about="opens a page", url="https://shop.example/7"),
            option("Mute"),
        ],
        "confirm": SURE,
    },
    "checkboxes": {
        "type": "checkboxes",
        "action_id": "colours",
        "options": [
            {"text": mrkdwn("*Red*"), "value": "red", "description": mrkdwn("like _fire_")},
            *COLOURS[1:],
        ],
        "initial_options": [COLOURS[2]],
    },
    "radio_buttons": {
        "type": "radio_buttons",
        "action_id": "colour",
        "options": COLOURS,
        "initial_option": COLOURS[1],
    },
    "static_select": {
        "type": "static_select",
        "action_id": "colour",
        "placeholder": PICK,
        "options": COLOURS,
    },
    "static_select grouped": {
        "type": "static_select",
        "action_id": "colour",
        "option_groups": GROUPS,
        "initial_option": option("Blue"),
        "confirm": SURE,
    },
    "multi_static_select": {
        "type": "multi_static_select",
        "action_id": "colours",
        "placeholder": plain("Pick up to two"),
        "options": COLOURS,
        "initial_options": COLOURS[:1],
        "max_selected_items": 2,
    },
    "multi_static_select grouped": {
        "type": "multi_static_select",
        "action_id": "colours",
        "option_groups": GROUPS,
    },
    "external_select": {
        "type": "external_select",
        "action_id": "order",
        "placeholder": plain("Search orders"),
        "min_query_length": 2,
    },
    "external_select with initial": {
        "type": "external_select",
        "action_id": "order",
        "initial_option": option("Order 7", "7"),
    },
    "multi_external_select": {
        "type": "multi_external_select",
        "action_id": "orders",
        "placeholder": plain("Search orders"),
        "initial_options": [option("Order 7", "7"), option("Order 8", "8")],
    },
    "users_select": {
        "type": "users_select",
        "action_id": "who",
        "placeholder": plain("Pick a person"),
    },
    "users_select with initial": {
        "type": "users_select",
        "action_id": "who",
        "initial_user": "UANA00001",
    },
    "multi_users_select": {
        "type": "multi_users_select",
        "action_id": "who",
        "initial_users": ["UANA00001", "UBEN00001"],
        "max_selected_items": 3,
    },
    "conversations_select": {
        "type": "conversations_select",
        "action_id": "where",
        "placeholder": plain("Pick a conversation"),
        "filter": {"include": ["public", "private"], "exclude_bot_users": True},
    },
    "conversations_select current": {
        "type": "conversations_select",
        "action_id": "where",
        "default_to_current_conversation": True,
    },
    "multi_conversations_select": {
        "type": "multi_conversations_select",
        "action_id": "where",
        "initial_conversations": ["C0SUPPORT"],
        "filter": {"exclude_external_shared_channels": True},
    },
    "channels_select": {
        "type": "channels_select",
        "action_id": "where",
        "initial_channel": "C0SUPPORT",
    },
    "multi_channels_select": {
        "type": "multi_channels_select",
        "action_id": "where",
        "placeholder": plain("Channels"),
    },
    "datepicker": {"type": "datepicker", "action_id": "day", "placeholder": plain("Pick a day")},
    "datepicker with initial": {
        "type": "datepicker",
        "action_id": "day",
        "initial_date": "2026-02-28",
    },
    "timepicker": {"type": "timepicker", "action_id": "time", "placeholder": plain("Pick a time")},
    "timepicker with zone": {
        "type": "timepicker",
        "action_id": "time",
        "initial_time": "13:30",
        "timezone": "Europe/Berlin",
    },
}
ONLY_ACTIONS: dict[str, Json] = {
    "datetimepicker": {"type": "datetimepicker", "action_id": "when"},
    "datetimepicker with initial": {
        "type": "datetimepicker",
        "action_id": "when",
        "initial_date_time": 1772280000,
    },
}
_ON_ENTER = {"trigger_actions_on": ["on_enter_pressed", "on_character_entered"]}
INPUTS: dict[str, Json] = {
    "plain_text_input": {
        "type": "plain_text_input",
        "action_id": "text",
        "placeholder": plain("Say why"),
    },
    "plain_text_input multiline": {
        "type": "plain_text_input",
        "action_id": "text",
        "multiline": True,
        "initial_value": "first line\nsecond line",
        "min_length": 5,
        "max_length": 200,
        "focus_on_load": True,
    },
    "plain_text_input dispatching": {
        "type": "plain_text_input",
        "action_id": "text",
        "dispatch_action_config": _ON_ENTER,
    },
    "email_text_input": {
        "type": "email_text_input",
        "action_id": "mail",
        "initial_value": "ana@shop.example",
    },
    "url_text_input": {
        "type": "url_text_input",
        "action_id": "link",
        "placeholder": plain("https://…"),
    },
    "number_input": {
        "type": "number_input",
        "action_id": "count",
        "is_decimal_allowed": False,
        "min_value": "1",
    },
    "number_input decimal": {
        "type": "number_input",
        "action_id": "amount",
        "is_decimal_allowed": True,
        "initial_value": "39.90",
        "min_value": "-5",
        "max_value": "100.50",
    },
    "rich_text_input": {
        "type": "rich_text_input",
        "action_id": "story",
        "initial_value": rich(words("very ", "italic"), words("good", "bold")),
    },
    "rich_text_input empty": {
        "type": "rich_text_input",
        "action_id": "story",
        "placeholder": plain("Write"),
    },
    "file_input": {
        "type": "file_input",
        "action_id": "proof",
        "filetypes": ["png", "pdf"],
        "max_files": 3,
    },
}
CONTEXT_ACTIONS: dict[str, Json] = {
    "feedback_buttons": {
        "type": "feedback_buttons",
        "action_id": "feedback",
        "positive_button": {
            "text": plain("Good"),
            "value": "good",
            "accessibility_label": "A good answer",
        },
        "negative_button": {"text": plain("Bad"), "value": "bad"},
    },
    "icon_button": {
        "type": "icon_button",
        "icon": "trash",
        "text": plain("Delete"),
        "action_id": "delete",
        "confirm": SURE,
    },
    "icon_button for some": {
        "type": "icon_button",
        "icon": "trash",
        "text": plain("Delete"),
        "action_id": "delete",
        "visible_to_user_ids": ["UANA00001"],
    },
}
