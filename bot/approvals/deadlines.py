"""What the clock does while a call waits: next stages, reminders, escalations, and expiry. Runs on
the loop.

What is due stands in the call's row (`next_at`), so a restart loses none of it and repeats none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from bot.agent import outputs
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
    Away,
    Place,
    RoutedCall,
    away_of,
    card_row,
    group_ids,
    note_away,
    place_for,
    still_away,
)
from bot.approvals.person_questions import (
    Called,
    called,
    is_question,
    read,
    remind,
    replied_in_time,
    say_unanswered,
)
from bot.cards import notices
from bot.cards.button_codec import CallTarget, CardTarget, RunTarget, decode_action, decode_dialog
from bot.cards.slack_text import channel_mention, group_mention, mention
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, NotYetKnownError
from bot.policy.gates import Approvers, Ask, Tally, load_gate
from bot.tools import Registry
from storage import calls, endings, inbox, moves, outbox, runs, schedule, trail
from storage.availability import may_pass
from storage.models import Call, Delivery, Message, Run, Vote
from storage.states import CallStatus, DeliveryKind, MessageKind, MessageStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

# Deadlines fall: what nobody decided in time is denied by the clock, and the thread is told.

log = logging.getLogger("countersign.reminders")


class Expiry:
    """One per process; `expire` is called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry) -> None:
        """`tools` word what has expired."""
        self._store = store
        self._clock = clock
        self._tools = tools

    def expire(self) -> bool:
        """Let deadlines fall, but never one of what an undecided click in time is about.

        Returns whether any was due. Raises what the database could not: it is tried again.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.due_calls(tx, now)
        together: dict[str, list[str]] = {}
        for call_id, plan_id in due:
            together.setdefault(plan_id, []).append(call_id)
        for ids in together.values():
            self._fall(ids, now)
        return bool(due)

    def _fall(self, ids: list[str], now: datetime) -> None:
        """Let the deadlines of one plan's calls fall, and say so in its thread: one transaction.

        Where one of them cannot be dealt with, each is dealt with by itself.
        """
        try:
            with self._store.write() as tx:
                # only now: who stored a click in time has done so before this could write
                arrived = inbox.new_deliveries(tx)
                clicked = _clicked(arrived)
                found = [calls.get(tx, each) for each in ids]
                fallen = [
                    call
                    for call in found
                    if call
                    and not _in_time(call, clicked)
                    and not (is_question(call) and replied_in_time(tx, call, arrived))
                    and endings.expire_call(tx, call, at=now, words=outputs, output=_told(call))
                ]
                if denied := [call for call in fallen if call.status is CallStatus.PENDING]:
                    self._announce(tx, denied)
        except Exception as error:
            if may_pass(error):
                raise
            if len(ids) == 1:
                log.exception("call %s: could not be expired", ids[0])
                return
            for each in ids:
                self._fall([each], now)

    def _announce(self, tx: Transaction, fallen: list[Call]) -> None:
        """Say in the thread what of one plan has expired."""
        run = runs.get(tx, fallen[0].run_id)
        asking = [call for call in fallen if is_question(call)]
        fallen = [call for call in fallen if not is_question(call)]
        if run is not None:
            say_unanswered(tx, run, asking)
        if run is not None and fallen:
            first, effects = fallen[0], [self._effect(tx, call) for call in fallen]
            text = notices.expired_line(effects, first.deadline, run.requester)
            outbox.notice(tx, run, f"expired:{first.id}:{first.revision}", {"text": text})

    def _effect(self, tx: Transaction, call: Call) -> str:
        """Return what the call would have done; a deadline falls also where that cannot be said."""
        try:
            return effect_of(self._tools, tx, call)
        except Exception as error:
            if may_pass(error):
                raise
            log.exception("run %s call %s: what has expired cannot be said", call.run_id, call.id)
            return call.tool


def _told(call: Call) -> str:
    """Return what the model is told of a question; "" for what everything else is told."""
    return outputs.UNANSWERED if is_question(call) else ""


def _clicked(deliveries: Iterable[Delivery]) -> dict[str, datetime]:
    """Return when the first of these clicks on each call, plan and request was stored."""
    found: dict[str, datetime] = {}
    for each in deliveries:
        if each.kind in inbox.CLICKS:
            found.setdefault(_about(each), each.received_at)
    return found


def _about(click: Delivery) -> str:
    """Return the id of what was clicked, or the dialog was about; "" where that cannot be read."""
    try:
        payload = json.loads(click.body)
        read = (
            decode_action(payload["actions"][0])
            if click.kind == DeliveryKind.ACTION
            else decode_dialog(payload["view"])
        )
    except (LookupError, TypeError, ValueError):
        return ""
    match getattr(read, "target", None):
        case CallTarget(call=found) | CardTarget(plan=found) | RunTarget(run=found):
            return found
        case _:
            return ""


def _in_time(call: Call, clicked: Mapping[str, datetime]) -> bool:
    """Return whether it was clicked before its deadline."""
    at = [clicked[each] for each in (call.id, call.plan_id, call.run_id) if each in clicked]
    return bool(at) and call.deadline is not None and min(at) < call.deadline


# What cannot be shown: calls on a lost card are not done, and somebody is told so.

UNSEEN = "I could not show this to its approvers, so it will not happen."

NO_ROOT = "I could not write to you in a direct message, so nothing came of your request."
NO_FILE = (
    "I could not upload the file with all of it; what stands above is what there is to see here."
)
NO_ROWS = "I could not send you the file with all rows."
NO_TABLE = "I could not show the rows that were found: Slack did not take the table."


def close_unseen(tx: Transaction, card: Message, code: str, *, at: datetime) -> bool:
    """Cancel what only this card, given up as `code`, asked for, and tell the request.

    Return False when copies of the card show all of it.

    In the caller's transaction, after the card was marked as failed.
    """
    copies = (
        [
            other
            for other in outbox.cards(tx, card.plan_id)
            if other.status is not MessageStatus.FAILED
        ]
        if card.plan_id
        else []
    )
    shown = {call for copy in copies for call in outbox.body(copy)["calls"]}
    lost = [call for call in outbox.body(card).get("calls", []) if call not in shown]
    for call_id in lost:
        call = calls.get(tx, call_id)
        if call is not None and call.status is CallStatus.PENDING:
            note = f"the card could not be shown to its approvers ({code})"
            output = outputs.unseen(note)
            moves.call(
                tx, call, CallStatus.CANCELLED, at=at, actor="system", output=output, note=note
            )
            runs.free_if_decided(tx, call.run_id, at=at, actor="system")
    run = runs.get(tx, card.run_id) if lost else None
    if run is not None and run.channel != card.channel:
        outbox.notice(tx, run, f"unseen:{card.key}", {"text": UNSEEN})
    elif run is not None:  # what could not be posted there would not arrive there either
        to = run.requester
        outbox.put_private(
            tx, f"unseen:{card.key}", channel=to, thread_ts="", person=to, text=UNSEEN
        )
    return bool(lost)


def elsewhere(tx: Transaction, root: Message) -> bool:
    """Have a request begin in a direct message with who asked, as it cannot where it was to.

    Return False where that is what could not be done.
    """
    run = runs.get(tx, root.run_id)
    if run is None or root.channel == run.requester or root.channel.startswith("D"):
        return False
    if root.status is not MessageStatus.PENDING:
        moves.message(tx, root, MessageStatus.PENDING)
    outbox.update_message(tx, root, channel=run.requester, attempts=0, due_at=None)
    return True


def close_unrooted(tx: Transaction, root: Message, *, at: datetime) -> None:
    """Cancel a request whose first message could be shown nowhere, not even to who asked.

    They are told where they asked, if that was in a channel.
    """
    run = runs.get(tx, root.run_id)
    if run is None or not endings.cancel_run(tx, run, at=at, actor="system", words=outputs):
        return
    place = inbox.asked_in(tx, run.id)
    if place and place[0].startswith(("C", "G")):
        channel, thread = place
        outbox.put_private(
            tx,
            f"unrooted:{run.id}",
            channel=channel,
            thread_ts=thread,
            person=run.requester,
            text=NO_ROOT,
        )


def tell_of_rows(tx: Transaction, row: Message) -> None:
    """Tell the thread, which was to get a table or was promised a file, that Slack took neither.

    A file for one person is their business alone.
    """
    if to := row.recipient:
        key = f"unsent:{row.key}"
        outbox.put_private(tx, key, channel=to, thread_ts="", person=to, text=NO_ROWS)
        return
    run, text = runs.get(tx, row.run_id), NO_FILE if row.kind is MessageKind.FILE else NO_TABLE
    if run is not None:
        outbox.notice(tx, run, f"unsent:{row.key}", {"text": text})


MOST_NAMES = 20  # people named in one line
Sentence = Callable[[Sequence[str], str, datetime | None], str]


class ReminderKind(StrEnum):
    """What people are told of a call that waits, as the audit names it."""

    NEXT_STEP = "next_step"
    REMINDER = "reminder"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class DueReminder:
    """One thing to be said, and of whom."""

    what: ReminderKind
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
                if each.what is ReminderKind.NEXT_STEP and not said_here:
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
                    tx, card_row(run, call.plan_id, [RoutedCall(call, gate, place)], target)
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
) -> list[DueReminder]:
    """What is to be said, and of whom; `is_next`: another stage has opened, `passed`: moments."""
    news: list[DueReminder] = []
    if is_next:
        before = [each for each in approving(votes) if each.stage == seen.stage - 1]
        approved = [(each.counts_for, each.reason) for each in before]
        called_next = partial(notices.next_step, approved=approved, stand_ins=stand_ins(votes))
        people = gate.approvers_of(seen.stage, waiting)
        news.append(DueReminder(ReminderKind.NEXT_STEP, called_next, people))
    elif set(passed) & set(gate.reminders):
        people = gate.approvers_in(seen.open, waiting)
        news.append(DueReminder(ReminderKind.REMINDER, notices.reminder, people))
    steps = (step for step in gate.escalation if step.after in passed)
    return [
        *news,
        *(
            DueReminder(ReminderKind.ESCALATED, notices.escalation_line, step.approvers)
            for step in steps
        ),
    ]
