"""The promises of the design as invariants, over any order of clicks, edits, words, deadlines,
crashes and restarts.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage import audit, calls, runs
from storage.models import Audit, Call, Run
from storage.states import CALL_FINAL, RUN_OPEN, CallStatus, RunStatus
from storage.store import Store
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.runs.harness import Crash, LoopHarness
from tests.storage.builders import click, submission

C, R = CallStatus, RunStatus
NEVER_AGAIN = {
    "call.rejected",
    "call.expired",
    "call.cancelled",
    "call.superseded",
    "call.invalidated",
}
people = st.sampled_from([ANA, CLEO, ANA, CLEO, BEN, DAN])
which = st.integers(0, 30)
tools = st.sampled_from(["note", "note", "wipe", "put", "free", "peek", "invented"])
proposals = st.lists(st.tuples(tools, st.sampled_from(["a", "b", "c"])), min_size=1, max_size=3)
outcomes = st.sampled_from(["returns", "returns", "refuses", "raises", "loses"])
deaths = st.sampled_from(["", "", "", "before", "after"])  # before or after the effect
steps = st.one_of(proposals, proposals, st.sampled_from(["answer", "crash", "fail"]))
TEMPLATE = Path(tempfile.mkdtemp(prefix="machine-")) / "empty.db"


class Machine(RuleBasedStateMachine):
    """One workspace, one thread or two, any order of things."""

    @initialize(script=st.lists(steps, max_size=3))
    def begin(self, script: list[Any]) -> None:
        """Somebody asks for something."""
        if not TEMPLATE.exists():
            Store(f"sqlite:///{TEMPLATE}").open().close()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        shutil.copy(TEMPLATE, self.folder / "db")
        self.harness = LoopHarness(self.folder / "db")
        self.harness.model.script = [[("note", "a"), ("peek", "b")], *script]
        self.harness.say("please")
        self.tick_and_work()

    def calls(self, *statuses: CallStatus) -> list[Call]:
        """The calls in one of these statuses."""
        return [call for call in self.harness.all()[1] if call.status in statuses]

    def tick_and_work(self) -> None:
        """The loop looks, the workers work; when they die, a new process begins."""
        self.harness.loop.tick()
        try:
            self.harness.work()
        except Crash:
            self.restart()

    # What people do: each is stored only; a tick deals with it.

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(
        person=people,
        pick=which,
        old=st.booleans(),
        verb=st.sampled_from(["approve", "approve", "reject"]),
    )
    def vote(self, person: str, pick: int, old: bool, verb: str) -> None:
        """A click on Approve, or a reason for a rejection, sometimes from a card that is out of
        date.
        """
        pending = self.calls(C.PENDING)
        call = pending[pick % len(pending)]
        revision = max(1, call.revision - old)
        if verb == "approve":
            self.harness.arrive(lambda key: click(key, "approve", f"{call.id}:{revision}", person))
            return
        about = {"target": f"call:{call.id}:{revision}"}
        state = {
            "words": {"text": {"value": "no"}},
            "reason": {"preset": {"selected_option": {"value": "other"}}},
        }
        self.harness.arrive(lambda key: submission(key, "reject", about, state, person))

    @rule(
        person=people, pick=which, action=st.sampled_from(["approve", "resolve_done", "run_again"])
    )
    def late_click(self, person: str, pick: int, action: str) -> None:
        """A click on any card there ever was."""
        found = self.harness.all()[1]
        call = found[pick % len(found)]
        self.harness.arrive(lambda key: click(key, action, f"{call.id}:{call.revision}", person))

    @rule(person=people, pick=which, stale=st.booleans())
    def approve_all(self, person: str, pick: int, stale: bool) -> None:
        """A click on Approve all of a card as it was drawn."""
        cards = [row for row in self.harness.all()[3] if row.kind == "card"]
        if not cards:
            return
        card = cards[pick % len(cards)]
        if card.status != "sent":
            self.harness.post(card)
        with self.harness.store.read() as tx:
            plan = calls.plan(tx, card.plan_id)
        assert plan is not None
        value, ts = f"{plan.id}:{plan.revision - stale}", f"9{card.seq}.0"
        self.harness.arrive(lambda key: click(key, "approve_all", value, person, card=ts))

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(
        person=people,
        pick=which,
        text=st.sampled_from(["a", "edited", "x" * 501]),
        then=st.booleans(),
    )
    def edit(self, person: str, pick: int, text: str, then: bool) -> None:
        """A submitted edit, sometimes approved in the same breath, sometimes invalid."""
        pending = self.calls(C.PENDING)
        call = pending[pick % len(pending)]
        about = {"call": call.id, "revision": call.revision}
        options = [{"value": "approve"}] if then else []
        state = {"f:text": {"v": {"value": text}}, "then": {"v": {"selected_options": options}}}
        self.harness.arrive(lambda key: submission(key, "edit_call", about, state, person))

    @rule(
        text=st.sampled_from(["something else", "again", "cancel"]),
        thread=st.sampled_from(["1.0", "2.0", "2.0"]),
    )
    def say(self, text: str, thread: str) -> None:
        """The requester writes again: the plan is remade, the run cancelled, or a new one begun."""
        self.harness.say(text, thread)

    @rule(
        pick=which,
        action=st.sampled_from(["cancel_run", "retry"]),
        person=st.sampled_from([BEN, BEN, ANA]),
    )
    def button_of_a_run(self, pick: int, action: str, person: str) -> None:
        """Stop or Retry."""
        found = self.harness.all()[0]
        run = found[pick % len(found)]
        self.harness.arrive(lambda key: click(key, action, run.id, person))

    # What the world does.

    @rule(script=st.lists(steps, min_size=1, max_size=2))
    def think(self, script: list[Any]) -> None:
        """What the model will do next."""
        self.harness.model.script.extend(script)

    @rule(minutes=st.sampled_from([1, 1, 30, 60, 600]))
    def time_passes(self, minutes: int) -> None:
        """The clock goes on; nobody looks yet."""
        self.harness.clock.at += timedelta(minutes=minutes)

    @rule()
    def tick(self) -> None:
        """The loop looks; no worker has time."""
        self.harness.loop.tick()

    @rule(outcome=outcomes, die=deaths)
    def execute(self, outcome: str, die: str) -> None:
        """The loop looks, the workers do all there is to do.

        The process may die around the next effect.
        """
        self.harness.outcome, self.harness.pool.die = outcome, die
        self.tick_and_work()
        self.harness.outcome, self.harness.pool.die = "returns", ""

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(outcome=outcomes, die=deaths, everything=st.booleans())
    def approve_and_execute(self, outcome: str, die: str, everything: bool) -> None:
        """A good approval of one call or of all, and work at once.

        The process may die around the next effect.
        """
        for call in self.calls(C.PENDING)[: None if everything else 1]:
            value = f"{call.id}:{call.revision}"
            self.harness.arrive(lambda key, value=value: click(key, "approve", value, ANA))  # type: ignore[misc] # mypy cannot tell a lambda with a default
        self.harness.outcome, self.harness.pool.die = outcome, die
        self.tick_and_work()
        self.harness.outcome, self.harness.pool.die = "returns", ""

    @precondition(lambda self: self.calls(C.UNKNOWN))
    @rule(
        person=people,
        pick=which,
        action=st.sampled_from(["resolve_done", "resolve_not_done", "run_again"]),
    )
    def resolve(self, person: str, pick: int, action: str) -> None:
        """A person says what became of a call that may or may not have happened."""
        found = self.calls(C.UNKNOWN)
        call = found[pick % len(found)]
        self.harness.arrive(lambda key: click(key, action, f"{call.id}:{call.revision}", person))

    @rule()
    def restart(self) -> None:
        """The process ends between two transactions and a new one begins."""
        self.harness.stop()
        self.harness.start()

    # The promises.

    @invariant()
    def the_promises_hold(self) -> None:
        """All of it, after every step, on one look at the rows."""
        found, proposed, told, _ = self.harness.all()
        self.nothing_ran_that_was_not_approved(proposed, told)
        self.what_ended_without_running_stays_so(proposed, told)
        # 7: at each model turn so far, each call had exactly one output
        assert self.harness.model.wrong == []
        # each row's status is where its audit rows lead, one step after the other
        for call in proposed:
            assert walked(call, told) == call.status, call
        for run in found:
            assert walked(run, told) == run.status, run
        self.nobody_waits_for_nobody(found, proposed)
        with self.harness.store.read() as tx:
            assert audit.verify(tx) is None

    def nothing_ran_that_was_not_approved(self, proposed: list[Call], told: list[Audit]) -> None:
        """1, 2, 5: what ran was RUNNING, with the arguments shown, on a good vote or by policy,
        once per approval.
        """
        assert self.harness.wrong == []
        approvals = Counter(
            a.call_id for a in told if a.event in ("call.approved", "call.born.approved")
        )
        for call in proposed:
            ran = self.harness.effects[call.id]
            # idempotent: a crash may repeat these, under the same key
            if call.tool not in ("put", "peek"):
                assert ran <= approvals[call.id], call
            assert not ran or approvals[call.id], call

    def what_ended_without_running_stays_so(self, proposed: list[Call], told: list[Audit]) -> None:
        """2, 4: after a rejection, an expiry and the like nothing starts."""
        over: set[str] = set()
        for row in told:
            assert not (row.event == "call.running" and row.call_id in over), row
            over |= {row.call_id} if row.event in NEVER_AGAIN else set()
        for call in proposed:
            if call.status in (C.REJECTED, C.EXPIRED, C.SUPERSEDED, C.INVALIDATED, C.REFUSED):
                assert not self.harness.effects[call.id], call

    def nobody_waits_for_nobody(self, found: list[Run], proposed: list[Call]) -> None:
        """3: a run waits only while a person has something to decide.

        Decided runs are ready to go on.
        """
        asked = {call.run_id for call in proposed if calls.waits(call)}
        for run in found:
            assert run.status is not R.WAITING or run.id in asked, run

    def teardown(self) -> None:
        """3, 4: left alone for long enough, everything comes to an end, and every call with its one
        output.
        """
        if not hasattr(self, "harness"):
            return
        try:
            self.harness.pool.die, self.harness.model.script = "", []
            for _ in range(6):
                self.tick_and_work()
                self.harness.clock.at += timedelta(days=1)
            for run in self.harness.all()[0]:
                assert run.status not in RUN_OPEN, run
                if run.status is not R.FAILED:
                    self.told_once(run)
            assert not self.calls(C.PENDING, C.RUNNING)
        finally:
            self.harness.stop()
            shutil.rmtree(self.folder)

    def told_once(self, run: Run) -> None:
        """Each call of a run that ended has its output in the transcript, and is settled."""
        with self.harness.store.read() as tx:
            items = runs.transcript(tx, run)
        told = Counter(
            item["call_id"] for item in items if item.get("type") == "function_call_output"
        )
        for call in self.harness.all()[1]:
            if call.run_id == run.id:
                assert told[call.provider_id] == 1, call
                assert call.status in CALL_FINAL or call.status is C.UNKNOWN, call


def walked(row: Call | Run, told: list[Audit]) -> str:
    """Where the audit's rows lead; each has to begin where the one before ended."""
    at = ""
    ids = (row.run_id, row.id) if isinstance(row, Call) else (row.id, "")
    for each in told:
        if (each.run_id, each.call_id) != ids:
            continue
        if each.event.startswith(("call.born.", "run.born")):
            assert at == ""
            at = each.event.removeprefix("call.born.") if isinstance(row, Call) else "ready"
        elif "to" in (data := json.loads(each.data)):
            assert data["from"] == at, each
            at = data["to"]
    return at


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
