"""The loop: each tick processes deliveries, expires calls and hands out runs, without blocking.

One thread waits on an event that is set whenever something is stored; an alarm sets it at an
interval and at the nearest deadline, so that deadlines need no other trigger and no wake is lost.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.agent import outputs
from bot.approvals.deadlines import Expiry, Reminders
from bot.approvals.delegation import Handover
from bot.cards import refusals
from bot.clock import Clock
from bot.config.settings import Settings
from bot.monitoring.spans import Incident, Work
from bot.policy.authority import LookupFailedError, NotLetInError, NotYetKnownError
from bot.runs.intake import Intake
from bot.runs.worker_pool import NoOtherProcesses, OtherProcesses, WorkerPool
from bot.signals import Alarm, PendingAnswers, Signals
from storage import endings, inbox, moves, outbox, programs, runs, schedule
from storage.availability import error_text, may_pass, pause_after
from storage.inbox import CLICKS
from storage.models import Delivery
from storage.states import RunStatus
from storage.store import Store

if TYPE_CHECKING:
    from bot.approvals.clicks import Clicks
    from bot.approvals.question_answers import PlainReplies
    from bot.config.startup import PolicyReload
    from bot.runs.intake import TypedWords
    from bot.runs.program_calls import ProgramCalls


log = logging.getLogger("countersign.loop")
# between two looks at a deadline that a click holds up, or that cannot fall
OVERDUE = timedelta(seconds=1)
THEIRS = timedelta(seconds=0.25)  # between two looks at what another process is dealing with
TRIES = 5  # before a delivery that cannot be dealt with is left alone


@dataclass(frozen=True, slots=True)
class TickActions:
    """The parts that a tick calls, besides handing out runs."""

    intake: Intake
    typed: TypedWords
    replies: PlainReplies
    clicks: Clicks
    expiry: Expiry
    reminders: Reminders
    handover: Handover
    handovers: ProgramCalls
    reload: PolicyReload


class Loop:
    """The main loop; one per process. Its thread runs `run`; tests may call `tick` directly."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        signals: Signals,
        *,
        acts: TickActions,
        workers: WorkerPool,
        look_ahead: Callable[[list[Delivery]], None],
        others: OtherProcesses | None = None,
    ) -> None:
        """`look_ahead` starts look-ups without waiting; `others` is for several processes."""
        self._store, self._clock, self._settings = store, clock, settings
        self._acts = acts
        self._look_ahead = look_ahead
        self._wake, self.tracer = signals.work, signals.tracer
        self._post, self._decisions = signals.post, signals.decisions
        self._rest, self._arrivals = signals.rest, signals.arrivals
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._going.set()
        # pacing of what failed; lost at a restart, which is fine
        self._not_before: dict[int | None, datetime] = {}
        self._waiting = PendingAnswers()  # deliveries whose look-ups are on their way
        self._workers = workers
        self._others = others or NoOtherProcesses()
        self._own = signals.own
        self._alarm = Alarm(self.wake)
        self.busy = False

    def wake(self) -> None:
        """Make the loop tick soon, because something was stored or time has passed."""
        self._wake.give()

    def run(self) -> None:
        """Tick whenever woken, until `stop`; the body of the loop's thread."""
        self._alarm.start(self._settings.tick)
        failures = 0
        while not self._stopping.is_set():
            # before the wake is cleared, so that there is no moment that only looks idle
            self.busy = True
            self._wake.clear()
            try:
                if self._going.is_set():
                    self.tick()
                failures = 0
            except Exception as error:
                failures += 1
                log.error("the tick failed: %s", error_text(error), exc_info=not may_pass(error))
                self._alarm.after(timedelta(seconds=pause_after(failures)), "failed")
            self.busy = False
            self._rest.changed()
            self._wake.wait(self._settings.tick)  # the alarm goes by a clock that may be set back

    def pause(self) -> None:
        """Process nothing until `resume`; deliveries that arrive are stored and acknowledged."""
        self._going.clear()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._going.set()
        self.wake()

    def stop(self, grace: float) -> None:
        """Stop the loop and the workers; steps under way have `grace` seconds, then are left."""
        self._stopping.set()
        self._wake.give()
        self._alarm.stop()
        self._workers.stop(grace)

    def is_idle(self) -> bool:
        """Return whether no wake is outstanding, no tick is running and no run is worked on."""
        return self._workers.is_idle() and not (self.busy or self._wake.is_given())

    def tick(self) -> None:
        """Make one pass: process deliveries, expire calls, remind people, hand out runs."""
        with self.tracer.start_span(Work.TICK):
            self._look_at_everything()

    def _look_at_everything(self) -> None:
        self._read_policy()
        # first, so that a slow look-up below holds up no deadline that no click contests
        self._expire()
        self._arrivals.wait()
        self._take_in()
        self._expire()
        if self._acts.reminders.tell() | self._acts.handover.show():
            self._post.give()
        self._reclaim()
        self._hand_out()
        self._look_again_at_the_next_deadline()

    def _read_policy(self) -> None:
        try:
            again = self._acts.reload.look()
        except Exception:
            log.exception("the policy file could not be looked at")
        else:
            if again:
                self._alarm.after(again, "policy")

    def _take_in(self) -> None:
        with self._store.read() as tx:
            arrived, now = inbox.new_deliveries(tx), self._clock.now()
        theirs = {each.seq for each in arrived if self._others.have(each, now)}
        ours = [each for each in arrived if each.seq not in theirs]
        if any(each.kind in inbox.CLICKS for each in ours):
            self._decisions.claim()
        try:
            self._look_ahead(ours)
            behind: set[OrderKey] = set()
            for delivery in arrived:
                if self._stopping.is_set():
                    return
                if self._not_before.get(delivery.seq, self._clock.now()) > self._clock.now():
                    continue
                place, cards = delivery_order_keys(delivery)
                waits = {place, cards} & behind or self._waiting.holds(delivery.seq)
                if delivery.seq in theirs:
                    behind |= {place, cards}
                elif waits or not self._take(delivery):
                    behind.add(place)
        finally:
            self._decisions.release()
        if ours:
            self._post.give()
        if theirs:  # one of ours may wait for it, and whoever has it may be no more
            self._alarm.after(THEIRS, "theirs")

    def _take(self, delivery: Delivery) -> bool:
        """Process a delivery; return False if it waits for a look-up. Raises the database's errors.

        True also if it failed: then it was left for later or dropped.
        """
        try:
            with self.tracer.start_span(Work.DECIDE, delivery.kind, since=delivery.received_at):
                if delivery.kind in inbox.CLICKS:
                    self._acts.clicks.take(delivery)
                elif not (self._acts.typed.take(delivery) or self._acts.replies.take(delivery)):
                    self._acts.intake.take(delivery)
            self._own.discard(delivery.key)
        except inbox.DeliveryTakenError:
            log.debug("delivery %s was dealt with elsewhere", delivery.seq)
        except NotYetKnownError as error:  # the loop is woken when it is known
            self._waiting.put(delivery.seq, error.answers)
            return False
        except Exception as error:
            if may_pass(error):
                raise
            self._failed(delivery, error)
        return True

    def _failed(self, delivery: Delivery, error: Exception) -> None:
        """Leave a failed delivery for later; after too many tries, drop it and tell its person.

        Messages are not dropped while Slack does not let the bot in: they wait until it does.
        """
        known, seq = isinstance(error, LookupFailedError), delivery.seq
        waits = isinstance(error, NotLetInError) and delivery.kind not in inbox.CLICKS
        limit = sys.maxsize if waits else TRIES
        why = f"{type(error).__name__}: {error_text(error)}"
        log.warning("delivery %s (%s) failed: %s", seq, delivery.kind, why, exc_info=not known)
        with self._store.write() as tx:
            if inbox.stumble(tx, delivery, why, limit=limit) and delivery.user:
                outbox.put_private(
                    tx,
                    f"broken:{delivery.seq}",
                    channel=delivery.channel or delivery.user,
                    thread_ts=delivery.thread_ts,
                    person=delivery.user,
                    text=refusals.could_not(known),
                )
        wait = timedelta(seconds=min(30, 0.5 * 2 ** min(delivery.attempts, 6)))
        self._not_before[delivery.seq] = self._clock.now() + wait
        self._alarm.after(wait, f"retry:{delivery.seq}")

    def _expire(self) -> None:
        if self._acts.expiry.expire() | self._acts.handovers.lapse():
            self._post.give()

    def _reclaim(self) -> None:
        """Renew leases of runs worked on here; make runs with a lapsed lease READY again.

        On a shared database, also close calls left RUNNING in cancelled runs.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            lapsed = moves.orphaned_runs(tx, now)
            cut = moves.cancelled_runs_with_running_calls(tx, now) if self._store.shared else []
        if not (lapsed or cut) or not self._others.may_be_dead():
            return
        ours = self._workers.active()
        until = now + timedelta(seconds=self._settings.lease)
        with self._store.write() as tx:
            for run in lapsed:
                if run.id in ours:
                    moves.renew_lease(tx, run.id, run.fence, until)
                else:
                    why = {"why": "its lease lapsed"}
                    moves.run(tx, run, RunStatus.READY, at=now, actor="system", data=why)
            for run in cut:
                if run.id not in ours:
                    endings.close_calls_left_behind(tx, run, at=now, words=outputs)

    def adopt(self) -> None:
        """At start, make every RUNNING run READY again: the process that ran it is gone.

        Calls left RUNNING in cancelled runs are closed. Does nothing on a database that several
        processes share: leases show there who is gone.
        """
        if self._store.shared:  # then leases tell
            return
        now = self._clock.now()
        with self._store.write() as tx:
            for run in moves.orphaned_runs(tx, datetime.max.replace(tzinfo=now.tzinfo)):
                moves.run(tx, run, RunStatus.READY, at=now, actor="system", data={"why": "restart"})
            for run in moves.cancelled_runs_with_running_calls(
                tx
            ):  # nobody is left to write down how its last call ended
                endings.close_calls_left_behind(tx, run, at=now, words=outputs)

    def _hand_out(self) -> None:
        left = self._others.patience
        before = None if left is None else self._clock.now() - left
        with self._store.read() as tx:
            found = runs.ready_runs(tx, before)
            for run_id in self._workers.due():
                found += runs.ready_run(tx, run_id)
        fresh = self._workers.hand_out(found)
        if left is not None:
            self._tell_late(fresh, left)

    def _tell_late(self, found: set[str], left: timedelta) -> None:
        """Log the runs that no job took up in time, and count each as an incident."""
        for run_id in found:
            log.warning("no job had run %s taken up within %g s", run_id, left.total_seconds())
            self.tracer.happened(Incident.LATE)

    def _look_again_at_the_next_deadline(self) -> None:
        now = self._clock.now()
        with self._store.read() as tx:
            moments = (
                schedule.next_deadline(tx),
                schedule.next_notification(tx),
                programs.next_claim_lapse(tx),
            )
        nearest = min((each for each in moments if each is not None), default=None)
        if nearest is not None:
            self._alarm.after(nearest - now if nearest > now else OVERDUE, "deadline")


# The order in which deliveries are processed if several processes have stored them.

OrderKey = tuple[str, str, str]  # somebody, or "" for all; a channel; a thread in it


def delivery_order_keys(delivery: Delivery) -> tuple[OrderKey, OrderKey]:
    """Return the two keys by which deliveries keep their order.

    The first names person and thread: a delivery waits for earlier ones of that person there. The
    second, of a click or dialog, names the thread alone: it also waits for earlier clicks there
    that another process has stored and may have died with. Other deliveries have the first key
    twice.
    """
    where = (delivery.channel, delivery.thread_ts)
    place = (delivery.user, *where)
    is_click = delivery.kind in CLICKS and delivery.channel
    return place, ("", *where) if is_click else place
