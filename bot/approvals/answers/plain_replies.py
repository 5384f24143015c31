"""A plain reply that answers a question: that of a person who was asked for text, in its thread.

Runs on the loop, before a message is taken for a request. Nobody else's words are an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.approvals.questions.rows import AskedQuestion, read
from bot.approvals.questions.waiting import asked_there
from bot.approvals.replies import tell
from bot.messages.incoming import WRITTEN, message_text, takes_back
from bot.messages.sentences import questions as sentences
from bot.policy.directory import NotYetKnownError
from bot.tools.people.question import ASK_PERSON, MOST_TEXT, AnswerKind, checked, one_value
from storage import inbox, outbox, person_answers
from storage.models import Delivery
from storage.states import DeliveryKind

if TYPE_CHECKING:  # it is handed what takes answers
    from bot.approvals.answers.answering import QuestionAnswers


@dataclass(frozen=True, slots=True)
class PlainReplies:
    """One per process; called by the loop only."""

    answers: QuestionAnswers
    bot_user: str

    def take(self, delivery: Delivery) -> bool:
        """Take a message as an answer and settle it; return whether it was one. Looks people up.

        What mentions the bot is a new wish, and "cancel" takes the request back. Raises
        NotYetKnownError for what may answer a question whose place is not known yet.
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
        given = checked(found[0].asked, one_value(text))
        if len(found) == 1 and given is not None:
            self.answers.take(delivery, found[0], given)
            return True
        with self.answers.store.write() as tx:
            too_long = sentences.answer_too_long(MOST_TEXT)
            tell(tx, delivery, sentences.SEVERAL if len(found) > 1 else too_long)
            inbox.settle(tx, delivery, "no single question that it answers")
        return True

    def _may_answer_soon(self, delivery: Delivery) -> bool:
        """Return whether this is a reply in a thread of the bot's direct messages that nobody knows
        yet, while a question is being posted there: Slack may have shown it before it said where.
        """
        with self.answers.store.read() as tx:
            posted = person_answers.being_posted(tx, ASK_PERSON.name, delivery.channel)
            return bool(posted) and not outbox.knows(tx, delivery.thread_ts)

    def _asked_of(self, delivery: Delivery) -> list[AskedQuestion]:
        """Return the questions for text that wait in this thread for this person."""
        at, team = delivery.received_at, delivery.team
        with self.answers.store.read() as tx:
            waiting = person_answers.waiting(tx, ASK_PERSON.name, team, at)
            here = [call for call in waiting if asked_there(tx, call, delivery)]
            found = [each for each in (read(tx, call.id) for call in here) if each is not None]
        found = [each for each in found if each.asked.kind is AnswerKind.TEXT]
        return [each for each in found if self.answers.may(each, delivery.user)]
