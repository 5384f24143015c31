"""Advances one run, one step at a time, from the stored rows; keeps no state between steps.

A step is a model turn, the execution of one call, or the decision to wait. Every write checks the
fence of the claim, so a worker that stalled past its lease changes nothing any more. Claims do not
wait for the disk: after a power failure they are made again, and the outbox posts nothing of them
before they are on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from bot.agent.outputs import EARLIER_QUESTION_UNANSWERED, STEP_FAILED
from bot.agent.turn import PlannerError
from bot.approvals.person_questions import is_question_to_person
from bot.clock import Clock
from bot.monitoring.spans import WorkKind
from bot.policy.authority import LookupPendingError
from bot.runs.endings import RunWithCalls
from bot.runs.executor import CallExecutor
from bot.runs.plans import MissingCardPoster
from bot.runs.ports import Presence, announce_run_waits
from bot.runs.results import post_run_failure
from bot.runs.sub_agent_runs import store_sub_agent_failure
from bot.runs.worker_pool import MayKeepRun
from bot.signals import Signals
from bot.tools import Effect, Registry
from storage import calls, inbox, moves, outbox, runs
from storage.database_errors import error_text, is_temporary_database_error
from storage.record import Call, Run, Store, retry_until_stored
from storage.states import CallStatus, RunSource, RunStatus

log = logging.getLogger("countersign.worker")
C, R = CallStatus, RunStatus
# takes a run, and the calls of its plan if some of them wait for people; returns whether there is
# more to do now, and may raise PlannerError
TakeTurn = Callable[[Run, Sequence[Call]], bool]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunWorker:
    """Advances runs; any number of workers may use one database."""

    store: Store
    clock: Clock
    lease: float  # seconds that a claim holds without being renewed
    signals: Signals
    turns: Mapping[RunSource, TakeTurn]  # what takes a run's next step while it has no open plan
    executor: CallExecutor
    tools: Registry
    cards: MissingCardPoster
    presence: Presence

    def advance_run(self, run_id: str, keeps: MayKeepRun = lambda _: True) -> None:
        """Claim the run and take steps until it waits, ends or is taken away. Raises nothing.

        Between two steps, `keeps` may say that it is another run's turn: then this run is released.
        """
        with self.signals.tracer.start_span(WorkKind.ADVANCE, run_id=run_id):
            self._advance_until_released(run_id, keeps)

    def _advance_until_released(self, run_id: str, keeps: MayKeepRun) -> None:
        run: Run | None = None
        try:
            claimed = self._retry_until_stored(
                lambda: self._claim_run(run_id), f"run {run_id}: its claim"
            )
            if claimed is None:
                return
            run, known_runs = claimed[0], [claimed]
            step = partial(self._take_next_step, run, known_runs)
            while self._retry_until_stored(step, f"run {run_id}: its next step"):
                if not self._retry_until_stored(
                    partial(self._keep_or_release_run, run, known_runs, keeps), f"run {run_id}"
                ):
                    return
        except moves.StaleFenceError:
            log.info("run %s: taken away from this worker", run_id)
            self._show_end_if_cancelled(run)
        except LookupPendingError:  # only while the process is stopping
            log.info("run %s: left for the next start while waiting for Slack", run_id)
        except PlannerError as error:
            log.warning("run %s: no model turn: %s (%r)", run_id, error, error.__cause__)
            self._fail_run(run, str(error))
        except Exception as error:
            if is_temporary_database_error(error):  # only while the process is stopping
                log.warning("run %s: left for the next start: %s", run_id, error_text(error))
                return
            log.exception("run %s: failed", run_id)
            self._fail_run(run, "Something went wrong inside Countersign.")
        finally:
            self.signals.outbox.notify()

    def _show_end_if_cancelled(self, run: Run | None) -> None:
        """Show that a run is over, if it was cancelled while it was shown as being worked on."""
        if run is None:
            return
        with suppress(Exception):  # a stale status in Slack does no harm
            with self.store.read() as tx:
                now = runs.get_run(tx, run.id)
            if now.status is R.CANCELLED:
                self.presence.show_done(now)

    def _retry_until_stored(self, work: Callable[[], T], what: str) -> T:
        """Do `work`, repeating it until the database accepts it."""
        return retry_until_stored(work, self.signals.stopping, what)

    def _claim_run(self, run_id: str) -> RunWithCalls | None:
        """Claim the run; None if another worker has it, or it cannot be claimed."""
        now = self.clock.now()
        with self.store.write(durable=False) as tx:
            until = now + timedelta(seconds=self.lease)
            run = moves.claim_run(tx, run_id, at=now, lease_until=until)
            # a crash may have left a stream open; at the first claim there is none, and no call
            claimed_before = run is not None and run.fence > 1
            closed = claimed_before and outbox.withdraw_open_streams(tx, run_id)
            found = calls.list_calls_of_open_plan(tx, run_id) if claimed_before else []
        if closed:
            self.signals.outbox.notify()
        return (run, found) if run is not None else None

    def _take_next_step(self, run: Run, known: list[RunWithCalls]) -> bool:
        """Take the next step; return False if there is none.

        `known`: the run and calls as the claim or the last step left them; empty: read them.
        """
        more = self._take_step(*(known.pop() if known else self._load_held_run(run)))
        if isinstance(more, bool):
            return more
        known.append(more)
        return True

    def _keep_or_release_run(self, run: Run, known: list[RunWithCalls], keeps: MayKeepRun) -> bool:
        """Return whether the worker keeps the run for its next step; else make it READY again."""
        if not known:
            known.append(self._load_held_run(run))
        held, found = known[0]
        if held.status is not R.RUNNING or keeps(_has_precedence(held, found)):
            return True
        with self.store.write(durable=False) as tx:
            why = {"why": "it is another's turn"}
            moves.change_run_status(
                tx, held, R.READY, at=self.clock.now(), fence=run.fence, data=why
            )
        self.signals.work.notify()
        return False

    def _load_held_run(self, run: Run) -> RunWithCalls:
        with self.store.read() as tx:
            return runs.get_run_with_fence(tx, run.id, run.fence), calls.list_calls_of_open_plan(
                tx, run.id
            )

    def _take_step(self, run: Run, open_calls: list[Call]) -> RunWithCalls | bool:
        """Take one step, according to the calls of the run's open plan.

        Returns the run and its plan's calls afterwards if known, else whether there is more to do
        now.
        """
        if run.status is not R.RUNNING:  # cancelled meanwhile
            self._show_end_if_cancelled(run)
            return False
        if not open_calls:
            return self.turns[run.source](run, ())
        for call in open_calls:
            if call.status is C.RUNNING and not call.action:
                self.executor.recover_interrupted_call(run, call)
                return True
        if at_once := next(
            (c for c in open_calls if calls.can_worker_run_call(c) and c.does == Effect.READ), None
        ):
            self.presence.show_working(run)
            return self.executor.execute_call(run, at_once) or True
        if any(calls.is_blocking_run(call) for call in open_calls):
            spoken_to = self._has_unanswered_message(run)
            return (
                self.turns[run.source](run, open_calls)
                if spoken_to
                else self._wait_for_people(run, open_calls)
            )
        if approved := next((c for c in open_calls if calls.can_worker_run_call(c)), None):
            self.presence.show_working(run)
            return self._execute_or_cancel_call(run, open_calls, approved)
        with self.store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            runs.close_plan_if_all_final(
                tx, run, calls.list_calls_of_open_plan(tx, run.id), at=self.clock.now()
            )
        return True

    def _execute_or_cancel_call(
        self, run: Run, open_calls: list[Call], call: Call
    ) -> RunWithCalls | bool:
        """Execute the plan's next approved call, or cancel it if an earlier step went wrong."""
        earlier = [c for c in open_calls if c.position < call.position]
        broken = next((c for c in earlier if _should_cancel_later_calls(c)), None)
        if broken is None:
            return self.executor.execute_call(run, call) or True
        output, note = STEP_FAILED, "an earlier step failed"
        if is_question_to_person(broken):
            output, note = EARLIER_QUESTION_UNANSWERED, "nobody answered the question before it"
        with self.store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            moves.change_call_status(
                tx,
                call,
                C.CANCELLED,
                at=self.clock.now(),
                actor="worker",
                output=output,
                note=note,
                data={"because": broken.id},
            )
        return True

    def _has_unanswered_message(self, run: Run) -> bool:
        """Return whether the model has to answer a message while people decide."""
        if run.source is not RunSource.MESSAGE:
            return False
        with self.store.read() as tx:
            return bool(inbox.list_messages_held_for_run(tx, run.id)) or runs.needs_model_answer(
                tx, run.id
            )

    def _wait_for_people(self, run: Run, open_calls: list[Call]) -> bool:
        """Make the run WAITING, with a card for each call; return True if it can go on instead."""
        plan_id = open_calls[0].plan_id
        self.cards.post_missing_cards(run, plan_id)
        now = self.clock.now()
        with self.store.write() as tx:
            current_run = runs.get_run_with_fence(tx, run.id, run.fence)
            if current_run.status is not R.RUNNING:  # its lease lapsed, nobody has claimed it yet
                return False
            decided = not any(
                calls.is_blocking_run(call) for call in calls.list_calls_of_plan(tx, plan_id)
            )
            if decided or inbox.list_messages_held_for_run(tx, run.id):
                return True
            if not moves.change_run_status(tx, current_run, R.WAITING, at=now, fence=run.fence):
                return False
        announce_run_waits(run, self.signals, self.presence)
        return False

    def _fail_run(self, run: Run | None, why: str) -> None:
        """Make the run FAILED and post that with a Retry button; nothing written is lost."""
        # while stopping, we cut connections ourselves, which is no failure
        if run is None or self.signals.stopping.is_set():
            return
        ending = partial(self._store_failure, run, why)
        if self._retry_until_stored(ending, f"run {run.id}: that it failed"):
            self.signals.work.notify()  # the agent that called a sub-agent can go on
            self.presence.show_done(run)

    def _store_failure(self, run: Run, why: str) -> bool:
        """Store and post the failure; return False if the run was no longer this worker's."""
        now = self.clock.now()
        with self.store.write() as tx:
            current_run = runs.get_run(tx, run.id)
            if (current_run.fence, current_run.status) != (run.fence, R.RUNNING):
                return False
            moves.change_run_status(
                tx, current_run, R.FAILED, at=now, fence=run.fence, data={"why": why}, error=why
            )
            if run.parent_call:
                store_sub_agent_failure(tx, self.tools, current_run, why, at=now)
                return True
            post_run_failure(tx, self.tools, run, why)
        return True


def _has_precedence(run: Run, found: list[Call]) -> bool:
    """Return whether the run's next step is a call that people approved, or blocks such a call."""
    if run.source is RunSource.SERVER:  # a worker waits for its answer while it runs such a call
        return True
    return any(map(calls.is_people_approved_and_unstarted, found)) and not any(
        map(calls.is_blocking_run, found)
    )


def _should_cancel_later_calls(call: Call) -> bool:
    """Return whether the call's end cancels the rest of its plan.

    That is so for an expired question to a person, and for a failed or unknown call that does more
    than read.
    """
    if is_question_to_person(call):
        return call.status is C.EXPIRED
    return call.does != Effect.READ and call.status in (C.FAILED, C.UNKNOWN)
