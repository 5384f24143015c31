"""Answers: who may give one, and what it changes: its own call, and nothing else.

`admit` may be called on any thread; what answers is called by the loop only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.agent import outputs as told
from bot.approvals.dialog_access import TurnedAway
from bot.approvals.questions.addressed import may_answer
from bot.approvals.questions.rows import AskedQuestion, messages_of, names_of, read
from bot.approvals.replies import record_refusal, tell
from bot.messages.actions.codec import Click, Subject
from bot.messages.actions.names import Action, Dialog
from bot.messages.actions.targets import CallTarget
from bot.messages.forms.form import FieldErrors
from bot.messages.questions.choices import CHOOSING, choices
from bot.messages.questions.form import read_answer
from bot.messages.questions.said import in_words
from bot.messages.sentences import questions as sentences
from bot.messages.sentences import refusals
from bot.messages.text import in_utc
from bot.policy.authority import Authority, No
from bot.policy.directory import LookupFailedError
from bot.tools.people.question import Given, one_value
from storage import decisions, inbox, outbox, person_answers
from storage.decisions import Applied, Closed, Decided, Open, TooLate
from storage.digest import canonical
from storage.models import Delivery
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import Transaction

STRANGER = "Only full members of this workspace can answer."


@dataclass(frozen=True, slots=True)
class QuestionAnswers:
    """One per process."""

    store: Store
    authority: Authority

    def admit(self, target: CallTarget, person: str, at: datetime) -> AskedQuestion | TurnedAway:
        """Return the question for who may answer it as of `at`, or why not. Looks people up."""
        with self.store.read() as tx:
            found = decisions.look(tx, target.call, target.revision, at)
            asked = read(tx, target.call) if isinstance(found, Open) else None
            if asked is None:
                closed = found if not isinstance(found, Open) else None
                return TurnedAway(_lost(tx, closed, person))
            rows = messages_of(tx, asked.call)
            names = names_of(asked, rows[0] if rows else None)
        try:
            if not self.authority.colleague(person):
                return TurnedAway(STRANGER, asked.call, "stranger")
            if not self.may(asked, person):
                return TurnedAway(sentences.not_asked_of_you(names), asked.call, "not_asked")
        except LookupFailedError:
            return TurnedAway(refusals.lookup_failed(), asked.call, "lookup")
        return asked

    def may(self, asked: AskedQuestion, person: str) -> bool:
        """Return whether this person is a colleague who was asked; raises LookupFailedError."""
        return may_answer(self.authority, asked, person)

    def act(self, delivery: Delivery, wanted: Click | Subject, payload: dict[str, Any]) -> None:
        """Take the answer of a button or a submitted form, and settle the delivery."""
        assert isinstance(wanted.target, CallTarget)
        found = self.admit(wanted.target, delivery.user, delivery.received_at)
        if isinstance(found, TurnedAway):
            self._turn_away(delivery, wanted, found)
            return
        given = _given(found, wanted, payload)
        if given is None:
            with self.store.write() as tx:
                tell(tx, delivery, sentences.UNREADABLE)
                inbox.settle(tx, delivery, "no answer to this question")
            return
        declined = isinstance(wanted, Click) and wanted.action is Action.DECLINE
        self.take(delivery, found, given, declined=declined)

    def take(
        self, delivery: Delivery, found: AskedQuestion, given: Given, *, declined: bool = False
    ) -> None:
        """Store the answer, tell the model and the thread, and settle the delivery."""
        call, person, at = found.call, delivery.user, delivery.received_at
        when = in_utc(at)
        lines = () if declined else in_words(found.asked, given)
        output = told.declined(person, when) if declined else told.answered(person, when, lines)
        with self.store.write() as tx:
            outcome = person_answers.answer(
                tx,
                call.id,
                call.revision,
                person,
                at=at,
                given=canonical(given),
                declined=declined,
                output=output,
            )
            if not isinstance(outcome, Applied):
                tell(tx, delivery, _lost(tx, outcome, person))
                inbox.settle(tx, delivery, "answered too late")
                return
            if any(outbox.body(row)["elsewhere"] for row in messages_of(tx, call)):
                text = sentences.was_answered(person, declined)
                outbox.notice(tx, found.run, f"answered:{call.id}", {"text": text})
            inbox.settle(tx, delivery, "answered")

    def _turn_away(self, delivery: Delivery, wanted: Click | Subject, away: TurnedAway) -> None:
        name = wanted.action if isinstance(wanted, Click) else wanted.dialog
        with self.store.write() as tx:
            if away.call is not None:
                record_refusal(tx, delivery, away.call, name, No(away.why))
            tell(tx, delivery, away.sentence)
            inbox.settle(tx, delivery, "refused")

    def acts(self) -> Mapping[Action | Dialog, Any]:
        """Return what deals with each button and form of a question."""
        return dict.fromkeys((*CHOOSING, Action.DECLINE, Dialog.ANSWER), self.act)


def _given(
    found: AskedQuestion, wanted: Click | Subject, payload: Mapping[str, Any]
) -> Given | None:
    """Return the values that a click or a form gives; None where they do not fit the question."""
    match wanted:
        case Click(Action.DECLINE):
            return {}
        case Click(action):
            _, value = choices(found.asked).get(action, ("", None))
            return None if value is None else one_value(value)
        case Subject():
            read_ = read_answer(found.asked, payload["view"]["state"]["values"])
            return None if isinstance(read_, FieldErrors) else read_


def _lost(tx: Transaction, outcome: Closed | None, person: str) -> str:
    """Return what to tell who came too late, and by what."""
    match outcome:
        case Decided(call=call) if call.status is CallStatus.ANSWERED:
            answer = person_answers.given(tx, call.id)
            if answer is None or answer.person == person:
                return sentences.own_answer_stands()
            return sentences.already_answered(answer.person, answer.created_at)
        case TooLate(call=call) | Decided(call=call) if call.status in (
            CallStatus.EXPIRED,
            CallStatus.PENDING,
        ):
            return sentences.answer_too_late(call.deadline)
        case _:
            return sentences.no_longer_asked()
