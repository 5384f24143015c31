"""Answers to questions: by button, by form, or by a plain reply in the question's thread.

Replies are read on the loop, before a message is taken for a request. Only the words of a person
who was asked for text are an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.agent import outputs as told
from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.person_questions import (
    AskedQuestion,
    asked_there,
    may_answer,
    messages_of,
    names_of,
    read,
)
from bot.approvals.replies import record_refusal, tell
from bot.cards import refusals
from bot.cards import request_sentences as sentences
from bot.cards.action_names import Action, Dialog
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.cards.edit_form import FieldErrors
from bot.cards.question_message import CHOOSING, answer_in_words, button_choices, read_answer
from bot.cards.slack_text import in_utc
from bot.cards.views import WRITTEN, message_text, takes_back
from bot.policy.authority import Authority, LookupFailedError, No, NotYetKnownError
from bot.tools.person_question import (
    ASK_PERSON,
    MOST_TEXT,
    AnswerKind,
    Given,
    check_values,
    single_answer,
)
from storage import decisions, inbox, outbox, person_answers
from storage.decisions import AlreadyDecided, AppliedDecision, Closed, MissedDeadline, OpenRevision
from storage.digest import canonical_json
from storage.models import Delivery
from storage.states import CallStatus, DeliveryKind
from storage.store import Store
from storage.transaction import Transaction

# Answers: who may give one; an answer changes its own call, and nothing else.

STRANGER = "Only full members of this workspace can answer."


@dataclass(frozen=True, slots=True)
class QuestionAnswers:
    """Checks and stores answers to questions. One per process."""

    store: Store
    authority: Authority

    def admit(self, target: CallTarget, person: str, at: datetime) -> AskedQuestion | DialogRefusal:
        """Return the question if this person may answer it as of `at`, or why not.

        Looks people up.
        """
        with self.store.read() as tx:
            found = decisions.check_decidable(tx, target.call, target.revision, at)
            asked = read(tx, target.call) if isinstance(found, OpenRevision) else None
            if asked is None:
                closed = found if not isinstance(found, OpenRevision) else None
                return DialogRefusal(_lost(tx, closed, person))
            rows = messages_of(tx, asked.call)
            names = names_of(asked, rows[0] if rows else None)
        try:
            if not self.authority.colleague(person):
                return DialogRefusal(STRANGER, asked.call, "stranger")
            if not self.may(asked, person):
                return DialogRefusal(sentences.not_asked_of_you(names), asked.call, "not_asked")
        except LookupFailedError:
            return DialogRefusal(refusals.lookup_failed(), asked.call, "lookup")
        return asked

    def may(self, asked: AskedQuestion, person: str) -> bool:
        """Return whether this person is a colleague who was asked; raises LookupFailedError."""
        return may_answer(self.authority, asked, person)

    def act(
        self, delivery: Delivery, wanted: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Store the answer given by a button or a submitted form, and settle the delivery."""
        assert isinstance(wanted.target, CallTarget)
        found = self.admit(wanted.target, delivery.user, delivery.received_at)
        if isinstance(found, DialogRefusal):
            self._turn_away(delivery, wanted, found)
            return
        given = _given(found, wanted, payload)
        if given is None:
            with self.store.write() as tx:
                tell(tx, delivery, sentences.UNREADABLE)
                inbox.settle_delivery(tx, delivery, "no answer to this question")
            return
        declined = isinstance(wanted, Click) and wanted.action is Action.DECLINE
        self.take(delivery, found, given, declined=declined)

    def take(
        self, delivery: Delivery, found: AskedQuestion, given: Given, *, declined: bool = False
    ) -> None:
        """Store the answer, tell the model and the thread, and settle the delivery."""
        call, person, at = found.call, delivery.user, delivery.received_at
        when = in_utc(at)
        lines = () if declined else answer_in_words(found.asked, given)
        output = told.declined(person, when) if declined else told.answered(person, when, lines)
        with self.store.write() as tx:
            outcome = person_answers.store_answer(
                tx,
                call.id,
                call.revision,
                person,
                at=at,
                given=canonical_json(given),
                declined=declined,
                output=output,
            )
            if not isinstance(outcome, AppliedDecision):
                tell(tx, delivery, _lost(tx, outcome, person))
                inbox.settle_delivery(tx, delivery, "answered too late")
                return
            if any(outbox.body(row)["elsewhere"] for row in messages_of(tx, call)):
                text = sentences.was_answered(person, declined)
                outbox.notice(tx, found.run, f"answered:{call.id}", {"text": text})
            inbox.settle_delivery(tx, delivery, "answered")

    def _turn_away(
        self, delivery: Delivery, wanted: Click | DialogSubject, away: DialogRefusal
    ) -> None:
        name = wanted.action if isinstance(wanted, Click) else wanted.dialog
        with self.store.write() as tx:
            if away.call is not None:
                record_refusal(tx, delivery, away.call, name, No(away.why))
            tell(tx, delivery, away.sentence)
            inbox.settle_delivery(tx, delivery, "refused")

    def acts(self) -> Mapping[Action | Dialog, Any]:
        """Return the handlers of each button and form of a question."""
        return dict.fromkeys((*CHOOSING, Action.DECLINE, Dialog.ANSWER), self.act)


def _given(
    found: AskedQuestion, wanted: Click | DialogSubject, payload: Mapping[str, Any]
) -> Given | None:
    """Return the values that a click or a form gives; None where they do not fit the question."""
    match wanted:
        case Click(Action.DECLINE):
            return {}
        case Click(action):
            _, value = button_choices(found.asked).get(action, ("", None))
            return None if value is None else single_answer(value)
        case DialogSubject():
            read_ = read_answer(found.asked, payload["view"]["state"]["values"])
            return None if isinstance(read_, FieldErrors) else read_


def _lost(tx: Transaction, outcome: Closed | None, person: str) -> str:
    """Return what to tell a person who answered too late, and what came first."""
    match outcome:
        case AlreadyDecided(call=call) if call.status is CallStatus.ANSWERED:
            answer = person_answers.given(tx, call.id)
            if answer is None or answer.person == person:
                return sentences.own_answer_stands()
            return sentences.already_answered(answer.person, answer.created_at)
        case MissedDeadline(call=call) | AlreadyDecided(call=call) if call.status in (
            CallStatus.EXPIRED,
            CallStatus.PENDING,
        ):
            return sentences.answer_too_late(call.deadline)
        case _:
            return sentences.no_longer_asked()


@dataclass(frozen=True, slots=True)
class PlainReplies:
    """Takes messages as answers. One per process; called by the loop only."""

    answers: QuestionAnswers
    bot_user: str

    def take(self, delivery: Delivery) -> bool:
        """Take a message as an answer and settle it; return whether it was one. Looks people up.

        A message that mentions the bot is a new request, and "cancel" ends the request. Raises
        NotYetKnownError for what may answer a question whose thread is not known yet.
        """
        if delivery.kind is not DeliveryKind.MESSAGE:
            return False
        event = json.loads(delivery.body)["event"]
        said = event.get("text") or ""
        if event.get("subtype") not in WRITTEN or event.get("bot_id"):
            return False
        text = message_text(event, self.bot_user)
        if not text or f"<@{self.bot_user}" in said or takes_back(text):
            return False
        found = self._asked_of(delivery)
        is_reply = event.get("thread_ts") not in (None, "", event.get("ts"))
        if not found and is_reply and self._may_answer_soon(delivery):
            raise NotYetKnownError  # the loop looks again once it is known where the question is
        if not found:
            return False
        given = check_values(found[0].asked, single_answer(text))
        if len(found) == 1 and given is not None:
            self.answers.take(delivery, found[0], given)
            return True
        with self.answers.store.write() as tx:
            too_long = sentences.answer_too_long(MOST_TEXT)
            tell(tx, delivery, sentences.SEVERAL if len(found) > 1 else too_long)
            inbox.settle_delivery(tx, delivery, "no single question that it answers")
        return True

    def _may_answer_soon(self, delivery: Delivery) -> bool:
        """Return whether this reply may answer a question that is just being posted.

        That is a reply in an unknown thread of the bot's direct messages: Slack may show the
        question before it returns its ts.
        """
        with self.answers.store.read() as tx:
            posted = person_answers.is_being_posted(tx, ASK_PERSON.name, delivery.channel)
            return bool(posted) and not outbox.is_known_message(tx, delivery.thread_ts)

    def _asked_of(self, delivery: Delivery) -> list[AskedQuestion]:
        """Return the questions for text that wait in this thread for this person."""
        at, team = delivery.received_at, delivery.team
        with self.answers.store.read() as tx:
            waiting = person_answers.waiting_questions(tx, ASK_PERSON.name, team, at)
            here = [call for call in waiting if asked_there(tx, call, delivery)]
            found = [each for each in (read(tx, call.id) for call in here) if each is not None]
        found = [each for each in found if each.asked.kind is AnswerKind.TEXT]
        return [each for each in found if self.answers.may(each, delivery.user)]
