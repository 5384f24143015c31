"""Everything that a call has been: all its revisions, all votes on any of them. Reads only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.models import Revision, Vote
from storage.transaction import Transaction, rows

_CALL: Any = bindparam("call_")
_REVISIONS = select(Revision).where(col(Revision.call_id) == _CALL).order_by(col(Revision.number))
_VOTES = select(Vote).where(col(Vote.call_id) == _CALL).order_by(col(Vote.seq))


def revisions(tx: Transaction, call_id: str) -> list[Revision]:
    """Every revision of a call, oldest first."""
    return rows(tx, Revision, _REVISIONS, call_=call_id)


def votes(tx: Transaction, call_id: str) -> list[Vote]:
    """Every vote on any revision of a call, oldest first."""
    return rows(tx, Vote, _VOTES, call_=call_id)
