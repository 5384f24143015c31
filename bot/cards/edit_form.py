"""The Edit dialog: built from a tool's argument model and a call's arguments, and read back. Pure.

It stores nothing and asks nobody.

Every value of the arguments has its place in the dialog: an input, or text if it cannot be edited
(secret, not editable by the tool, too long for an input). A value without an input, or whose input
nobody touched, is kept exactly. `field_inputs` describes how unset, empty and the various kinds are
written; `field_slots`, which kind a value has. `field_values` shows arguments on cards.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any

from bot.cards import block_kit, field_layout
from bot.cards.action_names import Action, DialogId, InputBlockId, InputElementId
from bot.cards.button_codec import CallTarget, DialogSubject
from bot.cards.field_slots import SlotKind
from bot.cards.field_values import NULL_LABEL, format_json_value, is_same_json
from bot.cards.review_dialog import hidden_on_card_note
from bot.cards.slack_text import shorten_text, show_hidden_characters
from bot.cards.views import UNSET_LABEL, ArgumentValue
from bot.tools import Tool
from bot.tools.declared_values import dump_with_secrets
from storage.masking import MASK, ValuePath

_TEXT_FORM_KINDS = (
    SlotKind.TEXT,
    SlotKind.CHOICE,
    SlotKind.DATETIME,
    SlotKind.TIME,
)  # all forms in which a text may be shown
_NULL_TEXTS = (UNSET_LABEL, NULL_LABEL)


def find_first_unshown_argument_path(
    runs: Mapping[str, Any],
    as_read: Mapping[str, Any],
    rows: Sequence[ArgumentValue],
    secret: Collection[ValuePath] = (),
) -> ValuePath | None:
    """Return the path of the first argument value that the text for people does not show in full.

    None if all are shown. `runs`: the JSON that is digested and handed to the tool. `as_read`: the
    same JSON in the form from which `rows` were made, with amounts as their type writes them and
    names beside ids. Every leaf is checked: a text, a number, true, false, null, or an empty object
    or list. `secret`: the paths whose values may be masked.
    """
    by_path: dict[ValuePath, ArgumentValue] = {row.path: row for row in rows}
    if len(by_path) < len(rows):
        return ()
    leaves = dict(iterate_json_leaves(as_read))
    if (
        differing_path := _find_first_difference(dict(iterate_json_leaves(runs)), leaves)
    ) is not None:
        return differing_path
    for path in leaves if as_read else ():
        row = next(
            (by_path[path[:n]] for n in range(len(path), 0, -1) if path[:n] in by_path), None
        )
        if row is None or not row.label.strip():
            return path
    for row in rows:
        value = _get_value_at_path(as_read, row.path)
        if row.mentions:  # shown as these ids only, whatever its text says
            run_value = _get_value_at_path(runs, row.path)
            if list(row.mentions) != (run_value if isinstance(run_value, list) else [run_value]):
                return row.path
        below = frozenset(p[len(row.path) :] for p in secret if p[: len(row.path)] == row.path)
        masked = any(row.path[: len(p)] == p for p in secret)
        if value is not _MISSING and not _is_value_shown_in_text(
            row.text, value, below | ({()} if masked else set())
        ):
            return row.path
    return None


def iterate_json_leaves(value: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Any]]:
    """Yield each leaf of a JSON value with its path, in the order of the value."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from iterate_json_leaves(each, (*path, key))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from iterate_json_leaves(each, (*path, place))
    else:
        yield path, value


_MISSING = object()


def _get_value_at_path(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _find_first_difference(
    runs: Mapping[ValuePath, Any], as_read: Mapping[ValuePath, Any]
) -> ValuePath | None:
    """Return the first path where what people read differs from what would run; None for none."""
    for path, value in runs.items():
        if path not in as_read or not _is_same_value(value, as_read[path]):
            return path
    return next((path for path in as_read if path not in runs), None)


def _is_same_value(value: Any, as_read: Any) -> bool:
    if isinstance(value, bool) or isinstance(as_read, bool) or value is None or as_read is None:
        return value is as_read
    if value == as_read:
        return True
    if isinstance(value, str) and isinstance(as_read, str) and as_read.endswith(f" ({value})"):
        return True  # an id after its name
    try:
        return Decimal(str(value)) == Decimal(str(as_read))  # an amount, or a long number
    except DecimalException:
        return False


def _is_value_shown_in_text(text: str, value: Any, secret: frozenset[ValuePath]) -> bool:
    """Return whether a row's text shows this value: one leaf, or all of its leaves in order."""
    if () in secret and value is not None:
        return text == MASK
    if not isinstance(value, Mapping | list) or not value:
        return text in _list_written_forms(value)
    at = 0
    for forms in _iterate_expected_texts(value, secret):
        places = [(text.find(form, at), len(form)) for form in forms]
        there = [(place, size) for place, size in places if place >= 0]
        if not there:
            return False
        place, size = min(there, key=lambda each: (each[0], -each[1]))
        at = place + size
    return True


def _iterate_expected_texts(value: Any, secret: frozenset[ValuePath]) -> Iterator[tuple[str, ...]]:
    """Yield what a text that shows this value has to contain, in order, in each possible form."""
    if () in secret and value is not None:
        yield (MASK,)
    elif isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield (f"{show_hidden_characters(json.dumps(key, ensure_ascii=False))}:",)
            yield from _iterate_expected_texts(
                each, frozenset(p[1:] for p in secret if p[:1] == (key,))
            )
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from _iterate_expected_texts(
                each, frozenset(p[1:] for p in secret if p[:1] == (place,))
            )
    else:
        yield _list_written_forms(value)


def _list_written_forms(value: Any) -> tuple[str, ...]:
    """Return the forms in which a text may show this leaf of a JSON value."""
    as_json = show_hidden_characters(json.dumps(value, ensure_ascii=False))
    if value is None:
        return (*_NULL_TEXTS, as_json)
    kinds = _TEXT_FORM_KINDS if isinstance(value, str) else (SlotKind.TEXT,)
    return (as_json, *(format_json_value(value, kind) for kind in kinds))


@dataclass(frozen=True, slots=True)
class ParsedEdit:
    """A valid edit, ready to be stored."""

    arguments: dict[str, Any]  # JSON values after validation, coercion and defaults
    changed: bool  # if not, there is nothing to store
    approve: bool  # the person also asked to approve; whether that counts is decided elsewhere


def render_edit_dialog(
    tool: Tool[Any],
    arguments: Mapping[str, Any],
    *,
    target: CallTarget,
    save_and_approve: bool,
    covered: Sequence[str] = (),
) -> dict[str, Any]:
    """Build the Edit dialog: an input for each argument that can be edited, text for the others.

    `arguments` are the validated arguments as `model_dump(mode="json")` gives them;
    `save_and_approve` adds a checkbox, as Slack has only one submit button; `covered`: names of
    what other people do not see in full. The metadata holds the call and its revision, never a
    value.
    """
    places, left_out = field_layout.lay_out_fields(tool, arguments)
    title = block_kit.choose_dialog_title(tool.title, "Edit the call")
    whole = "" if title == tool.title else f"{tool.title}\n"
    blocks = [block_kit.plain_text_section_block(f"{whole}Saving resets approvals.")]
    if covered:
        blocks.append(block_kit.plain_text_section_block(hidden_on_card_note(covered)))
    for place in places:
        blocks += place.blocks
    if left_out:
        names = ", ".join(slot.label for slot in left_out)
        blocks.append(
            block_kit.plain_text_section_block(
                shorten_text(f"No room here for these; they stay unchanged: {names}", 2900)
            )
        )
    if save_and_approve:
        blocks.append(_render_approve_too_checkbox())
    about = DialogSubject(DialogId.EDIT, target)
    return block_kit.dialog_view(about, title, blocks, submit="Save", close="Cancel")


def _render_approve_too_checkbox() -> dict[str, Any]:
    """Build the checkbox that also approves a saved edit; a dialog has only one submit button."""
    option = {"text": block_kit.plain_text("Approve it as well"), "value": Action.APPROVE}
    element = {"type": "checkboxes", "action_id": InputElementId.VALUE, "options": [option]}
    return block_kit.build_input_block(
        InputBlockId.APPROVE_TOO, "After saving", element, optional=True
    )


def parse_edit_submission(
    tool: Tool[Any],
    arguments: Mapping[str, Any],
    state_values: Mapping[str, Mapping[str, Any]],
    names: object = None,
) -> ParsedEdit | field_layout.FieldErrors:
    """Read a submitted Edit dialog, given the arguments it was made from and `view.state.values`.

    `names` turns names that were entered into ids (`bot.tools.names.SlackIdResolver`), and may look
    them up. Only inputs that `render_edit_dialog` makes for these arguments are read; anything else
    in the state is ignored.
    """
    places = field_layout.lay_out_fields(tool, arguments)[0]
    approve = _is_approve_checked(state_values)
    data = field_layout.apply_entries_to_arguments(places, arguments, state_values)
    if isinstance(data, field_layout.FieldErrors):
        return data
    if is_same_json(data, dict(arguments)):
        return ParsedEdit(copy.deepcopy(dict(arguments)), changed=False, approve=approve)
    args = field_layout.validate_entered_arguments(tool, places, arguments, data, names)
    if isinstance(args, field_layout.FieldErrors):
        return args
    computed = not arguments.keys().isdisjoint(tool.arguments.model_computed_fields)
    result = dump_with_secrets(args, computed=computed)
    return ParsedEdit(result, changed=not is_same_json(result, dict(arguments)), approve=approve)


def _is_approve_checked(state_values: Mapping[str, Mapping[str, Any]]) -> bool:
    chosen = (
        (state_values.get(InputBlockId.APPROVE_TOO) or {}).get(InputElementId.VALUE) or {}
    ).get("selected_options") or []
    return any(option.get("value") == Action.APPROVE for option in chosen)
