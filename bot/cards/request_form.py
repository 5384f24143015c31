"""The form in which a person enters the arguments of a tool, to ask for a call of it. Pure.

It is built from the tool's argument model, as the Edit dialog is, and read by the same layout. What
a template fixes is shown as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined, to_jsonable_python

from bot.cards import block_kit, button_codec, field_layout, sentences, slack_text
from bot.cards.action_names import Action, BlockRole, DialogId, InputBlockId
from bot.cards.answers import count_rows_fitting_table, render_notice_sentence, render_result_table
from bot.cards.field_slots import FieldSlot, SlotKind, SlotSentinel, build_slots, get_value_at_keys
from bot.tools import Tool
from bot.tools.declared_values import get_dump_key
from bot.tools.person_question import ASK_PERSON
from storage.masking import mask_secrets
from storage.states import ChannelMode

_URL_PATTERN = re.compile(r"https?://[!-~]{1,500}")


def render_request_root_message(
    person: str, effect: str, link: str, mode: ChannelMode = ChannelMode.ASK, client: str = ""
) -> tuple[str, list[block_kit.Json]]:
    """Return text and blocks of the message that begins a request made without the agent.

    `link`: the message that the request is about, "" for none; `mode`: the channel mode that limits
    the request; `client`: the program that asks for that person.
    """
    text = sentences.request_opening_line(person, effect, client)
    blocks = [*render_notice_sentence(text), *render_request_mode_note(mode)]
    if _URL_PATTERN.fullmatch(link):
        link_leaf = {"type": "link", "url": link, "text": "The message it is about"}
        blocks.append(
            block_kit.rich_text_block(
                "about", [block_kit.rich_text_line(block_kit.text_leaf("💬 "), link_leaf)]
            )
        )
    return text, blocks


def render_request_mode_note(mode: ChannelMode) -> list[block_kit.Json]:
    """Return small print that names the channel's mode (strict, observe); nothing for ask mode."""
    return (
        []
        if mode is ChannelMode.ASK
        else [
            block_kit.context_block("mode", [block_kit.mrkdwn(sentences.request_mode_note(mode))])
        ]
    )


MAX_MENU_OPTIONS = 100  # in all its groups together
MAX_OPTION_CHARS = 75
_LABEL_BY_GROUP = {
    "template": "Prepared",
    "write": "Changes something",
    "destructive": "Cannot be undone",
    "": "Not known whether it can be undone",
    "read": "Looks something up",
}


@dataclass(frozen=True, slots=True)
class RequestFormChoice:
    """A tool or a template that a person may choose to ask for."""

    kind: button_codec.FormSource
    name: str
    title: str
    does: str  # read | write | destructive; "" if that is not stated

    @property
    def group_key(self) -> str:
        """The key of the heading under which the menu lists this choice."""
        return self.does if self.kind is button_codec.FormSource.TOOL else str(self.kind)


def render_request_picker_dialog(
    choices: Sequence[RequestFormChoice], setting: button_codec.FormContext
) -> block_kit.Json:
    """Build the dialog in which a person chooses what to ask for.

    It says how many choices the menu has no room for; they can be asked for by name.
    """
    shown_choices = choices[:MAX_MENU_OPTIONS]
    menu: block_kit.Json = {
        "type": "static_select",
        "action_id": Action.PICK,
        "placeholder": block_kit.plain_text("Choose, or type to search"),
        "option_groups": _group_options(shown_choices),
    }
    lead = "Choose a request. Approvers see everything you enter."
    blocks: list[block_kit.Json] = [
        {**block_kit.section_block(BlockRole.PICKER, block_kit.plain_text(lead)), "accessory": menu}
    ]
    if more := len(choices) - len(shown_choices):
        more_text = f"There are {more} more: type a name after /approvals request."
        blocks.append(
            block_kit.section_block(f"{BlockRole.PICKER}:more", block_kit.plain_text(more_text))
        )
    return block_kit.dialog_view(
        button_codec.DialogSubject(DialogId.PICK, setting), "New request", blocks, close="Cancel"
    )


def render_form_invitation(person: str, channel: str) -> tuple[str, list[block_kit.Json]]:
    """Return text and blocks that show a person how to ask with a form, in this `channel`."""
    text = sentences.no_model_reply(person)
    ask = block_kit.button(Action.REQUEST, "Ask", button_codec.FormContext(channel))
    return text, [
        *render_notice_sentence(text),
        block_kit.actions_block(f"{BlockRole.PICKER}:ask", [ask]),
    ]


def _group_options(choices: Sequence[RequestFormChoice]) -> list[block_kit.Json]:
    groups = [
        (label, [_build_option(each) for each in choices if each.group_key == group])
        for group, label in _LABEL_BY_GROUP.items()
    ]
    return [
        {"label": block_kit.plain_text(label), "options": found} for label, found in groups if found
    ]


def _build_option(choice: RequestFormChoice) -> block_kit.Json:
    title = " ".join(slack_text.show_hidden_characters(choice.title).split()) or choice.name
    option_text = (
        slack_text.shorten_text(title, MAX_OPTION_CHARS)
        if slack_text.count_slack_characters(title) > MAX_OPTION_CHARS
        else title
    )
    return {
        "text": block_kit.plain_text(option_text),
        "value": button_codec.encode_button_value(
            button_codec.FormTarget(choice.kind, choice.name)
        ),
    }


MAX_QUOTE_CHARS = 700  # of the message that a form is about
MAX_REASON_CHARS = 500


@dataclass(frozen=True, slots=True)
class CompletedRequestForm:
    """What a valid submitted form asks for."""

    values: dict[str, Any]  # JSON values as they were entered, with defaults
    arguments: BaseModel
    reason: str  # the requester's words, for the approver


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The form of one tool, and the values it shows at first."""

    tool: Tool[Any]
    title: str
    initial_values: Mapping[str, Any]  # JSON values
    fixed_fields: frozenset[str] = frozenset()  # fields that a template has fixed

    @property
    def tool_with_fillable_fields(self) -> Tool[Any]:
        """The tool with all of its fields editable but those that are fixed."""
        fields = frozenset(self.tool.arguments.model_fields) - self.fixed_fields
        return replace(self.tool, editable=fields)


def build_default_values(tool: Tool[Any]) -> dict[str, Any]:
    """Return the values a new form begins with: the defaults of the tool's fields."""
    model, defaults = tool.arguments, dict[str, Any]()
    nullable = {slot.names[0] for slot in build_slots(tool, {}) if slot.nullable}
    for name, field in model.model_fields.items():
        if name in tool.secret:
            continue
        key = get_dump_key(model, name)
        if field.default is not PydanticUndefined:
            defaults[key] = to_jsonable_python(field.default)
        elif field.is_required() and name in nullable:
            defaults[key] = None
    for slot in build_slots(tool, defaults):  # a nested model is filled in field by field
        if (
            slot.kind is SlotKind.JSON
            and "properties" in slot.schema
            and _is_absent_at_top_level(slot, defaults)
        ):
            defaults[slot.keys[0]] = {}
    return defaults


def _is_absent_at_top_level(slot: FieldSlot, values: Mapping[str, Any]) -> bool:
    return len(slot.keys) == 1 and get_value_at_keys(values, slot.keys) is SlotSentinel.ABSENT


def can_ask_with_form(tool: Tool[Any], fixed: Mapping[str, Any] | None = None) -> bool:
    """Return whether a form can hold all that a call of this tool needs beside what is `fixed`.

    Secrets are not entered in a form, since Slack shows and keeps what is entered. Questions to
    people and sub-agents are left to the agent.
    """
    if tool.name == ASK_PERSON.name or tool.agent is not None:
        return False
    initial = {**build_default_values(tool), **(fixed or {})}
    places, left_out = field_layout.lay_out_fields(replace(tool, editable=None), initial)
    shut = [*left_out, *(place.slot for place in places if place.slot.secret)]
    absent = [slot for slot in shut if _is_absent_at_top_level(slot, initial)]
    return not any(_is_required(tool, slot) for slot in absent)


def _is_required(tool: Tool[Any], slot: FieldSlot) -> bool:
    model: Any = tool.arguments
    for name in slot.names[:-1]:
        if (model := _find_nested_model(model, name)) is None:
            return False
    field = model.model_fields.get(slot.names[-1])
    return field is not None and field.is_required()


def _find_nested_model(model: Any, name: str) -> Any:
    """Return the model that is this field's type; None if its type is no model."""
    field = model.model_fields.get(name)
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def list_template_value_problems(tool: Tool[Any], fixed: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the values that a template fixes, one sentence for each fault."""
    known_fields = tool.arguments.model_fields
    problems = [f"{tool.name} has no field {name!r}" for name in fixed if name not in known_fields]
    problems += [
        f"{name} is secret, so no form may contain it" for name in fixed if name in tool.secret
    ]
    try:
        tool.arguments.model_validate_json(json.dumps(dict(fixed)), by_alias=True, by_name=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        problems += [
            f"{each['loc'][0]}: {each['msg'][:1].lower()}{each['msg'][1:]}"
            for each in wrong
            if each["loc"] and each["loc"][0] in known_fields and each["loc"][0] in fixed
        ]
    if not problems and not can_ask_with_form(tool, fixed):
        problems.append("a form cannot hold everything it needs: fix the rest too")
    return problems


def prefill_with_message_text(
    tool: Tool[Any], initial: Mapping[str, Any], text: str
) -> dict[str, Any]:
    """Return the form's values with a message's text put in the field that seems meant for it.

    That is an empty free-text field with room for the text: a required one first, then the longest.
    """
    free = [
        place
        for place in field_layout.lay_out_fields(replace(tool, editable=None), initial)[0]
        if place.input is not None and place.slot.kind is SlotKind.TEXT
        if _is_absent_at_top_level(place.slot, initial) and not place.slot.schema.get("pattern")
    ]
    room = [(int(each.slot.schema.get("maxLength", 3000)), each) for each in free]
    fitting = [(most, each) for most, each in room if most >= max(len(text), 80)]
    if not text.strip() or not fitting:
        return dict(initial)
    slot = max(fitting, key=lambda each: (_is_required(tool, each[1].slot), each[0]))[1].slot
    return {**initial, slot.keys[0]: text}


def quoted_message_line(quoted: str) -> str:
    """Return the plain text with which a form and a request quote the message they are about."""
    return f"About this message: “{' '.join(slack_text.show_hidden_characters(quoted).split())}”"


def render_request_form_dialog(
    form: RequestForm, target: button_codec.FormTarget
) -> block_kit.Json:
    """Build the form's dialog; its metadata notes the tool or template and the quoted message."""
    quoted = target.form_context.quoted
    places, left_out = field_layout.lay_out_fields(
        form.tool_with_fillable_fields, form.initial_values
    )
    channel = target.form_context.channel
    place = (
        f"in {slack_text.channel_mention(channel)}" if channel else "in a direct message with you"
    )
    where = block_kit.mrkdwn(f"📍 This starts a new thread {place}.")
    blocks: list[block_kit.Json] = [block_kit.context_block(BlockRole.PLACE, [where])]
    title = block_kit.choose_dialog_title(form.title, "New request")
    if title != form.title:
        blocks.insert(
            0,
            block_kit.section_block(
                f"{BlockRole.HEADLINE}:0",
                block_kit.plain_text(slack_text.shorten_text(form.title, 1000)),
            ),
        )
    if quoted.strip():
        about = block_kit.plain_text(slack_text.shorten_text(quoted_message_line(quoted), 900))
        blocks.append(block_kit.context_block(f"{BlockRole.REQUEST}:0", [about]))
    for each in places:
        blocks += _render_form_field(form.tool, each)
    if left_out:
        names = ", ".join(slot.label for slot in left_out)
        left_out_text = f"No room here for these; they stay as they are: {names}"
        blocks.append(
            block_kit.section_block(
                f"{BlockRole.MISSING}:0",
                block_kit.plain_text(slack_text.shorten_text(left_out_text, 2900)),
            )
        )
    why = block_kit.build_text_input("For the people who decide")
    blocks.append(block_kit.build_input_block(InputBlockId.WHY, "Why?", why, optional=True))
    subject = button_codec.DialogSubject(DialogId.REQUEST, target)
    view = block_kit.dialog_view(subject, title, blocks, submit="Ask", close="Cancel")
    return button_codec.add_thread_to_metadata(view, channel, "")


def _render_form_field(
    tool: Tool[Any], place: field_layout.LaidOutField
) -> Sequence[block_kit.Json]:
    """Return a value's blocks, with required ones marked; a secret has none."""
    if place.slot.secret:
        return []
    field = place.input
    if field is None or field.may_be_empty is False:
        return place.blocks
    needed = _is_required(tool, place.slot) and not place.slot.nullable
    hint = field_layout.build_input_hint(field, new=True)
    [block] = place.blocks
    drawn = {**block, "optional": not needed}
    drawn.pop("hint", None)
    return [
        {**drawn, "hint": block_kit.plain_text(slack_text.shorten_text(hint, 1000))}
        if hint
        else drawn
    ]


def parse_form_submission(
    form: RequestForm, state_values: Mapping[str, Mapping[str, Any]], names: object = None
) -> CompletedRequestForm | field_layout.FieldErrors:
    """Return the entries of a submitted request form, or the errors by input.

    Takes the form that was shown and `view.state.values`. `names` turns names that were entered
    into ids (`bot.tools.names.SlackIdResolver`), and may look them up.
    """
    tool = form.tool_with_fillable_fields
    places = field_layout.lay_out_fields(tool, form.initial_values)[0]
    values = field_layout.apply_entries_to_arguments(places, form.initial_values, state_values)
    if isinstance(values, field_layout.FieldErrors):
        return values
    args = field_layout.validate_entered_arguments(tool, places, form.initial_values, values, names)
    if isinstance(args, field_layout.FieldErrors):
        return args
    return CompletedRequestForm(
        values, args, block_kit.get_entered_text(state_values, InputBlockId.WHY)[:MAX_REASON_CHARS]
    )


# The result of a look-up for people: its fields, or its text as it is. Pure.

MAX_RESULT_CHARS = 2_600  # of a result shown in the thread
MAX_RESULT_FIELDS = 30
MAX_TABLE_ROWS = 20
MAX_TABLE_COLUMNS = 10


def render_lookup_result(effect: str, text: str) -> tuple[str, list[block_kit.Json]]:
    """Return notification and blocks of a look-up's result; `effect`: what was looked up."""
    head = slack_text.sanitise_as_plain_text(effect)
    title = block_kit.rich_text_line(
        block_kit.text_leaf("🔎 "), block_kit.text_leaf(head, bold=True)
    )
    result = _parse_json_or_none(text)
    rows = _render_result_rows(result)
    lines = _render_result_fields(result) if isinstance(result, dict) else []
    if not lines and not rows:
        lines = [
            block_kit.rich_text_preformatted(
                slack_text.shorten_text(
                    slack_text.show_hidden_characters(mask_secrets(text)).strip() or "(empty)",
                    MAX_RESULT_CHARS,
                )
            )
        ]
    return slack_text.escape_mrkdwn(f"🔎 {head}"), [
        block_kit.rich_text_block("n", [title, *lines]),
        *rows,
    ]


def _parse_json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _render_result_fields(result: dict[str, Any]) -> list[block_kit.Json]:
    """Return a line for each field of a JSON object without its lists of objects, if few enough."""
    shown_fields = {
        name: value for name, value in result.items() if not _is_list_of_flat_objects(value)
    }
    if not shown_fields or len(shown_fields) > MAX_RESULT_FIELDS:
        return []
    most = max(MAX_RESULT_CHARS // len(shown_fields), 60)
    return [
        block_kit.rich_text_line(
            block_kit.text_leaf(
                f"{_make_visible(slack_text.humanise_field_name(str(name)), 80)}:  ", bold=True
            ),
            block_kit.text_leaf(_make_visible(mask_secrets(_format_result_value(value)), most)),
        )
        for name, value in shown_fields.items()
    ]


def _make_visible(text: str, most: int) -> str:
    return slack_text.shorten_text(
        slack_text.isolate_right_to_left_text(slack_text.show_hidden_characters(text)), most
    )


def _is_list_of_flat_objects(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and each for each in value)
        and not any(isinstance(cell, dict) for each in value for cell in each.values())
    )


def _render_result_rows(result: Any) -> list[block_kit.Json]:
    inside = result.items() if isinstance(result, dict) else [("rows", result)]
    name, rows = next(
        ((key, each) for key, each in inside if _is_list_of_flat_objects(each)), ("", [])
    )
    if not rows:
        return []
    columns = list(dict.fromkeys(key for each in rows for key in each))
    titles = [slack_text.humanise_field_name(str(each)) for each in columns[:MAX_TABLE_COLUMNS]]
    cells = [
        [mask_secrets(_format_result_value(each.get(key))) for key in columns[:MAX_TABLE_COLUMNS]]
        for each in rows[:MAX_TABLE_ROWS]
    ]
    cells = cells[: count_rows_fitting_table(titles, cells)]
    return render_result_table(
        {
            "title": slack_text.humanise_field_name(str(name)),
            "columns": titles,
            "rows": cells,
            "total": len(rows),
            "width": len(columns),
            "more": False,
            "file": "",
        }
    )


def _format_result_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(map(_format_result_value, value)) or "—"
    if isinstance(value, dict | list) and value:
        return json.dumps(value, ensure_ascii=False)
    return "—" if value in (None, "", {}) else str(value)
