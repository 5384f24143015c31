"""The message of a question to a person: the agent's words, the buttons, then the answer. Pure.

What the agent and people wrote is quoted as plain text. Nothing here approves anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.cards import block_kit, slack_text
from bot.cards.action_names import Action, BlockRole, DialogId
from bot.cards.button_codec import CallTarget, Click, DialogSubject, RunTarget, build_block_id
from bot.cards.call_blocks import render_delegated_tasks
from bot.cards.edit_form import parse_edit_submission
from bot.cards.field_inputs import build_field_input
from bot.cards.field_layout import FieldErrors, render_field_input
from bot.cards.field_slots import build_slots, get_value_at_keys
from bot.cards.field_values import list_argument_values
from bot.cards.notices import asking_server_line, away_approvers_note
from bot.cards.views import UNSET_LABEL, ArgumentValue, DelegatedTask
from bot.tools import person_question
from bot.tools.names import SlackIdResolver
from countersign.durations import format_rough_duration
from storage.states import CallStatus

ANSWER_RECIPIENT_SUFFIX = (
    " gets your answer, and it is shown under the question. It approves nothing."
)
FILL_IN_ERROR = "Please fill this in."


def render_question_answer_dialog(
    question: person_question.AskPerson, target: CallTarget, asker: str = "the agent"
) -> block_kit.Json:
    """Build the dialog in which a person answers a question, with suggested values filled in.

    `asker`: who gets the answer, in mrkdwn.
    """
    tool = person_question.build_answer_form_tool(question)
    initial = person_question.build_suggested_answers(question)
    quote = block_kit.rich_text_quote(
        slack_text.shorten_text(slack_text.show_hidden_characters(question.question), 2_900)
    )
    blocks = [block_kit.rich_text_block(BlockRole.QUESTION, [quote])]
    for slot in build_slots(tool, initial):
        field = build_field_input(slot, get_value_at_keys(initial, slot.keys))
        if field:
            block = {**render_field_input(field), "optional": slot.nullable}
            block.pop("hint", None)  # for an answer, "not set" and empty mean the same
            blocks.append(block)
    footnote = slack_text.unescape_mrkdwn(asker[:1].upper() + asker[1:]) + ANSWER_RECIPIENT_SUFFIX
    blocks.append(
        {
            "type": "context",
            "elements": [block_kit.plain_text(slack_text.shorten_text(footnote, 200))],
        }
    )
    about = DialogSubject(DialogId.ANSWER, target)
    return block_kit.dialog_view(about, "Answer", blocks, submit="Answer", close="Back")


def parse_question_answer_submission(
    question: person_question.AskPerson,
    state: Mapping[str, Mapping[str, Any]],
    names: SlackIdResolver,
) -> person_question.AnswerValues | FieldErrors:
    """Return the answer from a submitted dialog, given `view.state.values`, or the errors.

    `names` look people and channels up.
    """
    tool = person_question.build_answer_form_tool(question)
    initial = person_question.build_suggested_answers(question)
    parsed = parse_edit_submission(tool, initial, state, names)
    if isinstance(parsed, FieldErrors):
        return parsed
    first = build_slots(tool, initial)[0].block_id
    return person_question.normalise_answer_if_valid(question, parsed.arguments) or FieldErrors(
        {first: FILL_IN_ERROR}
    )


# label, value in words, and the suggestion if it was corrected
ReadableAnswerValue = tuple[str, str, str | None]


def list_readable_answer_values(
    question: person_question.AskPerson, answers: person_question.AnswerValues
) -> tuple[ReadableAnswerValue, ...]:
    """Return each value as a person reads it, with the agent's suggestion if it was corrected.

    People and channels are mentions.
    """
    tool = person_question.build_answer_form_tool(question)
    initial = person_question.build_suggested_answers(question)
    before = {
        each.label: _read(each) for each in list_argument_values(tool, {**answers, **initial})
    }
    suggested_labels = [field.label for field in question.list_answer_fields() if field.suggestion]
    return tuple(
        (
            each.label,
            text,
            before[each.label]
            if each.label in suggested_labels and before[each.label] != text
            else None,
        )
        for each in list_argument_values(tool, answers)
        for text in [_read(each)]
    )


def _read(value: ArgumentValue) -> str:
    return slack_text.join_mentions(value.mentions) or value.text


CHOICE_ACTIONS = (
    Action.CHOOSE_1,
    Action.CHOOSE_2,
    Action.CHOOSE_3,
    Action.CHOOSE_4,
    Action.CHOOSE_5,
)


def build_answer_button_choices(
    question: person_question.AskPerson,
) -> dict[Action, tuple[str, Any]]:
    """Return label and value of each button that answers at once; none if a form is needed."""
    if question.kind is person_question.AnswerKind.YES_NO:
        return {CHOICE_ACTIONS[0]: ("Yes", True), CHOICE_ACTIONS[1]: ("No", False)}
    if question.kind is person_question.AnswerKind.CHOICE and len(question.options) <= len(
        CHOICE_ACTIONS
    ):
        pairs = zip(CHOICE_ACTIONS, question.options, strict=False)
        return {action: (option, option) for action, option in pairs}
    return {}


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One question to a person, as everybody who sees its message may read it."""

    id: str
    revision: int
    asked: person_question.AskPerson
    status: CallStatus
    run: str  # id of the request
    requester: str  # Slack user id of the person it is asked for
    users: tuple[str, ...]  # who may answer
    group: str = ""  # a user group (S…) whose members may answer
    deadline: datetime | None = None
    origin: str = ""  # permalink of the request when the question is asked elsewhere
    answered_by: str = ""
    answered_at: datetime | None = None
    lines: tuple[ReadableAnswerValue, ...] = ()  # the answer
    declined: bool = False
    # the sub-agents between the requester's agent and the question
    delegated_tasks: tuple[DelegatedTask, ...] = ()
    asker: str = "the agent"  # who asks, in mrkdwn
    server: str = ""  # the MCP server that asks, if one does
    server_task: str = ""  # that server's task, in a sentence
    away_people: tuple[tuple[str, datetime | None], ...] = ()  # of those asked, and until when

    @property
    def target(self) -> CallTarget:
        """The target of the buttons for this question."""
        return CallTarget(self.id, self.revision)


MAX_ANSWER_CHARS = 1_000  # of each field of an answer
MAX_NOTIFICATION_CHARS = 200  # of the question in a notification
ENDED_TEXT_BY_STATUS = {
    CallStatus.EXPIRED: "⏰ Nobody answered in time.",
    CallStatus.CANCELLED: "⏹️ No longer needed: the request or this question was withdrawn.",
    CallStatus.SUPERSEDED: "↪️ No longer needed: the request was changed.",
}
WITHDRAW_QUESTION_LABEL = "Withdraw the question (only the person who asked)"
CANCEL_REQUEST_LABEL = "Cancel the request (only the person who asked)"
DEFAULT_ENDED_TEXT = "⚠️ No longer needed: something has changed since."
REPLY_IN_THREAD_TEXT = "A reply in this thread also answers it"
NOT_AN_APPROVAL_TEXT = "For information, not an approval"


def render_question_message(view: QuestionView, now: datetime) -> tuple[str, list[block_kit.Json]]:
    """Return the notification and the blocks of a question, as of `now` (aware).

    There are buttons while the question waits, then the answer or how it ended.
    """
    question_block = block_kit.rich_text_block(
        build_block_id(BlockRole.QUESTION, view.target),
        [block_kit.rich_text_quote(_shorten_question(view, 600))],
    )
    if view.status is CallStatus.ANSWERED:
        said_so = "cannot answer" if view.declined else "answered"
        return f"💬 {slack_text.user_mention(view.answered_by)} {said_so} a question.", [
            question_block,
            _render_answer(view),
        ]
    if view.status is not CallStatus.PENDING or (view.deadline and now >= view.deadline):
        gone = CallStatus.EXPIRED if view.status is CallStatus.PENDING else view.status
        text = ENDED_TEXT_BY_STATUS.get(gone, DEFAULT_ENDED_TEXT)
        return text, [
            question_block,
            block_kit.context_block(
                build_block_id(BlockRole.OUTCOME, view.target), [block_kit.mrkdwn(text)]
            ),
        ]
    to = block_kit.mrkdwn(f"💬 {_mention_answerers(view)}, {view.asker} asks:")
    head = block_kit.section_block(build_block_id(BlockRole.HEADLINE, view.target), to)
    blocks = [head, *render_delegated_tasks(view.target, view.delegated_tasks)]
    if view.server:
        line_ = block_kit.plain_text(
            slack_text.unescape_mrkdwn(asking_server_line(view.server, view.server_task))
        )
        blocks.append(
            block_kit.context_block(build_block_id(BlockRole.SERVER, view.target), [line_])
        )
    blocks.append(question_block)
    blocks.append(
        block_kit.actions_block(
            build_block_id(BlockRole.ANSWERS, view.target), _render_answer_buttons(view)
        )
    )
    small = block_kit.mrkdwn(_build_small_print(view))
    blocks.append(
        block_kit.context_block(build_block_id(BlockRole.SMALL_PRINT, view.target), [small])
    )
    return _build_notification(view, now), blocks


def _shorten_question(view: QuestionView, limit: int) -> str:
    return slack_text.shorten_text(slack_text.show_hidden_characters(view.asked.question), limit)


def _mention_answerers(view: QuestionView) -> str:
    return (
        slack_text.group_mention(view.group)
        if view.group
        else ", ".join(map(slack_text.user_mention, view.users))
    )


def _render_answer_buttons(view: QuestionView) -> list[block_kit.Json]:
    row = [
        block_kit.button(
            action,
            slack_text.shorten_text(slack_text.show_hidden_characters(label), 75),
            view.target,
        )
        for action, (label, _) in build_answer_button_choices(view.asked).items()
    ] or [block_kit.button(Action.ANSWER, "Answer…", view.target, style="primary")]
    more = [
        (WITHDRAW_QUESTION_LABEL, Click(Action.WITHDRAW, view.target)),
        (CANCEL_REQUEST_LABEL, Click(Action.CANCEL_RUN, RunTarget(view.run))),
    ]
    return [
        *row,
        block_kit.button(Action.DECLINE, "I can't say", view.target),
        block_kit.overflow_menu(more),
    ]


def _build_small_print(view: QuestionView) -> str:
    link = (
        slack_text.escape_mrkdwn(view.origin.replace("|", "%7C"))
        if view.origin.startswith("https://")
        else ""
    )
    alone = view.users == (view.requester,)
    parts = [] if alone else [f"For a request by {slack_text.user_mention(view.requester)}"]
    parts += [f"<{link}|see it>"] if link else []
    parts += (
        [f"⏳ Answer by {slack_text.format_time_with_countdown(view.deadline)}"]
        if view.deadline
        else []
    )
    parts += [away_approvers_note(view.away_people)] if view.away_people else []
    if view.asked.kind is person_question.AnswerKind.TEXT:
        parts.append(REPLY_IN_THREAD_TEXT)
    return "  ·  ".join([*parts, NOT_AN_APPROVAL_TEXT])


def _render_answer(view: QuestionView) -> block_kit.Json:
    said = " cannot say" if view.declined else " answered"
    leaves = [
        block_kit.text_leaf("💬 "),
        block_kit.user_mention_leaf(view.answered_by),
        block_kit.text_leaf(said),
    ]
    leaves += (
        [block_kit.text_leaf(" · "), block_kit.time_leaf(view.answered_at)]
        if view.answered_at
        else []
    )
    elements = [block_kit.rich_text_line(*leaves)]
    kinds = {each.label: each.kind for each in view.asked.list_answer_fields()}
    answered_lines = (
        [] if view.declined else [each for each in view.lines if each[1] != UNSET_LABEL]
    )
    for label, text, by_model in answered_lines:
        kind = kinds.get(label, view.asked.kind)
        shown_label = slack_text.shorten_text(slack_text.show_hidden_characters(label), 80)
        head = [block_kit.text_leaf(f"{shown_label}: ")] if len(view.lines) > 1 else []
        said = text.capitalize() if kind is person_question.AnswerKind.YES_NO else text
        value = _render_answer_text(kind, _make_readable(said, MAX_ANSWER_CHARS), bold=True)
        before = f" (suggested: {_make_readable(by_model, 200)})" if by_model else ""
        elements.append(block_kit.rich_text_line(*head, *value, *_render_answer_text(kind, before)))
    return block_kit.rich_text_block(build_block_id(BlockRole.OUTCOME, view.target), elements)


def _make_readable(text: str, limit: int) -> str:
    visible = slack_text.isolate_right_to_left_text(slack_text.show_hidden_characters(text))
    return slack_text.shorten_text(visible, limit)


def _render_answer_text(
    kind: person_question.AnswerKind, text: str, **style: bool
) -> list[block_kit.Json]:
    """Return an answer as rich text; it mentions somebody only if answers of this kind may."""
    if kind in person_question.MENU_ANSWER_KINDS:
        return block_kit.text_leaves_with_mentions(text, **style)
    return [block_kit.text_leaf(text, **style)] if text else []


def _build_notification(view: QuestionView, now: datetime) -> str:
    due_at = view.deadline
    by = (
        f" Answer within {format_rough_duration(due_at - now)}, by "
        f"{slack_text.format_in_utc(due_at)}."
        if due_at
        else ""
    )
    asked = slack_text.escape_mrkdwn(_shorten_question(view, MAX_NOTIFICATION_CHARS))
    return f"A question for you: “{asked}”{by}"
