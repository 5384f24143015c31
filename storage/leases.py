"""How long a claim of a run holds, and the runs whose claim has lapsed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, or_, select, update
from sqlmodel import col

from storage.models import Call, Run
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction, readable, rows

_ORPHANS = select(Run).where(
    col(Run.status) == RunStatus.RUNNING, col(Run.lease_until) <= bindparam("now_")
)
_CUT_SHORT = select(Run).where(
    col(Run.status) == RunStatus.CANCELLED,
    col(Run.id).in_(select(col(Call.run_id)).where(col(Call.status) == CallStatus.RUNNING)),
)
_LAPSED = _CUT_SHORT.where(
    or_(col(Run.lease_until).is_(None), col(Run.lease_until) <= bindparam("now_"))
)
_KEEP = (
    update(Run)
    .where(
        col(Run.id) == bindparam("id_"),
        col(Run.status).in_((RunStatus.RUNNING, RunStatus.CANCELLED)),
        col(Run.lease_until).is_not(None),
    )
    .values(lease_until=bindparam("lease_until"))
)


def renew(tx: Transaction, run_id: str, fence: int, lease_until: datetime) -> bool:
    """Lengthen a lease; False when the fence is no longer ours."""
    where = (col(Run.id) == run_id, col(Run.fence) == fence, col(Run.status) == RunStatus.RUNNING)
    return tx.execute(update(Run).where(*where).values(lease_until=lease_until)).rowcount == 1


def keep(tx: Transaction, run_id: str, until: datetime) -> None:
    """Lengthen the lease of a run that is worked on here, also of one cancelled meanwhile."""
    tx.execute(_KEEP, {"id_": run_id, "lease_until": until})


def orphans(tx: Transaction, now: datetime) -> list[Run]:
    """Runs whose worker let its lease lapse."""
    return readable(tx, Run, col(Run.id), _ORPHANS, now_=now)


def cut_short(tx: Transaction, now: datetime | None = None) -> list[Run]:
    """Cancelled runs that have a call RUNNING; with `now`, of whose worker nothing is heard."""
    if now is None:
        return rows(tx, Run, _CUT_SHORT)
    return rows(tx, Run, _LAPSED, now_=now)
