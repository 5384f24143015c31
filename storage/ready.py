"""Runs that a worker may take, with what tells whose turn it is. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, literal, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import col

from storage import calls
from storage.models import Call, Plan, Run
from storage.states import RunSource, RunStatus
from storage.transaction import Transaction

Requester = tuple[str, str, str]  # a workspace, a person, and the program that asks in their name


@dataclass(frozen=True, slots=True)
class Ready:
    """One run that a worker may take."""

    run_id: str
    requester: Requester
    decided: bool  # what comes next in it is a call that people approved, and not the model
    begun: bool = False  # it has been worked on before


def _has_open(which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a plan of the run that the model has not been told of has such a call."""
    found = select(col(Call.id)).join(Plan, col(Plan.id) == col(Call.plan_id))
    return found.where(
        col(Plan.run_id) == col(Run.id), col(Plan.answered).is_(False), which
    ).exists()


_ROOT: Any = aliased(Run)
# a sub-agent works for whoever asked its request; what a server asks amid a call is the server's
_CLIENT = case((col(Run.source) == RunSource.RUN, col(_ROOT.client)), else_=col(Run.client))
# what is asked amid a call has a worker wait for it, who runs what was approved
_DECIDED = or_(
    col(Run.source) == RunSource.SERVER,
    and_(_has_open(calls.GOES_AHEAD), ~_has_open(calls.HOLDS_UP)),
)
_READY = (
    select(
        col(Run.id),
        col(Run.team),
        col(Run.requester),
        _CLIENT,
        case((_DECIDED, literal(1)), else_=literal(0)),
        col(Run.fence),
    )
    .join(_ROOT, col(_ROOT.id) == col(Run.root_id), isouter=True)
    .where(col(Run.status) == RunStatus.READY, col(Run.thread_ts) != "")
    .order_by(col(Run.updated_at))
)
_LONG_READY = _READY.where(col(Run.updated_at) <= bindparam("before_"))
_ONE_READY = _READY.where(col(Run.id) == bindparam("id_"))


def found(tx: Transaction, before: datetime | None = None) -> list[Ready]:
    """The runs a worker may take, oldest first; with `before`, those that were so then."""
    if before is None:
        return _of(tx, _READY, {})
    return _of(tx, _LONG_READY, {"before_": before})


def one(tx: Transaction, run_id: str) -> list[Ready]:
    """That run, where a worker may take it."""
    return _of(tx, _ONE_READY, {"id_": run_id})


def _of(tx: Transaction, statement: Any, given: dict[str, Any]) -> list[Ready]:
    return [
        Ready(str(run_id), (team, person, client or ""), bool(decided), bool(fence))
        for run_id, team, person, client, decided, fence in tx.execute(statement, given)
    ]
