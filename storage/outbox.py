"""The outbox: the messages that still have to be sent to Slack, and the cards to be redrawn.

A card is redrawn whenever its version `wanted` is higher than its version `shown`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import bindparam, func, select
from sqlmodel import col

from storage import moves, trail
from storage.columns import build_thread_conditions
from storage.models import Delivery, Message, Run
from storage.states import (
    MESSAGE_OPEN_STATUSES,
    IllegalStatusChangeError,
    MessageKind,
    MessageStatus,
)
from storage.transaction import Transaction, fetch_first_row, fetch_readable_rows

QUESTION_KEY = "question"  # in a card's body: the card shows a question to people
_KINDS_WITHOUT_CHANNEL_LIMIT = (
    MessageKind.PRIVATE,
    MessageKind.MARK,
)  # Slack limits these by method, not by channel
NOTIFIED_KEY = "notified"  # in a message's body: ids of people whom a mention in it notifies
# in a card's body: it was posted again; the timestamp of the message that was given up for that
# (true from earlier builds)
REPOSTED_KEY = "reposted"
_UNSENT_CONDITION = col(Message.status).in_(MESSAGE_OPEN_STATUSES)
_SELECT_UNSENT = select(Message).where(_UNSENT_CONDITION).order_by(col(Message.seq))
_SELECT_UNSENT_IN_CHANNEL = _SELECT_UNSENT.where(col(Message.channel) == bindparam("channel_"))


class _Place(NamedTuple):
    """The columns of a message that decide when it may be sent and which messages wait for it."""

    channel: str
    thread_ts: str
    ts: str
    kind: MessageKind
    status: MessageStatus
    due_at: datetime | None
    seq: int | None


_Row = TypeVar("_Row", Message, _Place)
_SELECT_UNSENT_PLACES = _SELECT_UNSENT.with_only_columns(
    *(col(getattr(Message, name)) for name in _Place._fields)
)
_SELECT_NEXT_DUE_AT = select(func.min(col(Message.due_at))).where(
    _UNSENT_CONDITION, col(Message.due_at) > bindparam("now_")
)
_SELECT_NEWEST_SEQ = select(func.max(col(Message.seq)))
_SELECT_UNPOSTED_SEQ = select(col(Message.seq)).where(
    col(Message.run_id) == bindparam("run_"),
    col(Message.channel) == bindparam("channel_"),
    col(Message.status).in_((MessageStatus.PENDING, MessageStatus.SENDING)),
    col(Message.kind) != MessageKind.MARK,
)
_POSTED_FOR_THREAD_CONDITIONS = (  # also if one of the run's messages begins the thread
    col(Message.run_id).in_(
        select(col(Run.id))
        .where(*build_thread_conditions(Run))
        .union(select(col(Message.run_id)).where(col(Message.ts) == bindparam("thread_ts_")))
    ),
    col(Message.channel) == bindparam("channel_"),
    col(Message.run_id) != "",
    col(Message.ts) != "",
)
_SELECT_POSTED_IN_THREAD = (
    select(col(Message.seq))
    .where(*_POSTED_FOR_THREAD_CONDITIONS, col(Message.thread_ts) == bindparam("thread_ts_"))
    .where(col(Message.kind) != MessageKind.MARK)
    .limit(1)
)
_SELECT_NEWEST_CARD_OF_THREAD = (
    select(Message)
    .where(*_POSTED_FOR_THREAD_CONDITIONS, col(Message.kind) == MessageKind.CARD)
    .order_by(col(Message.seq).desc())
    .limit(1)
)


queue_message = moves.insert_message  # False, and no change, if a message with that key exists
mark_cards_for_redraw = moves.mark_cards_for_redraw


def queue_notice(
    tx: Transaction, run: Run, key: str, body: Mapping[str, Any], *, notified: Iterable[str] = ()
) -> None:
    """Add a notice to the run's thread; `body` is {"text": …} or {"text": …, "blocks": […]}.

    `notified`: the ids of the people and user groups for whom Slack is to notify; others whom the
    text mentions are shown by name.
    """
    sent = {**body, NOTIFIED_KEY: list(notified)}
    queue_thread_message(tx, run, key, sent, kind=MessageKind.NOTICE)


def queue_thread_message(
    tx: Transaction, run: Run, key: str, body: Mapping[str, Any], *, kind: MessageKind
) -> None:
    """Add a message of the given kind to the run's thread."""
    queue_message(
        tx,
        Message(
            key=key,
            kind=kind,
            run_id=run.id,
            channel=run.channel,
            thread_ts=run.thread_ts,
            body=dump_message_body(body),
        ),
    )


def queue_thread_root_message(
    tx: Transaction, run: Run, text: str, blocks: Sequence[Mapping[str, Any]]
) -> None:
    """Add the message with which the bot begins a request's thread, if it has not been added yet.

    Workers may take the request once Slack has this message.
    """
    body, kind = dump_message_body({"text": text, "blocks": blocks}), MessageKind.ROOT
    queue_message(
        tx,
        Message(
            key=_thread_root_message_key(run),
            kind=kind,
            run_id=run.id,
            channel=run.channel,
            body=body,
        ),
    )


def has_bot_begun_request_thread(tx: Transaction, run: Run) -> bool:
    """Return whether the bot has queued the thread's first message itself."""
    return find_message_by_key(tx, _thread_root_message_key(run)) is not None


def _thread_root_message_key(run: Run) -> str:
    return f"root:{run.id}"


def queue_text_line(
    tx: Transaction, key: str, channel: str, thread_ts: str, text: str, run_id: str = ""
) -> None:
    """Add a line of mrkdwn to a channel or thread; `run_id`: of the request it belongs to."""
    place = {"channel": channel, "thread_ts": thread_ts, "run_id": run_id}
    body = dump_message_body({"text": text, "mrkdwn": True})
    queue_message(tx, Message(key=key, kind=MessageKind.NOTICE, body=body, **place))


def queue_line_in_all_threads(
    tx: Transaction,
    run: Run,
    plans: Iterable[str],
    key: str,
    text: str,
    *,
    notified: Iterable[str] = (),
) -> None:
    """Add a line to the request's thread, and to every other thread with a card of these plans.

    `notified`: see `queue_notice`.
    """
    body = dump_message_body({"text": text, "mrkdwn": True, NOTIFIED_KEY: list(notified)})
    cards = [card for plan_id in plans for card in list_cards_of_plan(tx, plan_id)]
    card_threads = {(card.channel, card.thread_ts or card.ts) for card in cards}
    for channel, thread_ts in sorted({(run.channel, run.thread_ts), *card_threads}):
        if thread_ts:
            line = Message(
                key=f"{key}:{channel}:{thread_ts}",
                kind=MessageKind.NOTICE,
                run_id=run.id,
                channel=channel,
                thread_ts=thread_ts,
                body=body,
            )
            queue_message(tx, line)


def queue_private_message(
    tx: Transaction,
    key: str,
    *,
    person: str,
    text: str,
    channel: str = "",
    thread_ts: str = "",
    mrkdwn: bool = False,
    **more: Any,
) -> None:
    """Add a message that only `person` sees; `mrkdwn`: whether its text is formatted.

    `channel`: "" for their direct messages. `more`: further entries of the body, for the code that
    draws the message.
    """
    place = {"channel": channel or person, "thread_ts": thread_ts}
    row = Message(key=key, kind=MessageKind.PRIVATE, **place, recipient=person)
    row.body = dump_message_body({"text": text, "mrkdwn": mrkdwn, **more})
    queue_message(tx, row)


def queue_private_reply(
    tx: Transaction, delivery: Delivery, text: str, *, key: str = "", **more: Any
) -> None:
    """Queue a message that only a delivery's author sees, in the channel and thread it came from.

    `key`: the message's key; "" for the one reply to the delivery. `more`: see
    `queue_private_message`.
    """
    queue_private_message(
        tx,
        key or f"private:{delivery.seq}",
        channel=delivery.channel,
        thread_ts=delivery.thread_ts,
        person=delivery.user,
        text=text,
        **more,
    )


def record_revisions_shown_on_card(
    tx: Transaction, row: Message, *, ts: str, revisions: Mapping[str, int], at: datetime
) -> None:
    """Record in the audit which revision of each call a card shows, unless it is recorded already.

    `revisions`: by call id; empty if the card only says that it is no longer valid.
    """
    if (showing := dump_message_body(revisions)) == row.showing:
        return
    update_message(tx, row, showing=showing)
    where = {"channel": row.channel, "ts": ts, "calls": revisions}
    trail.record_event(tx, "card.shown", at=at, actor="system", run_id=row.run_id, data=where)


def counts_against_channel_rate_limit(row: Message | _Place) -> bool:
    """Return whether sending this message counts against Slack's rate limit of its channel."""
    return (
        not row.ts
        and row.status is not MessageStatus.CLOSING
        and row.kind not in _KINDS_WITHOUT_CHANNEL_LIMIT
    )


def list_channels_with_due_messages(
    tx: Transaction, now: datetime, aside: Collection[int | None] = ()
) -> set[str]:
    """Return the channels in which a message may be sent now; see `list_due_messages`."""
    try:
        found = [_Place(*each) for each in tx.execute(_SELECT_UNSENT_PLACES)]
        return {row.channel for row in _filter_due(found, now, aside)}
    except (ValueError, TypeError, LookupError):  # an unreadable row: `list_due_messages` skips it
        return {row.channel for row in list_due_messages(tx, now, aside=aside)}


def list_due_messages(
    tx: Transaction, now: datetime, channel: str | None = None, aside: Collection[int | None] = ()
) -> list[Message]:
    """Return the messages to be sent or redrawn now (in that channel, if one is given), in order.

    A postponed post holds up the later posts of its channel. Any other message, such as a change to
    a card, holds up only later messages of its thread, because Slack limits it by method. Marks,
    and messages whose `seq` is in `aside`, hold up nothing.
    """
    statement, only = (
        (_SELECT_UNSENT, {})
        if channel is None
        else (_SELECT_UNSENT_IN_CHANNEL, {"channel_": channel})
    )
    found = fetch_readable_rows(tx, Message, col(Message.seq), statement, **only)
    return list(_filter_due(found, now, aside))


def _filter_due(
    found: Iterable[_Row], now: datetime, aside: Collection[int | None]
) -> Iterator[_Row]:
    held: set[tuple[str, str | None]] = set()  # held-up (channel, thread); None: its posts
    for row in found:
        places: set[tuple[str, str | None]] = {(row.channel, row.thread_ts or row.ts)}
        if counts_against_channel_rate_limit(row):
            places.add((row.channel, None))
        if row.due_at is not None and row.due_at > now:
            if row.kind is not MessageKind.MARK and row.seq not in aside:
                held |= places
        elif held.isdisjoint(places):
            yield row


def find_next_message_retry_time(tx: Transaction, now: datetime) -> datetime | None:
    """Return when the earliest postponed message may be tried again; None if there is none.

    What was due by `now` is sent already, or waits for one of these.
    """
    found: datetime | None = tx.scalar(_SELECT_NEXT_DUE_AT, {"now_": now})
    return found


def update_message(tx: Transaction, row: Message, **columns: Any) -> None:
    """Update columns of one message; IllegalStatusChangeError if its status is among them."""
    if "status" in columns:
        raise IllegalStatusChangeError("a message's status is moved by storage.moves")
    tx.update_rows(Message, {"seq": row.seq}, **columns)


def find_message_by_key(tx: Transaction, key: str) -> Message | None:
    """Return the message with that key; None if there is none."""
    return tx.find_row(Message, key=key)


def was_posted_by_bot(tx: Transaction, ts: str) -> bool:
    """Return whether the bot posted the message with that Slack timestamp."""
    return tx.find_row(Message, ts=ts) is not None


def find_card(tx: Transaction, channel: str, ts: str) -> Message | None:
    """Return the card (kind CARD) with this Slack timestamp; None if there is none."""
    return tx.find_row(Message, channel=channel, ts=ts, kind=MessageKind.CARD)


def list_cards_of_plan(tx: Transaction, plan_id: str) -> list[Message]:
    """Return all cards of a plan (kind CARD): every part, in every channel."""
    return tx.list_rows(Message, plan_id=plan_id, kind=MessageKind.CARD)


def list_card_copies(tx: Transaction, plan_id: str) -> list[Message]:
    """Return the copies of a plan's cards that its requester sees when the cards are elsewhere."""
    return tx.list_rows(Message, plan_id=plan_id, kind=MessageKind.COPY)


def list_call_ids_on_card(tx: Transaction, plan_id: str, card: int) -> list[str]:
    """Return the ids of the calls that this card of the plan shows.

    Empty if the message is not a card of that plan.
    """
    found = tx.find_row(Message, seq=card, plan_id=plan_id, kind=MessageKind.CARD)
    ids: list[str] = parse_message_body(found)["calls"] if found else []
    return ids


def dump_message_body(body: Mapping[str, Any]) -> str:
    """Return a message body as the JSON text that is stored."""
    return json.dumps(dict(body), ensure_ascii=False)


def parse_message_body(row: Message) -> dict[str, Any]:
    """Return a message's stored body as a dict."""
    loaded: dict[str, Any] = json.loads(row.body)
    return loaded


def get_given_up_timestamp(row: Message) -> str:
    """Return the timestamp of the message that a card was posted again for; "" if there is none."""
    found = parse_message_body(row).get(REPOSTED_KEY)
    return found if isinstance(found, str) else ""


def has_request_message_in_thread(tx: Transaction, team: str, channel: str, thread_ts: str) -> bool:
    """Return whether the bot has posted in this thread for a request made in it.

    Also true for a request whose own message begins the thread.
    """
    given = {"team_": team, "channel_": channel, "thread_ts_": thread_ts}
    return tx.scalar(_SELECT_POSTED_IN_THREAD, given) is not None


def find_newest_card_of_thread(
    tx: Transaction, team: str, channel: str, thread_ts: str
) -> Message | None:
    """Return the newest card in the channel for a request of this thread; None if there is none.

    Such a request was made in the thread, or one of its messages begins it.
    """
    if not thread_ts:
        return None
    given = {"team_": team, "channel_": channel, "thread_ts_": thread_ts}
    return fetch_first_row(tx, Message, _SELECT_NEWEST_CARD_OF_THREAD, **given)


def filter_run_ids_with_card(tx: Transaction, run_ids: Collection[str]) -> set[str]:
    """Return those of the run ids that have a card in Slack."""
    where = (
        col(Message.run_id).in_(run_ids),
        col(Message.kind) == MessageKind.CARD,
        col(Message.ts) != "",
    )
    return {str(run_id) for (run_id,) in tx.execute(select(col(Message.run_id)).where(*where))}


def withdraw_open_streams(tx: Transaction, run_id: str) -> bool:
    """Mark messages that this run streams to be closed and their text withdrawn; True if any."""
    return moves.close_open_streams(tx, run_id, dump_message_body({"text": "", "streamed": False}))


def is_stream_open(tx: Transaction, row: Message) -> bool:
    """Return whether this message is still being streamed to Slack."""
    return tx.find_row(Message, seq=row.seq, status=MessageStatus.STREAMING) is not None


def close_given_up_stream(tx: Transaction, row: Message) -> bool:
    """Mark a streamed message that was given up to be closed; False if Slack has not begun it.

    Also False if it is not given up any more.
    """
    found = find_message_by_key(tx, row.key)
    if found is None or not found.ts or found.status is not MessageStatus.FAILED:
        return False
    return moves.change_message_status(tx, found, MessageStatus.CLOSING, error="")


def has_unposted_messages(tx: Transaction, run: Run) -> bool:
    """Return whether a message of this request still has to be posted in the request's channel."""
    return tx.scalar(_SELECT_UNPOSTED_SEQ, {"run_": run.id, "channel_": run.channel}) is not None


def get_newest_message_seq(tx: Transaction) -> int:
    """Return the `seq` of the newest message; 0 if there is none."""
    return int(tx.scalar(_SELECT_NEWEST_SEQ) or 0)
