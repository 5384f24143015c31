"""Questions to people: asking them, where they are posted, who may answer, and reminders."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from bot.agent import outputs
from bot.approvals import card_routing
from bot.approvals.call_checks import CallRefusedError, UsageLimits
from bot.approvals.call_gates import PolicyFactSources
from bot.cards import question_message, sentences, slack_text
from bot.cards.phrases import find_approval_request_words
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError
from bot.policy.gates import Approvers
from bot.tools import person_question
from bot.tools.arguments import load_arguments
from storage import calls, outbox, runs, trail
from storage.record import Call, Delivery, Message, Run, Store, Transaction
from storage.states import MODEL_DRIVEN_SOURCES, CallStatus, DeliveryKind, MessageKind, RunSource

# Stored questions: what is asked, of whom, and in which messages. Only reads.

_SERVER_PREFIX = "mcp:"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A stored question, with its call and run."""

    call: Call
    run: Run
    asked: person_question.AskPerson

    @property
    def possible_answerers(self) -> Approvers:
        """Return who may answer the question."""
        return person_question.build_allowed_answerers(self.asked.to, self.run.requester)


def build_answer_output(
    question: person_question.AskPerson,
    person: str,
    at: datetime,
    given: person_question.AnswerValues | None,
) -> str:
    """Return what the model is told of a person's answer; `given`: None if they could not say."""
    when = slack_text.format_in_utc(at)
    if given is None:
        return outputs.question_declined_output(person, when)
    lines = question_message.list_readable_answer_values(question, given)
    return outputs.question_answered_output(person, when, lines)


def is_question_to_person(call: Call) -> bool:
    """Return whether the call is a question to a person, which only an answer can complete."""
    return call.tool == person_question.ASK_PERSON.name


def find_question(tx: Transaction, call_id: str) -> AskedQuestion | None:
    """Return the question of a call; None for any other call, or if it cannot be read any more."""
    shown = calls.find_call_with_revision(tx, call_id)
    if shown is None or not is_question_to_person(shown.call):
        return None
    try:
        asked = load_arguments(person_question.ASK_PERSON, shown.revision.arguments)
    except ValidationError:
        return None
    assert isinstance(asked, person_question.AskPerson)
    return AskedQuestion(shown.call, runs.get_run(tx, shown.call.run_id), asked)


def build_asking_server_client_name(server: str) -> str:
    """Return the client name of an MCP server that asks people; no API key can have this name."""
    return f"{_SERVER_PREFIX}{server}"


def get_asking_server_name(run: Run) -> str:
    """Return the name of the MCP server that asks in this run; "" for any other run."""
    return run.client.removeprefix(_SERVER_PREFIX) if run.client.startswith(_SERVER_PREFIX) else ""


def list_question_messages(tx: Transaction, call: Call) -> list[Message]:
    """Return all copies of the question's message."""
    return [
        row
        for row in outbox.list_cards_of_plan(tx, call.plan_id)
        if call.id in outbox.parse_message_body(row)["calls"]
    ]


def describe_asked_people(found: AskedQuestion, row: Message | None) -> str:
    """Return who is asked, as mrkdwn: people, and the groups that the question's message notes."""
    groups = (outbox.parse_message_body(row)["groups"] if row else {}).values()
    return sentences.join_mentions(found.possible_answerers.users, groups)


MAX_QUESTIONS_EXAMINED = 50  # in one workspace, to find those that one person may answer


def may_answer_question(authority: Authority, asked: AskedQuestion, person: str) -> bool:
    """Return whether this person is a colleague who was asked; raises LookupFailedError."""
    run = asked.run
    named = authority.list_named_people(
        asked.possible_answerers, requester=run.requester, channel=run.channel
    )
    return person in named and authority.is_active_colleague(person)


def list_questions_for_person(
    store: Store, authority: Authority, person: str, at: datetime
) -> list[AskedQuestion]:
    """Return the questions that wait for this person at that time, the first deadline first.

    Looks people up; a question is left out if Slack cannot be asked who may answer it.
    """
    with store.read() as tx:
        waiting = calls.list_waiting_questions(
            tx, person_question.ASK_PERSON.name, authority.team, at
        )
        found = [find_question(tx, call.id) for call in waiting[:MAX_QUESTIONS_EXAMINED]]
    mine: list[AskedQuestion] = []
    for each in found:
        with suppress(LookupFailedError):
            mine += [each] if each and may_answer_question(authority, each, person) else []
    return mine


# Asking: which questions are allowed, who can answer them, and where they are posted.

log = logging.getLogger("countersign.questions")
DEFAULT_DEADLINE = timedelta(hours=4)  # if the policy's defaults set none


@dataclass(frozen=True, slots=True)
class QuestionWithPlace:
    """A question that may be asked, with the place for its message."""

    asked: person_question.AskPerson
    place: card_routing.CardPlace


def prepare_question(
    sources: PolicyFactSources,
    authority: Authority,
    limits: UsageLimits,
    run: Run,
    call: Call,
    question: person_question.AskPerson,
    questions_in_same_plan: int,
) -> QuestionWithPlace:
    """Check a question and make its call wait; return the question with where to post it.

    `questions_in_same_plan`: calls of the same plan that people are asked about. Raises
    CallRefusedError.
    """
    if words := find_approval_request_words(question.list_question_texts()):
        raise CallRefusedError(
            outputs.refused_approval_question_output(words),
            "a question cannot be about an approval",
        )
    try:
        person_question.build_suggested_answers(question)
    except ValueError as error:
        why = outputs.invalid_arguments_output([str(error)])
        raise CallRefusedError(why, "its arguments were not valid") from error
    with sources.store.read() as tx:
        limit_reached = limits.find_reached_asking_limit(tx, run, questions_in_same_plan)
    if limit_reached:
        raise CallRefusedError(limit_reached.output, limit_reached.note, tell=True)
    place = _resolve_place(
        authority, run, person_question.build_allowed_answerers(question.to, run.requester)
    )
    default = sources.policy.policy.default
    at = call.created_at
    call.status, call.asked_at = CallStatus.PENDING, at
    call.deadline, call.next_at = at + DEFAULT_DEADLINE, at + DEFAULT_DEADLINE / 2
    if default:
        call.deadline = default.compute_due_time(at, default.deadline)
        call.next_at = default.compute_due_time(at, default.deadline // 2)
    return QuestionWithPlace(question, place)


def _resolve_place(authority: Authority, run: Run, who: Approvers) -> card_routing.CardPlace:
    """Return the thread if its requester or a channel member may answer, else direct messages.

    Raises CallRefusedError if nobody can answer, or Slack cannot be asked.
    """
    try:
        named = authority.list_named_people(who, requester=run.requester, channel=run.channel)
        people_to_ask = authority.list_first_colleagues(named, card_routing.MAX_PEOPLE_MESSAGED)
        if not people_to_ask:
            note = "none of the people it is for is a full member of this workspace"
            raise CallRefusedError(outputs.nobody_to_ask_output(note), note, tell=True)
        groups_by_handle = [
            (handle, authority.directory.find_group(handle)) for handle in who.groups
        ]
        groups = tuple((handle, group.id) for handle, group in groups_by_handle if group)
        here = run.requester in people_to_ask or authority.list_first_colleagues(
            authority.directory.list_channel_members(run.channel) & named, 1
        )
    except LookupFailedError as error:
        log.warning("run %s: look-up of who is asked failed: %s", run.id, error)
        raise CallRefusedError(
            outputs.NAME_LOOKUP_FAILED, "Slack could not be asked for names"
        ) from error
    away = _list_away_answerers(authority, named)
    if here:
        return card_routing.CardPlace(
            card_routing.CardPlaceKind.THREAD, (run.channel,), groups, away
        )
    return card_routing.CardPlace(
        card_routing.CardPlaceKind.PEOPLE, tuple(people_to_ask), groups, away
    )


def _list_away_answerers(authority: Authority, named: frozenset[str]) -> card_routing.AwayPeople:
    """Return who of the people asked is away; empty while that is still being looked up."""
    try:
        return card_routing.list_away_people(authority, named)
    except LookupPendingError:
        return ()


def queue_question_messages(
    tx: Transaction, run: Run, call: Call, question: QuestionWithPlace
) -> None:
    """Queue the messages that ask a question; one asked in private is announced in the thread."""
    asked, place = question.asked, question.place
    here = place.kind is card_routing.CardPlaceKind.THREAD
    body = {"calls": [call.id], "groups": dict(place.groups), outbox.QUESTION_KEY: True}
    body |= {"away": dict(place.away)}
    body |= {"elsewhere": not here, "part": 1, "parts": 1}
    for target in place.targets:
        row = Message(
            key=f"card:{call.id}:{call.revision}:{target}",
            kind=MessageKind.CARD,
            run_id=run.id,
            plan_id=call.plan_id,
            channel=target,
            thread_ts=run.thread_ts if here else "",
            body=outbox.dump_message_body(body),
        )
        outbox.queue_message(tx, row)
    who = {"kind": asked.kind, "of": asked.to or run.requester}
    data = {**who, "where": place.kind, "targets": list(place.targets)}
    server = run.client if run.source is RunSource.SERVER else ""
    actor = "agent" if run.source in MODEL_DRIVEN_SOURCES else server or run.requester
    trail.record_event(tx, "question.asked", at=call.created_at, actor=actor, call=call, data=data)
    if not here:
        users = person_question.build_allowed_answerers(asked.to, run.requester).users
        handles = [slack_text.escape_mrkdwn(f"@{handle}") for handle, _ in place.groups]
        names = ", ".join([*map(slack_text.user_mention, users), *handles]) or "others"
        text = sentences.question_asked_privately_notice(names, asked.question)
        outbox.queue_notice(tx, run, f"elsewhere:{call.id}:{call.revision}", {"text": text})


@dataclass(frozen=True, slots=True)
class ReminderRecipients:
    """The people a reminder names, and who is away."""

    members: tuple[str, ...] = ()  # people to name if some are away or asleep; empty: all are named
    away: card_routing.AwayPeople = ()
    asleep: frozenset[str] = frozenset()
    morning: datetime | None = None  # when to remind instead, if everybody is asleep


def find_reminder_recipients(
    authority: Authority, question: AskedQuestion, now: datetime, *, urgent: bool
) -> ReminderRecipients:
    """Return who of the people asked is not away or asleep, for a reminder. Looks people up.

    `members` is empty, so that all are named, if nobody is away or asleep or if everybody is.
    `urgent`: count nobody as asleep. Raises LookupFailedError.
    """
    run = question.run
    named = authority.list_named_people(
        question.possible_answerers, requester=run.requester, channel=run.channel
    )
    away = card_routing.list_away_people(authority, named)
    people_present = (
        named - {user for user, _ in card_routing.filter_people_still_away(away, now)} or named
    )
    checked_for_sleep = frozenset() if urgent else people_present
    asleep, morning = card_routing.find_sleepers(
        authority, checked_for_sleep, now, question.call.deadline
    )
    awake = people_present - asleep
    members = () if awake == named else tuple(sorted(awake)[: card_routing.MAX_NAMES_PER_LINE])
    return ReminderRecipients(members, away, asleep, morning)


def queue_question_reminder(
    tx: Transaction, call: Call, now: datetime, who: ReminderRecipients
) -> None:
    """Post a reminder under each message of the question; nothing if the question has ended.

    The messages then say who is away. If everybody is asleep, the reminder is postponed until the
    first of them can be reached.
    """
    if not calls.schedule_question_reminder(tx, call, who.morning) or who.morning:
        return
    asked_question = find_question(tx, call.id)
    if asked_question is None:
        return
    card_routing.update_away_people_on_cards(tx, call, who.away)
    outbox.mark_cards_for_redraw(tx, call.plan_id)
    for row in list_question_messages(tx, call):
        thread = row.thread_ts or row.ts
        if not thread or row.key.rpartition(":")[2] in who.asleep:
            continue
        names = (
            sentences.join_mentions(who.members, ())
            if who.members
            else describe_asked_people(asked_question, row)
        )
        text = sentences.answer_reminder_notice(names, asked_question.asked.question, call.deadline)
        line = Message(
            key=f"nudge:{call.id}:{call.revision}:{row.seq}",
            kind=MessageKind.NOTICE,
            run_id=call.run_id,
            channel=row.channel,
            thread_ts=thread,
            body=outbox.dump_message_body(
                {"text": text, "mrkdwn": True, outbox.NOTIFIED_KEY: slack_text.list_mentions(names)}
            ),
        )
        outbox.queue_message(tx, line)
    data = {"what": "answer_reminder"}
    trail.record_event(tx, "call.told", at=now, actor="clock", call=call, data=data)


def announce_unanswered_questions(tx: Transaction, run: Run, expired: Iterable[Call]) -> None:
    """Say in the thread which of these calls were questions that nobody answered in time."""
    found = [each for each in (find_question(tx, call.id) for call in expired) if each is not None]
    if found:
        first = found[0].call
        text = sentences.questions_unanswered_line(
            [each.asked.question for each in found], first.deadline
        )
        key, to = f"unanswered:{first.id}:{first.revision}", [run.requester]
        outbox.queue_notice(tx, run, key, {"text": text}, notified=to)


def is_waiting_for_answers_only(tx: Transaction, run: Run) -> bool:
    """Return whether the request, with its sub-agents, waits only for answers to questions."""
    waits = [
        call
        for call in calls.list_calls_of_request(tx, run.id)
        if calls.is_waiting_for_people(call)
    ]
    return bool(waits) and all(map(is_question_to_person, waits))


def was_question_posted_in_thread(tx: Transaction, call: Call, delivery: Delivery) -> bool:
    """Return whether a message is in a thread where the question was posted or that it began."""
    return any(_is_in_thread(row, delivery) for row in list_question_messages(tx, call))


def _is_in_thread(row: Message, delivery: Delivery) -> bool:
    return row.channel == delivery.channel and delivery.thread_ts == (row.thread_ts or row.ts)


def has_timely_unhandled_reply(tx: Transaction, call: Call, unhandled: list[Delivery]) -> bool:
    """Return whether an unhandled message came to the question's thread before the deadline."""
    return any(
        each.kind is DeliveryKind.MESSAGE
        and call.deadline is not None
        and each.received_at < call.deadline
        and was_question_posted_in_thread(tx, call, each)
        for each in unhandled
    )
