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

from bot.approvals import person_questions
from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.permissions import record_refused_action, reply_privately
from bot.cards import question_message, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.cards.field_layout import WHOLE_FORM, FieldErrors
from bot.cards.views import (
    HUMAN_MESSAGE_SUBTYPES,
    extract_message_text,
    is_only_cancellation,
    mentions_bot,
)
from bot.policy.authority import Authority, Denial, LookupFailedError, LookupPendingError
from bot.tools import person_question
from bot.tools.names import SlackIdResolver
from storage import calls, decisions, endings, inbox, outbox
from storage.digest import canonical_json
from storage.record import Delivery, Store, Transaction
from storage.states import CallStatus, DeliveryKind

# Answers: who may give one. An answer changes only its own call.

ONLY_MEMBERS_ANSWER_ERROR = "Only full members of this workspace can answer."


@dataclass(frozen=True, slots=True)
class AnswerHandler:
    """Checks and stores answers to questions. One per process."""

    store: Store
    authority: Authority

    def get_question_or_refusal(
        self, target: CallTarget, person: str, at: datetime
    ) -> person_questions.AskedQuestion | DialogRefusal:
        """Return the question if this person may answer it as of `at`, or why not.

        Looks people up.
        """
        with self.store.read() as tx:
            check_result = decisions.check_revision_is_decidable(
                tx, target.call, target.revision, at
            )
            question = (
                person_questions.find_question(tx, target.call)
                if isinstance(check_result, decisions.DecidableCall)
                else None
            )
            if question is None:
                return DialogRefusal(_too_late_sentence(tx, check_result, person))
            rows = person_questions.list_question_messages(tx, question.call)
            names = person_questions.describe_asked_people(question, rows[0] if rows else None)
        try:
            if not self.authority.is_active_colleague(person):
                return DialogRefusal(ONLY_MEMBERS_ANSWER_ERROR, question.call, Denial.STRANGER)
            if not self.is_allowed_to_answer(question, person):
                return DialogRefusal(
                    sentences.not_asked_of_you_reply(names), question.call, Denial.NOT_ASKED
                )
        except LookupFailedError:
            return DialogRefusal(sentences.LOOKUP_FAILED_REPLY, question.call, Denial.LOOKUP)
        return question

    def is_allowed_to_answer(self, asked: person_questions.AskedQuestion, person: str) -> bool:
        """Return whether this person is a colleague who was asked; raises LookupFailedError."""
        return person_questions.may_answer_question(self.authority, asked, person)

    def handle_answer(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Store the answer given by a button or a submitted form, and mark the click as handled."""
        assert isinstance(asked.target, CallTarget)
        found = self.get_question_or_refusal(asked.target, delivery.user, delivery.received_at)
        if isinstance(found, DialogRefusal):
            self._refuse_answer(delivery, asked, found)
            return
        given = self._read_given_values(found, asked, payload)
        if given is None:
            with self.store.write() as tx:
                reply_privately(tx, delivery, sentences.UNREADABLE_ANSWER_REPLY)
                inbox.mark_delivery_done(tx, delivery, "no answer to this question")
            return
        declined = isinstance(asked, Click) and asked.action is Action.DECLINE
        self.store_answer(delivery, found, given, declined=declined)

    def parse_submission(
        self, found: person_questions.AskedQuestion, state: Mapping[str, Mapping[str, Any]]
    ) -> person_question.AnswerValues | FieldErrors:
        """Return the answer in a submitted form, or what is wrong in it. Looks names up."""
        names = SlackIdResolver(self.authority.directory, found.run.requester)
        try:
            return question_message.parse_question_answer_submission(found.asked, state, names)
        except LookupFailedError:
            return FieldErrors({WHOLE_FORM: sentences.LOOKUP_FAILED_REPLY})

    def _read_given_values(
        self,
        found: person_questions.AskedQuestion,
        asked: Click | DialogSubject,
        payload: Mapping[str, Any],
    ) -> person_question.AnswerValues | None:
        """Return the values that a click or a form answers with; None if they do not fit."""
        match asked:
            case Click(Action.DECLINE):
                return {}
            case Click(action):
                choices = question_message.build_answer_button_choices(found.asked)
                _, value = choices.get(action, ("", None))
                return None if value is None else person_question.build_single_field_answer(value)
            case DialogSubject():
                read_ = self.parse_submission(found, payload["view"]["state"]["values"])
                return read_ if isinstance(read_, dict) else None

    def store_answer(
        self,
        delivery: Delivery,
        question: person_questions.AskedQuestion,
        answer_values: person_question.AnswerValues,
        *,
        declined: bool = False,
    ) -> None:
        """Store the answer, tell the model and the thread, and mark the delivery as handled."""
        call, person, at = question.call, delivery.user, delivery.received_at
        output = person_questions.build_answer_output(
            question.asked, person, at, None if declined else answer_values
        )
        with self.store.write() as tx:
            outcome = endings.store_person_answer(
                tx,
                call.id,
                call.revision,
                person,
                at=at,
                given=canonical_json(answer_values),
                declined=declined,
                output=output,
            )
            if not isinstance(outcome, decisions.AppliedDecision):
                reply_privately(tx, delivery, _too_late_sentence(tx, outcome, person))
                inbox.mark_delivery_done(tx, delivery, "answered too late")
                return
            if any(
                outbox.parse_message_body(row)["elsewhere"]
                for row in person_questions.list_question_messages(tx, call)
            ):
                text = sentences.question_answered_notice(person, declined)
                outbox.queue_notice(tx, question.run, f"answered:{call.id}", {"text": text})
            inbox.mark_delivery_done(tx, delivery, "answered")

    def _refuse_answer(
        self, delivery: Delivery, asked: Click | DialogSubject, away: DialogRefusal
    ) -> None:
        name = asked.action if isinstance(asked, Click) else asked.dialog
        with self.store.write() as tx:
            if away.call is not None:
                record_refused_action(tx, delivery, away.call, name, away.why or "")
            reply_privately(tx, delivery, away.sentence)
            inbox.mark_delivery_done(tx, delivery, "refused")

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handlers of each button and form of a question."""
        return dict.fromkeys(
            (*question_message.CHOICE_ACTIONS, Action.DECLINE, DialogId.ANSWER), self.handle_answer
        )


def _too_late_sentence(
    tx: Transaction, outcome: decisions.DecidableCall | decisions.UndecidableOutcome, person: str
) -> str:
    """Return what to tell a person who answered too late, and what came first."""
    match outcome:
        case decisions.EarlierDecision(call=call) if call.status is CallStatus.ANSWERED:
            answer = calls.find_person_answer(tx, call.id)
            if answer is None or answer.person == person:
                return sentences.OWN_ANSWER_STANDS_REPLY
            return sentences.already_answered_reply(answer.person, answer.created_at)
        case decisions.DeadlinePassed(call=call) | decisions.EarlierDecision(call=call) if (
            call.status
            in (
                CallStatus.EXPIRED,
                CallStatus.PENDING,
            )
        ):
            return sentences.answer_too_late_reply(call.deadline)
        case _:
            return sentences.QUESTION_NO_LONGER_ASKED_REPLY


@dataclass(frozen=True, slots=True)
class ReplyAnswerHandler:
    """Takes replies in a question's thread as answers. One per process; called by the loop only."""

    answers: AnswerHandler
    bot_user: str

    def handle_message(self, delivery: Delivery) -> bool:
        """Handle a message if it answers a question; return whether it does. Looks people up.

        A message that mentions the bot is a new request, and "cancel" ends the request. Raises
        LookupPendingError for a message that may answer a question whose thread is not known yet.
        """
        if delivery.kind is not DeliveryKind.MESSAGE:
            return False
        event = json.loads(delivery.body)["event"]
        if event.get("subtype") not in HUMAN_MESSAGE_SUBTYPES or event.get("bot_id"):
            return False
        text = extract_message_text(event, self.bot_user)
        if not text or mentions_bot(event, self.bot_user) or is_only_cancellation(text):
            return False
        is_reply = event.get("thread_ts") not in (None, "", event.get("ts"))
        with self.answers.store.read() as tx:  # one for both: Slack may name the question's ts now
            asked = self._list_questions_asked_in_thread(tx, delivery)
            is_early = not asked and is_reply and self._may_answer_unposted_question(tx, delivery)
        if is_early:
            raise LookupPendingError  # the loop tries again once Slack has named the question's ts
        asked = [each for each in asked if each.asked.kind is person_question.AnswerKind.TEXT]
        open_questions = [
            each for each in asked if self.answers.is_allowed_to_answer(each, delivery.user)
        ]
        if not open_questions:
            return False
        answer_values = person_question.normalise_answer_if_valid(
            open_questions[0].asked, person_question.build_single_field_answer(text)
        )
        if len(open_questions) == 1 and answer_values is not None:
            self.answers.store_answer(delivery, open_questions[0], answer_values)
            return True
        with self.answers.store.write() as tx:
            too_long = sentences.answer_too_long_reply(person_question.MAX_ANSWER_CHARS)
            reply_privately(
                tx,
                delivery,
                sentences.SEVERAL_QUESTIONS_REPLY if len(open_questions) > 1 else too_long,
            )
            inbox.mark_delivery_done(tx, delivery, "no single question that it answers")
        return True

    def _may_answer_unposted_question(self, tx: Transaction, delivery: Delivery) -> bool:
        """Return whether this reply may answer a question that is just being posted.

        That is a reply in an unknown thread of the bot's direct messages: Slack may show the
        question before it returns its ts.
        """
        tool = person_question.ASK_PERSON.name
        being_posted = calls.is_question_being_posted(tx, tool, delivery.channel)
        return being_posted and not outbox.was_posted_by_bot(tx, delivery.thread_ts)

    def _list_questions_asked_in_thread(
        self, tx: Transaction, delivery: Delivery
    ) -> list[person_questions.AskedQuestion]:
        """Return the questions that were open in a message's thread when it was written."""
        tool, team, at = person_question.ASK_PERSON.name, delivery.team, delivery.received_at
        found = (
            person_questions.find_question(tx, call.id)
            for call in calls.list_waiting_questions(tx, tool, team, at)
            if person_questions.was_question_posted_in_thread(tx, call, delivery)
        )
        return [each for each in found if each is not None]
