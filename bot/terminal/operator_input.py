"""The inputs that the terminal offers for a call, and typed text as Slack would send it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from bot.cards import button_codec
from bot.cards.action_names import Action, DialogId, InputBlockId, InputElementId
from bot.cards.field_inputs import STATE_KEY_BY_WIDGET, FieldInput, build_field_input
from bot.cards.field_layout import FieldErrors, lay_out_fields
from bot.cards.field_slots import LIST_KINDS, build_slots, get_value_at_keys
from bot.cards.slack_text import show_hidden_characters
from bot.policy.gates import Ask, Gate
from bot.terminal.terminal_messages import TerminalField
from bot.tools import Tool
from bot.tools.arguments import build_readable_arguments, restrict_editable_fields
from bot.tools.person_question import AskPerson, build_answer_form_tool, build_suggested_answers
from storage.masking import mask_secrets
from storage.record import Delivery, Run, new_id
from storage.states import CallVerb, DeliveryKind, Surface

OTHER_REASON_VALUE = "other"  # the Reject dialog's choice to type one's own reason
State = Mapping[str, Mapping[str, Any]]  # a dialog's values, by block id and action id


def build_vote_delivery(
    verb: CallVerb, target: button_codec.CallTarget, words: str, run: Run, person: str
) -> Delivery:
    """Return the delivery of `person`'s vote; `words`: the note of an approval, else the reason."""
    typed: dict[str, Any] = {InputElementId.TEXT: {"value": words}}
    state: State = {InputBlockId.WORDS: typed}
    if verb is CallVerb.APPROVE:
        dialog, state = DialogId.REVIEW, {InputBlockId.NOTE: typed}
    elif verb is CallVerb.BREAK_GLASS:
        dialog = DialogId.BREAK_GLASS
    else:
        chosen: dict[str, Any] = {
            InputElementId.PRESET: {"selected_option": {"value": OTHER_REASON_VALUE}}
        }
        dialog, state = DialogId.REJECT, {InputBlockId.REASON: chosen, **state}
    return build_dialog_submission_delivery(dialog, target, state, run, person)


def build_send_back_delivery(
    target: button_codec.CallTarget, words: str, run: Run, person: str
) -> Delivery:
    """Return the dialog with which `person` sends a call's plan back; words: what to change."""
    state: State = {InputBlockId.WORDS: {InputElementId.TEXT: {"value": words}}}
    return build_dialog_submission_delivery(DialogId.SEND_BACK, target, state, run, person)


def build_dialog_submission_delivery(
    dialog: DialogId, target: button_codec.CallTarget, state: State, run: Run, person: str
) -> Delivery:
    """Return the delivery of a dialog that `person` has filled in."""
    view = {
        "callback_id": dialog,
        "private_metadata": button_codec.encode_dialog_metadata(
            button_codec.DialogSubject(dialog, target)
        ),
        "state": {"values": state},
    }
    return _build_delivery(DeliveryKind.SUBMISSION, {"view": view}, run, run.team, person)


def build_click_delivery(
    action: Action, target: button_codec.Target, run: Run, person: str
) -> Delivery:
    """Return the delivery of a button that `person` has clicked."""
    clicked = {"action_id": action, "value": button_codec.encode_button_value(target)}
    return _build_delivery(DeliveryKind.ACTION, {"actions": [clicked]}, run, run.team, person)


def build_chat_message_delivery(
    words: str, run: Run | None, team: str, person: str, at: datetime
) -> Delivery:
    """Return the delivery of a message to the agent, in the thread of `run` or in a new one."""
    event = {"text": words, "ts": f"{at.timestamp():.6f}"}
    return _build_delivery(DeliveryKind.TYPED, {"event": event}, run, team, person)


def _build_delivery(
    kind: DeliveryKind, body: Mapping[str, Any], run: Run | None, team: str, person: str
) -> Delivery:
    return Delivery(
        key=f"terminal:{new_id()}",
        kind=kind,
        team=team,
        user=person,
        channel=run.channel if run else "",
        thread_ts=run.thread_ts if run else "",
        body=json.dumps(body, ensure_ascii=False),
        surface=Surface.TERMINAL,
    )


_CHOICE_WIDGETS = ("radio_buttons", "static_select")
DATE_TIME_ERROR = "Please enter a date and a time, like 2026-11-21 14:30."


def list_edit_inputs(tool: Tool[Any] | None, gate: Gate | None, arguments: str) -> list[FieldInput]:
    """Return the inputs for a call's stored arguments, as in its Edit dialog; [] without one."""
    if tool is None or not isinstance(gate, Ask):
        return []
    try:
        readable = build_readable_arguments(tool, arguments)
    except ValidationError:  # the stored arguments no longer fit the tool
        return []
    places = lay_out_fields(restrict_editable_fields(tool, gate), readable)[0]
    return [place.input for place in places if place.input]


def list_question_inputs(question: AskPerson) -> list[FieldInput]:
    """Return the inputs for the answer to a question, as in its dialog."""
    tool, initial = build_answer_form_tool(question), build_suggested_answers(question)
    found = [
        build_field_input(slot, get_value_at_keys(initial, slot.keys))
        for slot in build_slots(tool, initial)
    ]
    return [each for each in found if each]


def build_terminal_fields(inputs: Sequence[FieldInput]) -> tuple[TerminalField, ...]:
    """Return inputs as the terminal shows them; what looks like a secret is masked."""
    return tuple(_build_terminal_field(each) for each in inputs)


def get_input_name(field_input: FieldInput) -> str:
    """Return the name of an input, typed before the "=": "amount", "address.city"."""
    return ".".join(field_input.slot.names)


def build_dialog_state(
    inputs: Sequence[FieldInput], typed: Mapping[str, str]
) -> dict[str, dict[str, Any]] | FieldErrors:
    """Return the typed texts as the state of a dialog; inputs that were not typed are left out.

    Returns FieldErrors for texts that do not fit their input, and for names that no input has.
    """
    inputs_by_name = {get_input_name(each): each for each in inputs}
    odd = {
        name: f"There is no such field; {_describe_known_fields(inputs_by_name)}."
        for name in typed.keys() - inputs_by_name
    }
    state: dict[str, dict[str, Any]] = {}
    for name, text in typed.items():
        field_input = inputs_by_name.get(name)
        if field_input is None:
            continue
        element = _build_input_element(field_input, text)
        if isinstance(element, str):
            odd[field_input.slot.block_id] = element
        else:
            state[field_input.slot.block_id] = {InputElementId.VALUE: element}
    return FieldErrors(odd) if odd else state


def format_field_errors(errors: FieldErrors, inputs: Sequence[FieldInput]) -> str:
    """Return the errors as text, a line for each with the label of its input before it."""
    labels = {each.slot.block_id: show_hidden_characters(each.slot.label) for each in inputs}
    errors_by_label = ((labels.get(at, at), why) for at, why in errors.errors.items())
    return "\n".join(f"{label}: {why}" if label else why for label, why in errors_by_label)


def _describe_known_fields(known: Mapping[str, FieldInput]) -> str:
    return f"there are {', '.join(known)}" if known else "it has no fields to fill in"


def _build_terminal_field(made: FieldInput) -> TerminalField:
    chosen = (label for code, label, _ in made.options if code == made.initial_entry)
    return TerminalField(
        name=get_input_name(made),
        label=show_hidden_characters(made.slot.label),
        text=next(chosen, _format_initial_value(made)),
        options=tuple(label for _, label, _ in made.options),
        lines=made.kind in LIST_KINDS,
    )


def _format_initial_value(made: FieldInput) -> str:
    if made.initial_entry is None:
        return ""
    if isinstance(made.initial_entry, int):  # a time, as Unix seconds
        return f"{datetime.fromtimestamp(made.initial_entry, UTC):%Y-%m-%d %H:%M}"
    return show_hidden_characters(mask_secrets(made.initial_entry))


def _build_input_element(made: FieldInput, typed: str) -> dict[str, Any] | str:
    """Return what Slack's input would send for the typed text, or a sentence on what is wrong."""
    if made.widget in _CHOICE_WIDGETS:
        codes = list(_list_matching_options(made, typed))
        if len(codes) != 1:
            return (
                f"Please choose one of these: {', '.join(label for _, label, _ in made.options)}."
            )
        return {"selected_option": {"value": codes[0]}}
    if made.widget == "datetimepicker":
        return _parse_date_time(typed)
    return {STATE_KEY_BY_WIDGET.get(made.widget, "value"): typed or None}


def _list_matching_options(made: FieldInput, typed: str) -> Iterator[str]:
    """Yield the values of the options that were typed, by their label or their value."""
    wanted = " ".join(typed.split()).casefold()
    for code, label, _ in made.options:
        if wanted in (code.casefold(), " ".join(label.split()).casefold()):
            yield code


def _parse_date_time(typed: str) -> dict[str, Any] | str:
    if not typed.strip():
        return {"selected_date_time": None}
    try:
        moment = datetime.fromisoformat(typed.strip())
    except ValueError:
        return DATE_TIME_ERROR
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return {"selected_date_time": int(aware.timestamp())}
