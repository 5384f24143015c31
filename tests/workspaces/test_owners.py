"""Which process owns a workspace, on a PostgreSQL server: claims, leases, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import update

from bot.app import build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.config.workspace_settings import get_schema_name
from bot.http.slack_endpoint import ServedElsewhereError
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource, NotServedError
from storage import workspace_owners
from storage.installations import TABLES_SCHEMA, Installation, InstallationRecord
from storage.states import InstallationState
from storage.store import Store, StoreClosedError
from storage.workspace_owners import WorkspaceOwners
from tests.hosts import use_app_once_settled
from tests.postgres_server import Server
from tests.workspaces.builders import AT, TEAM, installed
from tests.workspaces.hosting import ONE, Hosting
from tests.workspaces.many import TOKEN_KEYS

OTHER = "T0OTHER"
MakeOwners = Callable[[str], WorkspaceOwners]


@pytest.fixture
def shared(server: Server) -> Iterator[InstallationRecord]:
    """A record with two workspaces."""
    with server.connect("installed") as owner:
        owner.execute(f"DROP SCHEMA IF EXISTS {TABLES_SCHEMA} CASCADE")
    record = InstallationRecord(server.url("installed", "owner")).open()
    for each in (TEAM, OTHER):
        record.insert_or_update_installation(installed(each))
    yield record
    record.close()


@pytest.fixture
def make_owners(shared: InstallationRecord) -> MakeOwners:
    """A function that returns the view that the process of this name has of the owners."""
    return cache(lambda process: WorkspaceOwners(shared, f"http://{process}"))


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases last a tenth of a second, by the server's clock and by this process' clock."""
    monkeypatch.setattr(workspace_owners, "LEASE_DURATION", timedelta(seconds=0.1))


def end_leases(record: InstallationRecord) -> None:
    """End the leases of all workspaces."""
    with record.write() as connection:
        connection.execute(update(Installation).values(owner_until=AT - timedelta(days=300)))


def extend_leases(owners: WorkspaceOwners) -> None:
    """Send heartbeats for as long as a lease lasts."""
    until = time.monotonic() + 0.25
    while time.monotonic() < until:
        owners.extend()


def test_a_process_owns_a_workspace_until_it_releases_it(make_owners: MakeOwners) -> None:
    """The other process is told who owns it, and may claim it afterwards."""
    one, two = make_owners("one"), make_owners("two")
    assert one.claim(TEAM) == ""
    assert one.claim(TEAM) == ""
    assert two.claim(TEAM) == "http://one"
    two.release(TEAM, None)
    assert one.extend() == {TEAM}
    one.release(TEAM, None)
    assert one.extend() == set()
    assert two.claim(TEAM) == ""
    assert one.claim(TEAM) == "http://two"


def test_an_ended_lease_is_taken_over_by_a_process_that_lived_as_long(
    make_owners: MakeOwners, shared: InstallationRecord, short_leases: None
) -> None:
    """A process that has just started, or that sent no heartbeats itself, may not."""
    dead, fresh = make_owners("dead"), make_owners("fresh")
    dead.claim(TEAM)
    end_leases(shared)
    assert fresh.claim(TEAM) == "http://dead"
    assert fresh.list_free_and_due() == [OTHER]
    extend_leases(fresh)
    assert sorted(fresh.list_free_and_due()) == sorted([TEAM, OTHER])
    threading.Event().wait(0.15)  # longer than a lease without a heartbeat
    assert fresh.claim(TEAM) == "http://dead"
    fresh.extend()
    assert fresh.claim(TEAM) == "http://dead"
    extend_leases(fresh)
    assert fresh.claim(TEAM) == ""
    assert dead.extend() == set()


def test_an_owner_whose_lease_ended_unnoticed_extends_it(
    make_owners: MakeOwners, shared: InstallationRecord
) -> None:
    """This happens after an outage of the database."""
    one = make_owners("one")
    one.claim(TEAM)
    end_leases(shared)
    assert one.extend() == {TEAM}
    assert make_owners("two").claim(TEAM) == "http://one"


def test_free_workspaces_without_a_time_or_with_a_past_one_are_due(
    make_owners: MakeOwners, shared: InstallationRecord
) -> None:
    """Paused ones, and those of another process, are not."""
    one, two = make_owners("one"), make_owners("two")
    assert sorted(one.list_free_and_due()) == sorted([TEAM, OTHER])
    one.claim(TEAM)
    one.release(TEAM, timedelta(hours=1))
    assert one.list_free_and_due() == [OTHER]
    shared.set_due(TEAM, datetime.now(UTC) + timedelta(days=365))  # set by a clock that was ahead
    assert sorted(one.list_free_and_due()) == sorted([TEAM, OTHER])
    shared.set_due(TEAM, datetime.now(UTC) - timedelta(seconds=1))
    two.claim(OTHER)
    assert one.list_free_and_due() == [TEAM]
    shared.set_state(TEAM, InstallationState.PAUSED, AT)
    assert one.list_free_and_due() == []
    assert two.list_free_and_due() == [OTHER]  # it owns this one, and may have failed to start it


def test_a_process_that_lost_a_workspace_writes_nothing(
    make_owners: MakeOwners, server: Server, tmp_path: Path
) -> None:
    """Its transactions are refused as soon as another process owns the workspace. The connections
    that both records share use the schema of the record that asks.
    """
    url = server.url("installed", "owner")
    stores = {}
    for team, process in ((TEAM, "one"), (OTHER, "one"), (TEAM, "two")):
        owners = make_owners(process)
        owners.claim(team)
        given = f"&schema={get_schema_name(team)}&workspace={team}&process={owners.process}"
        stores[team, process] = Store(url + given, key=b"k" * 32)
    mine, other = stores[TEAM, "one"].open(), stores[OTHER, "one"].open()
    for _ in range(3):
        for store, schema in ((mine, get_schema_name(TEAM)), (other, get_schema_name(OTHER))):
            for begin in (store.write, store.read):
                with begin() as tx:
                    assert tx.exec_driver_sql("SELECT current_schema()") == [(schema,)]
    make_owners("one").release(TEAM, None)
    assert make_owners("two").claim(TEAM) == ""
    with pytest.raises(StoreClosedError), mine.write():
        pass
    with other.write():
        pass
    again = stores[TEAM, "two"].open()  # the schema exists already
    with again.write():
        pass
    for each in (mine, other, again):
        each.close()


def build_environ(server: Server) -> dict[str, str]:
    """Build the settings of processes that share an empty database."""
    with server.connect("installed") as owner:
        for schema in (TABLES_SCHEMA, get_schema_name(ONE)):
            owner.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    return {
        "DATABASE_URL": server.url("installed", "owner"),
        "COUNTERSIGN_KEY": "k" * 32,
        "COUNTERSIGN_TOKEN_KEYS": TOKEN_KEYS,
        "COUNTERSIGN_OTHER_CONNECTIONS": "on",
    }


def test_a_second_process_does_not_serve_an_owned_workspace(
    server: Server, make_hosting: Callable[..., Hosting]
) -> None:
    """This is over Socket Mode, where Slack may deliver to either process."""
    hosting = make_hosting(Transport.SOCKET, environ=build_environ(server))
    first = hosting.start()
    hosting.install(ONE)
    one = hosting.workspace(ONE)
    thread = one.ask("said once")
    one.card(thread)
    second_environ = hosting.environ | {"COUNTERSIGN_HTTP": "127.0.0.1:0"}
    settings = Settings.load(second_environ, transport=Transport.SOCKET)
    second = WorkspaceHost(
        settings, hosting.clock, AppSource(build, second_environ, tools=hosting.tools)
    )
    second.start()
    try:
        with pytest.raises(NotServedError), second.use_app(ONE):
            pass
        first.stop()
        with use_app_once_settled(second, ONE):
            one.approve(thread)
            one.said(thread, "That is all.")
        assert hosting.fakes.did("note", "said once") == 1
    finally:
        second.stop()
        hosting.host = None


def test_a_host_whose_start_failed_can_be_stopped(
    server: Server, make_hosting: Callable[..., Hosting]
) -> None:
    """Its threads have not been started."""
    hosting = make_hosting(Transport.SOCKET, environ=build_environ(server))
    environ = hosting.environ
    settings = Settings.load(environ, transport=Transport.SOCKET)
    WorkspaceHost(settings, hosting.clock, AppSource(build, environ, tools=hosting.tools)).stop()


def test_a_workspace_taken_during_its_start_is_served_elsewhere(
    server: Server, make_hosting: Callable[..., Hosting]
) -> None:
    """Once it is free again, it starts at once."""
    hosting = make_hosting(Transport.HTTP, environ=build_environ(server))
    host = hosting.start()
    hosting.install(ONE)
    one = hosting.workspace(ONE)
    one.card(one.ask("before that"))
    one.settle()
    others = "SELECT 1 FROM pg_locks WHERE NOT granted"
    taken = "owner = 'another', owner_until = owner_until + 60000000, owner_url = 'http://another'"
    with server.connect("installed") as owner:
        one.stop_app()
        owner.execute("BEGIN")
        owner.execute(f"LOCK TABLE {get_schema_name(ONE)}.audit IN ACCESS EXCLUSIVE MODE")
        starting = threading.Thread(target=one.start_app)
        starting.start()
        hosting.wait(lambda: owner.execute(others).fetchone())
        owner.execute(f"UPDATE {TABLES_SCHEMA}.installation SET {taken}")
        owner.execute("COMMIT")
        starting.join()
        with pytest.raises(ServedElsewhereError), host.use_app(ONE):
            pass
        owner.execute(f"UPDATE {TABLES_SCHEMA}.installation SET owner = ''")
    with use_app_once_settled(host, ONE):
        pass
