"""advance(run): one run, one step at a time, from what is written. Holds no truth of its own
between steps.

A step is a model turn, the execution of one call, or the decision to wait. Every write checks the
fence of the claim, so a worker that stalled past its lease changes nothing any more. Claims and
model turns do not wait for the disk: after a power failure they are simply taken again, and the
outbox tells nobody of them before they are on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from bot.agent import prompt
from bot.agent.turn import ModelTurns, Plan, PlannerError, Reply
from bot.approvals.cards.placement import find_place
from bot.approvals.cards.routing import Asked, put_cards, unasked_card
from bot.approvals.terms import limits
from bot.approvals.terms.refusals import RefusedError
from bot.core import Core
from bot.messages import answers, sentences
from bot.policy.evaluate import Ask
from bot.policy.gates import load_gate
from bot.runs import transcript
from bot.runs.executor import CallExecutor
from bot.runs.ports import Answer, Presence, Thread
from bot.runs.proposals import prepare
from bot.tools import Effect
from storage import calls, inbox, moves, outbox, runs
from storage.models import Call, Run
from storage.models import Plan as PlanRow
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction

log = logging.getLogger("countersign.worker")
C, R = CallStatus, RunStatus


class Worker:
    """Advances runs. Any number may work on one database."""

    def __init__(
        self,
        core: Core,
        planner: ModelTurns,
        executor: CallExecutor,
        thread: Thread,
        answer: Callable[[Run], Answer],
        presence: Presence,
    ) -> None:
        """`answer` opens the way for one turn's words; `thread` reads what was said before."""
        self._core = core
        self._planner = planner
        self._executor = executor
        self._thread = thread
        self._answer = answer
        self._presence = presence

    def advance(self, run_id: str) -> None:
        """Claim the run and take steps until it waits, ends or is taken away. Raises nothing."""
        core, now = self._core, self._core.clock.now()
        run: Run | None = None
        try:
            with core.store.write(durable=False) as tx:
                run = runs.claim(
                    tx, run_id, now=now, lease_until=now + timedelta(seconds=core.settings.lease)
                )
                # A stream left open by a crash is closed before anything else is said.
                closed = run is not None and outbox.close_streams(tx, run_id)
            if run is None:
                return
            if closed:
                core.post()
            while self._step(run):
                with core.store.read() as tx:
                    run = runs.held_by(tx, run_id, run.fence)
        except moves.FencedError:
            log.info("run %s: taken away from this worker", run_id)
        except PlannerError as error:
            self._fail(run, str(error))
        except Exception:
            log.exception("run %s: failed", run_id)
            self._fail(run, "Something went wrong inside Countersign.")
        finally:
            core.post()

    def _step(self, run: Run) -> bool:
        """One step; False when there is nothing more to do now."""
        if run.status is not R.RUNNING:  # cancelled meanwhile
            return False
        with self._core.store.read() as tx:
            plan = calls.open_plan(tx, run.id)
            found = calls.of_plan(tx, plan.id) if plan else []
        if plan is None:
            return self._turn(run)
        for call in found:
            if call.status is C.RUNNING:
                self._executor.recover(run, call)
                return True
        if at_once := next(
            (c for c in found if c.status is C.APPROVED and c.does == Effect.READ), None
        ):
            self._presence.working(run)
            self._executor.execute(run, at_once.id)
            return True
        if any(calls.waits(call) for call in found):
            return self._wait(run, plan)
        if approved := next((c for c in found if c.status is C.APPROVED), None):
            self._presence.working(run)
            self._in_order(run, found, approved)
            return True
        with self._core.store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            runs.close_plan(tx, run, plan, at=self._core.clock.now())
        return True

    def _in_order(self, run: Run, found: list[Call], call: Call) -> None:
        """Execute the next approved call of a plan, or cancel it when an earlier step went wrong."""
        earlier = [c for c in found if c.position < call.position and c.does != Effect.READ]
        broken = next((c for c in earlier if c.status in (C.FAILED, C.UNKNOWN)), None)
        if broken is None:
            self._executor.execute(run, call.id)
            return
        output = "CANCELLED: an earlier step of the plan failed, so it was not run."
        with self._core.store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            moves.call(
                tx,
                call,
                C.CANCELLED,
                at=self._core.clock.now(),
                actor="worker",
                output=output,
                note="an earlier step failed",
                data={"because": broken.id},
            )

    def _wait(self, run: Run, plan: PlanRow) -> bool:
        """RUNNING -> WAITING, unless the last decision came in meanwhile.

        Calls that no card shows get one.
        """
        self._show_missing(run, plan)
        now = self._core.clock.now()
        with self._core.store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            if not any(calls.waits(call) for call in calls.of_plan(tx, plan.id)):
                return True
            if not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                return False
        self._waits(run)
        return False

    def _waits(self, run: Run) -> None:
        """Say so to whom it concerns, once it is stored."""
        self._core.post()
        self._core.wake()  # a nearer deadline may have come into being
        self._presence.waiting(run)

    def _show_missing(self, run: Run, plan: PlanRow) -> None:
        """A call that policy had allowed has no card yet: now it asks, or nobody knows how the call
        ended.
        """
        with self._core.store.read() as tx:
            on_cards = {c for card in outbox.cards(tx, plan.id) for c in outbox.body(card)["calls"]}
            missing = [
                c for c in calls.of_plan(tx, plan.id) if calls.waits(c) and c.id not in on_cards
            ]
        for call in missing:
            gate = load_gate(call.gate)
            if call.status is C.UNKNOWN:
                with self._core.store.write() as tx:
                    outbox.put(tx, unasked_card(run, plan.id, call))
                continue
            assert isinstance(gate, Ask)
            try:
                place = find_place(self._core, run, gate)
            except RefusedError as error:
                with self._core.store.write() as tx:
                    at = self._core.clock.now()
                    moves.call(
                        tx,
                        call,
                        C.INVALIDATED,
                        at=at,
                        actor="policy",
                        output=error.output,
                        note=error.note,
                    )
                continue
            with self._core.store.write() as tx:
                put_cards(tx, run, plan.id, [Asked(call, gate, place)])

    def _turn(self, run: Run) -> bool:
        """One model turn: take in what was said meanwhile, ask the model, store what it answers or
        proposes.
        """
        core = self._core
        self._presence.working(run)
        self._thread.take_in(run)
        if over := limits.on_going_on(core, run):
            return self._end(run, over)
        with core.store.read() as tx:
            items = transcript.complete(runs.transcript(tx, run))
        tools = [transcript.function(tool) for tool in core.tools]
        answer = self._answer(run)
        try:
            result = self._planner.turn(items, tools, prompt.instructions(core.clock.now()), answer)
            if isinstance(result, Reply):
                return self._store_reply(run, result, answer)
            return self._store_plan(run, result, answer)
        except BaseException:
            answer.abandon()
            raise

    def _end(self, run: Run, text: str) -> bool:
        item = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return self._store_reply(run, Reply(text, [item], 0), self._answer(run))

    def _store_reply(self, run: Run, reply: Reply, answer: Answer) -> bool:
        now = self._core.clock.now()
        with self._core.store.write(durable=False) as tx:
            held = self._count(tx, run, reply)
            # said while the model was answering: go on with that
            more = bool(inbox.held(tx, run.id))
            text = reply.text.strip() or ("" if more else "Done.")
            answer.finish(tx, text, last=not more)
            if not more and not moves.run(tx, held, R.COMPLETED, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        if not more:
            self._presence.done(run)
        self._core.post()
        return more

    def _store_plan(self, run: Run, plan: Plan, answer: Answer) -> bool:
        core, now = self._core, self._core.clock.now()
        with core.store.read() as tx:
            taken = calls.provider_ids(tx, run.team, run.channel, run.thread_ts)
        row = PlanRow(run_id=run.id, turn=run.turns + 1, created_at=now)
        prepared = prepare(core, run, row.id, plan.calls, taken)
        transcript.rename(plan, plan.calls, prepared)
        asked = [
            Asked(p.call, p.gate, p.place) for p in prepared if isinstance(p.gate, Ask) and p.place
        ]
        at_once = any(p.call.status is C.APPROVED and p.call.does == Effect.READ for p in prepared)
        waits = bool(asked) and not at_once  # then it is suspended in the same transaction
        with core.store.write(durable=False) as tx:
            held = self._count(tx, run, plan, calls=len(prepared), cards=bool(asked))
            calls.add_plan(tx, row)
            for each in prepared:
                moves.born(tx, each.call, at=now, actor="agent", data=each.birth)
                if each.revision is not None:
                    calls.add_revision(tx, each.revision)
            answer.finish(tx, plan.text.strip(), last=False)
            put_cards(tx, run, row.id, asked)
            for each in prepared:
                if each.tell_requester:
                    transcript.tell(tx, run, each)
            if waits and not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        if waits:
            self._waits(run)
        else:
            core.post()
        return not waits

    def _count(
        self,
        tx: Transaction,
        run: Run,
        result: Reply | Plan,
        *,
        calls: int = 0,
        cards: bool = False,
    ) -> Run:
        """Store the turn's items and count it, if this worker still holds the run and it still goes
        on.
        """
        held = runs.held_by(tx, run.id, run.fence)
        if held.status is not R.RUNNING:
            raise moves.FencedError(run.id)
        held.turns += 1
        runs.count(
            tx,
            held,
            turns=held.turns,
            tokens=held.tokens + result.tokens,
            calls=held.calls + calls,
            cards=held.cards + cards,
        )
        for item in result.items:
            runs.append(tx, held, item, at=self._core.clock.now())
        return held

    def _fail(self, run: Run | None, why: str) -> None:
        """RUNNING -> FAILED, said in the thread with a Retry button; nothing written is lost."""
        # a connection that we cut ourselves is no failure
        if run is None or self._core.stopping.is_set():
            return
        now = self._core.clock.now()
        with self._core.store.write() as tx:
            held = runs.get(tx, run.id)
            if held is None or held.fence != run.fence or held.status is not R.RUNNING:
                return
            moves.run(tx, held, R.FAILED, at=now, fence=run.fence, data={"why": why}, error=why)
            text = sentences.gave_up(why)
            outbox.notice(
                tx,
                run,
                f"failed:{run.id}:{run.fence}",
                {"text": text, "blocks": answers.retry_blocks(text, run.id)},
            )
        self._presence.done(run)
