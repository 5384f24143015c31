"""The message of a question to a person: the agent's words, the buttons, then the answer. Pure.

What the agent and people wrote is quoted as plain text. Nothing here approves anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.cards.action_names import Action, Block, Dialog
from bot.cards.block_kit import (
    Json,
    actions,
    button,
    context,
    line,
    menu,
    moment,
    mrkdwn,
    person,
    plain_text,
    quote,
    rich,
    section,
    words,
)
from bot.cards.button_codec import (
    CallTarget,
    Click,
    DialogSubject,
    RunTarget,
    block_id,
    encode_dialog,
)
from bot.cards.call_blocks import delegated_task_blocks
from bot.cards.edit_form import FieldErrors, read_submission
from bot.cards.field_inputs import make_input
from bot.cards.field_layout import input_block, text_object
from bot.cards.field_slots import slots, value_at
from bot.cards.field_values import values
from bot.cards.notices import away_note, server_line
from bot.cards.slack_text import (
    escape,
    format_deadline,
    group_mention,
    in_utc,
    isolate_leftward,
    mention,
    plain,
    unescape,
    visible,
)
from bot.cards.views import UNSET, DelegatedTask
from bot.tools.person_question import (
    AnswerKind,
    AskPerson,
    Given,
    answer_form,
    check_values,
    suggested_values,
)
from countersign.durations import roughly
from storage.states import CallStatus

# The dialog that answers a question; its entries are read like those of the Edit dialog.

TOLD = " gets your answer, and it is shown under the question. It approves nothing."
FILL_IN = "Please fill this in."


def answer_modal(question: AskPerson, target: CallTarget, asker: str = "the agent") -> Json:
    """Build the dialog in which a person answers a question, with suggested values filled in.

    `asker`: who gets the answer, in mrkdwn.
    """
    tool, initial = answer_form(question), suggested_values(question)
    asked = quote(plain(visible(question.question), 2_900))
    blocks = [rich(Block.QUESTION, [asked])]
    for slot in slots(tool, initial):
        made = make_input(slot, value_at(initial, slot.keys))
        if made:
            block = {**input_block(made), "optional": slot.nullable}
            block.pop("hint", None)  # how "not set" differs from empty matters to no answer
            blocks.append(block)
    told = unescape(asker[:1].upper() + asker[1:]) + TOLD
    blocks.append({"type": "context", "elements": [text_object(told, 200)]})
    return {
        "type": "modal",
        "callback_id": Dialog.ANSWER,
        "private_metadata": encode_dialog(DialogSubject(Dialog.ANSWER, target)),
        "title": text_object("Answer", 24),
        "submit": text_object("Answer", 24),
        "close": text_object("Back", 24),
        "blocks": blocks,
    }


def read_answer(question: AskPerson, state: Mapping[str, Mapping[str, Any]]) -> Given | FieldErrors:
    """Return the answer from a submitted dialog, given `view.state.values`, or the errors."""
    tool, initial = answer_form(question), suggested_values(question)
    parsed = read_submission(tool, initial, state)
    if isinstance(parsed, FieldErrors):
        return parsed
    first = slots(tool, initial)[0].block_id
    return check_values(question, parsed.arguments) or FieldErrors({first: FILL_IN})


# What the message of a question shows, as plain data made from rows. Pure.

# An answer as a person reads it, and the suggestions of the agent that it corrects. Pure.

Said = tuple[str, str, str | None]  # label, value in words, the suggestion where it was corrected


def answer_in_words(question: AskPerson, given: Given) -> tuple[Said, ...]:
    """Return each value as a person reads it, with the agent's suggestion if it was corrected."""
    tool, initial = answer_form(question), suggested_values(question)
    before = {each.label: each.text for each in values(tool, {**given, **initial})}
    told = [field.label for field in question.asked_fields() if field.suggestion]
    return tuple(
        (
            each.label,
            each.text,
            before[each.label] if each.label in told and before[each.label] != each.text else None,
        )
        for each in values(tool, given)
    )


# The buttons that answer a question at once. Pure.

CHOOSING = (
    Action.CHOOSE_1,
    Action.CHOOSE_2,
    Action.CHOOSE_3,
    Action.CHOOSE_4,
    Action.CHOOSE_5,
)


def button_choices(question: AskPerson) -> dict[Action, tuple[str, Any]]:
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
    lines: tuple[Said, ...] = ()  # the answer
    declined: bool = False
    errands: tuple[DelegatedTask, ...] = ()  # the sub-agents between the requester's agent and it
    asker: str = "the agent"  # who asks, in mrkdwn
    server: str = ""  # the MCP server that asks, where one does
    amid: str = ""  # what that server is to do, in a sentence
    away: tuple[tuple[str, datetime | None], ...] = ()  # who of those asked, and until when

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


def question_message(view: QuestionView, now: datetime) -> tuple[str, list[Json]]:
    """Return the notification and the blocks of a question, as of `now` (aware).

    There are buttons while the question waits, then the answer or how it ended.
    """
    asked = rich(block_id(Block.QUESTION, view.target), [quote(_question(view, 600))])
    if view.status is CallStatus.ANSWERED:
        said_so = "cannot answer" if view.declined else "answered"
        return f"💬 {mention(view.answered_by)} {said_so} a question.", [asked, _answer(view)]
    if view.status is not CallStatus.PENDING or (view.deadline and now >= view.deadline):
        gone = CallStatus.EXPIRED if view.status is CallStatus.PENDING else view.status
        text = ENDED.get(gone, OTHERWISE)
        return text, [asked, context(block_id(Block.OUTCOME, view.target), [mrkdwn(text)])]
    to = mrkdwn(f"💬 {_who(view)}, {view.asker} asks:")
    head = section(block_id(Block.HEADLINE, view.target), to)
    blocks = [head, *delegated_task_blocks(view.target, view.errands)]
    if view.server:
        line_ = plain_text(unescape(server_line(view.server, view.amid)))
        blocks.append(context(block_id(Block.SERVER, view.target), [line_]))
    blocks.append(asked)
    blocks.append(actions(block_id(Block.ANSWERS, view.target), _buttons(view)))
    small = mrkdwn(_small(view))
    blocks.append(context(block_id(Block.SMALL_PRINT, view.target), [small]))
    return _notification(view, now), blocks


def _question(view: QuestionView, limit: int) -> str:
    return plain(visible(view.asked.question), limit)


def _who(view: QuestionView) -> str:
    return group_mention(view.group) if view.group else ", ".join(map(mention, view.users))


def _buttons(view: QuestionView) -> list[Json]:
    row = [
        button(action, plain(visible(label), 75), view.target)
        for action, (label, _) in button_choices(view.asked).items()
    ] or [button(Action.ANSWER, "Answer…", view.target, style="primary")]
    more = [
        (WITHDRAW, Click(Action.WITHDRAW, view.target)),
        (CANCEL, Click(Action.CANCEL_RUN, RunTarget(view.run))),
    ]
    return [*row, button(Action.DECLINE, "I can't say", view.target), menu(more)]


def _small(view: QuestionView) -> str:
    link = escape(view.origin.replace("|", "%7C")) if view.origin.startswith("https://") else ""
    alone = view.users == (view.requester,)
    parts = [] if alone else [f"For a request by {mention(view.requester)}"]
    parts += [f"<{link}|see it>"] if link else []
    parts += [f"⏳ Answer by {format_deadline(view.deadline)}"] if view.deadline else []
    parts += [away_note(view.away)] if view.away else []
    if view.asked.kind is AnswerKind.TEXT:
        parts.append(REPLY)
    return "  ·  ".join([*parts, NO_APPROVAL])


def _answer(view: QuestionView) -> Json:
    said = " cannot say" if view.declined else " answered"
    leaves = [words("💬 "), person(view.answered_by), words(said)]
    leaves += [words(" · "), moment(view.answered_at)] if view.answered_at else []
    elements = [line(*leaves)]
    told = [] if view.declined else [each for each in view.lines if each[1] != UNSET]
    for label, text, by_model in told:
        head = [words(f"{plain(visible(label), 80)}: ")] if len(view.lines) > 1 else []
        said = text.capitalize() if view.asked.kind is AnswerKind.YES_NO else text
        before = (
            [words(f" (suggested: {plain(isolate_leftward(visible(by_model)), 200)})")]
            if by_model
            else []
        )
        elements.append(
            line(*head, words(plain(isolate_leftward(visible(said)), QUOTED), bold=True), *before)
        )
    return rich(block_id(Block.OUTCOME, view.target), elements)


def _notification(view: QuestionView, now: datetime) -> str:
    due_at = view.deadline
    by = f" Answer within {roughly(due_at - now)}, by {in_utc(due_at)}." if due_at else ""
    asked = escape(_question(view, NOTIFICATION))
    return f"A question for you: “{asked}”{by}"
