"""The loop: each tick processes deliveries, expires calls and hands out runs, without blocking.

One thread waits on an event that is set whenever something is stored; an alarm sets it at an
interval and at the nearest deadline, so that deadlines need no other trigger and no wake is lost.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.approvals.permissions import DeliverySettler
from bot.cards import button_codec
from bot.cards.action_names import Action, DialogId
from bot.cards.sentences import OUTDATED_CARD_REPLY, event_handling_failed_reply
from bot.clock import Clock
from bot.config.settings import Settings
from bot.monitoring.spans import Incident, WorkKind
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError, TokenRefusedError
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from bot.signals import Alarm, PendingLookups, Signals
from storage import endings, inbox, moves, outbox, programs, runs, schedule
from storage.database_errors import error_text, is_temporary_database_error
from storage.record import Delivery, Store
from storage.states import DeliveryKind, RunStatus
from storage.store import compute_retry_delay

log = logging.getLogger("countersign.loop")
# pause before the next look at a call that is overdue: a click contests it, or expiring it failed
OVERDUE_RETRY_INTERVAL = timedelta(seconds=1)
OTHER_PROCESS_POLL_INTERVAL = timedelta(seconds=0.25)  # for deliveries another process handles
MAX_DELIVERY_TRIES = 5  # a delivery that has failed this often is dropped
PAUSE_TIMEOUT_SECONDS = 10.0  # for the tick under way


# gets the delivery, its parsed meaning and Slack's payload, and marks the delivery as handled
ClickHandler = Callable[
    [Delivery, button_codec.Click | button_codec.DialogSubject, dict[str, Any]], None
]


@dataclass(frozen=True, slots=True)
class ClickDispatcher:
    """Passes clicks and submitted dialogs on to handlers, which check who may use them.

    One per process; called by the loop only.
    """

    authority: Authority  # says from which workspaces clicks are accepted
    replies: DeliverySettler
    acts: Mapping[Action | DialogId, ClickHandler]
    page_acts: Mapping[DeliveryKind, Callable[[Delivery], None]]  # what people do on signing pages

    def handle_delivery(self, delivery: Delivery) -> None:
        """Handle a click, a submitted dialog or an act on the signing page, and mark it as handled.

        Raises LookupFailedError if Slack cannot be asked about the person, and LookupPendingError
        if the delivery has to be handled again in a moment.
        """
        if act := self.page_acts.get(delivery.kind):
            act(delivery)
            return
        payload = json.loads(delivery.body)
        wanted = (
            button_codec.decode_clicked_element(payload["actions"][0])
            if delivery.kind == DeliveryKind.ACTION
            else button_codec.decode_dialog_subject(payload["view"])
        )
        if isinstance(wanted, button_codec.MalformedValue):
            self._refuse_malformed(delivery, wanted)
            return
        name = wanted.action if isinstance(wanted, button_codec.Click) else wanted.dialog
        if not self.authority.may_act_from_workspace(delivery.user, delivery.team):
            self.replies.refuse_outsider(delivery, name, wanted.target)
            return
        delivery.team = self.authority.team  # wherever in the organisation they clicked
        if handle := self.acts.get(name):
            handle(delivery, wanted, payload)
        else:
            known = None if isinstance(wanted, button_codec.Click) else name
            malformed = button_codec.MalformedValue(f"{name} is not for the loop", known)
            self._refuse_malformed(delivery, malformed)

    def _refuse_malformed(self, delivery: Delivery, malformed: button_codec.MalformedValue) -> None:
        """Refuse a click with values the bot never sent.

        If the button is one of the bot's, the person is told that the card is out of date.
        """
        log.warning("delivery %s: %s, refused", delivery.seq, malformed.why)
        if malformed.name is None:
            self.replies.settle_silently(delivery, "unknown action refused")
        else:
            self.replies.refuse_click(delivery, OUTDATED_CARD_REPLY)


@dataclass(frozen=True, slots=True)
class TickActions:
    """The functions that a tick calls, besides handing out runs."""

    handle_click: Callable[[Delivery], None]
    # called in order for any other delivery, until one has handled it; `handle_message` comes last
    handle_first: Sequence[Callable[[Delivery], bool]]
    handle_message: Callable[[Delivery], None]
    expire_calls: Sequence[Callable[[], bool]]  # each returns whether there is something to send
    send_reminders: Sequence[Callable[[], bool]]  # likewise
    reload_policy: Callable[[], timedelta | None]  # returns when to look again, if soon


class MainLoop:
    """The main loop; one per process. Its thread runs `run`; tests may call `tick` directly."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        signals: Signals,
        *,
        actions: TickActions,
        workers: WorkerPool,
        look_ahead: Callable[[list[Delivery]], None],
        others: OtherProcesses | None = None,
    ) -> None:
        """`look_ahead` starts look-ups without waiting; `others`: None if this process is alone."""
        self._store, self._clock, self._settings = store, clock, settings
        self._actions = actions
        self._start_lookups = look_ahead
        self._wake, self.tracer = signals.work, signals.tracer
        self._post, self._decisions = signals.outbox, signals.decisions
        self._rest, self._arrivals = signals.rest, signals.arrivals
        self._stopping = threading.Event()
        self._running = threading.Event()
        self._running.set()
        # when to try again what failed; lost at a restart, which does no harm
        self._retry_at: dict[int | None, datetime] = {}
        self._pending_lookups = PendingLookups()  # deliveries whose look-ups are not done yet
        self._workers = workers
        self._other_processes = others or OtherProcesses()
        self._own_delivery_keys = signals.own_delivery_keys
        self._alarm = Alarm(self.wake)
        self.busy = False

    def wake(self) -> None:
        """Make the loop tick soon, because something was stored or time has passed."""
        self._wake.notify()

    def run(self) -> None:
        """Tick whenever woken, until `stop`; the body of the loop's thread."""
        self._alarm.start(self._settings.tick)
        failures = 0
        while not self._stopping.is_set():
            # set before `_wake` is cleared, so that the loop never seems idle with work to do
            self.busy = True
            self._wake.clear()
            try:
                if self._running.is_set():
                    self.tick()
                failures = 0
            except Exception:
                failures += 1
                log.exception("the tick failed")
                self._alarm.schedule_wake(
                    timedelta(seconds=compute_retry_delay(failures)), "failed"
                )
            self.busy = False
            self._rest.notify_changed()
            self._wake.wait(self._settings.tick)  # limited, as the alarm's clock may be set back

    def pause(self) -> None:
        """Process nothing until `resume`; deliveries that arrive are stored and acknowledged.

        It returns once a tick that is under way has ended.
        """
        self._running.clear()
        self._rest.wait_for(lambda: not self.busy, PAUSE_TIMEOUT_SECONDS)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._running.set()
        self.wake()

    def stop(self, grace: float) -> None:
        """Stop the loop and the workers; steps under way have `grace` seconds, then are left."""
        self._stopping.set()
        self._wake.notify()
        self._alarm.stop()
        self._workers.stop(grace)

    def is_idle(self) -> bool:
        """Return whether no wake is outstanding, no tick is running and no run is worked on."""
        return self._workers.is_idle() and not (self.busy or self._wake.is_set())

    def tick(self) -> None:
        """Make one pass: process deliveries, expire calls, remind people, hand out runs."""
        with self.tracer.start_span(WorkKind.TICK):
            self._run_tick_steps()

    def _run_tick_steps(self) -> None:
        self._reload_policy_if_changed()
        # first, so that slow look-ups below do not delay deadlines that no click contests
        self._call_all(self._actions.expire_calls)
        self._arrivals.wait_until_acknowledged()
        self._handle_new_deliveries()
        self._call_all(self._actions.expire_calls)
        self._call_all(self._actions.send_reminders)
        self._renew_or_reclaim_leases()
        self._hand_out_ready_runs()
        self._schedule_wake_at_next_deadline()

    def _reload_policy_if_changed(self) -> None:
        try:
            again = self._actions.reload_policy()
        except Exception:
            log.exception("the policy file could not be looked at")
        else:
            if again:
                self._alarm.schedule_wake(again, "policy")

    def _handle_new_deliveries(self) -> None:
        with self._store.read() as tx:
            arrived, now = inbox.list_new_deliveries(tx), self._clock.now()
        taken_elsewhere = {
            each.seq
            for each in arrived
            if self._other_processes.is_handled_by_other_replica(each, now)
        }
        own_deliveries = [each for each in arrived if each.seq not in taken_elsewhere]
        if any(each.kind in inbox.CLICK_KINDS for each in own_deliveries):
            self._decisions.hold_other_work()
        try:
            self._start_lookups(own_deliveries)
            behind: set[OrderKey] = set()
            for delivery in arrived:
                if self._stopping.is_set():
                    return
                if self._retry_at.get(delivery.seq, self._clock.now()) > self._clock.now():
                    continue
                place, cards = build_delivery_order_keys(delivery)
                must_wait = {place, cards} & behind or self._pending_lookups.is_waiting_for_lookups(
                    delivery.seq
                )
                if delivery.seq in taken_elsewhere:
                    behind |= {place, cards}
                elif must_wait or not self._handle_delivery(delivery):
                    behind.add(place)
        finally:
            self._decisions.release_other_work()
        if own_deliveries:
            self._post.notify()
        if taken_elsewhere:  # our deliveries may wait for these, whose process may be gone
            self._alarm.schedule_wake(OTHER_PROCESS_POLL_INTERVAL, "theirs")

    def _handle_delivery(self, delivery: Delivery) -> bool:
        """Process a delivery; return False if it waits for a look-up. Raises the database's errors.

        True also if it failed: then it was left for later or dropped.
        """
        try:
            with self.tracer.start_span(WorkKind.DECIDE, delivery.kind, since=delivery.received_at):
                if delivery.kind in inbox.CLICK_KINDS:
                    self._actions.handle_click(delivery)
                elif not any(handle(delivery) for handle in self._actions.handle_first):
                    self._actions.handle_message(delivery)
            self._own_delivery_keys.discard(delivery.key)
        except inbox.DeliveryAlreadyHandledError:
            log.debug("delivery %s was dealt with elsewhere", delivery.seq)
        except LookupPendingError as error:  # the loop is woken when the look-up is done
            self._pending_lookups.start_waiting_for_lookups(delivery.seq, error.answers)
            return False
        except Exception as error:
            if is_temporary_database_error(error):
                raise
            self._postpone_or_drop_delivery(delivery, error)
        return True

    def _postpone_or_drop_delivery(self, delivery: Delivery, error: Exception) -> None:
        """Leave a failed delivery for later; after too many tries, drop it and tell its person.

        Messages are not dropped while Slack refuses the bot's token: they wait until it is
        accepted.
        """
        is_lookup_failure, seq = isinstance(error, LookupFailedError), delivery.seq
        waits = isinstance(error, TokenRefusedError) and delivery.kind not in inbox.CLICK_KINDS
        limit = sys.maxsize if waits else MAX_DELIVERY_TRIES
        why = f"{type(error).__name__}: {error_text(error)}"
        log.warning(
            "delivery %s (%s) failed: %s", seq, delivery.kind, why, exc_info=not is_lookup_failure
        )
        with self._store.write() as tx:
            if (
                inbox.count_failed_delivery_attempt(tx, delivery, why, limit=limit)
                and delivery.user
            ):
                text = event_handling_failed_reply(is_lookup_failure)
                outbox.queue_private_reply(tx, delivery, text, key=f"broken:{delivery.seq}")
        wait = timedelta(seconds=min(30, 0.5 * 2 ** min(delivery.attempts, 6)))
        self._retry_at[delivery.seq] = self._clock.now() + wait
        self._alarm.schedule_wake(wait, f"retry:{delivery.seq}")

    def _call_all(self, actions: Sequence[Callable[[], bool]]) -> None:
        """Call these functions; wake the outbox if one returns that there is something to send."""
        found = [act() for act in actions]
        if any(found):
            self._post.notify()

    def _renew_or_reclaim_leases(self) -> None:
        """Renew leases of runs worked on here; make runs with a lapsed lease READY again.

        On a shared database, also close calls left RUNNING in cancelled runs.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            lapsed = moves.list_runs_with_expired_lease(tx, now)
            cut = (
                moves.list_cancelled_runs_with_running_calls(tx, now)
                if self._store.is_multi_process
                else []
            )
        if not (lapsed or cut) or not self._other_processes.may_reclaim_lapsed_runs():
            return
        active_run_ids = self._workers.list_active_run_ids()
        until = now + timedelta(seconds=self._settings.lease)
        with self._store.write() as tx:
            for run in lapsed:
                if run.id in active_run_ids:
                    moves.renew_lease(tx, run.id, run.fence, until)
                else:
                    why = {"why": "its lease lapsed"}
                    moves.change_run_status(
                        tx, run, RunStatus.READY, at=now, actor="system", data=why
                    )
            for run in cut:
                if run.id not in active_run_ids:
                    endings.supersede_calls_of_ended_run(tx, run, at=now)

    def reclaim_orphaned_runs(self) -> None:
        """At start, make every RUNNING run READY again: the process that ran it is gone.

        Calls left RUNNING in cancelled runs are closed. Does nothing on a database that several
        processes share: leases show there who is gone.
        """
        if self._store.is_multi_process:
            return
        now = self._clock.now()
        with self._store.write() as tx:
            for run in moves.list_runs_with_expired_lease(
                tx, datetime.max.replace(tzinfo=now.tzinfo)
            ):
                moves.change_run_status(
                    tx, run, RunStatus.READY, at=now, actor="system", data={"why": "restart"}
                )
            for run in moves.list_cancelled_runs_with_running_calls(
                tx
            ):  # the process that would have stored its last call's outcome is gone
                endings.supersede_calls_of_ended_run(tx, run, at=now)

    def _hand_out_ready_runs(self) -> None:
        left = self._other_processes.job_pickup_timeout
        before = None if left is None else self._clock.now() - left
        with self._store.read() as tx:
            found = runs.list_ready_runs(tx, before)
            for run_id in self._workers.pop_run_ids_due_again():
                found += runs.list_run_if_ready(tx, run_id)
        fresh = self._workers.hand_out_runs(found)
        if left is not None:
            self._report_late_runs(fresh, left)

    def _report_late_runs(self, found: set[str], left: timedelta) -> None:
        """Log runs for which no queued job was taken up in time, and count each as an incident."""
        for run_id in found:
            log.warning("no job took up run %s within %g s", run_id, left.total_seconds())
            self.tracer.report_incident(Incident.LATE)

    def _schedule_wake_at_next_deadline(self) -> None:
        now = self._clock.now()
        with self._store.read() as tx:
            moments = (
                schedule.find_next_deadline(tx),
                schedule.find_next_notification_time(tx),
                programs.find_next_claim_lapse(tx),
            )
        nearest = min((each for each in moments if each is not None), default=None)
        if nearest is not None:
            self._alarm.schedule_wake(
                nearest - now if nearest > now else OVERDUE_RETRY_INTERVAL, "deadline"
            )


# The order in which deliveries are processed if several processes have stored them.

OrderKey = tuple[str, str, str]  # user id, or "" for everybody; channel; its thread


def build_delivery_order_keys(delivery: Delivery) -> tuple[OrderKey, OrderKey]:
    """Return the two keys by which deliveries keep their order.

    The first names person, channel and thread: a delivery waits for earlier ones with the same key.
    The second, of a click or dialog, names channel and thread alone: it also waits for earlier
    clicks there, by anybody, that another process has stored and not handled yet. For other
    deliveries, the second key is the same as the first.
    """
    where = (delivery.channel, delivery.thread_ts)
    place = (delivery.user, *where)
    is_click = delivery.kind in inbox.CLICK_KINDS and delivery.channel
    return place, ("", *where) if is_click else place
