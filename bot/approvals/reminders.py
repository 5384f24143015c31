"""Reminders to people who have not decided or answered, and notices to the next stage's people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from bot.approvals import call_state, card_routing, person_questions
from bot.cards import answers, notices
from bot.cards.slack_text import channel_mention, group_mention, list_mentions, user_mention
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Approvers, Ask, load_gate
from bot.policy.tally import Tally
from bot.tools import Registry
from storage import calls, outbox, runs, schedule, trail
from storage.record import Call, Run, Store, Transaction, Vote
from storage.states import CallVerb

log = logging.getLogger("countersign.reminders")
SentenceBuilder = Callable[[Sequence[str], str, datetime | None], str]


class ReminderKind(StrEnum):
    """The kind of reminder sent about a waiting call, by its name in the audit."""

    NEXT_STEP = "next_step"
    REMINDER = "reminder"
    ESCALATED = "escalated"
    LOOK = "look"  # to look at a call that ran without approval


@dataclass(frozen=True, slots=True)
class DueReminder:
    """One reminder to send, and the people it names."""

    kind: ReminderKind
    sentence: SentenceBuilder
    people: Approvers
    assignee: str = ""  # the one of them to whom the call was handed over


@dataclass(frozen=True, slots=True)
class SilentPeople:
    """People whom a reminder does not name: they have voted, are unavailable or are asleep."""

    voted: frozenset[str]
    unavailable: frozenset[str]  # away, or not allowed to approve because they edited the call
    asleep: frozenset[str] = frozenset()


class ReminderSender:
    """Sends reminders about waiting calls. One per process; called by the loop only."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        authority: Authority,
        policy: CurrentPolicy,
    ) -> None:
        """Store the dependencies; `authority` looks people up, `tools` describe what calls do."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority
        self._policy = policy

    def send_due_reminders(self) -> bool:
        """Send all reminders that are due now; return whether any call was due."""
        now = self._clock.now()
        with self._store.read() as tx:
            waiting = schedule.list_calls_to_notify_about(tx, now)
            ran = schedule.list_calls_to_look_at(tx, now)
        question, approval = self._send_question_reminder, self._send_reminders_for_call
        asks = person_questions.is_question_to_person
        due = [(question if asks(call) else approval, call) for call in waiting]
        due += [(self._ask_to_look, call) for call in ran]
        for send, call in due:
            try:
                send(call, now)
            except LookupPendingError:  # the call stays due until the look-up is done
                log.debug("call %s: people are being looked up", call.id)
            except LookupFailedError as error:  # the call stays due, and is tried again
                log.warning("run %s call %s: nobody was notified: %s", call.run_id, call.id, error)
            except Exception:
                log.exception("run %s call %s: nobody was notified", call.run_id, call.id)
        return bool(due)

    def _send_reminders_for_call(self, call: Call, now: datetime) -> None:
        gate = load_gate(call.gate)
        with self._store.read() as tx:
            run = runs.get_run(tx, call.run_id)
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        if not isinstance(gate, Ask):
            return
        tally, asked_at = call_state.tally_votes(gate, votes), call.asked_at or call.created_at
        moments = gate.list_notification_delay_seconds()
        waiting = call_state.measure_waiting_time(gate, call, now)
        passed = [at for at in moments[call.told_moments :] if timedelta(seconds=at) <= waiting]
        voted = frozenset(who for vote in votes for who in (vote.person, vote.counted_person))
        news = _list_due_reminders(gate, tally, call, passed, waiting, votes)
        away = self._list_away_approvers(
            run, gate, gate.get_approvers_of_stages(tally.open_stages, waiting).notified
        )
        unavailable = self._list_unavailable_people(call, gate, away, now)
        silent, told_moments = SilentPeople(voted, unavailable), call.told_moments + len(passed)
        next_at = call_state.find_next_notification_time(gate, asked_at, told_moments)
        asleep, morning = self._find_sleepers(run, gate, news, silent, now, call.deadline)
        if morning:  # everybody is asleep: only the next stage is notified now
            news = [each for each in news if each.kind is ReminderKind.NEXT_STEP]
            told_moments, next_at = call.told_moments, min(next_at or morning, morning)
        silent = replace(silent, asleep=asleep)
        reminders = [(each, *self._resolve_recipients(run, gate, each, silent)) for each in news]
        if news:
            self._warn_requester_if_nobody_can_approve(run, call, gate, tally, now)
        groups = card_routing.find_group_ids_of_gate(self._authority, gate)
        with self._store.write() as tx:
            marked = schedule.mark_people_notified(
                tx, call, stage=tally.stage, moments=told_moments, next_at=next_at
            )
            if not marked or not news:  # decided, edited or voted on meanwhile; or all are asleep
                return
            for number, (each, who, place) in enumerate(reminders):
                key = f"{call.id}:{call.revision}:{told_moments}:{tally.stage}:{number}"
                place = replace(place, groups=groups, away=away)
                effects = [call_state.describe_call_effect(self._tools, tx, call)]
                text = each.sentence(effects, who, call.deadline)
                placed_call = card_routing.CallWithCardPlace(call, gate, place)
                said_here = card_routing.queue_line_under_cards(
                    tx, run, placed_call, f"nudge:{key}", text, list_mentions(who)
                )
                if each.kind is ReminderKind.NEXT_STEP and not said_here:
                    self._post_approval_notice(tx, run, call, key, votes)
            data = {"what": ", ".join(each.kind for each in news)}
            trail.record_event(tx, "call.told", at=now, actor="clock", call=call, data=data)
            card_routing.update_away_people_on_cards(tx, call, away)
            outbox.mark_cards_for_redraw(tx, call.plan_id)

    def _warn_requester_if_nobody_can_approve(
        self, run: Run, call: Call, gate: Ask, tally: Tally, now: datetime
    ) -> None:
        """Tell the requester once if nobody is left who may approve. Looks people up."""
        waiting = call_state.measure_waiting_time(gate, call, now)
        named = self._authority.list_approver_candidates(
            gate,
            gate.get_approvers_of_stages(tally.open_stages, waiting),
            requester=run.requester,
            channel=run.channel,
        )
        with self._store.read() as tx:
            found = calls.get_call_editors_and_votes(tx, call)
        out = call_state.list_people_ruled_out(gate, found.editors, found.votes)
        if self._authority.list_first_colleagues(named - out, 1):
            return
        with self._store.write() as tx:
            effect = call_state.describe_call_effect(self._tools, tx, call)
            text = answers.nobody_can_approve_notice(run.requester, effect)
            key, to = f"stuck:{call.id}:{call.revision}", [run.requester]
            outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _ask_to_look(self, call: Call, now: datetime) -> None:
        """Ask those who could have approved the call to look at it, as it ran without approval."""
        gate = load_gate(call.gate)
        with self._store.read() as tx:
            run = runs.get_run(tx, call.run_id)
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        alone = call_state.find_break_glass_vote(votes)
        ran = calls.is_to_be_looked_at(call)
        if not isinstance(gate, Ask) or alone is None or not ran:
            with self._store.write() as tx:  # the call did not run after all
                schedule.mark_people_asked_to_look(tx, call, moments=0, look_due_at=None)
            return
        told_moments, due = call_state.find_next_look_time(
            gate, alone.created_at, call.told_moments, now
        )
        waited = gate.measure_waiting_time(alone.created_at, now)
        people = gate.get_approvers_of_stages(range(len(gate.stages)), waited).notified
        away = self._list_away_approvers(run, gate, people)
        unavailable = self._list_unavailable_people(call, gate, away, now)
        sentence = partial(
            notices.look_request_notice,
            person=alone.person,
            reason=alone.reason,
            is_reminder=call.told_moments > 0,
        )
        reminder = DueReminder(ReminderKind.LOOK, sentence, people)
        silent = SilentPeople(frozenset({alone.person}), unavailable)
        asleep, morning = self._find_sleepers(run, gate, [reminder], silent, now)
        if morning:
            told_moments, due = call.told_moments, min(due, morning)
        silent = replace(silent, asleep=asleep)
        who, place = self._resolve_recipients(run, gate, reminder, silent)
        place = replace(place, groups=card_routing.find_group_ids_of_gate(self._authority, gate))
        call_with_place = card_routing.CallWithCardPlace(call, gate, place)
        with self._store.write() as tx:
            marked = schedule.mark_people_asked_to_look(
                tx, call, moments=told_moments, look_due_at=due
            )
            if marked and not morning:
                key = f"nudge:{call.id}:{call.revision}:{told_moments}:{ReminderKind.LOOK}"
                text = sentence([call_state.describe_call_effect(self._tools, tx, call)], who, None)
                to = list_mentions(who)
                card_routing.queue_line_under_cards(tx, run, call_with_place, key, text, to)
                data = {"what": ReminderKind.LOOK}
                trail.record_event(tx, "call.told", at=now, actor="clock", call=call, data=data)

    def _send_question_reminder(self, call: Call, now: datetime) -> None:
        """Remind the people asked a question who are not away or asleep. Looks them up."""
        with self._store.read() as tx:
            found = person_questions.find_question(tx, call.id)
        default = self._policy.policy.default
        urgent = default is not None and default.urgent
        who = (
            person_questions.find_reminder_recipients(self._authority, found, now, urgent=urgent)
            if found
            else person_questions.ReminderRecipients()
        )
        with self._store.write() as tx:
            person_questions.queue_question_reminder(tx, call, now, who)

    def _list_away_approvers(self, run: Run, gate: Ask, who: Approvers) -> card_routing.AwayPeople:
        """Return who of those that may decide now is away. Looks them up."""
        named = self._authority.list_approver_candidates(
            gate, who, requester=run.requester, channel=run.channel
        )
        return card_routing.list_away_people(self._authority, named)

    def _list_unavailable_people(
        self, call: Call, gate: Ask, away: card_routing.AwayPeople, now: datetime
    ) -> frozenset[str]:
        """Return who is still away, or may not approve because they edited the call."""
        found = frozenset(user for user, _ in card_routing.filter_people_still_away(away, now))
        if gate.editor_counts:
            return found
        with self._store.read() as tx:
            return found | calls.list_editors(tx, call.id)

    def _resolve_recipients(
        self, run: Run, gate: Ask, due: DueReminder, out: SilentPeople
    ) -> tuple[str, card_routing.CardPlace]:
        """Return the people to name (as mrkdwn), who can still vote, and where they see the card.

        People who are away or asleep are not named, unless all are. If the call was handed over to
        a person who may still decide, only they are named. Looks people up.
        """
        authority, who, assignee, voted = self._authority, due.people, due.assignee, out.voted
        everybody = authority.list_approver_candidates(
            gate, who, requester=run.requester, channel=run.channel
        )
        if assignee and self._may_still_decide(assignee, everybody, voted):
            place = card_routing.resolve_card_place_for_people(authority, run, gate, [assignee])
            return user_mention(assignee), place
        by_name = who.model_copy(update={"channel": False})  # members of a channel are not named
        able_approvers = authority.list_able_approvers(
            gate, by_name, requester=run.requester, channel=run.channel
        )
        delegates = (
            authority.list_delegates(able_approvers - voted) - voted - {run.requester} - out.asleep
        )
        here = able_approvers - voted - out.asleep
        others = () if delegates else able_approvers - voted
        people = sorted((here - out.unavailable) or here or others)
        silent = (voted | out.unavailable | out.asleep) - set(people)
        ids = dict(card_routing.find_group_ids_of_gate(authority, gate))
        groups = [
            (ids[handle], authority.directory.find_group(handle))
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
        for _, group in groups:  # if some have voted or are away or asleep, the others are named
            some = group is not None and bool(group.members & silent)
            named += [user for user in people if group and some and user in group.members]
        named += sorted(delegates)
        names += [user_mention(user) for user in dict.fromkeys(named)]
        if who.channel:
            names.append(f"members of {channel_mention(run.channel)}")
        place = card_routing.resolve_card_place_for_people(authority, run, gate, everybody - voted)
        place = replace(place, asleep=out.asleep - set(people))
        return ", ".join(names[: card_routing.MAX_NAMES_PER_LINE]) or "Somebody", place

    def _find_sleepers(
        self,
        run: Run,
        gate: Ask,
        news: Sequence[DueReminder],
        silent: SilentPeople,
        now: datetime,
        deadline: datetime | None = None,
    ) -> tuple[frozenset[str], datetime | None]:
        """Return who of those to be named is asleep, like `find_sleepers`; nobody if it is urgent.

        Looks people up.
        """
        authority, people = self._authority, set[str]()
        for due in () if gate.urgent else news:
            if due.kind is ReminderKind.NEXT_STEP:
                continue
            by_name = due.people.model_copy(update={"channel": False})
            asked = {"requester": run.requester, "channel": run.channel}
            listed = authority.list_approver_candidates(gate, due.people, **asked)
            if due.assignee and self._may_still_decide(due.assignee, listed, silent.voted):
                people.add(due.assignee)
                continue
            able_approvers = authority.list_able_approvers(gate, by_name, **asked) - silent.voted
            people |= (able_approvers - silent.unavailable) or able_approvers
            people |= authority.list_delegates(able_approvers) - silent.voted - {run.requester}
        return card_routing.find_sleepers(authority, people, now, deadline)

    def _may_still_decide(
        self, person: str, approvers: frozenset[str], voted: frozenset[str]
    ) -> bool:
        left = approvers - voted
        named = left | (self._authority.list_delegates(left) - voted)
        return person in named and self._authority.is_active_colleague(person)

    def _post_approval_notice(
        self, tx: Transaction, run: Run, call: Call, key: str, votes: Sequence[Vote]
    ) -> None:
        """Say in the request's thread who approved last, as the next people are asked elsewhere."""
        last = call_state.list_approving_votes(votes)[-1:]
        for vote in last:
            effects = [call_state.describe_call_effect(self._tools, tx, call)]
            needed = call_state.count_missing_approvals(tx, call)
            delegator = vote.for_person or ""
            text = notices.call_decision_line(
                CallVerb.APPROVE, vote.person, effects, vote.reason, needed, delegator=delegator
            )
            outbox.queue_notice(tx, run, f"step:{key}", {"text": text})


def _list_due_reminders(
    gate: Ask,
    tally: Tally,
    call: Call,
    passed: Sequence[int],
    waiting: timedelta,
    votes: Sequence[Vote],
) -> list[DueReminder]:
    """Return the reminders to send.

    `passed`: the delays, in seconds, of the gate's reminders and escalations that are due now.
    """
    news: list[DueReminder] = []
    if tally.stage > call.told_stage:
        before = [
            each for each in call_state.list_approving_votes(votes) if each.stage == tally.stage - 1
        ]
        approved = [(each.counted_person, each.reason) for each in before]
        called_next = partial(
            notices.next_stage_notice,
            approved=approved,
            stand_ins=call_state.map_delegators_to_delegates(votes),
        )
        people = gate.get_stage_approvers(tally.stage, waiting).notified
        news.append(DueReminder(ReminderKind.NEXT_STEP, called_next, people))
    elif set(passed) & set(gate.reminders):
        people = gate.get_approvers_of_stages(tally.open_stages, waiting).notified
        sentence = notices.decision_reminder_notice
        news.append(DueReminder(ReminderKind.REMINDER, sentence, people, call.assignee))
    steps = (step for step in gate.escalation if step.after in passed)
    return [
        *news,
        *(
            DueReminder(
                ReminderKind.ESCALATED, notices.further_approvers_may_decide_notice, step.approvers
            )
            for step in steps
        ),
    ]
