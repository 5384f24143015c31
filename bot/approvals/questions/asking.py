"""Asking: what may be asked, who of those it is for can answer, and where they see it.

Looks people up; the worker stores what comes of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.agent import outputs
from bot.agent import outputs as told
from bot.approvals.cards.absence import Away, away_of
from bot.approvals.cards.placement import MOST_MESSAGES, Place, PlaceKind
from bot.approvals.terms.facts import Sources
from bot.approvals.terms.refusals import RefusedError
from bot.messages.sentences.questions import asked_elsewhere, people_named
from bot.policy.authority import Authority
from bot.policy.directory import LookupFailedError, NotYetKnownError
from bot.policy.gates import Approvers
from bot.tools.people.approval_words import seeks_approval
from bot.tools.people.question import AskPerson, people_asked, suggested
from storage import outbox, trail
from storage.models import Call, Message, Run
from storage.states import MODELLED, CallStatus, MessageKind, RunSource
from storage.transaction import Transaction

if TYPE_CHECKING:  # it is handed what holds the limits
    from bot.approvals.terms.limits import Allowance

log = logging.getLogger("countersign.questions")
DEADLINE = timedelta(hours=4)  # where the policy's defaults name none


@dataclass(frozen=True, slots=True)
class PlacedQuestion:
    """A question that may be asked, and where."""

    asked: AskPerson
    place: Place


def ask(
    sources: Sources,
    authority: Authority,
    limits: Allowance,
    run: Run,
    call: Call,
    asked: AskPerson,
    beside: int,
) -> PlacedQuestion:
    """Have a call wait for an answer, and return what is asked where.

    `beside`: calls of the same plan that people are asked about. Raises RefusedError.
    """
    if words := seeks_approval(asked.texts()):
        raise RefusedError(told.about_approval(words), "a question cannot be about an approval")
    try:
        suggested(asked)
    except ValueError as error:
        why = outputs.invalid_arguments([str(error)])
        raise RefusedError(why, "its arguments were not valid") from error
    with sources.store.read() as tx:
        reached = limits.on_asking(tx, run, beside)
    if reached:
        raise RefusedError(reached.output, reached.note, tell=True)
    place = _place(authority, run, people_asked(asked.to, run.requester))
    default = sources.policy.policy.default
    at = call.created_at
    call.status, call.asked_at = CallStatus.PENDING, at
    call.deadline, call.next_at = at + DEADLINE, at + DEADLINE / 2
    if default:
        call.deadline = default.after(at, default.deadline)
        call.next_at = default.after(at, default.deadline // 2)
    return PlacedQuestion(asked, place)


def _place(authority: Authority, run: Run, who: Approvers) -> Place:
    """Return the thread for who asked and whoever is in its channel, else direct messages."""
    try:
        named = authority.named(who, requester=run.requester, channel=run.channel)
        able = authority.first(named, MOST_MESSAGES)
        if not able:
            note = "none of those it is for is a full member of this workspace"
            raise RefusedError(told.nobody_there(note), note, tell=True)
        found = [(handle, authority.directory.group(handle)) for handle in who.groups]
        groups = tuple((handle, group.id) for handle, group in found if group)
        here = run.requester in able or authority.first(
            authority.directory.members(run.channel) & named, 1
        )
    except LookupFailedError as error:
        log.warning("run %s: look-up of who is asked failed: %s", run.id, error)
        raise RefusedError(outputs.NAMES_UNKNOWN, "Slack could not be asked for names") from error
    away = _away(authority, named)
    if here:
        return Place(PlaceKind.THREAD, (run.channel,), groups, away)
    return Place(PlaceKind.PEOPLE, tuple(able), groups, away)


def _away(authority: Authority, named: frozenset[str]) -> Away:
    """Return who of those asked is away; nobody while that is looked up: the reminder knows."""
    try:
        return away_of(authority, named)
    except NotYetKnownError:
        return ()


def put_question(tx: Transaction, run: Run, call: Call, question: PlacedQuestion) -> None:
    """Put the message of a stored question in the outbox; the thread hears if it goes elsewhere."""
    asked, place = question.asked, question.place
    here = place.kind is PlaceKind.THREAD
    body = {"calls": [call.id], "groups": dict(place.groups), outbox.QUESTION: True}
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
            body=outbox.dump(body),
        )
        outbox.put(tx, row)
    who = {"kind": asked.kind, "of": asked.to or run.requester}
    data = {**who, "where": place.kind, "targets": list(place.targets)}
    about = {"run_id": run.id, "call_id": call.id}
    server = run.client if run.source is RunSource.SERVER else ""
    actor = "agent" if run.source in MODELLED else server or run.requester
    trail.record(tx, "question.asked", at=call.created_at, actor=actor, data=data, **about)
    if not here:
        users = people_asked(asked.to, run.requester).users
        names = people_named(users, dict(place.groups).values())
        text = asked_elsewhere(names, asked.question)
        outbox.notice(tx, run, f"elsewhere:{call.id}:{call.revision}", {"text": text})
