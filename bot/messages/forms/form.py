"""The Edit modal: made from a tool's argument model and the arguments there are, and read back.
Pure: views and values in, views and values out; it stores nothing and asks nobody.

Every value of the arguments has its place in the modal: an input, or text where it cannot be edited
(secret, not editable by the tool, too long for an input). Whatever has no input, or an input that
nobody touched, is kept exactly. How unset, empty and the various kinds are written is described in
`field_inputs`; which kind a value has, in `field_kinds`. `diff` and `values` show arguments on
cards.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.messages.actions.codec import Subject, encode_dialog
from bot.messages.actions.names import Action, Dialog, Entry, Field
from bot.messages.actions.targets import CallTarget
from bot.messages.forms.blocks import input_block, section, shown_blocks, text_object, then_block
from bot.messages.forms.errors import located, shortened
from bot.messages.forms.inputs import Input, make
from bot.messages.forms.reader import UnreadableError, read
from bot.messages.forms.slots import Kind, Mark, Slot, lookup, slots
from bot.messages.forms.values import diff, same, values
from bot.messages.onlookers import revealed
from bot.messages.text import plain, slack_length
from bot.tools import Tool

__all__ = ["FieldErrors", "Parsed", "diff", "edit_modal", "failing", "read_submission", "values"]

# the introduction, what is revealed, the choice to approve, the list of what found no room
_MOST_BLOCKS = 100 - 4
_MOST_BYTES = 220_000  # of the 250 kB Slack takes, counted as JSON in ASCII


@dataclass(frozen=True, slots=True)
class Parsed:
    """An edit that can be stored."""

    arguments: dict[str, Any]  # JSON values after validation, coercion and defaults
    changed: bool  # an edit that changes nothing is no edit
    approve: bool  # the person asked to approve as well; whether that counts is not decided here


@dataclass(frozen=True, slots=True)
class FieldErrors:
    """Why an edit cannot be stored."""

    # by block id of an input in the modal; sentences of at most 150 characters
    errors: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Place:
    slot: Slot
    value: Any
    input: Input | None
    blocks: list[dict[str, Any]]


def edit_modal(
    tool: Tool[Any],
    arguments: Mapping[str, Any],
    *,
    target: CallTarget,
    save_and_approve: bool,
    covered: Sequence[str] = (),
) -> dict[str, Any]:
    """Build the Edit dialog: an input for each argument that can be edited, text for the others.

    `arguments` are the validated arguments as `model_dump(mode="json")` gives them;
    `save_and_approve` adds a box to tick, as Slack has only one submit button; `covered` names what
    others see less of. The metadata holds the call and its revision, never a value.
    """
    places, left_out = _laid_out(tool, arguments)
    blocks = [
        section(f"{tool.title}\nSaving makes a new version; votes for the old one no longer count.")
    ]
    if covered:
        blocks.append(section(revealed(covered)))
    for place in places:
        blocks += place.blocks
    if left_out:
        names = ", ".join(slot.label for slot in left_out)
        blocks.append(
            section(plain(f"No room here for these; they are kept as they are: {names}", 2900))
        )
    if save_and_approve:
        blocks.append(then_block())
    return {
        "type": "modal",
        "callback_id": Dialog.EDIT,
        "private_metadata": encode_dialog(Subject(Dialog.EDIT, target)),
        "title": text_object(_title(tool.title), 24),
        "submit": text_object("Save", 24),
        "close": text_object("Cancel", 24),
        "blocks": blocks,
    }


def read_submission(
    tool: Tool[Any],
    arguments: Mapping[str, Any],
    state_values: Mapping[str, Mapping[str, Any]],
    names: object = None,
) -> Parsed | FieldErrors:
    """Read a submitted Edit dialog, given the arguments it was made from and `view.state.values`.

    `names` makes ids of the names in it (`bot.tools.names.Names`), and may look them up.
    Only inputs that `edit_modal` makes for these arguments are read; anything else in the state is
    ignored.
    """
    places = _laid_out(tool, arguments)[0]
    approve = _ticked(state_values)
    inputs = {place.slot.block_id: place.input for place in places if place.input}
    entered: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for block_id, made in inputs.items():
        try:
            entered[block_id] = read(made, (state_values.get(block_id) or {}).get(Entry.VALUE))
        except UnreadableError as refused:
            errors[block_id] = shortened([str(refused)])
    data = copy.deepcopy(dict(arguments))
    for made in inputs.values():
        if made.kind is Kind.PRESENCE:
            _settle_presence(made, entered, errors, data)
    if errors:
        return FieldErrors(errors)
    for block_id, made in inputs.items():
        # there is none where an error did not count, below what is now unset
        value = entered.get(block_id, Mark.KEEP)
        if made.kind is not Kind.PRESENCE and value is not Mark.KEEP:
            _put(data, made.slot.keys, value)
    if same(data, dict(arguments)):
        return Parsed(copy.deepcopy(dict(arguments)), changed=False, approve=approve)
    all_slots = slots(tool, arguments)
    try:
        validated = tool.arguments.model_validate_json(
            json.dumps(_given(tool.arguments, data)), by_alias=True, by_name=True, context=names
        )
    except ValidationError as error:
        return FieldErrors(located(error, all_slots, inputs))
    result = validated.model_dump(mode="json")
    for slot in all_slots:
        # Pydantic dumps its own secrets as stars; what nobody could edit stays what it was.
        if slot.secret and (old := lookup(arguments, slot.keys)) is not Mark.ABSENT:
            _put(result, slot.keys, old)
    return Parsed(result, changed=not same(result, dict(arguments)), approve=approve)


def failing(
    tool: Tool[Any], before: Mapping[str, Any], after: Mapping[str, Any], why: str
) -> FieldErrors:
    """Return why the tool says that an edit would fail, at the first input that was changed."""
    places = [place for place in _laid_out(tool, before)[0] if place.input]
    changed = [each for each in places if not same(each.value, lookup(after, each.slot.keys))]
    return FieldErrors({each.slot.block_id: shortened([why]) for each in (changed or places)[:1]})


def _laid_out(tool: Tool[Any], arguments: Mapping[str, Any]) -> tuple[list[_Place], list[Slot]]:
    """Lay out the dialog: what stands in it, in order, and what found no room.

    The same for the same arguments.
    """
    places: list[_Place] = []
    left_out: list[Slot] = []
    room, size = _MOST_BLOCKS, 0
    for slot in slots(tool, arguments):
        value = lookup(arguments, slot.keys)
        made = make(slot, value) if slot.editable and not slot.secret else None
        blocks = [input_block(made)] if made else shown_blocks(slot, value)
        cost = len(json.dumps(blocks))
        if len(blocks) > room or size + cost > _MOST_BYTES:
            left_out.append(slot)
            continue
        room, size = room - len(blocks), size + cost
        places.append(_Place(slot, value, made, blocks))
    return places, left_out


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
            _put(data, made.slot.keys, {})
        return
    touched = any(block_id in errors or entered[block_id] is not Mark.KEEP for block_id in below)
    for block_id in below:
        errors.pop(block_id, None)
    if was:
        _put(data, made.slot.keys, None)
    elif touched:
        errors[made.slot.block_id] = "Choose “Set” to use what is entered below, or empty it."


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        inner = data.get(key)
        if not isinstance(inner, dict):
            return
        data = inner
    data[keys[-1]] = value


def _given(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without what the model computes: it is dumped, but not taken."""
    return {key: value for key, value in data.items() if key not in model.model_computed_fields}


def _ticked(state_values: Mapping[str, Mapping[str, Any]]) -> bool:
    chosen = ((state_values.get(Field.APPROVE_TOO) or {}).get(Entry.VALUE) or {}).get(
        "selected_options"
    ) or []
    return any(option.get("value") == Action.APPROVE for option in chosen)


def _title(title: str) -> str:
    return title if 0 < slack_length(title.strip()) <= 24 else "Edit the call"
