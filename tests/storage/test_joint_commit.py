"""Deliveries that arrive at once share a commit; one that cannot be stored fails alone."""

from __future__ import annotations

import threading

import pytest

from storage.inbox import DeliveryGroupWriter
from storage.models import Delivery
from storage.states import DeliveryKind
from storage.store import Store
from storage.transaction import Trace, Transaction
from tests.storage.builders import AT

CLICKS = 24


def make_click(number: int, team: str = "T1") -> Delivery:
    """A click."""
    return Delivery(key=f"click:{number}", kind=DeliveryKind.ACTION, team=team, user="UANA00001")


class CommitGate(Trace):
    """Counts commits of writers; holds up the first until all others wait for their turn."""

    def __init__(self) -> None:
        self.commits = 0
        self.first, self.go_on = threading.Event(), threading.Event()

    def before_commit(self, tx: Transaction) -> None:
        """Hold up the first, as a slow disk would."""
        if tx.writes:
            self.commits += 1
            self.first.set()
            assert self.go_on.wait(20)


def store_at_once(
    arrivals: DeliveryGroupWriter, watch: CommitGate, given: list[Delivery]
) -> list[object]:
    """Store all of these while the first is being committed; returns the result of each."""
    came: list[object] = [None] * len(given)

    def keep(index: int) -> None:
        try:
            came[index] = arrivals.commit_delivery(given[index])
        except Exception as error:  # noqa: BLE001 - what came of it
            came[index] = error

    threads = [threading.Thread(target=keep, args=(index,)) for index in range(len(given))]
    threads[0].start()
    assert watch.first.wait(20)
    for each in threads[1:]:
        each.start()
    while len(arrivals._gathered) < len(given) - 1:
        threading.Event().wait(0.001)
    watch.go_on.set()
    for each in threads:
        each.join(20)
    return came


def test_deliveries_that_arrive_during_a_commit_share_the_next_one(store: Store) -> None:
    """The first has a commit of its own, however long the disk takes."""
    store.trace = watch = CommitGate()
    told: list[str] = []
    arrivals = DeliveryGroupWriter(store, lambda: AT, lambda each: told.append(each.key))
    came = store_at_once(arrivals, watch, [make_click(number) for number in range(CLICKS)])
    assert came == [True] * CLICKS
    assert watch.commits == 2
    assert sorted(told) == sorted(f"click:{number}" for number in range(CLICKS))
    with store.read() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM delivery").scalar() == CLICKS


def test_one_of_two_equal_deliveries_in_a_commit_is_new(store: Store) -> None:
    """The other one is reported as known."""
    store.trace = watch = CommitGate()
    arrivals = DeliveryGroupWriter(store, lambda: AT, lambda _each: None)
    came = store_at_once(arrivals, watch, [make_click(0), make_click(1), make_click(1)])
    assert sorted(map(bool, came)) == [False, True, True]


def test_a_delivery_that_cannot_be_stored_fails_alone(store: Store) -> None:
    """The deliveries that waited with it are stored."""
    store.trace = watch = CommitGate()
    arrivals = DeliveryGroupWriter(store, lambda: AT, lambda _each: None)
    broken = make_click(2)
    broken.__dict__["status"] = "nonsense"
    came = store_at_once(arrivals, watch, [make_click(0), make_click(1), broken, make_click(3)])
    assert [came[0], came[1], came[3]] == [True, True, True]
    assert isinstance(came[2], Exception)


def test_a_closed_store_raises_for_a_delivery(store: Store) -> None:
    """Nobody is told that it was stored."""
    arrivals = DeliveryGroupWriter(store, lambda: AT, lambda _each: None)
    store.close()
    with pytest.raises(Exception, match="closed"):
        arrivals.commit_delivery(make_click(0))
