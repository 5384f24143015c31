"""The outbox: messages that Slack has yet to be sent, and cards that it has yet to be shown.

Cards are drawn again whenever `wanted` passes `shown`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, func, select, update
from sqlmodel import col

from storage import moves, trail
from storage.models import Message, Run
from storage.states import MESSAGE_OPEN, IllegalMoveError, MessageKind, MessageStatus
from storage.transaction import Transaction, first, readable_rows, rows

QUESTION = "question"  # in the body of a card: it shows a question to people
_UNSENT = col(Message.status).in_(MESSAGE_OPEN)
_DUE = select(Message).where(_UNSENT).order_by(col(Message.seq))
_DUE_IN = (
    select(Message)
    .where(_UNSENT, col(Message.channel) == bindparam("channel_"))
    .order_by(col(Message.seq))
)
_CHANNELS = (
    select(col(Message.channel), col(Message.due_at), col(Message.kind), col(Message.seq))
    .where(_UNSENT)
    .order_by(col(Message.seq))
)
_NEXT_DUE = select(func.min(col(Message.due_at))).where(_UNSENT)
_STATUS = select(col(Message.status)).where(col(Message.seq) == bindparam("seq_"))
_NEWEST = select(func.max(col(Message.seq)))
_UNPOSTED = select(col(Message.seq)).where(
    col(Message.run_id) == bindparam("run_"),
    col(Message.channel) == bindparam("channel_"),
    col(Message.status).in_((MessageStatus.PENDING, MessageStatus.SENDING)),
    col(Message.kind) != MessageKind.MARK,
)
_BY_KEY = select(Message).where(col(Message.key) == bindparam("key_"))
_BY_TS = select(Message).where(col(Message.ts) == bindparam("ts_")).limit(1)
_ASKED_THERE = (  # or what one of its messages begins
    col(Message.run_id).in_(
        select(col(Run.id))
        .where(
            col(Run.channel) == bindparam("channel_"), col(Run.thread_ts) == bindparam("thread_ts_")
        )
        .union(select(col(Message.run_id)).where(col(Message.ts) == bindparam("thread_ts_")))
    ),
    col(Message.channel) == bindparam("channel_"),
    col(Message.run_id) != "",
    col(Message.ts) != "",
)
_POSTED_IN = (
    select(col(Message.seq))
    .where(*_ASKED_THERE, col(Message.thread_ts) == bindparam("thread_ts_"))
    .where(col(Message.kind) != MessageKind.MARK)
    .limit(1)
)
_CARD_IN = (
    select(Message)
    .where(*_ASKED_THERE, col(Message.kind) == MessageKind.CARD)
    .order_by(col(Message.seq).desc())
    .limit(1)
)
_CARDS = select(Message).where(
    col(Message.plan_id) == bindparam("plan_id_"), col(Message.kind) == MessageKind.CARD
)
_COPIES = select(Message).where(
    col(Message.plan_id) == bindparam("plan_id_"), col(Message.kind) == MessageKind.COPY
)


@cache
def _columns(names: tuple[str, ...]) -> Update:
    """The update that writes these columns of one message; built once."""
    return (
        update(Message)
        .where(col(Message.seq) == bindparam("seq_"))
        .values({name: bindparam(name) for name in names})
    )


def put_message(tx: Transaction, message: Message) -> bool:
    """Add a message; False where one with the same key is left as it is (said once is said)."""
    return moves.insert_message(tx, message)


def notice(tx: Transaction, run: Run, key: str, body: Mapping[str, Any]) -> None:
    """A line in the run's thread; `body` is {"text": …} or {"text": …, "blocks": […]}."""
    put_in_thread(tx, run, key, body, kind=MessageKind.NOTICE)


def put_in_thread(
    tx: Transaction, run: Run, key: str, body: Mapping[str, Any], *, kind: MessageKind
) -> None:
    """A message of that kind in the run's thread."""
    put_message(
        tx,
        Message(
            key=key,
            kind=kind,
            run_id=run.id,
            channel=run.channel,
            thread_ts=run.thread_ts,
            body=dump_body(body),
        ),
    )


def put_root(tx: Transaction, run: Run, text: str, blocks: Sequence[Mapping[str, Any]]) -> None:
    """The message with which the bot begins the thread of a request, where no message of its own
    begins it; once it stands in Slack, workers may take the request.
    """
    body, kind = dump_body({"text": text, "blocks": blocks}), MessageKind.ROOT
    put_message(
        tx, Message(key=_root(run), kind=kind, run_id=run.id, channel=run.channel, body=body)
    )


def has_root(tx: Transaction, run: Run) -> bool:
    """Whether the bot began the request's thread."""
    return by_key(tx, _root(run)) is not None


def _root(run: Run) -> str:
    return f"root:{run.id}"


def put_line(tx: Transaction, key: str, channel: str, thread_ts: str, text: str) -> None:
    """A line of mrkdwn in a channel or thread, about no request."""
    body = dump_body({"text": text, "mrkdwn": True})
    kind = MessageKind.NOTICE
    put_message(tx, Message(key=key, kind=kind, channel=channel, thread_ts=thread_ts, body=body))


def put_everywhere(tx: Transaction, run: Run, plans: Iterable[str], key: str, text: str) -> None:
    """A line in the request's thread, and under each card of these plans that stands elsewhere."""
    shown = [card for plan_id in plans for card in cards(tx, plan_id)]
    found = {(card.channel, card.thread_ts or card.ts) for card in shown}
    for channel, thread_ts in sorted({(run.channel, run.thread_ts), *found}):
        if thread_ts:
            line = Message(
                key=f"{key}:{channel}:{thread_ts}",
                kind=MessageKind.NOTICE,
                run_id=run.id,
                channel=channel,
                thread_ts=thread_ts,
                body=dump_body({"text": text, "mrkdwn": True}),
            )
            put_message(tx, line)


def put_private(
    tx: Transaction,
    key: str,
    *,
    channel: str,
    thread_ts: str,
    person: str,
    text: str,
    mrkdwn: bool = False,
) -> None:
    """Words only `person` sees; `mrkdwn`: our own prose, formatted."""
    row = Message(
        key=key, kind=MessageKind.PRIVATE, channel=channel, thread_ts=thread_ts, recipient=person
    )
    row.body = dump_body({"text": text, "mrkdwn": mrkdwn})
    put_message(tx, row)


def redraw(tx: Transaction, plan_id: str) -> None:
    """Every card of this plan and its request's mark want drawing again, also one that could not be
    updated before.
    """
    moves.redraw(tx, plan_id)


def redraw_failed(tx: Transaction) -> None:
    """Every card that stands in Slack and could not be drawn wants drawing again."""
    moves.redraw_failed(tx)


def mark_sent(tx: Transaction, row: Message, *, ts: str, shown: int) -> None:
    """It stands in Slack as of version `shown`; stale at once when more was wanted meanwhile."""
    moves.mark_message_shown(tx, row, ts=ts, version=shown)


def record_shown_revisions(
    tx: Transaction, row: Message, *, ts: str, revisions: Mapping[str, int], at: datetime
) -> None:
    """Write down which revision of each call a card shows, unless it showed just these before.

    `revisions`: by call id; none where all it shows is that it no longer holds.
    """
    if (showing := dump_body(revisions)) == row.showing:
        return
    update_message(tx, row, showing=showing)
    where = {"channel": row.channel, "ts": ts, "calls": revisions}
    trail.record(tx, "card.shown", at=at, actor="system", run_id=row.run_id, data=where)


def channels_due(tx: Transaction, now: datetime, aside: Collection[int | None] = ()) -> set[str]:
    """Channels with something to do now: their earliest unsent message is not postponed.

    `aside`: messages that hold up nobody.
    """
    try:
        found = tx.execute(_CHANNELS)
    except (ValueError, TypeError, LookupError):  # one of them holds nonsense; `due` leaves it out
        return {row.channel for row in due_messages(tx, now, aside=aside)}
    earliest: dict[str, datetime | None] = {}
    for channel, due_at, kind, seq in found:
        waits = kind is not MessageKind.MARK and seq not in aside
        if waits or due_at is None or due_at <= now:
            earliest.setdefault(channel, due_at)
    return {channel for channel, due_at in earliest.items() if due_at is None or due_at <= now}


def due_messages(
    tx: Transaction,
    now: datetime,
    channel: str | None = None,
    aside: Collection[int | None] = (),
) -> list[Message]:
    """What should be sent or drawn now (in that channel), in order.

    Later messages wait for their channel's earlier, but for none that is a mark or put `aside`.
    """
    statement, only = (_DUE, {}) if channel is None else (_DUE_IN, {"channel_": channel})
    found = readable_rows(tx, Message, col(Message.seq), statement, **only)
    blocked: set[str] = set()
    ready = []
    for row in found:
        if row.due_at is not None and row.due_at > now:
            waits = row.kind is not MessageKind.MARK and row.seq not in aside
            blocked |= {row.channel} if waits else set()
        elif row.channel not in blocked:
            ready.append(row)
    return ready


def next_due(tx: Transaction) -> datetime | None:
    """When the earliest postponed message may be tried again."""
    found: datetime | None = tx.scalar(_NEXT_DUE)
    return found


def update_message(tx: Transaction, row: Message, **columns: Any) -> None:
    """Write columns of one message, all but its status."""
    if "status" in columns:
        raise IllegalMoveError("a message's status is moved by storage.moves")
    tx.execute(_columns(tuple(columns)), {"seq_": row.seq, **columns})


def by_key(tx: Transaction, key: str) -> Message | None:
    """The message of that key."""
    return first(tx, Message, _BY_KEY, key_=key)


def is_known_message(tx: Transaction, ts: str) -> bool:
    """Whether a message of that ts is one of ours."""
    return first(tx, Message, _BY_TS, ts_=ts) is not None


def cards(tx: Transaction, plan_id: str) -> list[Message]:
    """The cards of a plan, all copies and parts."""
    return rows(tx, Message, _CARDS, plan_id_=plan_id)


def card_copies(tx: Transaction, plan_id: str) -> list[Message]:
    """What a plan's requester sees of cards that stand elsewhere."""
    return rows(tx, Message, _COPIES, plan_id_=plan_id)


def calls_of(tx: Transaction, plan_id: str, card: int) -> list[str]:
    """The ids of the calls that this card of the plan shows.

    None when it is not a card of that plan.
    """
    where = (
        col(Message.seq) == card,
        col(Message.plan_id) == plan_id,
        col(Message.kind) == MessageKind.CARD,
    )
    found = first(tx, Message, select(Message).where(*where))
    ids: list[str] = body(found)["calls"] if found else []
    return ids


def dump_body(body: Mapping[str, Any]) -> str:
    """A message body as it is stored."""
    return json.dumps(dict(body), ensure_ascii=False)


def body(row: Message) -> dict[str, Any]:
    """A message's stored body."""
    loaded: dict[str, Any] = json.loads(row.body)
    return loaded


def has_posted(tx: Transaction, channel: str, thread_ts: str) -> bool:
    """Whether a message of a request stands below this one, or of one that was asked there."""
    given = {"channel_": channel, "thread_ts_": thread_ts}
    return bool(thread_ts) and tx.scalar(_POSTED_IN, given) is not None


def card_in(tx: Transaction, channel: str, thread_ts: str) -> Message | None:
    """The newest card that stands in this thread, or begins it."""
    if not thread_ts:
        return None
    return first(tx, Message, _CARD_IN, channel_=channel, thread_ts_=thread_ts)


def runs_with_card(tx: Transaction, run_ids: Collection[str]) -> set[str]:
    """Those of the runs of which a card stands in Slack."""
    where = (
        col(Message.run_id).in_(run_ids),
        col(Message.kind) == MessageKind.CARD,
        col(Message.ts) != "",
    )
    return {str(run_id) for (run_id,) in tx.execute(select(col(Message.run_id)).where(*where))}


def close_streams(tx: Transaction, run_id: str) -> bool:
    """Streams of this run that nobody writes to any more are to be closed, their words withdrawn.

    True if any are.
    """
    return moves.close_streams(tx, run_id, dump_body({"text": "", "streamed": False}))


def is_streaming(tx: Transaction, row: Message) -> bool:
    """Whether nobody has closed this stream yet."""
    return bool(tx.scalar(_STATUS, {"seq_": row.seq}) == MessageStatus.STREAMING)


def close_late_stream(tx: Transaction, row: Message) -> bool:
    """A stream that was given up before it began is to be closed after all; True if it is one."""
    found = by_key(tx, row.key)
    if found is None or not found.ts or found.status is not MessageStatus.FAILED:
        return False
    return moves.message(tx, found, MessageStatus.CLOSING, error="")


def is_behind(tx: Transaction, run: Run) -> bool:
    """Whether something of this request has yet to be posted where the request stands."""
    return tx.scalar(_UNPOSTED, {"run_": run.id, "channel_": run.channel}) is not None


def newest(tx: Transaction) -> int:
    """The `seq` of the newest message, 0 when there is none."""
    return int(tx.scalar(_NEWEST) or 0)
