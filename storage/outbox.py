"""The outbox's rows: what Slack has yet to be told. Cards are drawn again whenever `wanted` passes `shown`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import col

from storage.models import Message, Run, values
from storage.store import first, readable, rows

# closing: a stream to be stopped with its final words; stale: to be drawn again
WORK = ("pending", "sending", "closing", "stale")


def put(tx: Connection, message: Message) -> None:
    """Add a message; one with the same key is left as it is (said once is said)."""
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    tx.execute(dialect.insert(Message).values(values(message)).on_conflict_do_nothing(index_elements=["key"]))


def notice(tx: Connection, run: Run, key: str, body: Mapping[str, Any]) -> None:
    """A line in the run's thread; `body` is {"text": …} or {"text": …, "blocks": […]}."""
    thread(tx, run, key, body, kind="notice")


def thread(tx: Connection, run: Run, key: str, body: Mapping[str, Any], *, kind: str) -> None:
    """A message of that kind in the run's thread."""
    put(
        tx,
        Message(
            key=key,
            kind=kind,
            run_id=run.id,
            channel=run.channel,
            thread_ts=run.thread_ts,
            body=dump(body),
        ),
    )


def private(
    tx: Connection, key: str, *, channel: str, thread_ts: str, person: str, text: str, mrkdwn: bool = False
) -> None:
    """Words only `person` sees; `mrkdwn`: our own prose, formatted."""
    row = Message(key=key, kind="private", channel=channel, thread_ts=thread_ts, recipient=person)
    row.body = dump({"text": text, "mrkdwn": mrkdwn})
    put(tx, row)


def redraw(tx: Connection, plan_id: str) -> None:
    """Every card of this plan wants drawing again, also one that stands in Slack and could not be updated before."""
    where = (col(Message.plan_id) == plan_id, col(Message.kind) == "card")
    stands = (col(Message.status) == "sent") | ((col(Message.status) == "failed") & (col(Message.ts) != ""))
    status = case((stands, "stale"), else_=col(Message.status))
    tx.execute(update(Message).where(*where).values(wanted=col(Message.wanted) + 1, status=status))


def sent(tx: Connection, row: Message, *, ts: str, shown: int) -> None:
    """It stands in Slack as of version `shown`; stale at once when more was wanted meanwhile."""
    status = case((col(Message.wanted) > shown, "stale"), else_="sent")
    change(tx, row, status=status, ts=ts, shown=shown, attempts=0, due_at=None, error="")


def due(tx: Connection, now: datetime) -> list[Message]:
    """What should be sent or drawn now, in order; a thread's later messages wait for its earlier ones."""
    unsent = col(Message.status).in_(WORK)
    found = readable(tx, Message, col(Message.seq), select(Message).where(unsent).order_by(col(Message.seq)))
    blocked: set[str] = set()
    ready = []
    for row in found:
        if row.due_at is not None and row.due_at > now:
            blocked.add(row.channel)
        elif row.channel not in blocked:
            ready.append(row)
    return ready


def next_due(tx: Connection) -> datetime | None:
    """When the earliest postponed message may be tried again."""
    return tx.scalar(select(func.min(col(Message.due_at))).where(col(Message.status).in_(WORK)))


def change(tx: Connection, row: Message, **columns: Any) -> None:
    """Write columns of one message."""
    tx.execute(update(Message).where(col(Message.seq) == row.seq).values(**columns))


def by_key(tx: Connection, key: str) -> Message | None:
    """The message of that key."""
    return first(tx, Message, select(Message).where(col(Message.key) == key))


def knows(tx: Connection, ts: str) -> bool:
    """Whether a message of that ts is one of ours."""
    return first(tx, Message, select(Message).where(col(Message.ts) == ts)) is not None


def cards(tx: Connection, plan_id: str) -> list[Message]:
    """The cards of a plan, all copies and parts."""
    return rows(tx, Message, select(Message).where(col(Message.plan_id) == plan_id, col(Message.kind) == "card"))


def calls_of(tx: Connection, plan_id: str, card: int) -> list[str]:
    """The ids of the calls that this card of the plan shows; none when it is not a card of that plan."""
    where = (col(Message.seq) == card, col(Message.plan_id) == plan_id, col(Message.kind) == "card")
    found = first(tx, Message, select(Message).where(*where))
    ids: list[str] = body(found)["calls"] if found else []
    return ids


def dump(body: Mapping[str, Any]) -> str:
    """A message body as it is stored."""
    return json.dumps(dict(body), ensure_ascii=False)


def body(row: Message) -> dict[str, Any]:
    """A message's stored body."""
    loaded: dict[str, Any] = json.loads(row.body)
    return loaded


def close_streams(tx: Connection, run_id: str) -> None:
    """Streams of this run that nobody writes to any more are to be closed, and their words withdrawn."""
    where = (col(Message.run_id) == run_id, col(Message.status) == "streaming")
    tx.execute(update(Message).where(*where).values(status="closing", body=dump({"text": "", "streamed": False})))


def is_streaming(tx: Connection, row: Message) -> bool:
    """Whether nobody has closed this stream yet."""
    return tx.scalar(select(col(Message.status)).where(col(Message.seq) == row.seq)) == "streaming"
