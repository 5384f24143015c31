"""The inbox: what Slack delivered, stored before it is acknowledged, and what became of it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, func, select, update
from sqlmodel import col

from storage.models import Delivery, values
from storage.transaction import Transaction, insert_once, readable, rows

CLICKS = ("action", "submission")
_NEW = select(Delivery).where(col(Delivery.status) == "new").order_by(col(Delivery.seq))
_HELD = (
    select(Delivery)
    .where(col(Delivery.status) == "held", col(Delivery.run_id) == bindparam("run_id_"))
    .order_by(col(Delivery.seq))
)
_OLDEST_CLICK = select(func.min(col(Delivery.received_at))).where(
    col(Delivery.status) == "new", col(Delivery.kind).in_(CLICKS)
)
_SETTLE = (
    update(Delivery)
    .where(col(Delivery.seq) == bindparam("seq_"))
    .values(status="done", note=bindparam("note_"))
)
_STATUS = select(col(Delivery.status)).where(col(Delivery.seq) == bindparam("seq_"))
_HOLD = (
    update(Delivery)
    .where(col(Delivery.seq) == bindparam("seq_"))
    .values(status="held", run_id=bindparam("run_id_"))
)
_BY_KEY = select(col(Delivery.seq)).where(col(Delivery.key) == bindparam("key_"))
_NEWEST_TAKEN = (
    select(col(Delivery.key))
    .where(
        *(
            col(getattr(Delivery, name)) == bindparam(f"{name}_")
            for name in ("team", "channel", "thread_ts")
        )
    )
    .where(
        col(Delivery.kind) == "message",
        col(Delivery.status) == "done",
        col(Delivery.run_id).is_not(None),
    )
    .order_by(col(Delivery.seq).desc())
    .limit(1)
)


def store(tx: Transaction, delivery: Delivery) -> bool:
    """Store a delivery; False when its key is there already (a redelivery)."""
    return tx.execute(insert_once(Delivery, tx.dialect.name), values(delivery)).rowcount == 1


def new(tx: Transaction) -> list[Delivery]:
    """What has not been taken in, in the order it was stored."""
    return readable(tx, Delivery, col(Delivery.seq), _NEW)


def is_new(tx: Transaction, delivery: Delivery) -> bool:
    """Whether nobody has taken it in since it was read."""
    return bool(tx.scalar(_STATUS, {"seq_": delivery.seq}) == "new")


def held(tx: Transaction, run_id: str) -> list[Delivery]:
    """Messages that wait for the run's next model turn, in order."""
    return rows(tx, Delivery, _HELD, run_id_=run_id)


def oldest_click(tx: Transaction) -> datetime | None:
    """When the oldest click that is still undecided was stored: no deadline after it may fall yet."""
    found: datetime | None = tx.scalar(_OLDEST_CLICK)
    return found


def settle(tx: Transaction, delivery: Delivery, note: str) -> None:
    """It is dealt with; `note` says how, for the operator."""
    tx.execute(_SETTLE, {"seq_": delivery.seq, "note_": note})


def hold(tx: Transaction, delivery: Delivery, run_id: str) -> None:
    """It waits for the run's next model turn."""
    tx.execute(_HOLD, {"seq_": delivery.seq, "run_id_": run_id})


def stumble(tx: Transaction, delivery: Delivery, error: str, *, limit: int) -> bool:
    """Count a failed try; after `limit` of them it is broken and left alone.

    True when it is broken now.
    """
    broken = delivery.attempts + 1 >= limit
    tx.execute(
        update(Delivery)
        .where(col(Delivery.seq) == delivery.seq)
        .values(
            attempts=delivery.attempts + 1, note=error[:500], status="broken" if broken else "new"
        )
    )
    return broken


def newest_taken(tx: Transaction, team: str, channel: str, thread_ts: str) -> str:
    """The Slack ts of the newest message of a thread that is in its transcript, or ""."""
    key: str | None = tx.scalar(
        _NEWEST_TAKEN, {"team_": team, "channel_": channel, "thread_ts_": thread_ts}
    )
    return key.rsplit(":", 1)[1] if key else ""


def has(tx: Transaction, key: str) -> bool:
    """Whether a delivery of that key was stored."""
    return tx.scalar(_BY_KEY, {"key_": key}) is not None
