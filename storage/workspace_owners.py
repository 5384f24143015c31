"""Which of several processes works for which workspace; each workspace has one at a time.

For records on PostgreSQL. A process holds a workspace for some seconds and extends that; the time
is the server's. A writing transaction on a workspace's record checks, in the same database, that
its process still holds it (`build_fence`), so one that was stalled changes nothing afterwards.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, func, literal_column, or_, select, update
from sqlmodel import col

from storage.installations import MAX_SLEEP, TABLES_SCHEMA, Installation, InstallationRecord
from storage.models import new_id
from storage.states import InstallationState

LEASE_DURATION = timedelta(seconds=5)  # a workspace is free after this time without a heartbeat
_WORKSPACE_COLUMN: Any = col(Installation.workspace)
_OWNER_COLUMN: Any = col(Installation.owner)
_OWNER_UNTIL_COLUMN: Any = col(Installation.owner_until)
# the server's time in microseconds, like the columns
_SERVER_TIME_MICROSECONDS: Any = literal_column(
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", BigInteger
)
_LEASE_END = _SERVER_TIME_MICROSECONDS + LEASE_DURATION // timedelta(microseconds=1)
_GIVEN_UP_CONDITION = or_(_OWNER_COLUMN == "", _OWNER_UNTIL_COLUMN.is_(None))
_FREE_CONDITION = or_(_GIVEN_UP_CONDITION, _SERVER_TIME_MICROSECONDS > _OWNER_UNTIL_COLUMN)


class WorkspaceOwners:
    """Takes and releases workspaces for one process of several; for any thread.

    Raises the database's errors.
    """

    def __init__(self, record: InstallationRecord, url: str) -> None:
        """Set the `url` at which the other processes reach this one."""
        self._record, self._url = record, url
        self.process = new_id()  # this process's id
        self._started_at = self._extended_at = time.monotonic()

    @property
    def _free(self) -> Any:
        """Return the SQL condition that this process may take a workspace.

        It takes over an expired lease only if it has renewed its own leases for the length of a
        lease: right after an outage of the database, the other processes may be about to renew
        theirs.
        """
        held = LEASE_DURATION.total_seconds()
        lives = time.monotonic() - self._extended_at < held <= self._extended_at - self._started_at
        return _FREE_CONDITION if lives else _GIVEN_UP_CONDITION

    def claim(self, workspace: str) -> str:
        """Take a workspace for this process; return "", or the address of its present holder.

        Returns "" for an unknown workspace, too.
        """
        row = select(_OWNER_COLUMN, col(Installation.owner_url)).where(
            workspace == _WORKSPACE_COLUMN
        )
        free = or_(self.process == _OWNER_COLUMN, self._free)
        claim_update = update(Installation).where(workspace == _WORKSPACE_COLUMN, free)
        owner_values = {"owner": self.process, "owner_url": self._url, "owner_until": _LEASE_END}
        with self._record.write() as connection:
            owner_row = connection.execute(row).one_or_none()
            if owner_row is None:
                return ""
            if not connection.execute(row.where(free)).one_or_none():
                return str(owner_row.owner_url)
            # the previous owner must have no open transaction: one that released the workspace has
            # none for long, one whose lease expired may be stalled in one
            is_let_go = owner_row.owner in ("", self.process)
            if not connection.execute(row.with_for_update(skip_locked=not is_let_go)).one_or_none():
                return str(owner_row.owner_url)
            if connection.execute(claim_update.values(**owner_values)).rowcount:
                return ""
            return str(connection.execute(row).one().owner_url)

    def extend(self) -> set[str]:
        """Extend this process's hold on its workspaces; return those that it still holds."""
        mine = update(Installation).where(self.process == _OWNER_COLUMN)
        kept = mine.values(owner_until=_LEASE_END).returning(_WORKSPACE_COLUMN)
        with self._record.write() as connection:
            held = set(connection.execute(kept).scalars())
        now = time.monotonic()
        if now - self._extended_at >= LEASE_DURATION.total_seconds():
            self._started_at = now
        self._extended_at = now
        return held

    def release(self, workspace: str, sleep: timedelta | None) -> None:
        """Give up a workspace of this process; it is due again after `sleep`, at once if None."""
        held = (workspace == _WORKSPACE_COLUMN, self.process == _OWNER_COLUMN)
        due_at = (
            None
            if sleep is None
            else _SERVER_TIME_MICROSECONDS + sleep // timedelta(microseconds=1)
        )
        free = update(Installation).where(*held).values(owner="", owner_url="", due_at=due_at)
        with self._record.write() as connection:
            connection.execute(free)

    def list_free_and_due(self) -> list[str]:
        """Return, in any order, workspaces that are due to be served and not held by others.

        One without a due time was awake when its last process ended, or is new.
        """
        at, latest = col(Installation.due_at), MAX_SLEEP // timedelta(microseconds=1)
        due = or_(
            at.is_(None), at <= _SERVER_TIME_MICROSECONDS, at > _SERVER_TIME_MICROSECONDS + latest
        )
        active = col(Installation.state) == InstallationState.ACTIVE
        mine = or_(self.process == _OWNER_COLUMN, self._free)
        query = select(_WORKSPACE_COLUMN).where(active, mine, due)
        with self._record.read() as connection:
            return list(connection.execute(query.order_by(func.random())).scalars())


def build_fence(workspace: str, process: str) -> str:
    """Return SQL to put after FROM; it yields a row only while a process holds a workspace."""
    return (
        f"{TABLES_SCHEMA}.installation WHERE workspace = '{workspace}' AND owner = '{process}'"
        " FOR KEY SHARE"
    )
