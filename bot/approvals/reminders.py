"""What people are told while a call waits: the next stage's people, reminders, escalations. Runs on
the loop.

What is due stands in the call's row (`next_at`), so a restart loses none of it and repeats none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from bot.approvals.call_state import (
    approving,
    effect_of,
    next_moment,
    stand_ins,
    standing,
    still_needed,
    waited,
)
from bot.approvals.card_routing import (
    Asked,
    Away,
    Place,
    away_of,
    card_row,
    group_ids,
    note_away,
    place_for,
    still_away,
)
from bot.approvals.person_questions import Called, called, is_question, read, remind
from bot.cards import notices
from bot.cards.slack_text import channel_mention, group_mention, mention
from bot.clock import Clock
from bot.policy.authority import Authority
from bot.policy.directory import LookupFailedError, NotYetKnownError
from bot.policy.gates import Approvers, Ask, load_gate
from bot.policy.tally import Tally
from bot.tools import Registry
from storage import calls, outbox, runs, schedule, trail
from storage.models import Call, Message, Run, Vote
from storage.states import MessageKind, Verb
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.reminders")
MOST_NAMES = 20  # people named in one line
Sentence = Callable[[Sequence[str], str, datetime | None], str]


class What(StrEnum):
    """What people are told of a call that waits, as the audit names it."""

    NEXT_STEP = "next_step"
    REMINDER = "reminder"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class News:
    """One thing to be said, and of whom."""

    what: What
    sentence: Sentence
    people: Approvers


class Reminders:
    """One per process; `tell` is called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry, authority: Authority) -> None:
        """`authority` looks people up; `tools` word what waits."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority

    def tell(self) -> bool:
        """Tell people whatever is due now; returns whether anything was."""
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.calls_to_notify(tx, now)
        for call in due:
            try:
                self._tell(call, now)
            except NotYetKnownError:  # it stays due; the loop is woken once it is known
                log.debug("call %s: people are being looked up", call.id)
            except LookupFailedError as error:  # it stays due, and is tried again
                log.warning("run %s call %s: nobody could be told: %s", call.run_id, call.id, error)
            except Exception:
                log.exception("run %s call %s: nobody could be told", call.run_id, call.id)
        return bool(due)

    def _tell(self, call: Call, now: datetime) -> None:
        if is_question(call):
            self._remind_of_question(call, now)
            return
        gate = load_gate(call.gate)
        with self._store.read() as tx:
            run = runs.get(tx, call.run_id)
            votes = calls.votes(tx, call.id, call.revision)
        if run is None or not isinstance(gate, Ask):
            return
        seen, asked_at = standing(gate, votes), call.asked_at or call.created_at
        stage = seen.stage
        waiting, moments = waited(gate, call, now), gate.moments()
        passed = [
            each for each in moments[call.told_moments :] if timedelta(seconds=each) <= waiting
        ]
        voted = {who for vote in votes for who in (vote.person, vote.counts_for)}
        news = _news(gate, seen, stage > call.told_stage, passed, waiting, votes)
        away = self._away(run, gate, gate.approvers_in(seen.open, waiting))
        gone = frozenset(user for user, _ in still_away(away, now))
        found = [(each, *self._people(run, gate, each.people, voted, gone)) for each in news]
        groups = group_ids(self._authority, gate)
        told = call.told_moments + len(passed)
        with self._store.write() as tx:
            if not schedule.mark_notified(
                tx, call, stage=stage, moments=told, next_at=next_moment(gate, asked_at, told)
            ):
                return  # decided or edited meanwhile
            if not news:  # an edit or a vote has overtaken what was due
                return
            for number, (each, who, place) in enumerate(found):
                key = f"{call.id}:{call.revision}:{told}:{stage}:{number}"
                place = replace(place, groups=groups, away=away)
                said_here = self._say(tx, run, call, gate, place, key, each.sentence, who)
                if each.what is What.NEXT_STEP and not said_here:
                    self._tell_thread(tx, run, call, key, votes)
            data = {"what": ", ".join(each.what for each in news)}
            about = {"run_id": run.id, "call_id": call.id}
            trail.record(tx, "call.told", at=now, actor="clock", data=data, **about)
            note_away(tx, call, away)
            outbox.redraw(tx, call.plan_id)

    def _remind_of_question(self, call: Call, now: datetime) -> None:
        """Remind who was asked and is there. Looks them up."""
        with self._store.read() as tx:
            found = read(tx, call.id)
        who = called(self._authority, found, now) if found else Called()
        with self._store.write() as tx:
            remind(tx, call, now, who)

    def _away(self, run: Run, gate: Ask, who: Approvers) -> Away:
        """Who of those that may decide now is away. Looks them up."""
        named = self._authority.candidates(gate, who, requester=run.requester, channel=run.channel)
        return away_of(self._authority, named)

    def _people(
        self, run: Run, gate: Ask, who: Approvers, voted: set[str], away: frozenset[str]
    ) -> tuple[str, Place]:
        """Those of `who` that can still vote, in words, and where they will see the card.

        Who is away is not called, unless all are. Looks them up.
        """
        authority = self._authority
        everybody = authority.candidates(gate, who, requester=run.requester, channel=run.channel)
        by_name = who.model_copy(update={"channel": False})  # of a channel nobody is named
        able = authority.able(gate, by_name, requester=run.requester, channel=run.channel)
        people = sorted(able - voted - away) or sorted(able - voted)
        silent = (voted | away) - set(people)
        ids = dict(group_ids(authority, gate))
        groups = [
            (ids[handle], authority.directory.group(handle))
            for handle in who.groups
            if handle in ids
        ]
        named = [user for user in who.users if user in people]
        named += [run.requester] if who.requester and run.requester in people else []
        names = [
            group_mention(group_id)
            for group_id, group in groups
            if group and not group.members & silent
        ]
        for _, group in groups:  # where some have voted or are away, only the others are called
            some = group is not None and bool(group.members & silent)
            named += [user for user in people if group and some and user in group.members]
        named += sorted(authority.stand_ins(able - voted) - voted - {run.requester})
        names += [mention(user) for user in dict.fromkeys(named)]
        if who.channel:
            names.append(f"members of {channel_mention(run.channel)}")
        return ", ".join(names[:MOST_NAMES]) or "Somebody", place_for(
            authority, run, gate, everybody - voted
        )

    def _say(
        self,
        tx: Transaction,
        run: Run,
        call: Call,
        gate: Ask,
        place: Place,
        key: str,
        sentence: Sentence,
        who: str,
    ) -> bool:
        """A line under each card these people see; those who see none get a card of their own.

        Returns whether it stands in the request's own thread.
        """
        said_here = False
        text = sentence([effect_of(self._tools, tx, call)], who, call.deadline)
        cards = [
            row for row in outbox.cards(tx, call.plan_id) if call.id in outbox.body(row)["calls"]
        ]
        by_target = {row.key.rpartition(":")[2]: row for row in cards}
        for target in place.targets:
            card = by_target.get(target)
            if card is None:
                outbox.put_message(
                    tx, card_row(run, call.plan_id, [Asked(call, gate, place)], target)
                )
            elif thread := card.thread_ts or card.ts:
                body = outbox.dump_body({"text": text, "mrkdwn": True})
                line = Message(
                    key=f"nudge:{key}:{target}",
                    kind=MessageKind.NOTICE,
                    run_id=run.id,
                    channel=card.channel,
                    thread_ts=thread,
                    body=body,
                )
                outbox.put_message(tx, line)
                said_here |= (card.channel, thread) == (run.channel, run.thread_ts)
        return said_here

    def _tell_thread(
        self, tx: Transaction, run: Run, call: Call, key: str, votes: Sequence[Vote]
    ) -> None:
        """Say in the thread of the request who has approved, where others are called elsewhere."""
        last = approving(votes)[-1:]
        for vote in last:
            effects, needed = [effect_of(self._tools, tx, call)], still_needed(tx, call)
            giver = vote.for_person or ""
            text = notices.decision_line(
                Verb.APPROVE, vote.person, effects, vote.reason, needed, giver=giver
            )
            outbox.notice(tx, run, f"step:{key}", {"text": text})


def _news(
    gate: Ask,
    seen: Tally,
    is_next: bool,
    passed: Sequence[int],
    waiting: timedelta,
    votes: Sequence[Vote],
) -> list[News]:
    """What is to be said, and of whom; `is_next`: another stage has opened, `passed`: moments."""
    news: list[News] = []
    if is_next:
        before = [each for each in approving(votes) if each.stage == seen.stage - 1]
        approved = [(each.counts_for, each.reason) for each in before]
        called_next = partial(notices.next_step, approved=approved, stand_ins=stand_ins(votes))
        people = gate.approvers_of(seen.stage, waiting)
        news.append(News(What.NEXT_STEP, called_next, people))
    elif set(passed) & set(gate.reminders):
        people = gate.approvers_in(seen.open, waiting)
        news.append(News(What.REMINDER, notices.reminder, people))
    steps = (step for step in gate.escalation if step.after in passed)
    return [
        *news,
        *(News(What.ESCALATED, notices.escalation_line, step.approvers) for step in steps),
    ]
