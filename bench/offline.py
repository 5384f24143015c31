"""Countersign without Slack and without a model: the real store, policy, worker, executor and
decisions; the model is a stub at the planner's interface, people are a fixed list, and what would
be said to Slack stays in the outbox.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import insert

from bench.fakes import APPROVER, ASKER, CHANNEL, TEAM, People, Quiet, Stub
from bot.approvals.clicks import Clicks
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.core import Core
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.current import CurrentPolicy
from bot.policy.evaluate import parse
from bot.runs.worker import Worker
from bot.tools import Effect, Registry, ToolContext, tool
from storage import inbox, moves, runs
from storage.columns import values
from storage.digest import load_key
from storage.models import Call, Delivery, Item, Run
from storage.models import Plan as PlanRow
from storage.states import CallStatus, DeliveryKind, RunStatus
from storage.store import Store

POLICY = (
    f'[defaults]\napprovers = ["{APPROVER}"]\n[[rule]]\ntool = ["note_freely"]\nverdict = "allow"\n'
)


class Note(BaseModel):
    """What the tool is given."""

    order_id: int = Field(title="Order")
    text: str = Field(title="Text", max_length=500)


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_asked(args: Note, context: ToolContext) -> str:
    """Does nothing, at once."""
    return "noted"


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_freely(args: Note, context: ToolContext) -> str:
    """The same, under a rule that allows it."""
    return "noted"


class Bench:
    """One life of the process on the database in `folder`; `again` is the next."""

    def __init__(self, folder: Path) -> None:
        """Opens or makes the database and everything on top of it."""
        self.folder = folder
        (folder / "policy.toml").write_text(POLICY)
        self.store = Store(f"sqlite:///{folder / 'countersign.db'}").open()
        self.clock = SystemClock()
        self._pool = ThreadPoolExecutor(8)
        self.core = self._core()

    def _core(self) -> Core:
        settings = Settings.load(
            {
                "SLACK_BOT_TOKEN": "xoxb-bench-bench",
                "SLACK_APP_TOKEN": "xapp-1-bench-bench",
                "OPENAI_API_KEY": "offline",
                "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
                "COUNTERSIGN_MAX_ASKED_PER_HOUR": "1000000",
                "COUNTERSIGN_MAX_TOKENS_PER_DAY": "1000000000",
            }
        )
        registry, people = Registry(), People()
        registry.add(note_asked, note_freely)
        return Core(
            settings=settings,
            store=self.store,
            clock=self.clock,
            policy=CurrentPolicy(parse(POLICY)),
            tools=registry,
            key=load_key(self.folder / "countersign.db.key"),
            identity=Identity(TEAM, "U0BOT00001", "B0BOT00001"),
            authority=Authority(people, TEAM),
            directory=people,
        )

    def worker(self, model: Stub, executor: Any = None) -> Worker:
        """A worker that has never seen a run."""
        executor = executor or self.core.executor(self._pool, _no_portal)
        return self.core.worker(model, executor, Quiet(), Quiet, Quiet())  # type: ignore[arg-type]  # a stub of Planner

    def deciding(self) -> Clicks:
        """What decides clicks."""
        return self.core.clicks()

    def again(self) -> Bench:
        """Everything closed, and opened anew from the files."""
        self.close()
        return Bench(self.folder)

    def close(self) -> None:
        """End this life."""
        self._pool.shutdown()
        self.store.close()

    def ask(self, thread: str) -> Run:
        """A request in that thread, READY for a worker."""
        now = self.clock.now()
        run = Run(
            team=TEAM,
            channel=CHANNEL,
            thread_ts=thread,
            requester=ASKER,
            created_at=now,
            updated_at=now,
        )
        with self.store.write() as tx:
            moves.started(tx, run, at=now)
            runs.append(
                tx, run, {"role": "user", "content": "Please refund 40 EUR of order 1042"}, at=now
            )
        return run

    def click(self, call: Call) -> Delivery:
        """The approver's click on this call's Approve, as the listener makes a row of it."""
        body = {
            "type": "block_actions",
            "user": {"id": APPROVER, "team_id": TEAM},
            "team": {"id": TEAM},
            "channel": {"id": CHANNEL},
            "actions": [{"action_id": "approve", "value": f"{call.id}:{call.revision}"}],
        }
        return Delivery(
            key=f"action:{call.id}",
            kind=DeliveryKind.ACTION,
            team=TEAM,
            user=APPROVER,
            channel=CHANNEL,
            body=json.dumps(body),
        )

    def store_click(self, delivery: Delivery) -> Delivery:
        """Before it would be acknowledged; returns it as the loop reads it."""
        with self.store.write() as tx:
            delivery.received_at = self.clock.now()
            inbox.store(tx, delivery)
        with self.store.read() as tx:
            [*_, arrived] = inbox.new(tx)
        return arrived

    def history(self, thread: str, items: int) -> None:
        """Earlier requests in that thread: `items` entries of its transcript, every second round
        with a call.
        """
        now = self.clock.now()
        run = Run(
            team=TEAM,
            channel=CHANNEL,
            thread_ts=thread,
            requester=ASKER,
            created_at=now,
            updated_at=now,
        )
        run.status = RunStatus.COMPLETED
        plans, made, entries = [], [], []
        for number in range(items):
            if number % 4 == 1:
                plan = PlanRow(run_id=run.id, turn=number, answered=True, created_at=now)
                call_id = f"call_{thread}_{number}"
                call = Call(
                    run_id=run.id,
                    plan_id=plan.id,
                    position=0,
                    provider_id=call_id,
                    tool="note_asked",
                )
                call.status, call.created_at = CallStatus.SUCCEEDED, now
                plans.append(values(plan))
                made.append(values(call))
            body = json.dumps(_entry(thread, number))
            row = Item(
                team=TEAM,
                channel=CHANNEL,
                thread_ts=thread,
                run_id=run.id,
                body=body,
                created_at=now,
            )
            entries.append(values(row))
        with self.store.write() as tx:
            for model, many in (
                (Run, [values(run)]),
                (PlanRow, plans),
                (Call, made),
                (Item, entries),
            ):
                if many:
                    tx.execute(insert(model), many)


def _entry(thread: str, number: int) -> dict[str, Any]:
    """One entry: a request, a call, its output, an answer, in turn; some 200 bytes each."""
    words = (
        "Some words about an order that somebody wanted looked after, as people write them. " * 2
    )
    call_id = f"call_{thread}_{number - number % 4 + 1}"
    match number % 4:
        case 0:
            return {"role": "user", "content": words}
        case 1:
            arguments = json.dumps({"order_id": 1042, "text": words[:80]})
            return {
                "type": "function_call",
                "call_id": call_id,
                "name": "note_asked",
                "arguments": arguments,
            }
        case 2:
            return {"type": "function_call_output", "call_id": call_id, "output": words}
        case _:
            return {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": words}],
            }


def _no_portal() -> Any:
    raise AssertionError("no tool here is asynchronous")
