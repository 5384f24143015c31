"""Writes earlier requests of a thread, for a history of a given length."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import insert

from bench.fakes import CHANNEL, TEAM, choose_requester
from storage.columns import get_column_values
from storage.models import Call, Item, Plan, Run
from storage.states import CallStatus, RunStatus
from storage.store import Store

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
    plans, made, entries = [], [], []
    for number in range(items):
        if number % 4 == 1:
            plan = Plan(run_id=run.id, turn=number, answered=True, created_at=at)
            plans.append(get_column_values(plan))
            made.append(get_column_values(_call(plan, _call_id(thread, number), at)))
        row = Item(
            run_id=run.id,
            body=json.dumps(_entry(thread, number)),
            created_at=at,
        )
        entries.append(get_column_values(row))
    with store.write() as tx:
        for model, many in (
            (Run, [get_column_values(run)]),
            (Plan, plans),
            (Call, made),
            (Item, entries),
        ):
            for each in many:
                tx.execute(insert(model), each)


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
