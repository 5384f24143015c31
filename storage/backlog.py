"""How much waits at this moment, and since when: for those who watch the bot.

Each number is counted in an index, over what is open alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import col

from storage.models import Call, Delivery, Message, Run
from storage.states import (
    MESSAGE_OPEN,
    RUN_OPEN,
    CallStatus,
    DeliveryStatus,
    RunStatus,
)
from storage.transaction import Transaction

_PENDING = select(func.count(), func.min(col(Call.asked_at))).where(
    col(Call.status) == CallStatus.PENDING
)
_RUNS = (
    select(col(Run.status), func.count())
    .where(col(Run.status).in_(sorted(RUN_OPEN)))
    .group_by(col(Run.status))
)
_UNSENT = select(func.count(), func.min(col(Message.seq))).where(
    col(Message.status).in_(MESSAGE_OPEN)
)
_UNREAD = select(func.count(), func.min(col(Delivery.received_at))).where(
    col(Delivery.status) == DeliveryStatus.NEW
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is open."""

    pending: int  # calls
    oldest_asked: datetime | None
    runs: dict[RunStatus, int]
    unsent: int  # messages
    oldest_unsent: int | None  # its number
    unread: int  # deliveries
    oldest_unread: datetime | None


def backlog(tx: Transaction) -> Backlog:
    """Count it."""
    pending, asked = tx.execute(_PENDING)[0]
    unsent, first = tx.execute(_UNSENT)[0]
    unread, received = tx.execute(_UNREAD)[0]
    runs = {RunStatus(status): number for status, number in tx.execute(_RUNS)}
    return Backlog(pending, asked, runs, unsent, first, unread, received)
