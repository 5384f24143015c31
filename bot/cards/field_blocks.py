"""The blocks of the Edit dialog: an input for a value that can be edited, text for one that cannot.

Pure; it decides nothing about values. All text is `plain_text` without emoji, so that nothing in it
is markup.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from bot.cards.action_names import Action, Entry, Field
from bot.cards.field_inputs import EMPTY_LIST, EMPTY_TEXT, LONGEST, TEXT_INPUT, Input, exact_digits
from bot.cards.field_slots import Kind, Mark, Slot
from bot.cards.field_values import readable, shown
from bot.cards.pieces import PARTLY_SHOWN, SHOWN_TO_NOBODY
from bot.cards.text import plain, slack_length, visible
from bot.tools.invisible_characters import hidden_in

LONG_LINE = 80  # characters from which a text gets an input of several lines
LONG_TEXT = 150  # the same, for the most a field takes
# characters Slack counts up to which a value that cannot be edited is shown whole
MOST_SHOWN = 12_000
_PART = 2_800
_INITIAL = {
    "datepicker": "initial_date",
    "timepicker": "initial_time",
    "datetimepicker": "initial_date_time",
}


def text_object(text: str, limit: int) -> dict[str, Any]:
    """A plain_text object of at most `limit` characters; what is cut off is said."""
    return {"type": "plain_text", "text": plain(text, limit), "emoji": False}


def input_block(made: Input) -> dict[str, Any]:
    """The input block of one value."""
    block: dict[str, Any] = {
        "type": "input",
        "block_id": made.slot.block_id,
        "label": text_object(visible(made.slot.label), 200),
        "optional": made.optional,
        "element": _element(made),
    }
    if hint := hint_of(made):
        block["hint"] = text_object(hint, 1000)
    return block


def shown_blocks(slot: Slot, value: Any) -> list[dict[str, Any]]:
    """Build a value that cannot be edited: all of it, or only its length where that is enormous."""
    secret = SHOWN_TO_NOBODY if () in slot.hidden else PARTLY_SHOWN if slot.hidden else ""
    label, text = plain(visible(slot.label), 150) + secret, shown(slot, value)
    if slack_length(text) > MOST_SHOWN:
        return [section(f"{label} (fixed)\nToo long to show here: {len(text):,} characters.")]
    parts = _parts(text)
    if len(parts) == 1:
        return [section(f"{label} (fixed)\n{text}")]
    return [
        section(f"{label} (fixed; part {number} of {len(parts)})\n{part}")
        for number, part in enumerate(parts, start=1)
    ]


def section(text: str) -> dict[str, Any]:
    """A section of plain text."""
    return {"type": "section", "text": text_object(text, LONGEST)}


def then_block() -> dict[str, Any]:
    """Build the box to tick for approving what is saved, as a dialog has only one submit button."""
    option = {"text": text_object("Approve it as well", 75), "value": Action.APPROVE}
    element = {"type": "checkboxes", "action_id": Entry.VALUE, "options": [option]}
    label = text_object("After saving", 200)
    return {
        "type": "input",
        "block_id": Field.APPROVE_TOO,
        "label": label,
        "optional": True,
        "element": element,
    }


def _parts(text: str) -> list[str]:
    parts, size = [""], 0
    for char in text:
        size += slack_length(char)
        if size > _PART:
            parts.append("")
            size = slack_length(char)
        parts[-1] += char
    return parts


def _element(made: Input) -> dict[str, Any]:
    element: dict[str, Any] = {"type": made.widget, "action_id": Entry.VALUE}
    if made.widget in ("radio_buttons", "static_select"):
        options = [{"text": text_object(text, 75), "value": code} for code, text, _ in made.options]
        element["options"] = options
        chosen = [option for option in options if option["value"] == made.initial]
        return {**element, "initial_option": chosen[0]} if chosen else element
    if made.initial is not None:
        element[_INITIAL.get(made.widget, "initial_value")] = made.initial
    if made.widget == "number_input":
        return {**element, "is_decimal_allowed": made.kind is not Kind.INTEGER, **_bounds(made)}
    if made.widget == TEXT_INPUT:
        return {**element, "multiline": _multiline(made), **_lengths(made)}
    return element


def _multiline(made: Input) -> bool:
    if made.kind in (Kind.LINES, Kind.JSON):
        return True
    text = str(made.initial or "")
    most = made.slot.schema.get("maxLength", 0) if made.kind is Kind.TEXT else 0
    return most > LONG_TEXT or len(text) > LONG_LINE or "\n" in text or "\r" in text


def _lengths(made: Input) -> dict[str, int]:
    """Return lengths for Slack to check while typing: none that refuses what is there, or `""`."""
    if made.kind is not Kind.TEXT:
        return {}
    least, most = made.slot.schema.get("minLength", 0), made.slot.schema.get("maxLength", LONGEST)
    if made.slot.nullable and not least:
        most = max(most, len(EMPTY_TEXT))
    # Slack may count as slack_length does, Pydantic counts characters: never be stricter than
    # Pydantic here.
    text = str(made.initial or "")
    fits = {"min_length": 0 < least <= LONGEST, "max_length": 0 < most < LONGEST}
    if made.initial is not None:
        fits["min_length"] &= least <= len(text)
        fits["max_length"] &= slack_length(text) <= most
    return {key: size for key, size in (("min_length", least), ("max_length", most)) if fits[key]}


def _bounds(made: Input) -> dict[str, str]:
    """Return bounds for Slack to check while typing: exact ones that allow what is there."""
    branches = [
        option for option in made.slot.schema.get("anyOf", ()) if option.get("type") == "number"
    ]
    # a Decimal may be written as a number or as a string
    schema = branches[0] if branches else made.slot.schema
    low = _bound(made.kind, schema.get("minimum"), schema.get("exclusiveMinimum"), 1)
    high = _bound(made.kind, schema.get("maximum"), schema.get("exclusiveMaximum"), -1)
    initial = None if made.initial is None else Decimal(made.initial)
    order = [number for number in (low, initial, high) if number is not None]
    if order != sorted(order):
        return {}
    return {
        name: f"{bound:f}"
        for name, bound in (("min_value", low), ("max_value", high))
        if bound is not None
    }


def _bound(kind: Kind, inclusive: Any, exclusive: Any, step: int) -> Decimal | None:
    """Return an inclusive bound; None where Slack could not check it as the model does."""
    if kind is Kind.INTEGER and inclusive is None and isinstance(exclusive, int):
        inclusive = exclusive + step
    # The schema holds bounds as floats: one with many digits may be rounded, and refuse what the
    # model allows.
    if inclusive is None or exact_digits(inclusive) is None:
        return None
    return (
        None if kind is Kind.INTEGER and not isinstance(inclusive, int) else Decimal(str(inclusive))
    )


def hint_of(made: Input, *, new: bool = False) -> str:
    """Say what the field is, how its value is written, and what cannot be seen in it.

    `new`: nothing was there before, so that nobody has to tell unset from empty.
    """
    slot = made.slot
    said: list[str] = []
    match made.kind:
        case Kind.JSON:
            said.append("Written as JSON.")
        case Kind.LINES:
            said.append("One on each line.")
        case Kind.DATETIME if made.widget == TEXT_INPUT:
            said.append("Written like 2026-01-31T14:30:00.")
        case Kind.DATETIME | Kind.TIME if (
            made.initial is not None and made.old != f"{made.initial}:00"
        ):
            now = readable(made.old, made.kind)
            said.append(f"Now {now}; kept to the second unless you pick another minute.")
        case Kind.CHOICE if made.widget == TEXT_INPUT:
            said.append("One of the allowed values, as it is written.")
        case _:
            pass
    if slot.nullable and not new and made.kind in (Kind.TEXT, Kind.LINES):
        empty, least = (
            (EMPTY_TEXT, "minLength") if made.kind is Kind.TEXT else (EMPTY_LIST, "minItems")
        )
        unset, holds_nothing = "Leave it empty for none", made.old in ("", [])
        said.append(  # few need to tell the two apart
            f"{unset}; write {empty} for {_NOTHING[made.kind]}."
            if holds_nothing and not slot.schema.get(least)
            else f"{unset}."
        )
    if made.old is Mark.ABSENT and slot.schema.get("default") is not None:
        said.append(f"Left empty, it is {readable(slot.schema['default'], slot.kind)}.")
    if isinstance(made.initial, str) and (hidden := Counter(hidden_in(made.initial))):
        seen = ", ".join(f"{visible(char)} × {count}" for char, count in hidden.most_common(8))
        said.append(f"Holds characters that cannot be seen: {seen}.")
    what = visible(slot.hint.strip())
    if what and said and what[-1].isalnum():
        what += "."
    return " ".join(filter(None, [what, *said]))


_NOTHING = {Kind.TEXT: "an empty text", Kind.LINES: "an empty list"}
