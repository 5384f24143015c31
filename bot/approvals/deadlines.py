"""The clock's work on waiting calls: next stages, reminders, escalations and expiry. Runs on the
loop.

The next due time is in the call's row (`next_at`), so a restart loses none and repeats none.
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
    count_missing_approvals,
    describe_call_effect,
    find_next_notification_time,
    list_approving_votes,
    map_delegators_to_delegates,
    measure_waiting_time,
    tally_votes,
)
from bot.approvals.card_routing import (
    AwayPeople,
    CardPlace,
    RoutedCall,
    build_card_message,
    list_away_people,
    list_group_ids,
    list_still_away,
    resolve_place_for_people,
    update_away_on_cards,
)
from bot.approvals.person_questions import (
    ReminderRecipients,
    announce_unanswered_questions,
    find_question,
    find_reminder_recipients,
    is_question,
    queue_question_reminder,
    was_replied_in_time,
)
from bot.cards import notices
from bot.cards.button_codec import (
    CallTarget,
    CardTarget,
    RunTarget,
    decode_clicked_element,
    decode_dialog_subject,
)
from bot.cards.slack_text import channel_mention, group_mention, user_mention
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError
from bot.policy.gates import Approvers, Ask, Tally, load_gate
from bot.tools import Registry
from storage import calls, endings, inbox, moves, outbox, runs, schedule, trail
from storage.availability import is_temporary_error
from storage.models import Call, Delivery, Message, Run, Vote
from storage.states import CallStatus, CallVerb, DeliveryKind, MessageKind, MessageStatus
from storage.store import Store
from storage.transaction import Transaction

# Expiry: the clock denies the calls that nobody decided in time, and tells the thread.

log = logging.getLogger("countersign.reminders")


class CallExpirer:
    """Ends calls after their deadline. One per process; `expire` is called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry) -> None:
        """Store the dependencies; `tools` word what has expired."""
        self._store = store
        self._clock = clock
        self._tools = tools

    def expire_due_calls(self) -> bool:
        """End the calls whose deadline has passed, unless an unhandled click in time is about them.

        Returns whether any was due. Raises temporary database errors: the loop tries again.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.list_due_call_ids(tx, now)
        together: dict[str, list[str]] = {}
        for call_id, plan_id in due:
            together.setdefault(plan_id, []).append(call_id)
        for ids in together.values():
            self._expire_calls_of_plan(ids, now)
        return bool(due)

    def _expire_calls_of_plan(self, ids: list[str], now: datetime) -> None:
        """End these calls of one plan, and say so in its thread, in one transaction.

        If one of the calls fails, each is handled in a transaction of its own.
        """
        try:
            with self._store.write() as tx:
                # only now: who stored a click in time has done so before this could write
                arrived = inbox.list_new_deliveries(tx)
                clicked = _find_first_click_times(arrived)
                found = [calls.find_call(tx, each) for each in ids]
                fallen = [
                    call
                    for call in found
                    if call
                    and not _was_clicked_in_time(call, clicked)
                    and not (is_question(call) and was_replied_in_time(tx, call, arrived))
                    and endings.expire_call(
                        tx, call, at=now, words=outputs, output=_unanswered_question_text(call)
                    )
                ]
                if denied := [call for call in fallen if call.status is CallStatus.PENDING]:
                    self._announce_expiry(tx, denied)
        except Exception as error:
            if is_temporary_error(error):
                raise
            if len(ids) == 1:
                log.exception("call %s: could not be expired", ids[0])
                return
            for each in ids:
                self._expire_calls_of_plan([each], now)

    def _announce_expiry(self, tx: Transaction, fallen: list[Call]) -> None:
        """Say in the thread which calls of one plan have expired."""
        run = runs.find_run(tx, fallen[0].run_id)
        asking = [call for call in fallen if is_question(call)]
        fallen = [call for call in fallen if not is_question(call)]
        if run is not None:
            announce_unanswered_questions(tx, run, asking)
        if run is not None and fallen:
            first, effects = fallen[0], [self._describe_effect(tx, call) for call in fallen]
            text = notices.expired_line(effects, first.deadline, run.requester)
            outbox.queue_notice(tx, run, f"expired:{first.id}:{first.revision}", {"text": text})

    def _describe_effect(self, tx: Transaction, call: Call) -> str:
        """Return what the call would have done; only the tool's name if that sentence fails."""
        try:
            return describe_call_effect(self._tools, tx, call)
        except Exception as error:
            if is_temporary_error(error):
                raise
            log.exception("run %s call %s: what has expired cannot be said", call.run_id, call.id)
            return call.tool


def _unanswered_question_text(call: Call) -> str:
    """Return what the model gets for an unanswered question; "" for any other call."""
    return outputs.UNANSWERED if is_question(call) else ""


def _find_first_click_times(deliveries: Iterable[Delivery]) -> dict[str, datetime]:
    """Return when the first of these clicks about each call, plan or run was stored, by its id."""
    found: dict[str, datetime] = {}
    for each in deliveries:
        if each.kind in inbox.CLICKS:
            found.setdefault(_get_click_target_id(each), each.received_at)
    return found


def _get_click_target_id(click: Delivery) -> str:
    """Return the id of the call, plan or run a click or dialog is about; "" if it is unreadable."""
    try:
        payload = json.loads(click.body)
        read = (
            decode_clicked_element(payload["actions"][0])
            if click.kind == DeliveryKind.ACTION
            else decode_dialog_subject(payload["view"])
        )
    except (LookupError, TypeError, ValueError):
        return ""
    match getattr(read, "target", None):
        case CallTarget(call=found) | CardTarget(plan=found) | RunTarget(run=found):
            return found
        case _:
            return ""


def _was_clicked_in_time(call: Call, clicked: Mapping[str, datetime]) -> bool:
    """Return whether the call was clicked before its deadline."""
    at = [clicked[each] for each in (call.id, call.plan_id, call.run_id) if each in clicked]
    return bool(at) and call.deadline is not None and min(at) < call.deadline


# Cards that Slack did not take: their calls are cancelled, and the requester is told.

UNSEEN = "I could not show this to its approvers, so it will not happen."

NO_ROOT = "I could not send you a direct message, so your request did not start."
NO_FILE = "I could not upload the file with all of it, so only the part above can be seen here."
NO_ROWS = "I could not send you the file with all rows."
NO_TABLE = "I could not show the rows: Slack did not accept the table."


def cancel_unseen_calls(tx: Transaction, card: Message, code: str, *, at: datetime) -> bool:
    """Cancel the calls that only this failed card showed, and tell the request.

    Return False when other copies of the card show all of them. `code` is why Slack refused the
    card. Runs in the caller's transaction, after the card was marked as failed.
    """
    copies = (
        [
            other
            for other in outbox.list_cards_of_plan(tx, card.plan_id)
            if other.status is not MessageStatus.FAILED
        ]
        if card.plan_id
        else []
    )
    shown = {call for copy in copies for call in outbox.parse_message_body(copy)["calls"]}
    lost = [call for call in outbox.parse_message_body(card).get("calls", []) if call not in shown]
    for call_id in lost:
        call = calls.find_call(tx, call_id)
        if call is not None and call.status is CallStatus.PENDING:
            note = f"the card could not be shown to its approvers ({code})"
            output = outputs.card_not_shown_output(note)
            moves.change_call_status(
                tx, call, CallStatus.CANCELLED, at=at, actor="system", output=output, note=note
            )
            runs.resume_run_if_unblocked(tx, call.run_id, at=at, actor="system")
    run = runs.find_run(tx, card.run_id) if lost else None
    if run is not None and run.channel != card.channel:
        outbox.queue_notice(tx, run, f"unseen:{card.key}", {"text": UNSEEN})
    elif run is not None:  # what could not be posted there would not arrive there either
        to = run.requester
        outbox.queue_private_message(
            tx, f"unseen:{card.key}", channel=to, thread_ts="", person=to, text=UNSEEN
        )
    return bool(lost)


def redirect_first_message_to_requester(tx: Transaction, root: Message) -> bool:
    """Move a request's first message, which cannot be posted, to its requester's direct messages.

    Return False if it was to be posted there already.
    """
    run = runs.find_run(tx, root.run_id)
    if run is None or root.channel == run.requester or root.channel.startswith("D"):
        return False
    if root.status is not MessageStatus.PENDING:
        moves.change_message_status(tx, root, MessageStatus.PENDING)
    outbox.update_message(tx, root, channel=run.requester, attempts=0, due_at=None)
    return True


def cancel_unpostable_request(tx: Transaction, root: Message, *, at: datetime) -> None:
    """Cancel a request whose first message could be posted nowhere, not even to its requester.

    The requester is told where they asked, if that was in a channel.
    """
    run = runs.find_run(tx, root.run_id)
    if run is None or not endings.cancel_run(tx, run, at=at, actor="system", words=outputs):
        return
    place = inbox.find_first_delivery_thread(tx, run.id)
    if place and place[0].startswith(("C", "G")):
        channel, thread = place
        outbox.queue_private_message(
            tx,
            f"unrooted:{run.id}",
            channel=channel,
            thread_ts=thread,
            person=run.requester,
            text=NO_ROOT,
        )


def notify_of_unsent_rows(tx: Transaction, row: Message) -> None:
    """Tell the thread that Slack did not take the table or the file with all rows.

    If the file was for one person, only they are told.
    """
    if to := row.recipient:
        key = f"unsent:{row.key}"
        outbox.queue_private_message(tx, key, channel=to, thread_ts="", person=to, text=NO_ROWS)
        return
    run, text = runs.find_run(tx, row.run_id), NO_FILE if row.kind is MessageKind.FILE else NO_TABLE
    if run is not None:
        outbox.queue_notice(tx, run, f"unsent:{row.key}", {"text": text})


MOST_NAMES = 20  # people named in one line
SentenceBuilder = Callable[[Sequence[str], str, datetime | None], str]


class ReminderKind(StrEnum):
    """The kind of reminder sent about a waiting call, by its name in the audit."""

    NEXT_STEP = "next_step"
    REMINDER = "reminder"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class DueReminder:
    """One reminder to send, and the people it names."""

    kind: ReminderKind
    sentence: SentenceBuilder
    people: Approvers


class ReminderSender:
    """Sends reminders about waiting calls. One per process; `tell` is called by the loop only."""

    def __init__(self, store: Store, clock: Clock, tools: Registry, authority: Authority) -> None:
        """Store the dependencies; `authority` looks people up, `tools` word what waits."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority

    def send_due_reminders(self) -> bool:
        """Send all reminders that are due now; return whether any call was due."""
        now = self._clock.now()
        with self._store.read() as tx:
            due = schedule.list_calls_to_notify_about(tx, now)
        for call in due:
            try:
                self._send_reminders_for_call(call, now)
            except LookupPendingError:  # it stays due; the loop is woken once it is known
                log.debug("call %s: people are being looked up", call.id)
            except LookupFailedError as error:  # it stays due, and is tried again
                log.warning("run %s call %s: nobody could be told: %s", call.run_id, call.id, error)
            except Exception:
                log.exception("run %s call %s: nobody could be told", call.run_id, call.id)
        return bool(due)

    def _send_reminders_for_call(self, call: Call, now: datetime) -> None:
        if is_question(call):
            self._send_question_reminder(call, now)
            return
        gate = load_gate(call.gate)
        with self._store.read() as tx:
            run = runs.find_run(tx, call.run_id)
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        if run is None or not isinstance(gate, Ask):
            return
        seen, asked_at = tally_votes(gate, votes), call.asked_at or call.created_at
        stage = seen.stage
        waiting, moments = measure_waiting_time(gate, call, now), gate.list_notification_delays()
        passed = [
            each for each in moments[call.told_moments :] if timedelta(seconds=each) <= waiting
        ]
        voted = {who for vote in votes for who in (vote.person, vote.counted_person)}
        news = _list_due_reminders(gate, seen, stage > call.told_stage, passed, waiting, votes)
        away = self._list_away_approvers(
            run, gate, gate.get_approvers_of_stages(seen.open_stages, waiting)
        )
        gone = frozenset(user for user, _ in list_still_away(away, now))
        found = [
            (each, *self._resolve_recipients(run, gate, each.people, voted, gone)) for each in news
        ]
        groups = list_group_ids(self._authority, gate)
        told = call.told_moments + len(passed)
        with self._store.write() as tx:
            if not schedule.mark_people_notified(
                tx,
                call,
                stage=stage,
                moments=told,
                next_at=find_next_notification_time(gate, asked_at, told),
            ):
                return  # decided or edited meanwhile
            if not news:  # an edit or a vote has overtaken what was due
                return
            for number, (each, who, place) in enumerate(found):
                key = f"{call.id}:{call.revision}:{told}:{stage}:{number}"
                place = replace(place, groups=groups, away=away)
                said_here = self._post_reminder(tx, run, call, gate, place, key, each.sentence, who)
                if each.kind is ReminderKind.NEXT_STEP and not said_here:
                    self._post_approval_notice(tx, run, call, key, votes)
            data = {"what": ", ".join(each.kind for each in news)}
            about = {"run_id": run.id, "call_id": call.id}
            trail.record_event(tx, "call.told", at=now, actor="clock", data=data, **about)
            update_away_on_cards(tx, call, away)
            outbox.mark_cards_for_redraw(tx, call.plan_id)

    def _send_question_reminder(self, call: Call, now: datetime) -> None:
        """Remind the people asked a question who are not away. Looks them up."""
        with self._store.read() as tx:
            found = find_question(tx, call.id)
        who = (
            find_reminder_recipients(self._authority, found, now) if found else ReminderRecipients()
        )
        with self._store.write() as tx:
            queue_question_reminder(tx, call, now, who)

    def _list_away_approvers(self, run: Run, gate: Ask, who: Approvers) -> AwayPeople:
        """Return who of those that may decide now is away. Looks them up."""
        named = self._authority.list_approver_candidates(
            gate, who, requester=run.requester, channel=run.channel
        )
        return list_away_people(self._authority, named)

    def _resolve_recipients(
        self, run: Run, gate: Ask, who: Approvers, voted: set[str], away: frozenset[str]
    ) -> tuple[str, CardPlace]:
        """Return those of `who` that can still vote, in words, and where they will see the card.

        People who are away are not named, unless all are. Looks them up.
        """
        authority = self._authority
        everybody = authority.list_approver_candidates(
            gate, who, requester=run.requester, channel=run.channel
        )
        by_name = who.model_copy(update={"channel": False})  # of a channel nobody is named
        able = authority.list_able_approvers(
            gate, by_name, requester=run.requester, channel=run.channel
        )
        people = sorted(able - voted - away) or sorted(able - voted)
        silent = (voted | away) - set(people)
        ids = dict(list_group_ids(authority, gate))
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
        for _, group in groups:  # where some have voted or are away, only the others are called
            some = group is not None and bool(group.members & silent)
            named += [user for user in people if group and some and user in group.members]
        named += sorted(authority.list_delegates(able - voted) - voted - {run.requester})
        names += [user_mention(user) for user in dict.fromkeys(named)]
        if who.channel:
            names.append(f"members of {channel_mention(run.channel)}")
        return ", ".join(names[:MOST_NAMES]) or "Somebody", resolve_place_for_people(
            authority, run, gate, everybody - voted
        )

    def _post_reminder(
        self,
        tx: Transaction,
        run: Run,
        call: Call,
        gate: Ask,
        place: CardPlace,
        key: str,
        sentence: SentenceBuilder,
        who: str,
    ) -> bool:
        """Post a line under each card of these people, and a card to those who have none.

        Returns whether a line is in the request's own thread.
        """
        said_here = False
        text = sentence([describe_call_effect(self._tools, tx, call)], who, call.deadline)
        cards = [
            row
            for row in outbox.list_cards_of_plan(tx, call.plan_id)
            if call.id in outbox.parse_message_body(row)["calls"]
        ]
        by_target = {row.key.rpartition(":")[2]: row for row in cards}
        for target in place.targets:
            card = by_target.get(target)
            if card is None:
                outbox.queue_message(
                    tx,
                    build_card_message(run, call.plan_id, [RoutedCall(call, gate, place)], target),
                )
            elif thread := card.thread_ts or card.ts:
                body = outbox.dump_message_body({"text": text, "mrkdwn": True})
                line = Message(
                    key=f"nudge:{key}:{target}",
                    kind=MessageKind.NOTICE,
                    run_id=run.id,
                    channel=card.channel,
                    thread_ts=thread,
                    body=body,
                )
                outbox.queue_message(tx, line)
                said_here |= (card.channel, thread) == (run.channel, run.thread_ts)
        return said_here

    def _post_approval_notice(
        self, tx: Transaction, run: Run, call: Call, key: str, votes: Sequence[Vote]
    ) -> None:
        """Say in the request's thread who approved, if the next people are notified elsewhere."""
        last = list_approving_votes(votes)[-1:]
        for vote in last:
            effects, needed = (
                [describe_call_effect(self._tools, tx, call)],
                count_missing_approvals(tx, call),
            )
            giver = vote.for_person or ""
            text = notices.decision_line(
                CallVerb.APPROVE, vote.person, effects, vote.reason, needed, giver=giver
            )
            outbox.queue_notice(tx, run, f"step:{key}", {"text": text})


def _list_due_reminders(
    gate: Ask,
    seen: Tally,
    is_next: bool,
    passed: Sequence[int],
    waiting: timedelta,
    votes: Sequence[Vote],
) -> list[DueReminder]:
    """Return the reminders to send; `is_next`: a further stage is open, `passed`: times now due."""
    news: list[DueReminder] = []
    if is_next:
        before = [each for each in list_approving_votes(votes) if each.stage == seen.stage - 1]
        approved = [(each.counted_person, each.reason) for each in before]
        called_next = partial(
            notices.next_stage_notice,
            approved=approved,
            stand_ins=map_delegators_to_delegates(votes),
        )
        people = gate.get_stage_approvers(seen.stage, waiting)
        news.append(DueReminder(ReminderKind.NEXT_STEP, called_next, people))
    elif set(passed) & set(gate.reminders):
        people = gate.get_approvers_of_stages(seen.open_stages, waiting)
        news.append(DueReminder(ReminderKind.REMINDER, notices.decision_reminder_notice, people))
    steps = (step for step in gate.escalation if step.after in passed)
    return [
        *news,
        *(
            DueReminder(ReminderKind.ESCALATED, notices.escalation_line, step.approvers)
            for step in steps
        ),
    ]
