"""Inputs as Slack's own client treats them: their state, and the checks before it submits.

Pure functions over blocks and element states.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from slack_sandbox.blockkit.text import elements_of, every_block
from slack_sandbox.spec.slack_error import Json

# element type -> (key of its value in a state, key of the initial value, value if empty)
FIELDS: dict[str, tuple[str, str, Any]] = {
    "plain_text_input": ("value", "initial_value", None),
    "email_text_input": ("value", "initial_value", None),
    "url_text_input": ("value", "initial_value", None),
    "number_input": ("value", "initial_value", None),
    "rich_text_input": ("rich_text_value", "initial_value", None),
    "static_select": ("selected_option", "initial_option", None),
    "external_select": ("selected_option", "initial_option", None),
    "radio_buttons": ("selected_option", "initial_option", None),
    "checkboxes": ("selected_options", "initial_options", []),
    "multi_static_select": ("selected_options", "initial_options", []),
    "multi_external_select": ("selected_options", "initial_options", []),
    "users_select": ("selected_user", "initial_user", None),
    "multi_users_select": ("selected_users", "initial_users", []),
    "conversations_select": ("selected_conversation", "initial_conversation", None),
    "multi_conversations_select": ("selected_conversations", "initial_conversations", []),
    "channels_select": ("selected_channel", "initial_channel", None),
    "multi_channels_select": ("selected_channels", "initial_channels", []),
    "datepicker": ("selected_date", "initial_date", None),
    "timepicker": ("selected_time", "initial_time", None),
    "datetimepicker": ("selected_date_time", "initial_date_time", None),
    "file_input": ("files", "", []),
}
Start = Callable[[Json], Json | None]
REQUIRED = "Please complete this required field."


def initial(element: Json) -> Json | None:
    """The state of an untouched element; None for one that has none, such as a button."""
    if element.get("type") not in FIELDS:
        return None
    key, source, nothing = FIELDS[element["type"]]
    return {"type": element["type"], key: element.get(source, nothing)}


def states(blocks: list[Json], before: Json | None = None, start: Start | None = None) -> Json:
    """Return the states of all elements; the state in `before` is kept if the element is the same.

    It is the same if its block, action and type are. `start` may return another first state of an
    element than its initial value; None means the initial value.
    """
    values: Json = {}
    for block in every_block(blocks):
        for element in elements_of(block):
            first = initial(element)
            if first is None:
                continue
            block_id, action_id = block["block_id"], element["action_id"]
            kept = (before or {}).get(block_id, {}).get(action_id)
            if kept is None or kept["type"] != element["type"]:
                kept = (start and start(element)) or first
            values.setdefault(block_id, {})[action_id] = kept
    return values


def dispatches(block: Json) -> bool:
    """Return whether the app is notified of an element's use; in an input block, only on demand."""
    return block["type"] != "input" or bool(block.get("dispatch_action"))


def triggers(element: Json) -> list[str]:
    """Return what makes a text input dispatch: on_enter_pressed, on_character_entered, or both."""
    config: Json = element.get("dispatch_action_config", {})
    return list(config.get("trigger_actions_on", ["on_enter_pressed"]))


def merge(values: Json, changes: Json) -> Json:
    """Return `values` with those states in place; ValueError for an unknown block or action."""
    merged: Json = {block: dict(actions) for block, actions in values.items()}
    for block_id, actions in changes.items():
        for action_id, state in actions.items():
            if action_id not in merged.get(block_id, {}):
                raise ValueError(f"the view has no input {block_id}/{action_id}; it has {merged}")
            kept = merged[block_id][action_id]
            merged[block_id][action_id] = {"type": kept["type"], **state}
    return merged


def _text_problem(element: Json, value: str) -> str:
    kind = element["type"]
    if len(value) < element.get("min_length", 0):
        return f"Please enter at least {element['min_length']} characters."
    if len(value) > element.get("max_length", 3000):
        return f"Please enter at most {element.get('max_length', 3000)} characters."
    if kind == "email_text_input" and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", value):
        return "Please enter a valid email address."
    if kind == "url_text_input" and not re.fullmatch(r"https?://\S+", value):
        return "Please enter a valid URL."
    return _number_problem(element, value) if kind == "number_input" else ""


def _number_problem(element: Json, value: str) -> str:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return "Please enter a number."
    if not number.is_finite():
        return "Please enter a number."
    if not element.get("is_decimal_allowed") and number != number.to_integral_value():
        return "Please enter a whole number."
    if "min_value" in element and number < Decimal(str(element["min_value"])):
        return f"Please enter a number of at least {element['min_value']}."
    if "max_value" in element and number > Decimal(str(element["max_value"])):
        return f"Please enter a number of at most {element['max_value']}."
    return ""


def problems(blocks: list[Json], values: Json) -> dict[str, str]:
    """Return what Slack's client would not submit: block_id -> its sentence about that."""
    found: dict[str, str] = {}
    for block in every_block(blocks):
        if block.get("type") != "input":
            continue
        element = block["element"]
        state = values.get(block["block_id"], {}).get(element["action_id"], {})
        value = state.get(FIELDS[element["type"]][0]) if element["type"] in FIELDS else None
        if value in (None, "", []):
            if not block.get("optional"):
                found[block["block_id"]] = REQUIRED
        elif isinstance(value, str) and (problem := _text_problem(element, value)):
            found[block["block_id"]] = problem
    return found
