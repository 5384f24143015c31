"""The one door for status: every move of a call or a run is one guarded update, its audit row
beside it.

Each function returns True when it moved the row and False when another move was first; nobody else
may write a status column. A move not in `storage.states` raises IllegalMoveError: a bug, never a
race.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, update
from sqlmodel import col

from storage import audit, outbox
from storage.models import Call, Plan, Run, values
from storage.states import (
    CALL_BIRTHS,
    CALL_MOVES,
    RUN_BIRTHS,
    RUN_MOVES,
    CallStatus,
    IllegalMoveError,
    RunStatus,
    check,
)
from storage.transaction import Transaction, insert_into

_TOUCH = (
    update(Plan).where(col(Plan.id) == bindparam("id_")).values(revision=col(Plan.revision) + 1)
)


@cache
def _swap(model: type[Call] | type[Run], held: tuple[str, ...], columns: tuple[str, ...]) -> Update:
    """The guarded update: where what `held` names (with a _ behind) still holds, write `columns`.

    Built once each.
    """
    where = [col(getattr(model, name[:-1])) == bindparam(name) for name in held]
    return update(model).where(*where).values({name: bindparam(name) for name in columns})


class FencedError(Exception):
    """Another worker has taken the run meanwhile; what this one holds is stale."""


def call(
    tx: Transaction,
    row: Call,
    target: CallStatus,
    *,
    at: datetime,
    actor: str,
    event: str = "",
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> bool:
    """Move a call from the status `row` was read with to `target`; cards are drawn again."""
    check(CALL_MOVES, row.status, target)
    held = {"id_": row.id, "status_": row.status, "revision_": row.revision}
    if (
        tx.execute(
            _swap(Call, tuple(held), ("status", *columns)), {**held, "status": target, **columns}
        ).rowcount
        != 1
    ):
        return False
    details = {
        "from": row.status,
        "to": target,
        "tool": row.tool,
        "revision": row.revision,
        **(data or {}),
    }
    audit.record(
        tx,
        event or f"call.{target}",
        at=at,
        actor=actor,
        run_id=row.run_id,
        call_id=row.id,
        data=details,
    )
    touch(tx, row.plan_id)
    return True


def born(
    tx: Transaction, row: Call, *, at: datetime, actor: str, data: Mapping[str, Any] | None = None
) -> None:
    """Insert a new call, with its audit row."""
    if row.status not in CALL_BIRTHS:
        raise IllegalMoveError(f"a call is not born {row.status}")
    tx.execute(insert_into(Call), values(row))
    details = {"tool": row.tool, "digest": row.digest, "revision": row.revision, **(data or {})}
    audit.record(
        tx,
        f"call.born.{row.status}",
        at=at,
        actor=actor,
        run_id=row.run_id,
        call_id=row.id,
        data=details,
    )


def run(
    tx: Transaction,
    row: Run,
    target: RunStatus,
    *,
    at: datetime,
    actor: str = "worker",
    fence: int | None = None,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> bool:
    """Move a run from the status `row` was read with to `target`.

    With `fence`, only while that fence holds.
    """
    check(RUN_MOVES, row.status, target)
    held = {"id_": row.id, "status_": row.status} | ({} if fence is None else {"fence_": fence})
    columns |= {"status": target, "updated_at": at}
    if target is not RunStatus.RUNNING:
        columns.setdefault("lease_until", None)
    if tx.execute(_swap(Run, tuple(held), tuple(columns)), {**held, **columns}).rowcount != 1:
        return False
    details = {"from": row.status, "to": target, **(data or {})}
    audit.record(tx, f"run.{target}", at=at, actor=actor, run_id=row.id, data=details)
    return True


def started(tx: Transaction, row: Run, *, at: datetime) -> None:
    """Insert a new run, with its audit row."""
    if row.status not in RUN_BIRTHS:
        raise IllegalMoveError(f"a run is not born {row.status}")
    tx.execute(insert_into(Run), values(row))
    place = {"channel": row.channel, "thread_ts": row.thread_ts}
    audit.record(tx, "run.born", at=at, actor=row.requester, run_id=row.id, data=place)


def touch(tx: Transaction, plan_id: str) -> None:
    """The plan changed: its revision grows (older plan-wide buttons die) and its cards are drawn
    again.
    """
    tx.execute(_TOUCH, {"id_": plan_id})
    outbox.redraw(tx, plan_id)
