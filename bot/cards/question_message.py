"""The message of a question to a person: the agent's words, the buttons, then the answer. Pure.

What the agent and people wrote is quoted as plain text. Nothing here approves anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.cards.action_names import Action, BlockKind, DialogId
from bot.cards.block_kit import (
    Json,
    actions_block,
    button,
    context_block,
    dialog_view,
    mrkdwn,
    overflow_menu,
    plain_text,
    rich_text_block,
    rich_text_line,
    rich_text_quote,
    section_block,
    text_leaf,
    time_leaf,
    user_leaf,
)
from bot.cards.button_codec import CallTarget, Click, DialogSubject, RunTarget, build_block_id
from bot.cards.call_blocks import render_delegated_tasks
from bot.cards.edit_form import FieldErrors, parse_edit_submission
from bot.cards.field_inputs import build_field_input
from bot.cards.field_layout import render_field_input
from bot.cards.field_slots import build_slots, get_value_at_keys
from bot.cards.field_values import list_argument_values
from bot.cards.notices import asking_server_line, away_note
from bot.cards.slack_text import (
    escape_mrkdwn,
    format_in_utc,
    format_time_with_countdown,
    group_mention,
    isolate_right_to_left_text,
    shorten_text,
    show_hidden_characters,
    unescape_mrkdwn,
    user_mention,
)
from bot.cards.views import UNSET, DelegatedTask
from bot.tools.person_question import (
    AnswerKind,
    AnswerValues,
    AskPerson,
    build_answer_form,
    build_suggested_values,
    validate_answer,
)
from countersign.durations import format_rough_duration
from storage.states import CallStatus

TOLD = " gets your answer, and it is shown under the question. It approves nothing."
FILL_IN = "Please fill this in."


def render_answer_dialog(question: AskPerson, target: CallTarget, asker: str = "the agent") -> Json:
    """Build the dialog in which a person answers a question, with suggested values filled in.

    `asker`: who gets the answer, in mrkdwn.
    """
    tool, initial = build_answer_form(question), build_suggested_values(question)
    asked = rich_text_quote(shorten_text(show_hidden_characters(question.question), 2_900))
    blocks = [rich_text_block(BlockKind.QUESTION, [asked])]
    for slot in build_slots(tool, initial):
        made = build_field_input(slot, get_value_at_keys(initial, slot.keys))
        if made:
            block = {**render_field_input(made), "optional": slot.nullable}
            block.pop("hint", None)  # how "not set" differs from empty matters to no answer
            blocks.append(block)
    told = unescape_mrkdwn(asker[:1].upper() + asker[1:]) + TOLD
    blocks.append({"type": "context", "elements": [plain_text(shorten_text(told, 200))]})
    about = DialogSubject(DialogId.ANSWER, target)
    return dialog_view(about, "Answer", blocks, submit="Answer", close="Back")


def parse_answer_submission(
    question: AskPerson, state: Mapping[str, Mapping[str, Any]]
) -> AnswerValues | FieldErrors:
    """Return the answer from a submitted dialog, given `view.state.values`, or the errors."""
    tool, initial = build_answer_form(question), build_suggested_values(question)
    parsed = parse_edit_submission(tool, initial, state)
    if isinstance(parsed, FieldErrors):
        return parsed
    first = build_slots(tool, initial)[0].block_id
    return validate_answer(question, parsed.arguments) or FieldErrors({first: FILL_IN})


# label, value in words, the suggestion where it was corrected
ReadableAnswerValue = tuple[str, str, str | None]


def build_readable_answer(
    question: AskPerson, given: AnswerValues
) -> tuple[ReadableAnswerValue, ...]:
    """Return each value as a person reads it, with the agent's suggestion if it was corrected."""
    tool, initial = build_answer_form(question), build_suggested_values(question)
    before = {each.label: each.text for each in list_argument_values(tool, {**given, **initial})}
    told = [field.label for field in question.list_fields() if field.suggestion]
    return tuple(
        (
            each.label,
            each.text,
            before[each.label] if each.label in told and before[each.label] != each.text else None,
        )
        for each in list_argument_values(tool, given)
    )


CHOOSING = (
    Action.CHOOSE_1,
    Action.CHOOSE_2,
    Action.CHOOSE_3,
    Action.CHOOSE_4,
    Action.CHOOSE_5,
)


def build_button_choices(question: AskPerson) -> dict[Action, tuple[str, Any]]:
    """Return label and value of each button that answers at once; none if a form is needed."""
    if question.kind is AnswerKind.YES_NO:
        return {CHOOSING[0]: ("Yes", True), CHOOSING[1]: ("No", False)}
    if question.kind is AnswerKind.CHOICE and len(question.options) <= len(CHOOSING):
        pairs = zip(CHOOSING, question.options, strict=False)
        return {action: (option, option) for action, option in pairs}
    return {}


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One question to a person, as everybody who sees its message may read it."""

    id: str
    revision: int
    asked: AskPerson
    status: CallStatus
    run: str  # id of the request
    requester: str  # Slack user id of whom it is asked for
    users: tuple[str, ...]  # who may answer
    group: str = ""  # a user group (S…) whose members may
    deadline: datetime | None = None
    origin: str = ""  # permalink of the request when the question is asked elsewhere
    answered_by: str = ""
    answered_at: datetime | None = None
    lines: tuple[ReadableAnswerValue, ...] = ()  # the answer
    declined: bool = False
    # the sub-agents between the requester's agent and it
    delegated_tasks: tuple[DelegatedTask, ...] = ()
    asker: str = "the agent"  # who asks, in mrkdwn
    server: str = ""  # the MCP server that asks, where one does
    server_task: str = ""  # what that server is to do, in a sentence
    away_people: tuple[tuple[str, datetime | None], ...] = ()  # who of those asked, and until when

    @property
    def target(self) -> CallTarget:
        """The target of the buttons for this question."""
        return CallTarget(self.id, self.revision)


QUOTED = 1_000  # characters of an answer's field
NOTIFICATION = 200  # characters of the question on a lock screen
ENDED = {
    CallStatus.EXPIRED: "⌛ Nobody answered in time.",
    CallStatus.CANCELLED: "⏹️ No longer needed: the request or this question was taken back.",
    CallStatus.SUPERSEDED: "↪️ No longer needed: the request was changed.",
}
WITHDRAW = "Withdraw the question (who asked)"
CANCEL = "Cancel the request (who asked)"
OTHERWISE = "⚠️ No longer needed: something has changed since."
REPLY = "A reply in this thread answers it, too."
NO_APPROVAL = "For information, not an approval."


def render_question_message(view: QuestionView, now: datetime) -> tuple[str, list[Json]]:
    """Return the notification and the blocks of a question, as of `now` (aware).

    There are buttons while the question waits, then the answer or how it ended.
    """
    asked = rich_text_block(
        build_block_id(BlockKind.QUESTION, view.target),
        [rich_text_quote(_shorten_question(view, 600))],
    )
    if view.status is CallStatus.ANSWERED:
        said_so = "cannot answer" if view.declined else "answered"
        return f"💬 {user_mention(view.answered_by)} {said_so} a question.", [
            asked,
            _render_answer(view),
        ]
    if view.status is not CallStatus.PENDING or (view.deadline and now >= view.deadline):
        gone = CallStatus.EXPIRED if view.status is CallStatus.PENDING else view.status
        text = ENDED.get(gone, OTHERWISE)
        return text, [
            asked,
            context_block(build_block_id(BlockKind.OUTCOME, view.target), [mrkdwn(text)]),
        ]
    to = mrkdwn(f"💬 {_mention_answerers(view)}, {view.asker} asks:")
    head = section_block(build_block_id(BlockKind.HEADLINE, view.target), to)
    blocks = [head, *render_delegated_tasks(view.target, view.delegated_tasks)]
    if view.server:
        line_ = plain_text(unescape_mrkdwn(asking_server_line(view.server, view.server_task)))
        blocks.append(context_block(build_block_id(BlockKind.SERVER, view.target), [line_]))
    blocks.append(asked)
    blocks.append(
        actions_block(build_block_id(BlockKind.ANSWERS, view.target), _render_answer_buttons(view))
    )
    small = mrkdwn(_build_small_print(view))
    blocks.append(context_block(build_block_id(BlockKind.SMALL_PRINT, view.target), [small]))
    return _build_notification(view, now), blocks


def _shorten_question(view: QuestionView, limit: int) -> str:
    return shorten_text(show_hidden_characters(view.asked.question), limit)


def _mention_answerers(view: QuestionView) -> str:
    return group_mention(view.group) if view.group else ", ".join(map(user_mention, view.users))


def _render_answer_buttons(view: QuestionView) -> list[Json]:
    row = [
        button(action, shorten_text(show_hidden_characters(label), 75), view.target)
        for action, (label, _) in build_button_choices(view.asked).items()
    ] or [button(Action.ANSWER, "Answer…", view.target, style="primary")]
    more = [
        (WITHDRAW, Click(Action.WITHDRAW, view.target)),
        (CANCEL, Click(Action.CANCEL_RUN, RunTarget(view.run))),
    ]
    return [*row, button(Action.DECLINE, "I can't say", view.target), overflow_menu(more)]


def _build_small_print(view: QuestionView) -> str:
    link = (
        escape_mrkdwn(view.origin.replace("|", "%7C")) if view.origin.startswith("https://") else ""
    )
    alone = view.users == (view.requester,)
    parts = [] if alone else [f"For a request by {user_mention(view.requester)}"]
    parts += [f"<{link}|see it>"] if link else []
    parts += [f"⏳ Answer by {format_time_with_countdown(view.deadline)}"] if view.deadline else []
    parts += [away_note(view.away_people)] if view.away_people else []
    if view.asked.kind is AnswerKind.TEXT:
        parts.append(REPLY)
    return "  ·  ".join([*parts, NO_APPROVAL])


def _render_answer(view: QuestionView) -> Json:
    said = " cannot say" if view.declined else " answered"
    leaves = [text_leaf("💬 "), user_leaf(view.answered_by), text_leaf(said)]
    leaves += [text_leaf(" · "), time_leaf(view.answered_at)] if view.answered_at else []
    elements = [rich_text_line(*leaves)]
    told = [] if view.declined else [each for each in view.lines if each[1] != UNSET]
    for label, text, by_model in told:
        head = (
            [text_leaf(f"{shorten_text(show_hidden_characters(label), 80)}: ")]
            if len(view.lines) > 1
            else []
        )
        said = text.capitalize() if view.asked.kind is AnswerKind.YES_NO else text
        visible = isolate_right_to_left_text(show_hidden_characters(by_model or ""))
        before = [text_leaf(f" (suggested: {shorten_text(visible, 200)})")] if by_model else []
        elements.append(
            rich_text_line(
                *head,
                text_leaf(
                    shorten_text(isolate_right_to_left_text(show_hidden_characters(said)), QUOTED),
                    bold=True,
                ),
                *before,
            )
        )
    return rich_text_block(build_block_id(BlockKind.OUTCOME, view.target), elements)


def _build_notification(view: QuestionView, now: datetime) -> str:
    due_at = view.deadline
    by = (
        f" Answer within {format_rough_duration(due_at - now)}, by {format_in_utc(due_at)}."
        if due_at
        else ""
    )
    asked = escape_mrkdwn(_shorten_question(view, NOTIFICATION))
    return f"A question for you: “{asked}”{by}"
