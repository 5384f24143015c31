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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.messages.actions.codec import Subject, encode_dialog
from bot.messages.actions.names import Action, Dialog, Entry, Field
from bot.messages.actions.targets import CallTarget
from bot.messages.forms.blocks import section, text_object, then_block
from bot.messages.forms.errors import shortened
from bot.messages.forms.layout import FieldErrors, entered, laid_out, validated
from bot.messages.forms.slots import lookup
from bot.messages.forms.values import diff, same, values
from bot.messages.onlookers import revealed
from bot.messages.text import plain, slack_length
from bot.tools import Tool
from bot.tools.declared_secrets import as_json

__all__ = ["FieldErrors", "Parsed", "diff", "edit_modal", "failing", "read_submission", "values"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """An edit that can be stored."""

    arguments: dict[str, Any]  # JSON values after validation, coercion and defaults
    changed: bool  # an edit that changes nothing is no edit
    approve: bool  # the person asked to approve as well; whether that counts is not decided here


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
    places, left_out = laid_out(tool, arguments)
    whole = "" if _title(tool.title) == tool.title else f"{tool.title}\n"
    blocks = [section(f"{whole}Saving resets approvals.")]
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
    places, approve = laid_out(tool, arguments)[0], _ticked(state_values)
    data = entered(places, arguments, state_values)
    if isinstance(data, FieldErrors):
        return data
    if same(data, dict(arguments)):
        return Parsed(copy.deepcopy(dict(arguments)), changed=False, approve=approve)
    args = validated(tool, places, arguments, data, names)
    if isinstance(args, FieldErrors):
        return args
    computed = not arguments.keys().isdisjoint(tool.arguments.model_computed_fields)
    result = as_json(args, computed=computed)
    return Parsed(result, changed=not same(result, dict(arguments)), approve=approve)


def failing(
    tool: Tool[Any], before: Mapping[str, Any], after: Mapping[str, Any], why: str
) -> FieldErrors:
    """Return why the tool says that an edit would fail, at the first input that was changed."""
    places = [place for place in laid_out(tool, before)[0] if place.input]
    changed = [each for each in places if not same(each.value, lookup(after, each.slot.keys))]
    return FieldErrors({each.slot.block_id: shortened([why]) for each in (changed or places)[:1]})


def _ticked(state_values: Mapping[str, Mapping[str, Any]]) -> bool:
    chosen = ((state_values.get(Field.APPROVE_TOO) or {}).get(Entry.VALUE) or {}).get(
        "selected_options"
    ) or []
    return any(option.get("value") == Action.APPROVE for option in chosen)


def _title(title: str) -> str:
    return title if 0 < slack_length(title.strip()) <= 24 else "Edit the call"
