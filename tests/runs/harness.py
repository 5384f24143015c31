"""The real loop, worker and executor with a scripted model, and tools that kill the process.

`Crash` stands for the process dying at that point: nothing in the product catches it, and all that
is not committed is lost. People come from a fake directory; there is no Slack.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlmodel import col

from bot.agent.turn import FunctionCall, PlannerError, Proposal, Reply
from bot.cards.answers import EMPTY_FOOTER, ModelAnswerFooter
from bot.policy.gates import Allow, load_gate
from bot.runs.worker_pool import WorkerPool
from bot.tools import ToolContext, ToolError
from storage import calls, inbox, moves, runs
from storage.models import Audit, Call, Delivery, Message, Run, Vote
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import Transaction, fetch_rows
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, BOT, FakeDirectory, Note, StillClock, make_core, make_tools
from tests.storage.builders import TEAM, click


class Crash(BaseException):
    """The process dies here."""


class DyingPool(Executor):
    """Runs a tool on the caller's thread; crashes before or after it if `die` says so."""

    def __init__(self) -> None:
        self.die = ""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it now."""
        die, self.die = self.die, ""
        if die == "before":
            raise Crash
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as a pool keeps what a tool raised
            future.set_exception(error)
        if die == "after":
            raise Crash
        return future


class FakeModel:
    """Proposes the next step of `script`, or answers; checks every transcript that it gets."""

    def __init__(self) -> None:
        self.script: list[list[tuple[str, str]] | str] = []
        self.turns = 0
        self.wrong: list[str] = []

    compaction_server_id = ""

    def compact_items(self, items: object, instructions: str) -> None:
        """Its server cannot compact."""

    def take_turn(
        self, transcript: Sequence[dict[str, Any]], tools: object, words: str, sink: object
    ) -> Reply | Proposal:
        """See bot.agent.planner.Planner."""
        self.turns += 1
        kinds = ("function_call", "function_call_output")
        asked, told = ([i["call_id"] for i in transcript if i.get("type") == k] for k in kinds)
        if Counter(asked) != Counter(told) or len(set(asked)) != len(asked):
            self.wrong.append(f"asked {asked}, told {told}")
        waiting: set[str] = set()
        for item in transcript:
            if item.get("type") == "function_call":
                waiting.add(item["call_id"])
            waiting -= {item["call_id"]} if item.get("type") == "function_call_output" else set()
            if item.get("role") == "user" and waiting:
                self.wrong.append(f"{waiting} had no output before somebody wrote")
        step = self.script.pop(0) if self.script else "answer"
        if step == "crash":
            raise Crash
        if step == "fail":
            raise PlannerError("The model had enough.")
        if isinstance(step, str):
            return Reply("Done.", [{"role": "assistant", "content": "Done."}], 1)
        items = [
            {
                "type": "function_call",
                "call_id": f"p{self.turns}_{index}",
                "name": name,
                "arguments": json.dumps({"text": text}),
            }
            for index, (name, text) in enumerate(step)
        ]
        proposed = [
            FunctionCall(i["call_id"], i["name"], i["arguments"], n) for n, i in enumerate(items)
        ]
        return Proposal("", proposed, list(items), 1)


class SilentThread:
    """Answer, Presence and Thread for runs whose thread nobody reads."""

    def __init__(self, harness: LoopHarness) -> None:
        self._harness = harness

    def add_messages_to_transcript(self, run: Run) -> None:
        """Append the held messages as items."""
        with self._harness.store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            for each in inbox.list_messages_held_for_run(tx, run.id):
                runs.append_transcript_item(
                    tx, held, {"role": "user", "content": each.key}, at=self._harness.clock.now()
                )
                inbox.mark_delivery_done(tx, each, "taken")

    def write(self, text: str) -> None:
        """Nobody reads it."""

    def discard_text(self) -> None:
        """Nothing to take back."""

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Nothing to post."""

    def close_failed_answer(self) -> None:
        """Nothing to close."""

    def show_working(self, run: Run) -> None:
        """Nobody looks."""

    show_waiting = show_done = show_working


class LoopHarness:
    """The product without its edges, on one database file; it can be restarted at any time."""

    def __init__(self, path: Path, **limits: int) -> None:
        self.limits = limits
        self.path, self.clock, self.directory, self.model = (
            path,
            StillClock(),
            FakeDirectory(),
            FakeModel(),
        )
        self.pool = DyingPool()
        self.effects: Counter[str] = Counter()  # call id -> how often its effect happened
        self.wrong: list[str] = []  # what a tool found wrong when it ran
        self.outcome = "returns"  # of the next effect: returns, refuses, raises, loses
        self.meanwhile: Callable[[], object] = lambda: None  # called with each effect
        self.returned = ""  # the result of each effect; "": its argument
        self.number = 0
        self.over: list[str] = []  # runs that a start reported as ended
        self.store = store_of(path)
        self.start()

    def start(self) -> None:
        """A new process starts on the database."""
        self.store = self.opened()
        tools = make_tools(self._act)
        self.core = make_core(self.store, self.clock, self.directory, tools, **self.limits)
        quiet: Any = SilentThread(self)
        no_portal: Any = None  # no tool here is asynchronous
        executor = self.core.build_executor(self.pool, no_portal)
        model: Any = self.model
        self.worker = self.core.build_worker(model, executor, quiet, lambda _: quiet, quiet)
        intake = self.core.build_intake(lambda _: False, lambda _: None)
        self.loop = self.core.build_loop(
            intake, WorkerPool(lambda *_: None, 1, self.core.signals), lambda _: None
        )
        self.core.build_restored_record_settler(
            lambda run: self.over.append(run.id)
        ).settle_work_if_restored()
        self.loop.reclaim_orphaned_runs()

    def opened(self) -> Store:
        """The record, as a process opens it."""
        return store_of(self.path).open()

    def stop(self) -> None:
        """The process ends, properly or not: only the file remains."""
        self.loop.stop(1)
        self.store.close()

    def arrive(self, make: Callable[[str], Delivery]) -> None:
        """Store a delivery with a key of its own, now."""
        self.number += 1
        row = make(f"msg:{TEAM}:C0SUPPORT:{self.number}")
        row.received_at = self.clock.now()
        with self.store.write() as tx:
            inbox.insert_delivery(tx, row)

    def say(self, text: str, thread: str = "1.0", person: str = BEN) -> None:
        """A message to the bot arrives."""

        def make(key: str) -> Delivery:
            number = int(key.rsplit(":", 1)[1])
            event = {
                "type": "message",
                "user": person,
                "channel": "C0SUPPORT",
                "ts": f"{self.clock.now().timestamp():.0f}.{number:06d}",
                "text": f"<@{BOT}> {text}",
            }
            return Delivery(
                key=key,
                kind="message",
                team=TEAM,
                user=person,
                channel="C0SUPPORT",
                thread_ts=thread,
                body=json.dumps({"event": event}),
            )

        self.arrive(make)

    def work(self) -> None:
        """Workers advance every run that is ready until none is; a Crash passes through."""
        for _ in range(50):
            with self.store.read() as tx:
                ready = [each.run_id for each in runs.list_ready_runs(tx)]
            if not ready:
                return
            for run_id in ready:
                self.worker.advance_run(run_id)
        raise AssertionError("runs keep being ready")

    def _act(self, name: str, args: Note, context: ToolContext) -> str:
        """The tools' effect, which also checks the rows that it runs on."""
        self._check_rows(name, args, context.call_id)
        self.effects[context.call_id] += 1
        self.meanwhile()
        if self.effects[context.call_id] > 20:
            raise Crash  # otherwise endless
        outcome, self.outcome = self.outcome, "returns"
        if outcome == "refuses":
            raise ToolError("no")
        if outcome == "raises":
            raise RuntimeError("boom")
        if outcome == "loses":
            raise ConnectionResetError("gone")
        return self.returned or args.text

    def _check_rows(self, name: str, args: Note, call_id: str) -> None:
        with self.store.read() as tx:
            shown = calls.find_call_with_revision(tx, call_id)
            assert shown is not None
            votes = calls.list_votes_on_revision(tx, call_id, shown.call.revision)
            run = runs.find_run(tx, shown.call.run_id)
            editors = calls.list_editors(tx, call_id)
        assert run is not None
        call = shown.call
        if call.status is not CallStatus.RUNNING:
            self.wrong.append(f"{name} ran while {call.status}")
        if (call.tool, shown.arguments) != (name, args.model_dump()):
            self.wrong.append(f"{name} ran with {args}, shown was {shown.arguments}")
        if isinstance(load_gate(call.gate), Allow):
            return
        good = self.directory.groups["shop-leads"] - {run.requester} - editors
        if not any(
            v.verb == "approve" and v.digest == call.digest and v.person in good for v in votes
        ):
            self.wrong.append(f"{name} ran on {votes}")

    def all(self) -> tuple[list[Run], list[Call], list[Audit], list[Message]]:
        """Every run, call, audit row and message."""
        with self.store.read() as tx:
            return (
                fetch_rows(tx, Run, select(Run)),
                fetch_rows(
                    tx, Call, select(Call).order_by(col(Call.created_at), col(Call.position))
                ),
                fetch_rows(tx, Audit, select(Audit).order_by(col(Audit.seq))),
                fetch_rows(tx, Message, select(Message)),
            )

    def votes(self, call_id: str, revision: int) -> list[Vote]:
        """The votes on one revision of a call."""
        with self.store.read() as tx:
            return calls.list_votes_on_revision(tx, call_id, revision)

    def post(self, row: Message) -> None:
        """Slack shows this card now."""
        with self.store.write() as tx:
            moves.record_message_version_in_slack(tx, row, ts=f"9{row.seq}.0", version=row.wanted)


def approved(path: Path, name: str = "note") -> LoopHarness:
    """A request whose one call was approved by Ana, and has not started yet."""
    made = LoopHarness(path)
    made.model.script = [[(name, "as shown")]]
    made.say("please")
    made.loop.tick()
    made.work()
    call = made.all()[1][0]
    made.arrive(lambda key: click(key, "approve", f"{call.id}:1", ANA))
    made.loop.tick()
    assert made.all()[1][0].status is CallStatus.APPROVED
    return made


def interrupted(path: Path, name: str) -> LoopHarness:
    """A request whose approved call ran in a process that died before it stored the result.

    It is started again.
    """
    made = approved(path, name)
    made.pool.die = "after"
    with pytest.raises(Crash):
        made.work()
    made.stop()
    made.start()
    return made
