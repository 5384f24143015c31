"""State that the bot's processes share: heartbeats, who sends to which channel, Slack's pauses.

A replica is a process that works on this database beside others. None of this is part of the
record: if it is lost, it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, select
from sqlmodel import Field, col

from storage import columns
from storage.models import Audit, Delivery
from storage.states import DeliveryKind
from storage.transaction import Transaction, fetch_readable_rows, insert_row

# The newest time in the database: time continues from there even if a clock is set back.

MAX_ROWS_EXAMINED = 1000  # newest first: if a clock was set back, some are out of order


def _build_newest_time_query(seq: Any, at: Any) -> Select[Any]:
    last = select(at.label("at")).order_by(seq.desc()).limit(MAX_ROWS_EXAMINED).subquery()
    return select(func.max(last.c.at))


_SELECT_NEWEST_AUDIT_TIME = _build_newest_time_query(col(Audit.seq), col(Audit.at))
_SELECT_NEWEST_DELIVERY_TIME = _build_newest_time_query(
    col(Delivery.seq), col(Delivery.received_at)
)


def find_time_of_newest_activity(tx: Transaction) -> datetime | None:
    """Return the time of the newest audit row or delivery; None if there is none.

    Every action is in the audit, and everything that arrived is in the inbox.
    """
    found = [tx.scalar(_SELECT_NEWEST_AUDIT_TIME), tx.scalar(_SELECT_NEWEST_DELIVERY_TIME)]
    return max((each for each in found if each is not None), default=None)


PauseEnds = Mapping[tuple[str, str], datetime]  # by (method, channel)


class Replica(columns.Row, table=True):
    """A process that works on this database, and until when it counts as alive."""

    __tablename__ = "replica"
    id: str = Field(primary_key=True)
    until: datetime = columns.time_column()


class ChannelSender(columns.Row, table=True):
    """A channel, and the one process (replica) that sends to it as long as it is alive."""

    __tablename__ = "lane"
    channel: str = Field(primary_key=True)
    replica: str = Field(index=True)


class Pause(columns.Row, table=True):
    """A Slack method (in one channel, or all) that must not be called before a time."""

    __tablename__ = "pause"
    method: str = Field(primary_key=True)
    channel: str = Field(default="", primary_key=True)  # "": all channels
    until: datetime = columns.time_column()


_DELETE_CHANNELS_OF_REPLICA = delete(ChannelSender).where(
    col(ChannelSender.replica) == bindparam("replica_")
)
_DELETE_REPLICA = delete(Replica).where(col(Replica.id) == bindparam("replica_"))
_SELECT_PAUSES = select(col(Pause.method), col(Pause.channel), col(Pause.until)).where(
    col(Pause.until) > bindparam("now_")
)
_DELETE_ENDED_PAUSES = delete(Pause).where(col(Pause.until) <= bindparam("now_"))
_DELETE_CHANNEL_OF_REPLICA = _DELETE_CHANNELS_OF_REPLICA.where(
    col(ChannelSender.channel) == bindparam("channel_")
)
_SELECT_EVENTS_AFTER = (
    select(Delivery)
    .where(col(Delivery.seq) > bindparam("after_"), col(Delivery.kind) == DeliveryKind.EVENT)
    .order_by(col(Delivery.seq))
)


# Writers take turns, so what one of these functions has read still holds when it writes.


def store_heartbeat(tx: Transaction, replica: str, until: datetime) -> None:
    """Record that this replica counts as alive until `until`."""
    if not tx.update_rows(Replica, {"id": replica}, until=until):
        insert_row(tx, Replica(id=replica, until=until))


def remove_replica(tx: Transaction, replica: str) -> None:
    """Remove this replica (process of the bot), so that others may send to its channels."""
    tx.execute(_DELETE_CHANNELS_OF_REPLICA, {"replica_": replica})
    tx.execute(_DELETE_REPLICA, {"replica_": replica})


def delete_dead_replicas_and_pauses(tx: Transaction, now: datetime, dead: Collection[str]) -> None:
    """Delete the replicas in `dead`, and the pauses of Slack methods that are over."""
    for replica in dead:
        tx.execute(_DELETE_REPLICA, {"replica_": replica})
    tx.execute(_DELETE_ENDED_PAUSES, {"now_": now})


def get_heartbeat_expiry_by_replica(tx: Transaction) -> dict[str, datetime]:
    """Return for each replica until when its latest heartbeat is valid."""
    return {each.id: each.until for each in tx.list_rows(Replica)}


def get_senders_by_channel(tx: Transaction, dead: Collection[str]) -> dict[str, str]:
    """Return the replica that sends to each channel, without unknown ones and `dead` ones."""
    living = get_heartbeat_expiry_by_replica(tx).keys() - set(dead)
    senders = tx.list_rows(ChannelSender)
    return {each.channel: each.replica for each in senders if each.replica in living}


def claim_channel_sending(
    tx: Transaction, channel: str, replica: str, dead: Collection[str]
) -> bool:
    """Make this replica the sender to the channel; False if another live one is the sender.

    `dead`: replicas that the caller has found to be dead.
    """
    sender = tx.find_row(ChannelSender, channel=channel)
    if sender is None:
        insert_row(tx, ChannelSender(channel=channel, replica=replica))
    elif sender.replica != replica:
        if sender.replica not in dead and tx.find_row(Replica, id=sender.replica):
            return False
        tx.update_rows(ChannelSender, {"channel": channel}, replica=replica)
    return True


def give_up_channel_sending(tx: Transaction, channel: str, replica: str) -> None:
    """Stop this replica from being the sender to the channel."""
    tx.execute(_DELETE_CHANNEL_OF_REPLICA, {"channel_": channel, "replica_": replica})


def store_slack_pause(tx: Transaction, method: str, channel: str, until: datetime) -> None:
    """Store until when a Slack method must not be called; the longer of two pauses holds."""
    known = tx.find_row(Pause, method=method, channel=channel)
    if known is None:
        insert_row(tx, Pause(method=method, channel=channel, until=until))
    elif until > known.until:
        tx.update_rows(Pause, {"method": method, "channel": channel}, until=until)


def get_slack_pause_ends(tx: Transaction, now: datetime) -> PauseEnds:
    """Return, by method and channel, until when each paused Slack method must not be called."""
    found = tx.execute(_SELECT_PAUSES, {"now_": now})
    return {(method, channel): until for method, channel, until in found}


def list_slack_directory_events_after(tx: Transaction, seq: int) -> list[Delivery]:
    """Return Slack's events about people, groups and channels stored after that delivery."""
    return fetch_readable_rows(tx, Delivery, col(Delivery.seq), _SELECT_EVENTS_AFTER, after_=seq)
