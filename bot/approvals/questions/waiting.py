"""While a question waits: its reminder, halfway, its thread, and what silence comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bot.approvals.cards.absence import Away, away_of, still_away
from bot.approvals.cards.routing import note_away
from bot.approvals.questions.rows import AskedQuestion, is_question, messages_of, names_of, read
from bot.messages.sentences.questions import answer_reminder, people_named, unanswered_line
from bot.policy.authority import Authority
from storage import calls, outbox, person_answers, trail
from storage.models import Call, Delivery, Message, Run
from storage.states import DeliveryKind, MessageKind
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Called:
    """Whom a reminder names, and who is away."""

    members: tuple[str, ...] = ()  # of the group that was asked, where some are away; else all
    away: Away = ()


def called(authority: Authority, found: AskedQuestion, now: datetime) -> Called:
    """Return who is there of those that were asked; all of them where nobody is. Looks people up.

    Raises LookupFailedError.
    """
    run = found.run
    named = authority.named(found.people, requester=run.requester, channel=run.channel)
    away = away_of(authority, named)
    there = named - {user for user, _ in still_away(away, now)}
    some = bool(there) and there != named
    return Called(tuple(sorted(there)) if some else (), away)


def remind(tx: Transaction, call: Call, now: datetime, who: Called) -> None:
    """Remind who was asked, under each message of the question; nothing where it has ended.

    The messages say who is away by now.
    """
    if not person_answers.reminded(tx, call):
        return
    found = read(tx, call.id)
    if found is None:
        return
    note_away(tx, call, who.away)
    outbox.redraw(tx, call.plan_id)
    for row in messages_of(tx, call):
        thread = row.thread_ts or row.ts
        if not thread:
            continue
        names = people_named(who.members, ()) if who.members else names_of(found, row)
        text = answer_reminder(names, found.asked.question, call.deadline)
        line = Message(
            key=f"nudge:{call.id}:{call.revision}:{row.seq}",
            kind=MessageKind.NOTICE,
            run_id=call.run_id,
            channel=row.channel,
            thread_ts=thread,
            body=outbox.dump({"text": text, "mrkdwn": True}),
        )
        outbox.put(tx, line)
    data = {"what": "answer_reminder"}
    about = {"run_id": call.run_id, "call_id": call.id}
    trail.record(tx, "call.told", at=now, actor="clock", data=data, **about)


def say_unanswered(tx: Transaction, run: Run, fallen: Iterable[Call]) -> None:
    """Tell the thread which questions nobody answered in time."""
    found = [each for each in (read(tx, call.id) for call in fallen) if each is not None]
    if found:
        first = found[0].call
        text = unanswered_line([each.asked.question for each in found], first.deadline)
        outbox.notice(tx, run, f"unanswered:{first.id}:{first.revision}", {"text": text})


def is_all_that_waits(tx: Transaction, run: Run) -> bool:
    """Return whether the request, sub-agents and all, waits for answers and for no decision."""
    waits = [call for call in calls.of_request(tx, run.id) if calls.waits(call)]
    return bool(waits) and all(map(is_question, waits))


def asked_there(tx: Transaction, call: Call, delivery: Delivery) -> bool:
    """Return whether the question stands in the thread of this message, or began it."""
    return any(_in_thread(row, delivery) for row in messages_of(tx, call))


def _in_thread(row: Message, delivery: Delivery) -> bool:
    return row.channel == delivery.channel and delivery.thread_ts == (row.thread_ts or row.ts)


def replied_in_time(tx: Transaction, call: Call, arrived: list[Delivery]) -> bool:
    """Return whether a message that is not taken in yet came to its thread before its deadline."""
    return any(
        each.kind is DeliveryKind.MESSAGE
        and call.deadline is not None
        and each.received_at < call.deadline
        and asked_there(tx, call, each)
        for each in arrived
    )
