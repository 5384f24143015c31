"""The inbox: deliveries from Slack, with a joint commit for those that arrive at once.

Also here: the people whom the bot has greeted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select, update
from sqlmodel import Field, col

from storage import columns, moves
from storage.database_errors import is_temporary_database_error
from storage.models import Delivery, Run
from storage.states import DeliveryKind, DeliveryStatus
from storage.store import Store
from storage.transaction import Transaction, fetch_readable_rows, insert_row_if_absent

insert_delivery = moves.insert_delivery
CLICK_KINDS = (  # what people do to calls, in Slack or on the signing page
    DeliveryKind.ACTION,
    DeliveryKind.SUBMISSION,
    DeliveryKind.SIGNATURE,
    DeliveryKind.ENROLMENT,
)
_UNSETTLED_STATUSES = (DeliveryStatus.NEW, DeliveryStatus.HELD)
_SELECT_NEW = (
    select(Delivery).where(col(Delivery.status) == DeliveryStatus.NEW).order_by(col(Delivery.seq))
)
_SELECT_UNSETTLED = (
    select(Delivery)
    .where(col(Delivery.status).in_(_UNSETTLED_STATUSES))
    .order_by(col(Delivery.seq))
)
_UPDATE_UNSETTLED_BODY = (
    update(Delivery)
    .where(col(Delivery.seq) == bindparam("seq_"), col(Delivery.status).in_(_UNSETTLED_STATUSES))
    .values(body=bindparam("body_"))
)
SELECT_NEWEST_SEQ = select(func.max(col(Delivery.seq)))
_SELECT_NEWEST_TAKEN_KEY = (
    select(col(Delivery.key))
    .join(Run, col(Run.id) == col(Delivery.run_id))
    .where(
        *columns.build_thread_conditions(Delivery),
        col(Run.channel) == bindparam("run_channel_"),
        col(Run.thread_ts) == bindparam("run_thread_"),
    )
    .where(col(Delivery.kind) == DeliveryKind.MESSAGE, col(Delivery.status) == DeliveryStatus.DONE)
    .order_by(col(Delivery.seq).desc())
    .limit(1)
)


class DeliveryAlreadyHandledError(Exception):
    """Raised when another process has already dealt with the delivery."""


def list_new_deliveries(tx: Transaction) -> list[Delivery]:
    """Return the deliveries with status NEW, in the order they were stored."""
    return fetch_readable_rows(tx, Delivery, col(Delivery.seq), _SELECT_NEW)


def is_delivery_still_new(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether the delivery's status in the database is still NEW."""
    return tx.find_row(Delivery, seq=delivery.seq, status=DeliveryStatus.NEW) is not None


def list_new_and_held_deliveries(tx: Transaction) -> list[Delivery]:
    """Return the deliveries that are NEW or HELD, in the order they were stored."""
    return fetch_readable_rows(tx, Delivery, col(Delivery.seq), _SELECT_UNSETTLED)


def list_messages_held_for_run(tx: Transaction, run_id: str) -> list[Delivery]:
    """Return the messages that wait for the run's next model turn, in order."""
    held = {"run_id": run_id, "status": DeliveryStatus.HELD}
    return tx.list_rows(Delivery, order_by="seq", **held)


def mark_delivery_done(tx: Transaction, delivery: Delivery, note: str) -> None:
    """Mark a delivery as done; `note` says how, for the operator.

    Raises DeliveryAlreadyHandledError if its status has changed meanwhile.
    """
    _change_status_or_raise(tx, delivery, DeliveryStatus.DONE, note=note)


def mark_message_in_transcript(tx: Transaction, delivery: Delivery) -> bool:
    """Mark a message as taken into the transcript; False if edited after `delivery` was read.

    Also False if its status has changed.
    """
    note = "taken into the transcript"
    return moves.change_delivery_status_if_unedited(tx, delivery, DeliveryStatus.DONE, note=note)


def store_delivery_answer(tx: Transaction, delivery: Delivery, text: str) -> None:
    """Store the answer to a delivery that came from elsewhere than Slack, such as a terminal."""
    tx.update_rows(Delivery, {"seq": delivery.seq}, answer=text)


def finish_delivery_and_erase_body(tx: Transaction, delivery: Delivery, note: str) -> None:
    """Mark a delivery as done and erase its body, as it is not for the bot.

    Raises DeliveryAlreadyHandledError if its status has changed meanwhile.
    """
    _change_status_or_raise(tx, delivery, DeliveryStatus.DONE, note=note, body="{}")


def replace_body_of_unread_message(tx: Transaction, delivery: Delivery, body: str) -> None:
    """Replace the body of a message that was edited in Slack, if it is still NEW or HELD."""
    tx.execute(_UPDATE_UNSETTLED_BODY, {"seq_": delivery.seq, "body_": body})


def replace_delivery(tx: Transaction, old: Delivery | None, new: Delivery) -> None:
    """Store the changed columns of a delivery, which takes the key of an `old` one, if any."""
    if old is not None:
        tx.update_rows(Delivery, {"seq": old.seq}, key=f"replaced:{new.seq}:{old.key}")
    columns = {"key": new.key, "user": new.user, "thread_ts": new.thread_ts, "body": new.body}
    tx.update_rows(Delivery, {"seq": new.seq}, **columns)


def hold_message_until_next_turn(
    tx: Transaction, delivery: Delivery, run_id: str, *, asked_in: str = ""
) -> None:
    """Hold a message until the run's next model turn; `asked_in`: the channel, if Slack gave none.

    Raises DeliveryAlreadyHandledError if its status has changed meanwhile.
    """
    place = {"channel": asked_in} if asked_in else {}
    _change_status_or_raise(tx, delivery, DeliveryStatus.HELD, run_id=run_id, **place)


def _change_status_or_raise(
    tx: Transaction, delivery: Delivery, target: DeliveryStatus, **columns: Any
) -> None:
    if not moves.change_delivery_status(tx, delivery, target, **columns):
        raise DeliveryAlreadyHandledError(delivery.key)


def count_failed_delivery_attempt(
    tx: Transaction, delivery: Delivery, error: str, *, limit: int
) -> bool:
    """Count a failed attempt at a delivery; after `limit` attempts mark it BROKEN.

    True if it is broken now.
    """
    failed = {"attempts": delivery.attempts + 1, "note": error[:500]}
    if delivery.attempts + 1 >= limit:
        moves.change_delivery_status(tx, delivery, DeliveryStatus.BROKEN, **failed)
        return True
    tx.update_rows(Delivery, {"seq": delivery.seq}, **failed)
    return False


def get_newest_transcript_message_ts(tx: Transaction, run: Run, delivery: Delivery) -> str:
    """Return the Slack ts of the newest message that is in the run's transcript, or "".

    Only messages in the `delivery`'s thread count, which differs from the run's if that goes on in
    private.
    """
    at = {"team_": delivery.team, "channel_": delivery.channel, "thread_ts_": delivery.thread_ts}
    run_at = {"run_channel_": run.channel, "run_thread_": run.thread_ts}
    key: str | None = tx.scalar(_SELECT_NEWEST_TAKEN_KEY, {**at, **run_at})
    return key.rsplit(":", 1)[1] if key else ""


def get_request_message_ts(tx: Transaction, run_id: str) -> str:
    """Return the Slack ts of the message that started a run, or ""."""
    found = tx.find_row(Delivery, order_by="seq", run_id=run_id, kind=DeliveryKind.MESSAGE)
    return found.key.rsplit(":", 1)[1] if found else ""


def find_first_delivery_thread(tx: Transaction, run_id: str) -> tuple[str, str] | None:
    """Return the channel and thread of the delivery that started the run; None if there is none.

    The run itself may go on in another place.
    """
    found = tx.find_row(Delivery, order_by="seq", run_id=run_id)
    return (found.channel, found.thread_ts) if found else None


def is_first_delivery_of_run(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether this delivery is the one that started its run."""
    first = tx.find_row(Delivery, order_by="seq", run_id=delivery.run_id or "")
    return first is not None and first.seq == delivery.seq


def get_newest_delivery_seq(tx: Transaction) -> int:
    """Return the `seq` of the newest delivery; 0 if there is none."""
    return int(tx.scalar(SELECT_NEWEST_SEQ) or 0)


def has_delivery(tx: Transaction, key: str) -> bool:
    """Return whether a delivery with that key is stored."""
    return find_delivery(tx, key) is not None


def find_delivery(tx: Transaction, key: str) -> Delivery | None:
    """Return the delivery with that key, or None."""
    return tx.find_row(Delivery, key=key)


_PendingDelivery = tuple[Delivery, Future[bool]]  # the future tells whether it was inserted


class DeliveryGroupWriter:
    """Stores deliveries that arrive together in one commit; one per process, thread-safe."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], taken: Callable[[Delivery], None]
    ) -> None:
        """Set the store; `taken` is called for each new delivery, before the commit."""
        self._store, self._get_time, self._handle_stored = store, now, taken
        self._commit_lock = threading.Lock()  # one thread commits at a time, the others gather
        self._gather_lock = threading.Lock()
        self._gathered: list[_PendingDelivery] = []

    def commit_delivery(self, delivery: Delivery) -> bool:
        """Return once the delivery is committed; False if it was stored before.

        Raises the error of the commit.
        """
        own = Future[bool]()
        with self._gather_lock:
            self._gathered.append((delivery, own))
        with self._commit_lock:
            if not own.done():
                with self._gather_lock:
                    together, self._gathered = self._gathered, []
                self._commit_group(together)
        return own.result(timeout=0)

    def _commit_group(self, together: list[_PendingDelivery]) -> None:
        """Store all deliveries in one commit; if one cannot be stored, store each by itself."""
        try:
            inserted = self._insert_group([delivery for delivery, _ in together])
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
            if len(together) > 1 and not is_temporary_database_error(error):
                for each in together:
                    self._commit_group([each])
                return
            for _, waiting in together:
                waiting.set_exception(error)
        else:
            for (_, waiting), was_inserted in zip(together, inserted, strict=True):
                waiting.set_result(was_inserted)

    def _insert_group(self, deliveries: list[Delivery]) -> list[bool]:
        inserted = []
        with self._store.write() as tx:
            for each in deliveries:
                each.received_at = self._get_time()  # inside the transaction: times match the order
                inserted.append(insert_delivery(tx, each))
                if inserted[-1]:
                    self._handle_stored(each)
        return inserted


class GreetedPerson(columns.Row, table=True):
    """A person the bot has greeted."""

    __tablename__ = "contact"
    team: str = Field(primary_key=True)
    person: str = Field(primary_key=True)
    greeted_at: datetime = columns.time_column()


def mark_person_greeted(tx: Transaction, team: str, person: str, *, at: datetime) -> bool:
    """Record that this person was greeted; True if it is the first time."""
    row = GreetedPerson(team=team, person=person, greeted_at=at)
    return insert_row_if_absent(tx, row, ("team", "person"))
