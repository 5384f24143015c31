"""The layout of a form: one place for each value of the arguments, and reading what was entered.

Pure. The same arguments give the same layout: a submitted form is read by the one that was shown.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.cards import field_inputs, slack_text
from bot.cards.action_names import ARGUMENT_BLOCK_ID_PREFIX, InputElementId
from bot.cards.block_kit import build_input_block, mrkdwn, plain_text, plain_text_section_block
from bot.cards.call_pieces import MASKED_SUFFIX, PARTLY_MASKED_SUFFIX
from bot.cards.field_slots import (
    FieldSlot,
    SlotKind,
    SlotSentinel,
    build_slots,
    get_value_at_keys,
    set_nested_value,
)
from bot.cards.field_values import describe_default, format_json_value, format_slot_value, list_ids
from bot.tools import Tool
from bot.tools.declared_values import validate_json
from bot.tools.invisible_characters import list_hidden_characters

MAX_LINE_CHARS = 80  # a longer text gets an input with several lines
MAX_LINE_CAPACITY = 150  # the same for a field that accepts more characters than this
# a value that cannot be edited is shown whole up to this length, in characters as Slack counts
MAX_SHOWN_CHARS = 12_000
_MAX_CHUNK_CHARS = 2_800


def render_field_input(field_input: field_inputs.FieldInput) -> dict[str, Any]:
    """Build the block of an input, with its label and hint."""
    return build_input_block(
        field_input.slot.block_id,
        slack_text.shorten_text(slack_text.show_hidden_characters(field_input.slot.label), 200),
        _build_input_element(field_input),
        optional=field_input.may_be_empty,
        hint=slack_text.shorten_text(build_input_hint(field_input), 1000),
    )


def render_uneditable_value(slot: FieldSlot, value: Any) -> list[dict[str, Any]]:
    """Build text for a value that cannot be edited: all of it, or its length if it is enormous."""
    secret = (
        MASKED_SUFFIX
        if () in slot.hidden_paths
        else PARTLY_MASKED_SUFFIX
        if slot.hidden_paths
        else ""
    )
    label = slack_text.shorten_text(slack_text.show_hidden_characters(slot.label), 150) + secret
    text = format_slot_value(slot, value)
    if slack_text.count_slack_characters(text) > MAX_SHOWN_CHARS:
        return [
            plain_text_section_block(
                f"{label} (fixed)\nToo long to show here: {len(text):,} characters."
            )
        ]
    parts = slack_text.split_into_chunks(text, _MAX_CHUNK_CHARS)
    if 0 < len(ids := list_ids(slot, value)) <= 100:  # as many fit in one section
        shown = f"{slack_text.escape_mrkdwn(label)} (fixed)\n{slack_text.join_mentions(ids)}"
        return [{"type": "section", "text": mrkdwn(shown)}]
    if len(parts) == 1:
        return [plain_text_section_block(f"{label} (fixed)\n{text}")]
    return [
        plain_text_section_block(f"{label} (fixed; part {number} of {len(parts)})\n{part}")
        for number, part in enumerate(parts, start=1)
    ]


def _build_input_element(field: field_inputs.FieldInput) -> dict[str, Any]:
    element: dict[str, Any] = {"type": field.widget, "action_id": InputElementId.VALUE}
    if field.widget in ("radio_buttons", "static_select"):
        options = [
            {"text": plain_text(slack_text.shorten_text(text, 75)), "value": code}
            for code, text, _ in field.options
        ]
        element["options"] = options
        chosen = [option for option in options if option["value"] == field.initial_entry]
        return {**element, "initial_option": chosen[0]} if chosen else element
    initial: Any = field.initial_entry
    if field.widget.endswith("conversations_select"):
        element["filter"] = {"include": ["public", "private"]}
    if field.widget.startswith("multi_"):
        initial = initial and initial.split("\n")
        most = field.slot.schema.get("maxItems", 0)
        if most and most >= len(initial or ()):
            element["max_selected_items"] = most
    if initial is not None:
        chosen_as = field_inputs.STATE_KEY_BY_WIDGET.get(field.widget, "selected_value")
        element[chosen_as.replace("selected", "initial", 1)] = initial
    if field.widget == "number_input":
        return {
            **element,
            "is_decimal_allowed": field.kind is not SlotKind.INTEGER,
            **_list_number_bounds(field),
        }
    if field.widget == field_inputs.TEXT_INPUT:
        return {**element, "multiline": _is_multiline(field), **_list_length_limits(field)}
    return element


def _is_multiline(field: field_inputs.FieldInput) -> bool:
    if field.kind in (SlotKind.LINES, SlotKind.JSON):
        return True
    text = str(field.initial_entry or "")
    most = field.slot.schema.get("maxLength", 0) if field.kind is SlotKind.TEXT else 0
    return most > MAX_LINE_CAPACITY or len(text) > MAX_LINE_CHARS or "\n" in text or "\r" in text


def _list_length_limits(field: field_inputs.FieldInput) -> dict[str, int]:
    """Return an input's length limits for Slack to check.

    A limit that would refuse the current text is left out; the highest length leaves room for `""`
    where that stands for an empty text.
    """
    if field.kind is not SlotKind.TEXT:
        return {}
    least = field.slot.schema.get("minLength", 0)
    most = field.slot.schema.get("maxLength", field_inputs.MAX_INPUT_CHARS)
    if field.slot.nullable and not least:
        most = max(most, len(field_inputs.EMPTY_TEXT_ENTRY))
    # Slack may count as count_slack_characters does, Pydantic counts characters: never be stricter
    # than Pydantic here.
    text = str(field.initial_entry or "")
    fits = {
        "min_length": 0 < least <= field_inputs.MAX_INPUT_CHARS,
        "max_length": 0 < most < field_inputs.MAX_INPUT_CHARS,
    }
    if field.initial_entry is not None:
        fits["min_length"] &= least <= len(text)
        fits["max_length"] &= slack_text.count_slack_characters(text) <= most
    return {key: size for key, size in (("min_length", least), ("max_length", most)) if fits[key]}


def _list_number_bounds(field: field_inputs.FieldInput) -> dict[str, str]:
    """Return an input's exact bounds for Slack to check; none if its current value is outside."""
    branches = [
        option for option in field.slot.schema.get("anyOf", ()) if option.get("type") == "number"
    ]
    # a Decimal may be written as a number or as a string
    schema = branches[0] if branches else field.slot.schema
    low = _convert_bound(field.kind, schema.get("minimum"), schema.get("exclusiveMinimum"), 1)
    high = _convert_bound(field.kind, schema.get("maximum"), schema.get("exclusiveMaximum"), -1)
    initial = None if field.initial_entry is None else Decimal(field.initial_entry)
    order = [number for number in (low, initial, high) if number is not None]
    if order != sorted(order):
        return {}
    return {
        name: f"{bound:f}"
        for name, bound in (("min_value", low), ("max_value", high))
        if bound is not None
    }


def _convert_bound(kind: SlotKind, inclusive: Any, exclusive: Any, step: int) -> Decimal | None:
    """Return a schema's bound as an inclusive one; None if Slack could not check it exactly."""
    if kind is SlotKind.INTEGER and inclusive is None and isinstance(exclusive, int):
        inclusive = exclusive + step
    # The schema holds bounds as floats: one with many digits may be rounded, and refuse what the
    # model allows.
    if inclusive is None or field_inputs.format_exact_digits(inclusive) is None:
        return None
    return (
        None
        if kind is SlotKind.INTEGER and not isinstance(inclusive, int)
        else Decimal(str(inclusive))
    )


def build_input_hint(field: field_inputs.FieldInput, *, new: bool = False) -> str:
    """Return an input's hint: what the field is, how to write its value, hidden characters in it.

    `new`: there was no value before, so the hint need not tell how to write an empty one.
    """
    slot = field.slot
    hints: list[str] = []
    match field.kind:
        case SlotKind.JSON:
            hints.append("Written as JSON.")
        case SlotKind.LINES:
            hints.append("One per line.")
        case SlotKind.DATETIME if field.widget == field_inputs.TEXT_INPUT:
            hints.append("Written like 2026-01-31T14:30:00.")
        case SlotKind.DATETIME | SlotKind.TIME if (
            field.initial_entry is not None and field.old_value != f"{field.initial_entry}:00"
        ):
            now = format_json_value(field.old_value, field.kind)
            hints.append(f"Now {now}; kept to the second unless you pick another minute.")
        case SlotKind.CHOICE if field.widget == field_inputs.TEXT_INPUT:
            hints.append("One of the allowed values, exactly as written.")
    if slot.nullable and slot.default is None and not new and field.kind in _EMPTY_LABEL_BY_KIND:
        empty, least = (
            (field_inputs.EMPTY_TEXT_ENTRY, "minLength")
            if field.kind is SlotKind.TEXT
            else (field_inputs.EMPTY_LIST_ENTRY, "minItems")
        )
        unset, holds_nothing = "Leave it empty for none", field.old_value in ("", [])
        hints.append(  # longer only if it is empty now: few need to tell empty from unset
            f"{unset}; write {empty} for {_EMPTY_LABEL_BY_KIND[field.kind]}."
            if holds_nothing and not slot.schema.get(least)
            else f"{unset}."
        )
    default = slot.schema.get("default") if field.old_value is SlotSentinel.ABSENT else slot.default
    if default is not None and (field.may_be_empty or field.kind is SlotKind.PRESENCE):
        hints.append(describe_default(slot, default))
    if isinstance(field.initial_entry, str) and (
        hidden := Counter(list_hidden_characters(field.initial_entry))
    ):
        seen = ", ".join(
            f"{slack_text.show_hidden_characters(char)} × {count}"
            for char, count in hidden.most_common(8)
        )
        hints.append(f"Contains invisible characters: {seen}.")
    description = slack_text.show_hidden_characters(slot.hint.strip())
    if field.widget.endswith("s_select") and description.startswith(("@handle", "#name")):
        description = ""  # it says how to write a name, but here the name is chosen
    if description and hints and description[-1].isalnum():
        description += "."
    return " ".join(filter(None, [description, *hints]))


_EMPTY_LABEL_BY_KIND = {SlotKind.TEXT: "an empty text", SlotKind.LINES: "an empty list"}


# the others: an error, whose form it is, what it is about, what did not fit, and the reason
_MAX_BLOCKS = 100 - 6
_MAX_VIEW_BYTES = 220_000  # of the 250 kB Slack takes, counted as JSON in ASCII


@dataclass(frozen=True, slots=True)
class FieldErrors:
    """What is wrong with the entries of a submitted form, by input."""

    # sentences by block id, of at most 150 characters each; at WHOLE_FORM of any length
    errors: dict[str, str]


@dataclass(frozen=True, slots=True)
class LaidOutField:
    """One value of the arguments, its input (None if it cannot be edited) and its blocks."""

    slot: FieldSlot
    value: Any
    input: field_inputs.FieldInput | None
    blocks: list[dict[str, Any]]


def lay_out_fields(
    tool: Tool[Any], arguments: Mapping[str, Any]
) -> tuple[list[LaidOutField], list[FieldSlot]]:
    """Return the argument values that a form shows, in order, and those it has no room for.

    The same arguments give the same layout.
    """
    places: list[LaidOutField] = []
    left_out: list[FieldSlot] = []
    room, size = _MAX_BLOCKS, 0
    for slot in build_slots(tool, arguments):
        if slot.kind is SlotKind.EMPTY:
            continue
        value = get_value_at_keys(arguments, slot.keys)
        field = (
            field_inputs.build_field_input(slot, value)
            if slot.editable and not slot.secret
            else None
        )
        blocks = [render_field_input(field)] if field else render_uneditable_value(slot, value)
        cost = len(json.dumps(blocks))
        if len(blocks) > room or size + cost > _MAX_VIEW_BYTES:
            left_out.append(slot)
            continue
        room, size = room - len(blocks), size + cost
        places.append(LaidOutField(slot, value, field, blocks))
    return places, left_out


def apply_entries_to_arguments(
    places: Sequence[LaidOutField],
    arguments: Mapping[str, Any],
    state_values: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any] | FieldErrors:
    """Return the arguments changed by the entries, not yet validated, or errors in reading."""
    inputs = {place.slot.block_id: place.input for place in places if place.input}
    entered: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for block_id, field in inputs.items():
        try:
            entered[block_id] = field_inputs.parse_entry(
                field, (state_values.get(block_id) or {}).get(InputElementId.VALUE)
            )
        except field_inputs.UnreadableEntryError as refused:
            errors[block_id] = join_error_sentences([str(refused)])
    data = copy.deepcopy(dict(arguments))
    for field in inputs.values():
        if field.kind is SlotKind.PRESENCE:
            _apply_presence_choice(field, entered, errors, data)
    if errors:
        return FieldErrors(errors)
    for block_id, field in inputs.items():
        # an error below a nested model that is now unset was dropped, so its entry is missing
        value = entered.get(block_id, SlotSentinel.KEEP)
        if field.kind is not SlotKind.PRESENCE and value is not SlotSentinel.KEEP:
            set_nested_value(data, field.slot.keys, value)
    return data


def validate_entered_arguments(
    tool: Tool[Any],
    places: Sequence[LaidOutField],
    arguments: Mapping[str, Any],
    data: Mapping[str, Any],
    names: object = None,
) -> BaseModel | FieldErrors:
    """Return the entered arguments as the tool's model, or the errors by input.

    `arguments` are those the form was laid out for; `names`: see `edit_form.parse_edit_submission`.
    """
    computed = tool.arguments.model_computed_fields  # dumped by the model, but not accepted
    written = json.dumps({key: value for key, value in data.items() if key not in computed})
    inputs = [place.slot.block_id for place in places if place.input]
    try:
        return validate_json(tool.arguments, written, names)
    except ValidationError as error:
        return FieldErrors(assign_errors_to_inputs(error, build_slots(tool, arguments), inputs))


def _apply_presence_choice(
    field: field_inputs.FieldInput,
    entered: dict[str, Any],
    errors: dict[str, str],
    data: dict[str, Any],
) -> None:
    """Set an optional nested model to {}, or to None or its default, as its radio buttons say.

    If it is not set, what was entered for its fields does not count.
    """
    if field.slot.block_id in errors:
        return
    was = field.initial_entry == "yes"
    now = entered[field.slot.block_id]
    below = [each for each in {**entered, **errors} if each.startswith(f"{field.slot.block_id}.")]
    if now is True or (now is SlotSentinel.KEEP and was):
        if not was:
            set_nested_value(data, field.slot.keys, {})
        return
    touched = any(
        block_id in errors or entered[block_id] is not SlotSentinel.KEEP for block_id in below
    )
    for block_id in below:
        errors.pop(block_id, None)
        entered.pop(block_id, None)
    if was:
        set_nested_value(data, field.slot.keys, copy.deepcopy(field.slot.default))
    elif touched:
        errors[field.slot.block_id] = "Choose “Set” to use what is entered below, or clear it."


MAX_ERROR_CHARS = 150  # more would not be read under an input
WHOLE_FORM = ""  # in place of a block id: the error is about no single input
Loc = tuple[int | str, ...]
_NUMBER_ERROR = "Please enter a number."
_WHOLE_NUMBER_ERROR = "Please enter a whole number."
_ERROR_BY_PYDANTIC_TYPE = {  # for errors that Pydantic words in its own terms
    "missing": "A value is needed here.",
    "int_parsing": _WHOLE_NUMBER_ERROR,
    "int_type": _WHOLE_NUMBER_ERROR,
    "int_from_float": _WHOLE_NUMBER_ERROR,
    "float_parsing": _NUMBER_ERROR,
    "float_type": _NUMBER_ERROR,
    "decimal_parsing": _NUMBER_ERROR,
    "decimal_type": _NUMBER_ERROR,
    "bool_parsing": "Please say yes or no.",
    "bool_type": "Please say yes or no.",
    "string_pattern_mismatch": "This does not have the expected format.",
    "extra_forbidden": "This is not expected here.",
    "date_from_datetime_parsing": "Please enter a date, like 2026-11-21.",
    "date_parsing": "Please enter a date, like 2026-11-21.",
    "time_parsing": "Please enter a time, like 14:30.",
    "datetime_parsing": "Please enter a date and a time, like 2026-11-21 14:30.",
    "timezone_aware": "Please add the time zone, like 14:30+01:00.",
    "url_parsing": "Please enter an address, like https://example.com.",
    "json_invalid": "This is not JSON.",
}
_SUBJECT_PATTERN = re.compile(
    r"^(Input|String|List|Value|Data|Set|Tuple|Dictionary|Decimal input|URL|Number|Datetime|Date"
    r"|Time) should "
)


def assign_errors_to_inputs(
    error: ValidationError, slots: Sequence[FieldSlot], inputs: Sequence[str]
) -> dict[str, str]:
    """Return Pydantic's errors as sentences, by the block id of the input that shows them.

    `slots` are those of the arguments, `inputs` the block ids of the existing inputs. An error at a
    value without an input is about the whole form, with the value's label before it.
    """
    texts_by_place: dict[str, list[str]] = {}
    error_details = error.errors(include_url=False, include_input=False, include_context=False)
    for each in error_details:
        text, label = reword_pydantic_message(each["type"], each["msg"]), ""
        index, rest = _find_slot_of_error(each["loc"], slots)
        text = _describe_place_in_value(rest) + text
        place = _choose_error_place("" if index is None else slots[index].block_id, inputs)
        if index is None:
            label = slack_text.humanise_field_name(str(each["loc"][0])) if each["loc"] else ""
        else:
            if place != slots[index].block_id or rest is None:
                label = _get_error_label(slots[index], rest)
            if slots[index].secret:
                text = "This is not valid."
        texts_by_place.setdefault(place, []).append(f"{label}: {text}" if label else text)
    return {block_id: join_error_sentences(texts) for block_id, texts in texts_by_place.items()}


def _choose_error_place(block_id: str, inputs: Sequence[str]) -> str:
    """Return the input that shows an error: this one, the only one there is, or WHOLE_FORM."""
    return block_id if block_id in inputs else inputs[0] if len(inputs) == 1 else WHOLE_FORM


def place_form_error(
    tool: Tool[Any], arguments: Mapping[str, Any], why: str, field: str = ""
) -> FieldErrors:
    """Return a tool's refusal as an error at the input of the field that it names, if any."""
    inputs = [each.slot.block_id for each in lay_out_fields(tool, arguments)[0] if each.input]
    place = _choose_error_place(ARGUMENT_BLOCK_ID_PREFIX + field, inputs)
    return FieldErrors({place: join_error_sentences([why]) if place else why})


def reword_pydantic_message(kind: str, message: str) -> str:
    """Reword Pydantic's message as a sentence for a person."""
    if kind in _ERROR_BY_PYDANTIC_TYPE:
        return _ERROR_BY_PYDANTIC_TYPE[kind]
    text = re.sub(
        r"^(Value error|Assertion failed), ",
        "",
        slack_text.show_hidden_characters(" ".join(message.split())),
    )
    text = (
        _SUBJECT_PATTERN.sub("This should ", text).replace(" after validation", "")
        or "This is not valid"
    )
    return (text[0].upper() + text[1:]).rstrip(".") + "."


def join_error_sentences(texts: Sequence[str]) -> str:
    """Join as many sentences as fit below an input; the first is cut if it is too long alone."""
    kept = slack_text.shorten_to_words(texts[0], MAX_ERROR_CHARS)
    for text in texts[1:]:
        if len(kept) + 1 + len(text) <= MAX_ERROR_CHARS:
            kept += " " + text
    return kept


def _find_slot_of_error(loc: Loc, slots: Sequence[FieldSlot]) -> tuple[int | None, Loc | None]:
    """Return which value of a form (a slot, by index) an error is about, and the path within it.

    For a nested model as a whole: the first slot within it, and None. If no slot fits: (None, the
    location).
    """
    best: tuple[int | None, Loc | None] = (None, loc)
    for index, slot in enumerate(slots):
        agrees = all(step in called for step, called in zip(loc, slot.error_names, strict=False))
        if not loc or not agrees:
            continue
        if len(slot.error_names) > len(loc):
            best = (index, None) if best[0] is None else best
        elif best[0] is None or len(slot.error_names) > len(slots[best[0]].error_names):
            best = (index, loc[len(slot.error_names) :])
    return best


def _get_error_label(slot: FieldSlot, rest: Loc | None) -> str:
    label = slot.label if rest is not None else slot.label.rpartition(" › ")[0]
    return slack_text.show_hidden_characters(label)


def _describe_place_in_value(rest: Loc | None) -> str:
    """Return the place in a list or JSON: (2, "sku") -> "At 3 › sku: "; people count from one."""
    if not rest:
        return ""
    steps = (
        str(s + 1) if isinstance(s, int) else slack_text.show_hidden_characters(s) for s in rest
    )
    return f"At {' › '.join(steps)}: "
