"""What replicas share beside the record: who is alive, who sends to which channel, and what Slack
wants to be asked no more for a while.

A replica is a process that works on this database beside others. None of this is the record's:
without it nothing is lost, and it makes itself anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, select
from sqlmodel import Field, col

from storage import columns
from storage.columns import Row
from storage.models import Audit, Delivery
from storage.states import DeliveryKind
from storage.transaction import Transaction, insert_of, readable_rows

# The newest moment that the record holds: time goes on from there, whatever a clock says.

LOOKED_AT = 1000  # rows of a kind, newest first: a clock that was set back left some out of order


def _newest_of(seq: Any, at: Any) -> Select[Any]:
    """The newest time among the last rows of one table."""
    last = select(at.label("at")).order_by(seq.desc()).limit(LOOKED_AT).subquery()
    return select(func.max(last.c.at))


_AUDITED = _newest_of(col(Audit.seq), col(Audit.at))
_DELIVERED = _newest_of(col(Delivery.seq), col(Delivery.received_at))


def newest_moment(tx: Transaction) -> datetime | None:
    """When something was last stored; None where nothing was.

    Whatever is done is in the audit, and whatever arrived is in the inbox.
    """
    found = [tx.scalar(_AUDITED), tx.scalar(_DELIVERED)]
    return max((each for each in found if each is not None), default=None)


PauseEnds = Mapping[tuple[str, str], datetime]  # by method and channel


class Replica(Row, table=True):
    """A process that works on this database, and until when it counts as alive."""

    __tablename__ = "replica"
    id: str = Field(primary_key=True)
    until: datetime = columns.time()


class ChannelQueue(Row, table=True):
    """A channel, and the one replica that sends to it as long as that is alive."""

    __tablename__ = "lane"
    channel: str = Field(primary_key=True)
    replica: str = Field(index=True)


class Pause(Row, table=True):
    """What Slack wants to be asked no more until then: a method, or posts for a channel."""

    __tablename__ = "pause"
    method: str = Field(primary_key=True)
    channel: str = Field(default="", primary_key=True)  # "": all
    until: datetime = columns.time()


_BEATS = select(col(Replica.id), col(Replica.until))
_ALIVE = select(col(Replica.id)).where(col(Replica.until) > bindparam("now_"))
_LANES = select(col(ChannelQueue.channel), col(ChannelQueue.replica))
_MINE = delete(ChannelQueue).where(col(ChannelQueue.replica) == bindparam("replica_"))
_GONE = delete(Replica).where(col(Replica.id) == bindparam("replica_"))
_HOLDER = select(col(ChannelQueue.replica)).where(
    col(ChannelQueue.channel) == bindparam("channel_")
)
_PAUSES = select(col(Pause.method), col(Pause.channel), col(Pause.until)).where(
    col(Pause.until) > bindparam("now_")
)
_PAUSED_BEFORE = delete(Pause).where(col(Pause.until) <= bindparam("now_"))
_GIVEN_UP = _MINE.where(col(ChannelQueue.channel) == bindparam("channel_"))
_NEWEST = select(func.max(col(Delivery.seq)))
_EVENTS = (
    select(Delivery)
    .where(col(Delivery.seq) > bindparam("after_"), col(Delivery.kind) == DeliveryKind.EVENT)
    .order_by(col(Delivery.seq))
)


@cache
def _beat(dialect: str) -> Any:
    """The upsert of one replica; built once for each kind of database, as those below."""
    made = insert_of(dialect)(Replica).values(id=bindparam("id"), until=bindparam("until"))
    return made.on_conflict_do_update(index_elements=["id"], set_={"until": made.excluded.until})


@cache
def _take(dialect: str) -> Any:
    """The upsert of a lane of nobody's, or of one who is no more."""
    made = insert_of(dialect)(ChannelQueue).values(
        channel=bindparam("channel"), replica=bindparam("replica")
    )
    free = (
        (col(ChannelQueue.replica) == made.excluded.replica)
        | (col(ChannelQueue.replica) == bindparam("instead_"))
        | col(ChannelQueue.replica).not_in(select(col(Replica.id)))
    )
    return made.on_conflict_do_update(
        index_elements=["channel"], set_={"replica": made.excluded.replica}, where=free
    )


@cache
def _pause(dialect: str) -> Any:
    """The upsert of a pause; the longer of two holds."""
    names = ("method", "channel", "until")
    made = insert_of(dialect)(Pause).values(**{name: bindparam(name) for name in names})
    return made.on_conflict_do_update(
        index_elements=["method", "channel"],
        set_={"until": made.excluded.until},
        where=made.excluded.until > col(Pause.until),
    )


def heartbeat(tx: Transaction, replica: str, until: datetime) -> None:
    """This replica is alive until then."""
    tx.execute(_beat(tx.dialect.name), {"id": replica, "until": until})


def leave_replicas(tx: Transaction, replica: str) -> None:
    """This replica is no more; its channels are free."""
    tx.execute(_MINE, {"replica_": replica})
    tx.execute(_GONE, {"replica_": replica})


def tidy(tx: Transaction, now: datetime, gone: Collection[str]) -> None:
    """Take away the replicas that are `gone`, and pauses whose time is over."""
    for replica in gone:
        tx.execute(_GONE, {"replica_": replica})
    tx.execute(_PAUSED_BEFORE, {"now_": now})


def alive_replicas(tx: Transaction, now: datetime) -> set[str]:
    """The ids of the replicas that are alive."""
    return set(tx.scalars(_ALIVE, {"now_": now}))


def latest_heartbeats(tx: Transaction) -> dict[str, datetime]:
    """The latest beat of each replica: until when it says that it is alive."""
    return dict(tuple(row) for row in tx.execute(_BEATS))


def senders(tx: Transaction, gone: Collection[str]) -> dict[str, str]:
    """The replica that sends to each channel, where one does that is not `gone`."""
    living = latest_heartbeats(tx).keys() - set(gone)
    return {channel: replica for channel, replica in tx.execute(_LANES) if replica in living}


def take_channel_queue(tx: Transaction, channel: str, replica: str, gone: Collection[str]) -> bool:
    """This replica sends to the channel from now on; False while another does that is not `gone`,
    which the caller has watched.
    """
    holder = tx.scalar(_HOLDER, {"channel_": channel})
    instead = holder if holder in gone else replica  # by the time it is taken another may have it
    given = {"channel": channel, "replica": replica, "instead_": instead}
    return tx.execute(_take(tx.dialect.name), given).rowcount == 1


def give_up_channel_queue(tx: Transaction, channel: str, replica: str) -> None:
    """This replica sends to the channel no more."""
    tx.execute(_GIVEN_UP, {"channel_": channel, "replica_": replica})


def pause(tx: Transaction, method: str, channel: str, until: datetime) -> None:
    """Slack wants to be asked no more until then; the longer of two pauses holds."""
    tx.execute(_pause(tx.dialect.name), {"method": method, "channel": channel, "until": until})


def pauses(tx: Transaction, now: datetime) -> PauseEnds:
    """The pauses that last, by method and channel."""
    found = tx.execute(_PAUSES, {"now_": now})
    return {(method, channel): until for method, channel, until in found}


def newest(tx: Transaction) -> int:
    """The `seq` of the newest delivery, 0 when there is none."""
    return int(tx.scalar(_NEWEST) or 0)


def events_after(tx: Transaction, seq: int) -> list[Delivery]:
    """What Slack has told of people, groups and channels since that delivery."""
    return readable_rows(tx, Delivery, col(Delivery.seq), _EVENTS, after_=seq)
