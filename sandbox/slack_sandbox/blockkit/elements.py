"""Every Block Kit element, as a table. Pure: no I/O, no state.

`ELEMENTS` says what each element may hold; the tuples below it say which block takes which element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from slack_sandbox.blockkit.objects import (
    CHANNEL,
    CHOICE,
    CONFIRM,
    DISPATCH,
    FILTER,
    ID,
    LINK,
    OPTION,
    OPTION_GROUP,
    OVERFLOW_OPTION,
    PEOPLE,
    PLACEHOLDER,
    RICH_TEXT_OBJECT,
    SHORT_LINK,
    SLACK_FILE,
    STYLE,
    USER,
    Check,
    anything,
    array,
    exactly_one,
    flag,
    number,
    one_of,
    plain,
    problem,
    record,
    text,
    union,
)

# Formats of single values.


def _calendar_date(value: Any, at: str) -> Iterator[str]:
    found = list(
        text(form=r"[0-9]{4}-[0-9]{2}-[0-9]{2}", says="must be a date in the format YYYY-MM-DD")(
            value, at
        )
    )
    yield from found
    if not found:
        try:
            date.fromisoformat(value)
        except ValueError:
            yield problem("must be a date that exists", at)


TIME_OF_DAY = text(form="([01][0-9]|2[0-3]):[0-5][0-9]", says="must be a time in the format HH:mm")


def _timezone(value: Any, at: str) -> Iterator[str]:
    """Check for an IANA time zone (Europe/Berlin); any text if this machine knows no zones."""
    found = list(text()(value, at))
    known = _zones()
    yield from found or (
        [problem("must be a valid IANA timezone", at)] if known and value not in known else []
    )


@cache
def _zones() -> set[str]:
    return available_timezones()


UNIX_SECONDS = number(1_000_000_000, 9_999_999_999)  # ten digits
NUMERAL = text(form=r"-?[0-9]+(\.[0-9]+)?", says="must be a number in a string")

# Rules between the fields of one element.


def _bounds_in_order(value: Mapping[str, Any]) -> str | None:
    fine = value.get("min_length", 0) <= value.get("max_length", 3000)
    return None if fine else "min_length must not exceed max_length"


def _numbers_agree(value: Mapping[str, Any]) -> str | None:
    given = {
        name: Decimal(value[name])
        for name in ("min_value", "initial_value", "max_value")
        if name in value
    }
    if not value["is_decimal_allowed"] and any("." in value[name] for name in given):
        return "decimals are not allowed"
    ordered = list(given.values())
    return None if ordered == sorted(ordered) else f"{' <= '.join(given)} does not hold"


def _spelled_out(option: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option with Slack's defaults in its texts: `emoji`, `verbatim`."""
    usual = {"plain_text": {"emoji": True}, "mrkdwn": {"verbatim": False}}
    return {
        name: usual[each["type"]] | each if isinstance(each, dict) else each
        for name, each in option.items()
    }


def _initial_is_offered(value: Mapping[str, Any]) -> str | None:
    offered = [
        *value.get("options", ()),
        *(o for group in value.get("option_groups", ()) for o in group["options"]),
    ]
    chosen = [
        *value.get("initial_options", ()),
        *([value["initial_option"]] if "initial_option" in value else ()),
    ]
    known = [_spelled_out(each) for each in offered]
    fine = all(_spelled_out(each) in known for each in chosen)
    return None if fine else "initial options must match the options offered"


def _lines_in_order(value: Mapping[str, Any]) -> str | None:
    fine = value.get("min_lines", 1) <= value.get("max_lines", value.get("min_lines", 1))
    return None if fine else "min_lines must not exceed max_lines"


# Elements: first what they share, then one line each.

_ACTION = {"action_id": ID}
_ASK = {**_ACTION, "confirm": CONFIRM, "focus_on_load": flag}
_PICK = {**_ASK, "placeholder": PLACEHOLDER}
_MANY = {**_PICK, "max_selected_items": number(1)}
_TYPE = {
    **_ACTION,
    "focus_on_load": flag,
    "placeholder": PLACEHOLDER,
    "dispatch_action_config": DISPATCH,
}
_LISTS = {"options": array(OPTION, 100), "option_groups": array(OPTION_GROUP, 100)}
_EITHER_LIST = (exactly_one("options", "option_groups"), _initial_is_offered)
_CHANNELS = {"response_url_enabled": flag}
_LOOKUP = {"min_query_length": number(0)}
_PLACES = {"default_to_current_conversation": flag, "filter": FILTER}
_BUTTON = {**_ACTION, "accessibility_label": text(75)}
_PROMPT = {
    "agent_prompt": text(4000),
    "agent_prompt_display": text(),
    "visible_to_user_ids": PEOPLE,
}
_FEEDBACK = record({"text": plain(75), "value": text(2000)}, {"accessibility_label": text(75)})
_TRIGGER = record(
    {"url": LINK},
    {"customizable_input_parameters": array(record({"name": text(), "value": anything}), low=0)},
)

ELEMENTS: dict[str, Check] = {
    "button": record(
        {"text": plain(75)},
        {
            **_BUTTON,
            "url": SHORT_LINK,
            "value": text(2000),
            "style": STYLE,
            "confirm": CONFIRM,
            **_PROMPT,
        },
    ),
    "workflow_button": record(
        {"text": plain(75), "workflow": record({"trigger": _TRIGGER}), "action_id": ID},
        {**_BUTTON, "style": STYLE},
    ),
    "icon_button": record(
        {"icon": one_of("trash"), "text": plain(75)},
        {**_BUTTON, "value": text(2000), "confirm": CONFIRM, "visible_to_user_ids": PEOPLE},
    ),
    "feedback_buttons": record(
        {"positive_button": _FEEDBACK, "negative_button": _FEEDBACK}, _ACTION
    ),
    "overflow": record({"options": array(OVERFLOW_OPTION, 5)}, {**_ACTION, "confirm": CONFIRM}),
    "checkboxes": record(
        {"options": array(CHOICE, 10)},
        {**_ASK, "initial_options": array(CHOICE)},
        _initial_is_offered,
    ),
    "radio_buttons": record(
        {"options": array(CHOICE, 10)}, {**_ASK, "initial_option": CHOICE}, _initial_is_offered
    ),
    "static_select": record({}, {**_PICK, **_LISTS, "initial_option": OPTION}, *_EITHER_LIST),
    "multi_static_select": record(
        {}, {**_MANY, **_LISTS, "initial_options": array(OPTION)}, *_EITHER_LIST
    ),
    "external_select": record({}, {**_PICK, **_LOOKUP, "initial_option": OPTION}),
    "multi_external_select": record({}, {**_MANY, **_LOOKUP, "initial_options": array(OPTION)}),
    "users_select": record({}, {**_PICK, "initial_user": text(form=USER)}),
    "multi_users_select": record({}, {**_MANY, "initial_users": array(text(form=USER))}),
    "conversations_select": record(
        {}, {**_PICK, **_PLACES, **_CHANNELS, "initial_conversation": text()}
    ),
    "multi_conversations_select": record(
        {}, {**_MANY, **_PLACES, "initial_conversations": array(text())}
    ),
    "channels_select": record({}, {**_PICK, **_CHANNELS, "initial_channel": text(form=CHANNEL)}),
    "multi_channels_select": record({}, {**_MANY, "initial_channels": array(text(form=CHANNEL))}),
    "datepicker": record({}, {**_PICK, "initial_date": _calendar_date}),
    "timepicker": record({}, {**_PICK, "initial_time": TIME_OF_DAY, "timezone": _timezone}),
    "datetimepicker": record({}, {**_ASK, "initial_date_time": UNIX_SECONDS}),
    "plain_text_input": record(
        {},
        {
            **_TYPE,
            "initial_value": text(3000, low=0),
            "multiline": flag,
            "min_length": number(0, 3000),
            "max_length": number(1, 3000),
        },
        _bounds_in_order,
    ),
    "email_text_input": record({}, {**_TYPE, "initial_value": text(low=0)}),
    "url_text_input": record({}, {**_TYPE, "initial_value": text(low=0)}),
    "number_input": record(
        {"is_decimal_allowed": flag},
        {**_TYPE, "initial_value": NUMERAL, "min_value": NUMERAL, "max_value": NUMERAL},
        _numbers_agree,
    ),
    "rich_text_input": record(
        {"action_id": ID},
        {
            **_TYPE,
            "initial_value": RICH_TEXT_OBJECT,
            "min_lines": number(1),
            "max_lines": number(1),
        },
        _lines_in_order,
    ),
    "file_input": record({}, {**_ACTION, "filetypes": array(text()), "max_files": number(1, 10)}),
    "image": record(
        {"alt_text": text(2000)},
        {"image_url": SHORT_LINK, "slack_file": SLACK_FILE},
        exactly_one("image_url", "slack_file"),
    ),
    "url": record({"url": LINK, "text": text()}),  # one source of a task_card
}

_SELECTS = tuple(name for name in ELEMENTS if name.endswith("_select"))
_BOTH = ("checkboxes", "radio_buttons", "datepicker", "timepicker", *_SELECTS)
IN_ACTIONS = ("button", "workflow_button", "overflow", "datetimepicker", *_BOTH)
# Slack's docs leave out datetimepicker
IN_SECTION = ("button", "workflow_button", "overflow", "image", *_BOTH)
IN_INPUT = (*(n for n in ELEMENTS if n.endswith("_input")), "datetimepicker", *_BOTH)
IN_CONTEXT_ACTIONS = ("feedback_buttons", "icon_button")


def element(*names: str) -> Check:
    """One element of these types."""
    return union({name: ELEMENTS[name] for name in names})
