"""Arguments as text for people, and the differences between two versions of them.

Pure; it builds no blocks.

A value that is declared secret never leaves this file: it becomes a mask of fixed length, changed
or not. What only looks like a secret is not masked here, but where onlookers read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Any

from pydantic import BaseModel

from bot.cards.field_slots import (
    PICKER_BY_KIND,
    FieldSlot,
    SlotKind,
    SlotSentinel,
    build_slots,
    get_value_at_keys,
)
from bot.cards.slack_text import show_hidden_characters
from bot.cards.value_changes import look_alike, quote_apart
from bot.cards.views import UNSET_LABEL, ArgumentValue
from bot.tools import Code, Tool
from storage.masking import MASK, ValuePath

EMPTY_LABEL = "empty"  # an empty text
NONE_LABEL = "none"  # an empty list or object, where nothing else can be meant
NULL_LABEL = "no value"
# a text that is one of these is put in quotes
_RESERVED_LABELS = frozenset({MASK, UNSET_LABEL, EMPTY_LABEL, NULL_LABEL})
# an id, alone or in brackets after a name without brackets
_SLACK_ID_PATTERN = re.compile(r"(?:[^()]*\()?([CGUW](?=[A-Z0-9]*\d)[A-Z0-9]{5,})\)?")
_CHOICE_NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")  # as in code, such as full_refund
_MAX_ONE_LINE_LIST_CHARS = 60


def list_argument_values(
    tool: Tool[Any], arguments: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> tuple[ArgumentValue, ...]:
    """Return every argument (JSON values) as plain text, in the order of the model.

    With `before`, an argument that differs also has its earlier text.
    """
    if before is None:
        rows = _list_rows(tool, arguments)
        return tuple(_build_value(arguments, row.slot, row.text) for row in rows)
    return tuple(
        replace(
            _build_value(arguments, each.slot, each.new, each.old if each.differs else None),
            previous_mentions=list_ids(each.slot, get_value_at_keys(before, each.slot.keys)),
        )
        for each in _compare_arguments(tool, before, arguments)
    )


def mark_displayed_values(
    tool: Tool[Any], args: BaseModel, values: Sequence[ArgumentValue]
) -> tuple[ArgumentValue, ...]:
    """Return the values; those that the effect sentence shows unchanged, and code, are marked."""
    said = tool.list_arguments_in_effect(args)
    code = {(name,) for name, each in args if isinstance(each, Code)}
    return tuple(
        replace(each, is_in_effect=said.get(each.path) == each.text, is_code=each.path in code)
        for each in values
    )


def _build_value(
    arguments: Mapping[str, Any], slot: FieldSlot, text: str, before: str | None = None
) -> ArgumentValue:
    secret = () in slot.hidden_paths
    partly = bool(slot.hidden_paths) and not secret
    ids = list_ids(slot, get_value_at_keys(arguments, slot.keys))
    return ArgumentValue(slot.label, text, before, secret, partly, ids, path=slot.keys)


def list_ids(slot: FieldSlot, value: Any) -> tuple[str, ...]:
    """Return the ids of the people or channels that make up a value; () if it is anything else."""
    if slot.kind not in PICKER_BY_KIND or slot.hidden_paths:
        return ()
    items = value if isinstance(value, list) else [value]
    found = [isinstance(each, str) and _SLACK_ID_PATTERN.fullmatch(each) for each in items]
    return tuple(each[1] for each in found if each) if all(found) else ()


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, in any order of keys; 1, 1.0 and true differ."""
    if one is other:
        return True
    if isinstance(one, SlotSentinel) or isinstance(other, SlotSentinel):
        return False
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def format_slot_value(slot: FieldSlot, value: Any) -> str:
    """Return the value of a slot as plain text: uncut, with secrets masked."""
    if value is SlotSentinel.ABSENT or (value is None and slot.null_is_unset):
        return UNSET_LABEL
    if value is None:
        return NULL_LABEL
    if () in slot.hidden_paths:
        return MASK
    if slot.hidden_paths:
        return show_hidden_characters("".join(_dump_masked_json(value, slot.hidden_paths, "")))
    # without a declared type, JSON tells texts, lists and other values apart
    if slot.has_open_type and (
        isinstance(value, list)
        or value == {}
        or (isinstance(value, str) and _may_be_mistaken_for_json(value))
    ):
        text = json.dumps(value, ensure_ascii=False)
        long = len(text) > _MAX_ONE_LINE_LIST_CHARS and isinstance(value, list)
        return show_hidden_characters(
            json.dumps(value, ensure_ascii=False, indent=2) if long else text
        )
    text = format_json_value(value, slot.kind)
    others = slot.schema.get("enum", ()) if slot.kind is SlotKind.CHOICE else ()
    if any(
        not is_same_json(each, value) and format_json_value(each, slot.kind) == text
        for each in others
    ):
        return show_hidden_characters(json.dumps(value, ensure_ascii=False))
    return text


def describe_default(slot: FieldSlot, default: Any) -> str:
    """Return the sentence that says what a value is that is left out."""
    left_out = "With “Not set”" if slot.kind is SlotKind.PRESENCE else "Left empty"
    # the values within an empty object may have defaults of their own
    written = "its default" if default == {} else format_json_value(default, slot.kind)
    return f"{left_out}, it is {MASK if slot.has_secret_default else written}."


def _may_be_mistaken_for_json(text: str) -> bool:
    """Return whether a text could be mistaken for a value that is no text."""
    if text in ("yes", "no"):
        return True
    try:
        return not isinstance(json.loads(text), str)
    except (ValueError, RecursionError):
        return False


def _dump_masked_json(value: Any, hidden: frozenset[ValuePath], indent: str) -> Iterator[str]:
    """Yield the value as JSON on several lines, with masks that no text in it can imitate."""
    if () in hidden and value is not None:
        yield MASK
    elif not hidden or not isinstance(value, dict | list) or not value:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        yield text.replace("\n", f"\n{indent}")
    else:
        is_list, inner = isinstance(value, list), indent + "  "
        members = list(enumerate(value)) if isinstance(value, list) else list(value.items())
        yield "[" if is_list else "{"
        for number, (step, each) in enumerate(members):
            key = "" if is_list else f"{json.dumps(step, ensure_ascii=False)}: "
            yield f"{',' if number else ''}\n{inner}{key}"
            yield from _dump_masked_json(
                each, frozenset(p[1:] for p in hidden if p[:1] == (step,)), inner
            )
        yield f"\n{indent}{']' if is_list else '}'}"


def format_json_value(value: Any, kind: SlotKind = SlotKind.TEXT) -> str:
    """Return a JSON value as plain text: uncut, hidden characters visible.

    The name of a choice becomes words: wrong_item is "wrong item".
    """
    match value:
        case None | SlotSentinel.ABSENT:
            return UNSET_LABEL
        case bool():
            return "yes" if value else "no"
        case str() if kind is SlotKind.CHOICE and _CHOICE_NAME_PATTERN.fullmatch(value):
            return value.replace("_", " ")
        case str():
            return _format_text(value, kind)
        case list():
            return _format_list(value, kind)
        case dict():
            return (
                show_hidden_characters(json.dumps(value, indent=2, ensure_ascii=False))
                if value
                else NONE_LABEL
            )
        case _:
            return json.dumps(value)


@dataclass(frozen=True, slots=True)
class _Row:
    slot: FieldSlot
    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class _Change:
    slot: FieldSlot
    old: str
    new: str
    differs: bool


def _list_rows(tool: Tool[Any], arguments: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield one row for each value of the arguments.

    An unset nested model is one row; a set one has a row for each of its fields.
    """
    for slot in build_slots(tool, arguments):
        value = get_value_at_keys(arguments, slot.keys)
        parent = get_value_at_keys(arguments, slot.keys[:-1])
        if slot.kind is SlotKind.PRESENCE and value not in (None, SlotSentinel.ABSENT, {}):
            continue
        if slot.kind is not SlotKind.PRESENCE and parent in (None, SlotSentinel.ABSENT):
            continue
        yield _Row(slot, value, format_slot_value(slot, value))


def _compare_arguments(
    tool: Tool[Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[_Change]:
    old_rows = {row.slot.keys: row for row in _list_rows(tool, before)}
    new_rows = {row.slot.keys: row for row in _list_rows(tool, after)}
    for keys, new in new_rows.items():
        old_value, slot = get_value_at_keys(before, keys), new.slot
        if keys in old_rows:
            old = old_rows[keys].text
            slot = replace(slot, hidden_paths=slot.hidden_paths | old_rows[keys].slot.hidden_paths)
        # one of the two has the nested model as one row, the other has a row for each of its fields
        else:
            parts = [row for other, row in old_rows.items() if other[: len(keys)] == keys]
            old = (
                "\n".join(f"{row.slot.label.split(' › ')[-1]}: {row.text}" for row in parts)
                or UNSET_LABEL
            )
        yield _compare_field_values(slot, old, old_value, new.text, new.value)
    for keys, row in old_rows.items():
        if not any(keys[: len(other)] == other or other[: len(keys)] == keys for other in new_rows):
            yield _compare_field_values(
                row.slot, row.text, row.value, UNSET_LABEL, SlotSentinel.ABSENT
            )


def _compare_field_values(
    slot: FieldSlot, old: str, old_value: Any, new: str, new_value: Any
) -> _Change:
    differs = not is_same_json(old_value, new_value)
    if differs and look_alike(old, new) and not slot.hidden_paths:
        values = (old_value, new_value)
        absent = [each is SlotSentinel.ABSENT for each in values]
        texts = quote_apart(
            *(None if gone else each for gone, each in zip(absent, values, strict=True))
        )
        old, new = (
            "(not given)" if gone else text for gone, text in zip(absent, texts, strict=True)
        )
    return _Change(slot, old, new, differs)


def _format_text(value: str, kind: SlotKind) -> str:
    if not value:
        return EMPTY_LABEL
    seen = show_hidden_characters(value)
    bare = seen.strip()
    # quoted to tell it from our own labels, or to show the spaces around it
    if (
        value in _RESERVED_LABELS
        or _may_be_mistaken_for_quoted(value)
        or (bare != seen and "\n" not in bare)
    ):
        return show_hidden_characters(json.dumps(value, ensure_ascii=False))
    try:
        if kind is SlotKind.DATETIME:
            moment = datetime.fromisoformat(value)
            zone = _format_zone_offset(moment.timetz()) or " (no time zone)"
            return f"{moment.date().isoformat()} {_format_clock_time(moment.time())}{zone}"
        if kind is SlotKind.TIME:
            at = time.fromisoformat(value)
            return _format_clock_time(at.replace(tzinfo=None)) + _format_zone_offset(at)
    except ValueError:
        pass  # not a valid date or time: shown as it is
    return seen


def _may_be_mistaken_for_quoted(text: str) -> bool:
    """Return whether a text could be mistaken for the quotes around another text."""
    try:
        return text[:1] == '"' and isinstance(json.loads(text), str)
    except ValueError:
        return False


def _format_clock_time(at: time) -> str:
    """Return hours and minutes; seconds and fractions of them only if there are any."""
    return at.isoformat() if at.second or at.microsecond else at.isoformat("minutes")


def _format_zone_offset(at: time) -> str:
    offset = at.isoformat().removeprefix(at.replace(tzinfo=None).isoformat())
    return "" if not offset else " UTC" if offset == "+00:00" else f" {offset}"


def _format_list(items: list[Any], kind: SlotKind) -> str:
    """Return a list as text on one line or on several, or as JSON if its text could be misread."""
    if not items:
        return NONE_LABEL
    texts = [format_json_value(item) for item in items]
    as_texts = kind is SlotKind.LINES or not any(
        isinstance(each, str) and _may_be_mistaken_for_json(each) for each in items
    )
    parted = any("," in text for text in texts)
    if (
        not as_texts
        or ((parted or texts == [NONE_LABEL]) and len(items) == 1)
        or any(isinstance(item, dict | list) for item in items)
        or any("\n" in text for text in texts)
    ):
        return show_hidden_characters(json.dumps(items, indent=2, ensure_ascii=False))
    line = ", ".join(texts)
    return line if len(line) <= _MAX_ONE_LINE_LIST_CHARS and not parted else "\n".join(texts)
