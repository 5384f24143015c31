"""Messages and deliveries change status as their tables say; the second of two changes loses."""

from __future__ import annotations

from itertools import product

import pytest
from sqlmodel import col, select

from storage import inbox, moves, outbox
from storage.models import Delivery, Message
from storage.states import (
    DELIVERY_TRANSITIONS,
    MESSAGE_TRANSITIONS,
    DeliveryStatus,
    IllegalStatusChangeError,
    MessageKind,
    MessageStatus,
)
from storage.store import Store
from storage.transaction import Transaction, fetch_rows
from tests.storage.builders import delivery, set_message

M, D = MessageStatus, DeliveryStatus


def add_message(tx: Transaction, status: MessageStatus) -> Message:
    """Store a message in that status, and return it as it is read."""
    outbox.queue_message(tx, Message(key="k", kind=MessageKind.NOTICE, channel="C1"))
    row = outbox.find_message_by_key(tx, "k")
    assert row is not None
    set_message(tx, row, status=status)
    return fetch_rows(tx, Message, select(Message).where(col(Message.seq) == row.seq))[0]


@pytest.mark.parametrize(("source", "target"), list(product(M, M)))
def test_a_message_changes_status_only_as_the_table_says(
    store: Store, source: MessageStatus, target: MessageStatus
) -> None:
    """Any other change raises, since it is a bug."""
    with store.write() as tx:
        row = add_message(tx, source)
        if target in MESSAGE_TRANSITIONS[source]:
            assert moves.change_message_status(tx, row, target, error="why")
            now = outbox.find_message_by_key(tx, "k")
            assert now is not None
            assert (now.status, now.error) == (target, "why")
        else:
            with pytest.raises(IllegalStatusChangeError):
                moves.change_message_status(tx, row, target)


def test_the_second_change_of_the_same_message_loses(store: Store) -> None:
    """The caller is told so."""
    with store.write() as tx:
        row = add_message(tx, M.PENDING)
        assert moves.change_message_status(tx, row, M.FAILED)
        assert not moves.change_message_status(tx, row, M.SENDING)
        moves.record_message_version_in_slack(tx, row, ts="1.1", version=1)
        now = outbox.find_message_by_key(tx, "k")
    assert now is not None
    assert (now.status, now.ts) == (M.FAILED, "")


def test_a_new_message_is_pending_or_streaming(store: Store) -> None:
    """No other function writes its status."""
    born = {M.PENDING, M.STREAMING}
    for status in M:
        row = Message(key=status, kind=MessageKind.NOTICE, channel="C1", status=status)
        with store.write() as tx:
            if status in born:
                outbox.queue_message(tx, row)
                continue
            with pytest.raises(IllegalStatusChangeError):
                outbox.queue_message(tx, row)
    with store.write() as tx, pytest.raises(IllegalStatusChangeError):
        outbox.update_message(tx, row, status=M.SENT)


@pytest.mark.parametrize("target", [D.HELD, D.DONE, D.BROKEN])
def test_a_delivery_is_handled_once(store: Store, target: DeliveryStatus) -> None:
    """It cannot be handled again after it was finished, held or set aside."""
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery("a"))
        [row] = inbox.list_new_deliveries(tx)
        assert moves.change_delivery_status(tx, row, target)
        assert not moves.change_delivery_status(tx, row, D.DONE)
        [now] = fetch_rows(tx, Delivery, select(Delivery))
        assert now.status is target
        for other in set(D) - DELIVERY_TRANSITIONS[target]:
            with pytest.raises(IllegalStatusChangeError):
                moves.change_delivery_status(tx, now, other)
