"""Files that people attached to messages for the model: kept once, and sent with every later turn.

A row is emptied where the message or the file is deleted, and goes with its request's words.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from sqlalchemy import bindparam, func, select, update
from sqlmodel import Field, col

from storage import columns, trail
from storage.columns import Row, values
from storage.models import Run, new_id
from storage.transaction import Transaction, first, insert_into, rows

TEXT = "text/plain"  # of which only a part is kept, and never much


class Withheld(StrEnum):
    """Whether a file is given to the model no more, and why."""

    NO = ""  # it is given
    DELETED = "deleted"  # by people, in Slack
    REFUSED = "refused"  # by the model's server


class AttachedFile(Row, table=True):
    """One file that the model is given."""

    __tablename__ = "attached"
    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    message: str = Field(index=True)  # the key of the message's delivery: `message_key`
    slack_id: str  # Slack's id of the file
    person: str  # who posted it
    media: str  # as the model is told it
    size: int  # bytes, as they were fetched
    sha256: str  # of those bytes
    data: str = columns.text("")  # in base64, or a text as it is told; "" once withheld
    withheld: Withheld = columns.status(Withheld, Withheld.NO, index=False)
    read_at: datetime | None = columns.time(nullable=True)  # when the model's server first took it
    created_at: datetime = columns.time()


_BY_ID = select(AttachedFile).where(col(AttachedFile.id) == bindparam("id_"))
_IS_GIVEN = col(AttachedFile.withheld) == Withheld.NO
_OF_MESSAGE = (
    select(AttachedFile)
    .where(col(AttachedFile.message) == bindparam("message_"), _IS_GIVEN)
    .order_by(col(AttachedFile.created_at), col(AttachedFile.id))
)
_SIZE = (
    select(func.coalesce(func.sum(col(AttachedFile.size)), 0))
    .join(Run, col(Run.id) == col(AttachedFile.run_id))
    .where(
        *(
            col(getattr(Run, name)) == bindparam(f"{name}_")
            for name in ("team", "channel", "thread_ts")
        ),
        _IS_GIVEN,
        col(AttachedFile.media) != TEXT,
    )
)
_WITHHELD = (
    update(AttachedFile)
    .where(col(AttachedFile.id) == bindparam("id_"), _IS_GIVEN)
    .values(withheld=bindparam("why"), data="")
)
_READ = (
    update(AttachedFile)
    .where(col(AttachedFile.id) == bindparam("id_"), col(AttachedFile.read_at).is_(None))
    .values(read_at=bindparam("at_"))
)


def message_key(team: str, channel: str, ts: str) -> str:
    """The key of a message, as its delivery has it."""
    return f"msg:{team}:{channel}:{ts}"


def add(tx: Transaction, file: AttachedFile, *, at: datetime) -> None:
    """Keep a file, and write down that it is given to the model."""
    tx.execute(insert_into(AttachedFile), values(file))
    _record(tx, "file.given", file, at, file.person)


def size_in(tx: Transaction, run: Run) -> int:
    """How many bytes of pictures and PDFs the run's thread has."""
    place = {"team_": run.team, "channel_": run.channel, "thread_ts_": run.thread_ts}
    return int(tx.scalar(_SIZE, place))


def found(tx: Transaction, ids: Iterable[str]) -> list[AttachedFile]:
    """The files of these ids, those that are withheld among them."""
    each = (first(tx, AttachedFile, _BY_ID, id_=one) for one in ids)
    return [file for file in each if file is not None]


def of_message(tx: Transaction, message: str) -> list[AttachedFile]:
    """The files of a message that are given to the model."""
    return rows(tx, AttachedFile, _OF_MESSAGE, message_=message)


def withhold(
    tx: Transaction, file: AttachedFile, why: Withheld, *, at: datetime, actor: str
) -> None:
    """Give a file no more, and keep nothing of it but that it was there."""
    tx.overwrite()
    if tx.execute(_WITHHELD, {"id_": file.id, "why": why}).rowcount:
        _record(tx, f"file.{why}", file, at, actor)


def was_read(tx: Transaction, file: AttachedFile, at: datetime) -> None:
    """Note that the model's server took it, unless that is noted."""
    tx.overwrite()  # a row that grows is written elsewhere
    tx.execute(_READ, {"id_": file.id, "at_": at})


def follow(tx: Transaction, team: str, old: str, new: str) -> None:
    """Know the messages of a channel by its new id."""
    tx.overwrite()
    before, after = message_key(team, old, ""), message_key(team, new, "")
    message = col(AttachedFile.message)
    moved = {"message": func.replace(message, before, after)}
    tx.execute(update(AttachedFile).where(message.startswith(before)).values(moved))


def _record(tx: Transaction, event: str, file: AttachedFile, at: datetime, actor: str) -> None:
    data = {"file": file.slack_id, "media": file.media, "bytes": file.size}
    data["content"] = file.sha256  # may tell what a short text says: a purge takes it away
    trail.record(tx, event, at=at, actor=actor, run_id=file.run_id, data=data)
