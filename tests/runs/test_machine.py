"""The promises hold over any order of clicks, edits, words, deadlines, crashes and restarts."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import (
    CallTarget,
    CardTarget,
    DialogSubject,
    RunTarget,
    Target,
    encode_button_value,
    encode_dialog_metadata,
)
from storage import calls, outbox
from storage.models import Call, Message
from storage.states import CallStatus, MessageKind, MessageStatus
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.runs.harness import Crash, LoopHarness
from tests.runs.promises import check_all_ended, check_promises
from tests.storage.builders import click, submission

C = CallStatus
people = st.sampled_from([ANA, CLEO, ANA, CLEO, BEN, DAN])
which = st.integers(0, 30)
tools = st.sampled_from(["note", "note", "wipe", "put", "free", "peek", "desk", "invented"])
proposals = st.lists(st.tuples(tools, st.sampled_from(["a", "b", "c"])), min_size=1, max_size=3)
outcomes = st.sampled_from(["returns", "returns", "refuses", "raises", "loses"])
seldom = st.sampled_from([False, False, True])
deaths = st.sampled_from(["", "", "", "before", "after"])  # before or after the effect
BACK = ("replace_waiting_plan", "")  # while calls wait: withdraws them, with or without new ones
steps = st.one_of(
    proposals,
    proposals,
    st.sampled_from(["answer", "crash", "fail", [BACK, ("note", "c")], [BACK]]),
)
BEGINNINGS = (  # one call that asks, or several on one card
    [("note", "a"), ("peek", "b")],
    [("note", "a"), ("wipe", "b"), ("put", "c")],
    [("desk", "a"), ("desk", "b")],  # two sub-agents at once
)


class Machine(RuleBasedStateMachine):
    """One workspace with one or two threads, and any order of events."""

    @initialize(first=st.sampled_from(BEGINNINGS), script=st.lists(steps, max_size=3))
    def begin(self, first: list[tuple[str, str]], script: list[Any]) -> None:
        """Somebody asks for something."""
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.harness = LoopHarness(self.folder / "db")
        self.harness.model.script = [first, *script]
        self.harness.say("please")
        self.tick_and_work()

    def calls(self, *statuses: CallStatus) -> list[Call]:
        """The calls in one of these statuses."""
        return [call for call in self.harness.all()[1] if call.status in statuses]

    def tick_and_work(self) -> None:
        """The loop ticks, the workers work; when they die, a new process starts."""
        self.harness.loop.tick()
        try:
            self.harness.work()
        except Crash:
            self.restart()

    def click(self, action: Action, target: Target, person: str) -> None:
        """Store a click on a button, as the card has it."""
        self.harness.arrive(lambda key: click(key, action, encode_button_value(target), person))

    def submit(self, about: DialogSubject, state: dict[str, Any], person: str) -> None:
        """Store a submitted dialog."""
        metadata = json.loads(encode_dialog_metadata(about))
        self.harness.arrive(lambda key: submission(key, about.dialog, metadata, state, person))

    def cards(self, *, settled: bool = False) -> list[Message]:
        """The cards with something to decide; with `settled`, all cards."""
        waiting = {call.plan_id for call in self.calls(C.PENDING)}
        cards = [row for row in self.harness.all()[3] if row.kind is MessageKind.CARD]
        return [row for row in cards if settled or row.plan_id in waiting]

    def all_of(self, card: Message) -> CardTarget:
        """The target of Approve all on this card, as the card is drawn now."""
        if card.status is not MessageStatus.SENT:
            self.harness.post(card)
        with self.harness.store.read() as tx:
            on_it = outbox.list_call_ids_on_card(tx, card.plan_id, card.seq or 0)
            waiting = [
                each for each in calls.list_calls_of_plan(tx, card.plan_id) if each.id in on_it
            ]
        assert card.seq is not None
        shown = [each for each in waiting if each.status is C.PENDING]
        return CardTarget(card.plan_id, calls.compute_card_revision(shown), card.seq)

    # What people do: each is only stored; a tick handles it.

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(
        person=people,
        pick=which,
        old=st.booleans(),
        verb=st.sampled_from(["approve", "approve", "reject"]),
    )
    def vote(self, person: str, pick: int, old: bool, verb: str) -> None:
        """A click on Approve, or a reason for a rejection, sometimes from an outdated card."""
        pending = self.calls(C.PENDING)
        call = pending[pick % len(pending)]
        target = CallTarget(call.id, max(1, call.revision - old))
        if verb == "approve":
            self.click(Action.APPROVE, target, person)
            return
        state = {
            "words": {"text": {"value": "no"}},
            "reason": {"preset": {"selected_option": {"value": "other"}}},
        }
        self.submit(DialogSubject(DialogId.REJECT, target), state, person)

    @rule(
        person=people,
        pick=which,
        action=st.sampled_from([Action.APPROVE, Action.RESOLVE_DONE, Action.RUN_AGAIN]),
    )
    def late_click(self, person: str, pick: int, action: Action) -> None:
        """A click on any card."""
        found = self.harness.all()[1]
        call = found[pick % len(found)]
        self.click(action, CallTarget(call.id, call.revision), person)

    @rule(person=people, pick=which, late=seldom, stale=seldom)
    def approve_all(self, person: str, pick: int, late: bool, stale: bool) -> None:
        """A click on Approve all of a card, as it is drawn now or as it was before a change.

        A late one is on any card.
        """
        cards = self.cards(settled=late)
        if cards:
            target = self.all_of(cards[pick % len(cards)])
            self.click(
                Action.APPROVE_ALL, replace(target, revision=target.revision - stale), person
            )

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(
        person=people,
        pick=which,
        text=st.sampled_from(["a", "edited", "x" * 501]),
        then=st.booleans(),
    )
    def edit(self, person: str, pick: int, text: str, then: bool) -> None:
        """A submitted edit, sometimes with an approval, sometimes invalid."""
        pending = self.calls(C.PENDING)
        call = pending[pick % len(pending)]
        about = DialogSubject(DialogId.EDIT, CallTarget(call.id, call.revision))
        options = [{"value": "approve"}] if then else []
        state = {"f:text": {"v": {"value": text}}, "then": {"v": {"selected_options": options}}}
        self.submit(about, state, person)

    @rule(
        text=st.sampled_from(["something else", "again", "cancel"]),
        thread=st.sampled_from(["1.0", "2.0", "2.0"]),
    )
    def say(self, text: str, thread: str) -> None:
        """The requester writes again: it is answered, the run cancelled, or a new one begun."""
        self.harness.say(text, thread)

    @rule(
        pick=which,
        action=st.sampled_from([Action.CANCEL_RUN, Action.RETRY]),
        person=st.sampled_from([BEN, BEN, ANA]),
    )
    def button_of_a_run(self, pick: int, action: Action, person: str) -> None:
        """Stop or Retry."""
        found = self.harness.all()[0]
        run = found[pick % len(found)]
        self.click(action, RunTarget(run.id), person)

    # What the world does.

    @rule(script=st.lists(steps, min_size=1, max_size=2))
    def think(self, script: list[Any]) -> None:
        """The model's next steps."""
        self.harness.model.script.extend(script)

    @rule(minutes=st.sampled_from([1, 1, 30, 60, 600]))
    def time_passes(self, minutes: int) -> None:
        """The clock goes on without a tick."""
        self.harness.clock.at += timedelta(minutes=minutes)

    @rule()
    def tick(self) -> None:
        """The loop ticks; no worker works."""
        self.harness.loop.tick()

    @rule(outcome=outcomes, die=deaths)
    def execute(self, outcome: str, die: str) -> None:
        """The loop ticks, the workers do all work; the process may die around the next effect."""
        self.harness.outcome, self.harness.pool.die = outcome, die
        self.tick_and_work()
        self.harness.outcome, self.harness.pool.die = "returns", ""

    @precondition(lambda self: self.calls(C.PENDING))
    @rule(outcome=outcomes, die=deaths, extent=st.sampled_from(["one call", "each call", "all"]))
    def approve_and_execute(self, outcome: str, die: str, extent: str) -> None:
        """Ana approves one call, each call or whole cards, and the workers work at once.

        The process may die around the next effect.
        """
        for card in self.cards() if extent == "all" else []:
            self.click(Action.APPROVE_ALL, self.all_of(card), ANA)
        pending = self.calls(C.PENDING) if extent != "all" else []
        for call in pending[: 1 if extent == "one call" else None]:
            self.click(Action.APPROVE, CallTarget(call.id, call.revision), ANA)
        self.harness.outcome, self.harness.pool.die = outcome, die
        self.tick_and_work()
        self.harness.outcome, self.harness.pool.die = "returns", ""

    @precondition(lambda self: self.calls(C.UNKNOWN))
    @rule(
        person=people,
        pick=which,
        action=st.sampled_from(
            [Action.RESOLVE_DONE, Action.RESOLVE_NOT_DONE, Action.RUN_AGAIN],
        ),
    )
    def resolve(self, person: str, pick: int, action: Action) -> None:
        """A person records how an unknown call ended."""
        found = self.calls(C.UNKNOWN)
        call = found[pick % len(found)]
        self.click(action, CallTarget(call.id, call.revision), person)

    @rule()
    def restart(self) -> None:
        """The process ends between two transactions and a new one starts."""
        self.harness.stop()
        self.harness.start()

    # The promises.

    @invariant()
    def the_promises_hold(self) -> None:
        """All of them hold after every step, on one reading of the rows."""
        check_promises(self.harness)

    def teardown(self) -> None:
        """Without further events everything ends, and every call has one output."""
        if not hasattr(self, "harness"):
            return
        try:
            self.harness.pool.die, self.harness.model.script = "", []
            for _ in range(6):
                self.tick_and_work()
                self.harness.clock.at += timedelta(days=1)
            check_all_ended(self.harness)
        finally:
            self.harness.stop()
            shutil.rmtree(self.folder)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=settings.default.max_examples // 3,
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
