"""A database that cannot be written: nothing is acknowledged or run, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import URL
from sqlalchemy.exc import OperationalError

from bot.core import Core
from bot.runs.loop import MainLoop
from bot.runs.worker_pool import WorkerPool
from storage import inbox
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.runs.bolt_app import bolt, press
from tests.runs.fakes import ANA, FakeDirectory, StillClock, make_core, make_tools
from tests.storage.builders import C, R, Seeded, click, delivery, seed


class Full:
    """Makes the disk full for `store`, as SQLite sees it, and free again."""

    def __init__(self, store: Store) -> None:
        self.store, self.pages = store, 0
        self._file: Any = store.database
        self._connect = self._file._connect

    def _limited(self, url: URL) -> Any:
        connection = self._connect(url)
        connection.execute(f"PRAGMA max_page_count = {self.pages}")
        return connection

    def full(self) -> None:
        """Fill every page there is, and allow no more."""
        with self.store.read() as tx:
            self.pages = int(tx.exec_driver_sql("PRAGMA page_count").scalar() or 0)
        self._file._connect = self._limited
        self._file.close_idle_connections()
        number = 0
        for size in (3000, 300, 30, 0):
            for _ in range(100):
                number += 1
                try:
                    with self.store.write() as tx:
                        inbox.insert_delivery(
                            tx, delivery(f"filler {number}", "event", body=json.dumps("x" * size))
                        )
                except OperationalError:
                    break

    def free(self) -> None:
        """Make room."""
        self._file._connect = self._connect
        self._file.close_idle_connections()
        with self.store.write() as tx:
            tx.exec_driver_sql("DELETE FROM delivery WHERE kind = 'event'")


@pytest.fixture
def full(store: Store) -> Full:
    """A disk that can be made full."""
    return Full(store)


@pytest.fixture
def core(store: Store) -> Core:
    """A core with tools that must not run."""

    def never(*_: object) -> None:
        raise AssertionError("a tool ran")

    return make_core(store, StillClock(), FakeDirectory(), make_tools(never))


def ticking(core: Core) -> MainLoop:
    """A loop that deals with clicks, and leaves the filler where it is."""
    nothing: Any = SimpleNamespace(handle_delivery=lambda _: None)
    return core.build_loop(nothing, WorkerPool(lambda *_: None, 1, core.signals), lambda _: None)


def clicked(core: Core, count: int) -> list[Seeded]:
    """Pending calls, and for each a click that approves it and has not been looked at."""
    many = [seed(core.store) for _ in range(count)]
    with core.store.write() as tx:
        for number, each in enumerate(many):
            inbox.insert_delivery(tx, click(f"c{number}", "approve", f"{each.ids[0]}:1", ANA))
    return many


def counts_once(core: Core, many: list[Seeded]) -> None:
    """Now that there is room again, each click counts, with one vote and one audit row."""
    loop = ticking(core)
    loop.tick()
    loop.stop(5)
    for each in many:
        assert (each.call().status, [vote.person for vote in each.votes()]) == (C.APPROVED, [ANA])
        assert each.events() == ["call.approved", "run.ready"]
    assert "action" not in kept(core)
    with core.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_a_full_disk_at_the_decision(core: Core, full: Full) -> None:
    """What the last pages do not hold is not half there, and counts once when there is room."""
    many = clicked(core, 30)
    full.full()
    with pytest.raises(OperationalError, match="full"):
        ticking(core).tick()
    decided = [each.call().status is C.APPROVED for each in many]
    assert not all(decided)
    for each, yes in zip(many, decided, strict=True):
        assert (len(each.votes()), each.run().status) == (int(yes), R.READY if yes else R.WAITING)
        assert each.events() == (["call.approved", "run.ready"] if yes else [])
    full.free()
    counts_once(core, many)


def test_a_read_only_database_at_the_decision(core: Core) -> None:
    """A click decides nothing while the database cannot be written, and counts afterwards."""
    many = clicked(core, 1)
    with read_only(core.store), pytest.raises(OperationalError, match="readonly"):
        ticking(core).tick()
    assert (many[0].call().status, many[0].run().status) == (C.PENDING, R.WAITING)
    assert (many[0].votes(), many[0].events()) == ([], [])
    counts_once(core, many)


@contextmanager
def read_only(store: Store, pragma: str = "PRAGMA query_only=ON") -> Iterator[None]:
    """Meanwhile nothing can be written; or what another pragma brings about."""

    meanwhile = [True]

    file: Any = store.database
    connect = file._connect

    def refuse(url: URL) -> Any:
        connection = connect(url)
        if meanwhile:  # never taken off: another thread may be opening a connection
            connection.execute(pragma)
        return connection

    file._connect = refuse
    file.close_idle_connections()
    try:
        yield
    finally:
        meanwhile.clear()
        file.close_idle_connections()


def kept(core: Core) -> list[str]:
    """Kinds of what is in the inbox, but for the filler."""
    with core.store.read() as tx:
        return [each.kind for each in inbox.list_new_deliveries(tx) if each.kind != "event"]


def test_what_cannot_be_stored_is_not_acknowledged(core: Core, full: Full) -> None:
    """On a full disk the click is answered with an error, so Slack tells the person.

    Later it is taken.
    """
    app = bolt(core)
    full.full()
    assert press(app, "1") == 500
    assert kept(core) == []
    full.free()
    assert press(app, "1") == 200
    assert press(app, "1") == 200  # a redelivery is acknowledged, and kept once
    assert kept(core) == ["action"]


def test_a_click_of_another_workspace_is_stored_before_it_is_acknowledged(core: Core) -> None:
    """So who clicked is told why it does not count, whatever happens to this process."""
    assert press(bolt(core), "1", team="T0OTHERCO") == 200
    assert kept(core) == ["action"]


def test_a_read_only_database_acknowledges_nothing(core: Core) -> None:
    """When the file may not be written, nobody is told that it was."""
    app = bolt(core)
    with read_only(core.store):
        assert press(app, "1") == 500
    assert kept(core) == []
