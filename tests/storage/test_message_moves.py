"""Messages and deliveries move by their tables alone, and the second of two loses."""

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


def message(tx: Transaction, status: MessageStatus) -> Message:
    """A row of the outbox in that status, as it is read."""
    outbox.queue_message(tx, Message(key="k", kind=MessageKind.NOTICE, channel="C1"))
    row = outbox.find_message_by_key(tx, "k")
    assert row is not None
    set_message(tx, row, status=status)
    return fetch_rows(tx, Message, select(Message).where(col(Message.seq) == row.seq))[0]


@pytest.mark.parametrize(("source", "target"), list(product(M, M)))
def test_a_message_moves_as_the_table_says(
    store: Store, source: MessageStatus, target: MessageStatus
) -> None:
    """Each of the cells: the move is made and read back, or refused as a bug."""
    with store.write() as tx:
        row = message(tx, source)
        if target in MESSAGE_TRANSITIONS[source]:
            assert moves.change_message_status(tx, row, target, error="why")
            now = outbox.find_message_by_key(tx, "k")
            assert now is not None
            assert (now.status, now.error) == (target, "why")
        else:
            with pytest.raises(IllegalStatusChangeError):
                moves.change_message_status(tx, row, target)


def test_a_message_that_has_moved_meanwhile_is_left(store: Store) -> None:
    """Of two who read the same row the second moves nothing, and is told so."""
    with store.write() as tx:
        row = message(tx, M.PENDING)
        assert moves.change_message_status(tx, row, M.FAILED)
        assert not moves.change_message_status(tx, row, M.SENDING)
        moves.record_message_version_in_slack(tx, row, ts="1.1", version=1)
        now = outbox.find_message_by_key(tx, "k")
    assert now is not None
    assert (now.status, now.ts) == (M.FAILED, "")


def test_a_message_is_born_to_be_sent_or_streamed(store: Store) -> None:
    """No message begins in the middle of its way, and its status is nobody else's to write."""
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
def test_a_delivery_is_dealt_with_once(store: Store, target: DeliveryStatus) -> None:
    """A delivery that was dealt with, held or set aside is not dealt with again as a new one."""
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
