"""Pydantic's errors about an edit, as one short sentence at an input of the dialog. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pydantic import ValidationError

from bot.cards.field_slots import FieldSlot
from bot.cards.slack_text import (
    humanise_field_name,
    show_hidden_characters,
)

# Pydantic's errors about an edit, as one short sentence at an input of the dialog.

LONGEST_ERROR = 150  # characters of an error; more would not be read under an input
Loc = tuple[int | str, ...]
_NUMBER, _WHOLE = "Please enter a number.", "Please enter a whole number."
_SAID = {  # of what Pydantic says in its own terms
    "missing": "A value is needed here.",
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "decimal_parsing": _NUMBER,
    "decimal_type": _NUMBER,
    "bool_parsing": "Please say yes or no.",
    "bool_type": "Please say yes or no.",
    "string_pattern_mismatch": "This does not have the form that is expected here.",
    "extra_forbidden": "This is not expected here.",
    "date_from_datetime_parsing": "Please enter a date, like 2026-11-21.",
    "date_parsing": "Please enter a date, like 2026-11-21.",
    "time_parsing": "Please enter a time, like 14:30.",
    "datetime_parsing": "Please enter a date and a time, like 2026-11-21 14:30.",
    "timezone_aware": "Please add the time zone, like 14:30+01:00.",
    "url_parsing": "Please enter an address, like https://example.com.",
    "json_invalid": "This is not JSON.",
}
_SUBJECT = re.compile(
    r"^(Input|String|List|Value|Data|Set|Tuple|Dictionary|Decimal input|URL|Number|Datetime|Date"
    r"|Time) should "
)


def assign_errors_to_inputs(
    error: ValidationError, slots: Sequence[FieldSlot], inputs: Collection[str]
) -> dict[str, str]:
    """Return Pydantic's errors as sentences, by the block id of the input that shows them.

    `slots` are those of the arguments, `inputs` the block ids of the existing inputs. An error at a
    value without an input goes to the nearest input (of equally near ones the one above), with the
    value's label before it; one about no single value goes to the first. Empty if there are no
    inputs.
    """
    places = [index for index, slot in enumerate(slots) if slot.block_id in inputs]
    found: dict[str, list[str]] = {}
    for each in (
        error.errors(include_url=False, include_input=False, include_context=False)
        if places
        else ()
    ):
        index, rest = _find_slot_of_error(each["loc"], slots)
        if index is None:
            place, label = (
                places[0],
                humanise_field_name(str(each["loc"][0])) if each["loc"] else "",
            )
        else:
            place = min(places, key=lambda at: (abs(at - index), at))
            label = (
                "" if place == index and rest is not None else _get_error_label(slots[index], rest)
            )
        hidden = index is not None and slots[index].secret
        text = (
            "This is not valid."
            if hidden
            else _describe_place_in_value(rest) + reword_pydantic_message(each["type"], each["msg"])
        )
        found.setdefault(slots[place].block_id, []).append(f"{label}: {text}" if label else text)
    return {block_id: join_error_sentences(texts) for block_id, texts in found.items()}


def reword_pydantic_message(kind: str, message: str) -> str:
    """Reword Pydantic's message as a sentence for a person."""
    if kind in _SAID:
        return _SAID[kind]
    text = re.sub(
        r"^(Value error|Assertion failed), ", "", show_hidden_characters(" ".join(message.split()))
    )
    text = _SUBJECT.sub("This should ", text) or "This is not valid"
    return (text[0].upper() + text[1:]).rstrip(".") + "."


def join_error_sentences(texts: Sequence[str]) -> str:
    """Join as many sentences as fit below an input; the first is cut if it is too long alone."""
    kept = (
        texts[0] if len(texts[0]) <= LONGEST_ERROR else texts[0][: LONGEST_ERROR - 1].rstrip() + "…"
    )
    for text in texts[1:]:
        if len(kept) + 1 + len(text) <= LONGEST_ERROR:
            kept += " " + text
    return kept


def _find_slot_of_error(loc: Loc, slots: Sequence[FieldSlot]) -> tuple[int | None, Loc | None]:
    """Return the index of the slot that the location begins with, and the rest of the location.

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
    return show_hidden_characters(label)


def _describe_place_in_value(rest: Loc | None) -> str:
    """Return the place in a list or JSON: (2, "sku") -> "At 3 › sku: "; people count from one."""
    if not rest:
        return ""
    return (
        "At "
        + " › ".join(
            str(step + 1) if isinstance(step, int) else show_hidden_characters(step)
            for step in rest
        )
        + ": "
    )
