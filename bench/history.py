"""Writes earlier requests of a thread, for a history of a given length."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlmodel import SQLModel

from bench.fakes import CHANNEL, TEAM, choose_requester
from storage.models import Call, Item, Plan, Run
from storage.states import CallStatus, RunStatus
from storage.store import Store
from storage.transaction import insert_row

WORDS = "Some words about an order that somebody wanted looked after, as people write them. " * 2


def write_history(store: Store, thread: str, items: int, at: datetime) -> None:
    """Write one finished run with `items` transcript items; every fourth is a call."""
    run = Run(
        team=TEAM,
        channel=CHANNEL,
        thread_ts=thread,
        requester=choose_requester(thread),
        status=RunStatus.COMPLETED,
        created_at=at,
        updated_at=at,
    )
    run.root_id = run.id
    rows: list[SQLModel] = [run]
    for number in range(items):
        if number % 4 == 1:
            plan = Plan(run_id=run.id, turn=number, answered=True, created_at=at)
            rows += [plan, _call(plan, _call_id(thread, number), at)]
        entry = json.dumps(_entry(thread, number))
        rows.append(Item(run_id=run.id, body=entry, created_at=at))
    with store.write() as tx:
        for row in rows:
            insert_row(tx, row)


def _call(plan: Plan, provider_id: str, at: datetime) -> Call:
    return Call(
        run_id=plan.run_id,
        plan_id=plan.id,
        position=0,
        provider_id=provider_id,
        tool="note_asked",
        status=CallStatus.SUCCEEDED,
        created_at=at,
    )


def _call_id(thread: str, number: int) -> str:
    """Return the id of the call that item `number` is or belongs to."""
    return f"call_{thread}_{number - number % 4 + 1}"


def _entry(thread: str, number: int) -> dict[str, Any]:
    """Return a request, a call, its output or an answer, in turn; about 200 bytes each."""
    call_id = _call_id(thread, number)
    match number % 4:
        case 0:
            return {"role": "user", "content": WORDS}
        case 1:
            return {
                "type": "function_call",
                "call_id": call_id,
                "name": "note_asked",
                "arguments": json.dumps({"order_id": 1042, "text": WORDS[:80]}),
            }
        case 2:
            return {"type": "function_call_output", "call_id": call_id, "output": WORDS}
        case _:
            answer = {"type": "output_text", "text": WORDS}
            return {"type": "message", "role": "assistant", "content": [answer]}
