"""How a form is laid out: a place for each value of the arguments, and what was entered there.

Pure. The same for the same arguments: what is submitted is read by the layout that was shown.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.cards.action_names import Entry
from bot.cards.field_blocks import input_block, shown_blocks
from bot.cards.field_errors import located, shortened
from bot.cards.field_inputs import Input, make
from bot.cards.field_reader import UnreadableError, read
from bot.cards.field_slots import Kind, Mark, Slot, lookup, slots
from bot.tools import Tool
from bot.tools.decimals import in_full

# the introduction, what is revealed, the choice to approve, the list of what found no room
_MOST_BLOCKS = 100 - 4
_MOST_BYTES = 220_000  # of the 250 kB Slack takes, counted as JSON in ASCII


@dataclass(frozen=True, slots=True)
class FieldErrors:
    """Why what was entered cannot be used."""

    # by block id of an input in the modal; sentences of at most 150 characters
    errors: dict[str, str]


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """One value of the arguments and its blocks in the form."""

    slot: Slot
    value: Any
    input: Input | None
    blocks: list[dict[str, Any]]


def laid_out(tool: Tool[Any], arguments: Mapping[str, Any]) -> tuple[list[FieldPlace], list[Slot]]:
    """Lay out the dialog: what stands in it, in order, and what found no room.

    The same for the same arguments.
    """
    places: list[FieldPlace] = []
    left_out: list[Slot] = []
    room, size = _MOST_BLOCKS, 0
    for slot in slots(tool, arguments):
        if slot.kind is Kind.EMPTY:
            continue
        value = lookup(arguments, slot.keys)
        made = make(slot, value) if slot.editable and not slot.secret else None
        blocks = [input_block(made)] if made else shown_blocks(slot, value)
        cost = len(json.dumps(blocks))
        if len(blocks) > room or size + cost > _MOST_BYTES:
            left_out.append(slot)
            continue
        room, size = room - len(blocks), size + cost
        places.append(FieldPlace(slot, value, made, blocks))
    return places, left_out


def entered(
    places: Sequence[FieldPlace],
    arguments: Mapping[str, Any],
    state_values: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any] | FieldErrors:
    """Return the arguments with what was entered, not yet validated, or why it cannot be read."""
    inputs = {place.slot.block_id: place.input for place in places if place.input}
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for block_id, made in inputs.items():
        try:
            found[block_id] = read(made, (state_values.get(block_id) or {}).get(Entry.VALUE))
        except UnreadableError as refused:
            errors[block_id] = shortened([str(refused)])
    data = copy.deepcopy(dict(arguments))
    for made in inputs.values():
        if made.kind is Kind.PRESENCE:
            _settle_presence(made, found, errors, data)
    if errors:
        return FieldErrors(errors)
    for block_id, made in inputs.items():
        # there is none where an error did not count, below what is now unset
        value = found.get(block_id, Mark.KEEP)
        if made.kind is not Kind.PRESENCE and value is not Mark.KEEP:
            put(data, made.slot.keys, value)
    return data


def validated(
    tool: Tool[Any],
    places: Sequence[FieldPlace],
    arguments: Mapping[str, Any],
    data: Mapping[str, Any],
    names: object = None,
) -> BaseModel | FieldErrors:
    """Return what was entered as the tool's model, or what is wrong, at the inputs.

    `arguments` are those the form was laid out for; `names`: see `form.read_submission`.
    """
    written = json.dumps(_given(tool.arguments, data))
    inputs = [place.slot.block_id for place in places if place.input]
    try:
        args: BaseModel = tool.arguments.model_validate_json(
            written, extra="forbid", by_alias=True, by_name=True, context=names
        )
    except ValidationError as error:
        return FieldErrors(located(error, slots(tool, arguments), inputs))
    return in_full(args)


def _settle_presence(
    made: Input, entered: dict[str, Any], errors: dict[str, str], data: dict[str, Any]
) -> None:
    """Decide whether an optional nested model is there.

    Without it, what was entered below does not count.
    """
    if made.slot.block_id in errors:
        return
    was = made.initial == "yes"
    now = entered[made.slot.block_id]
    below = [
        block_id
        for block_id in {**entered, **errors}
        if block_id.startswith(made.slot.block_id + ".")
    ]
    if now is True or (now is Mark.KEEP and was):
        if not was:
            put(data, made.slot.keys, {})
        return
    touched = any(block_id in errors or entered[block_id] is not Mark.KEEP for block_id in below)
    for block_id in below:
        errors.pop(block_id, None)
    if was:
        put(data, made.slot.keys, None)
    elif touched:
        errors[made.slot.block_id] = "Choose “Set” to use what is entered below, or empty it."


def put(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        inner = data.get(key)
        if not isinstance(inner, dict):
            return
        data = inner
    data[keys[-1]] = value


def _given(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without what the model computes: it is dumped, but not taken."""
    return {key: value for key, value in data.items() if key not in model.model_computed_fields}
