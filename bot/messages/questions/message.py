"""The message of a question: the agent's words, how to answer, and then the answer. Pure.

What the agent and people wrote is quoted as plain text. Nothing here approves anything.
"""

from __future__ import annotations

from datetime import datetime

from bot.messages.actions.codec import Click, block_id
from bot.messages.actions.names import Action, Block
from bot.messages.actions.targets import RunTarget
from bot.messages.cards.origin import errand_blocks
from bot.messages.parts import (
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
from bot.messages.questions.choices import choices
from bot.messages.questions.view import QuestionView
from bot.messages.sentences.absence import away_note
from bot.messages.sentences.agents import server_line
from bot.messages.text import (
    apart,
    due,
    escape,
    group_mention,
    in_utc,
    mention,
    plain,
    unescape,
    visible,
)
from bot.messages.views import UNSET
from bot.tools.people.question import AnswerKind
from countersign.durations import roughly
from storage.states import CallStatus

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
    """Draw the question as of `now` (aware): with its buttons while it waits, then the answer.

    Returns the notification and the blocks.
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
    blocks = [head, *errand_blocks(view.target, view.errands)]
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
        for action, (label, _) in choices(view.asked).items()
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
    parts += [f"⏳ Answer by {due(view.deadline)}"] if view.deadline else []
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
    for label, text, suggested in told:
        head = [words(f"{plain(visible(label), 80)}: ")] if len(view.lines) > 1 else []
        said = text.capitalize() if view.asked.kind is AnswerKind.YES_NO else text
        before = (
            [words(f" (suggested: {plain(apart(visible(suggested)), 200)})")] if suggested else []
        )
        elements.append(line(*head, words(plain(apart(visible(said)), QUOTED), bold=True), *before))
    return rich(block_id(Block.OUTCOME, view.target), elements)


def _notification(view: QuestionView, now: datetime) -> str:
    due_at = view.deadline
    by = f" Answer within {roughly(due_at - now)}, by {in_utc(due_at)}." if due_at else ""
    asked = escape(_question(view, NOTIFICATION))
    return f"A question for you: “{asked}”{by}"
