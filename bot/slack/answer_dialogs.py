"""The dialog in which a question is answered: opened for who was asked, checked at its fields."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.approvals.dialog_access import TurnedAway
from bot.approvals.person_questions import server_of
from bot.cards import refusals
from bot.cards.action_names import Action, Dialog
from bot.cards.button_codec import CallTarget, Click, Subject, in_thread
from bot.cards.edit_form import FieldErrors
from bot.cards.notices import who_asks
from bot.cards.question_message import answer_modal, read_answer
from bot.cards.text import plainly
from bot.clock import Clock
from bot.policy.directory import Directory
from bot.slack.dialogs import Opening
from bot.slack.directory import with_names

if TYPE_CHECKING:
    from bot.approvals.question_answers import QuestionAnswers


@dataclass(frozen=True, slots=True)
class AnswerDialogs:
    """The family of the answer dialog."""

    answers: QuestionAnswers
    clock: Clock
    directory: Directory

    @property
    def actions(self) -> Collection[Action]:
        """The button that opens it."""
        return (Action.ANSWER,)

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The dialog itself."""
        return (Dialog.ANSWER,)

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | TurnedAway:
        """Return the form for who was asked; whoever else is told whom it is for."""
        if not isinstance(click.target, CallTarget):
            return TurnedAway(refusals.stale_card())
        found = self.answers.admit(click.target, body["user"]["id"], self.clock.now())
        if isinstance(found, TurnedAway):
            return found
        message, channel = body.get("message") or {}, (body.get("channel") or {}).get("id", "")
        thread = message.get("thread_ts") or message.get("ts") or ""
        asker = who_asks(found.run.source, server_of(found.run) or found.run.client)
        return Opening(in_thread(answer_modal(found.asked, click.target, asker), channel, thread))

    def check(self, subject: Subject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors at its fields; who may not answer any more is told at the first."""
        if not isinstance(subject.target, CallTarget):
            return {}
        found = self.answers.admit(subject.target, body["user"]["id"], self.clock.now())
        if isinstance(found, TurnedAway):
            inputs = [each for each in body["view"]["blocks"] if each["type"] == "input"]
            text = plainly(with_names(self.directory, found.sentence))[:150]
            return {inputs[0]["block_id"]: text} if inputs else {}
        read = read_answer(found.asked, body["view"]["state"]["values"])
        return read.errors if isinstance(read, FieldErrors) else {}
