"""The newest moment that the record holds: time goes on from there, whatever a clock says."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlmodel import col

from storage.models import Audit, Delivery
from storage.transaction import Transaction

LOOKED_AT = 1000  # rows of a kind, newest first: a clock that was set back left some out of order


def _newest(seq: Any, at: Any) -> Select[Any]:
    """The newest time among the last rows of one table."""
    last = select(at.label("at")).order_by(seq.desc()).limit(LOOKED_AT).subquery()
    return select(func.max(last.c.at))


_AUDITED = _newest(col(Audit.seq), col(Audit.at))
_DELIVERED = _newest(col(Delivery.seq), col(Delivery.received_at))


def newest(tx: Transaction) -> datetime | None:
    """When something was last stored; None where nothing was.

    Whatever is done is in the audit, and whatever arrived is in the inbox.
    """
    found = [tx.scalar(_AUDITED), tx.scalar(_DELIVERED)]
    return max((each for each in found if each is not None), default=None)
