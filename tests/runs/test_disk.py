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
from tests.runs.bolt_app import deliver_click, make_bolt_app
from tests.runs.fakes import ANA, FakeDirectory, StillClock, make_core, make_tools
from tests.storage.builders import C, R, Seeded, click, delivery, seed


class FullDisk:
    """Makes the disk full for `store`, as SQLite sees it, and free again."""

    def __init__(self, store: Store) -> None:
        self.store, self.pages = store, 0
        self._file: Any = store.database
        self._connect = self._file._connect

    def _limited(self, url: URL) -> Any:
        connection = self._connect(url)
        connection.execute(f"PRAGMA max_page_count = {self.pages}")
        return connection

    def fill(self) -> None:
        """Fill every page, and allow no more."""
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
def full_disk(store: Store) -> FullDisk:
    """A disk that can be made full."""
    return FullDisk(store)


@pytest.fixture
def core(store: Store) -> Core:
    """A core with tools that must not run."""

    def never(*_: object) -> None:
        raise AssertionError("a tool ran")

    return make_core(store, StillClock(), FakeDirectory(), make_tools(never))


def make_loop(core: Core) -> MainLoop:
    """A loop that handles clicks, and leaves the filler."""
    nothing: Any = SimpleNamespace(handle_delivery=lambda _: None)
    return core.build_loop(nothing, WorkerPool(lambda *_: None, 1, core.signals), lambda _: None)


def add_clicked_calls(core: Core, count: int) -> list[Seeded]:
    """Pending calls, each with a stored click that approves it."""
    many = [seed(core.store) for _ in range(count)]
    with core.store.write() as tx:
        for number, each in enumerate(many):
            inbox.insert_delivery(tx, click(f"c{number}", "approve", f"{each.ids[0]}:1", ANA))
    return many


def check_clicks_count_once(core: Core, many: list[Seeded]) -> None:
    """Now that there is room again, each click counts, with one vote and one audit row."""
    loop = make_loop(core)
    loop.tick()
    loop.stop(5)
    for each in many:
        assert (each.call().status, [vote.person for vote in each.votes()]) == (C.APPROVED, [ANA])
        assert each.events() == ["call.approved", "run.ready"]
    assert "action" not in list_delivery_kinds(core)
    with core.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_clicks_on_a_full_disk_count_once_there_is_room(core: Core, full_disk: FullDisk) -> None:
    """A decision that did not fit is not half stored."""
    many = add_clicked_calls(core, 30)
    full_disk.fill()
    with pytest.raises(OperationalError, match="full"):
        make_loop(core).tick()
    decided = [each.call().status is C.APPROVED for each in many]
    assert not all(decided)
    for each, yes in zip(many, decided, strict=True):
        assert (len(each.votes()), each.run().status) == (int(yes), R.READY if yes else R.WAITING)
        assert each.events() == (["call.approved", "run.ready"] if yes else [])
    full_disk.free()
    check_clicks_count_once(core, many)


def test_clicks_on_a_read_only_database_count_once_it_is_writable(core: Core) -> None:
    """They decide nothing meanwhile."""
    many = add_clicked_calls(core, 1)
    with read_only(core.store), pytest.raises(OperationalError, match="readonly"):
        make_loop(core).tick()
    assert (many[0].call().status, many[0].run().status) == (C.PENDING, R.WAITING)
    assert (many[0].votes(), many[0].events()) == ([], [])
    check_clicks_count_once(core, many)


@contextmanager
def read_only(store: Store, pragma: str = "PRAGMA query_only=ON") -> Iterator[None]:
    """Nothing can be written meanwhile; another pragma may do something else."""

    meanwhile = [True]

    file: Any = store.database
    connect = file._connect

    def refuse(url: URL) -> Any:
        connection = connect(url)
        if meanwhile:  # stays in place: another thread may be opening a connection
            connection.execute(pragma)
        return connection

    file._connect = refuse
    file.close_idle_connections()
    try:
        yield
    finally:
        meanwhile.clear()
        file.close_idle_connections()


def list_delivery_kinds(core: Core) -> list[str]:
    """The kinds of new deliveries in the inbox, without the filler."""
    with core.store.read() as tx:
        return [each.kind for each in inbox.list_new_deliveries(tx) if each.kind != "event"]


def test_a_click_that_cannot_be_stored_is_not_acknowledged(core: Core, full_disk: FullDisk) -> None:
    """The answer is an error, so Slack tells the person; later it is accepted."""
    app = make_bolt_app(core)
    full_disk.fill()
    assert deliver_click(app, "1") == 500
    assert list_delivery_kinds(core) == []
    full_disk.free()
    assert deliver_click(app, "1") == 200
    assert deliver_click(app, "1") == 200  # a redelivery is acknowledged, and stored once
    assert list_delivery_kinds(core) == ["action"]


def test_another_workspaces_click_is_stored_before_it_is_acknowledged(core: Core) -> None:
    """The person is told why it does not count, even if this process dies."""
    assert deliver_click(make_bolt_app(core), "1", team="T0OTHERCO") == 200
    assert list_delivery_kinds(core) == ["action"]


def test_a_read_only_database_acknowledges_no_click(core: Core) -> None:
    """The file cannot be written."""
    app = make_bolt_app(core)
    with read_only(core.store):
        assert deliver_click(app, "1") == 500
    assert list_delivery_kinds(core) == []
