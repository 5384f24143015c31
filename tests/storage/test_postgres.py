"""The record on a PostgreSQL server: several processes write it, and none of them twice.

Two stores on one database stand for two processes: nothing but the server is between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from sqlalchemy import bindparam, select
from sqlalchemy.exc import DBAPIError
from sqlmodel import col

from bot.agent import outputs
from storage import backups, decisions, grants, inbox, postgres_session, trail
from storage.database_errors import is_temporary_database_error
from storage.decisions import AppliedDecision
from storage.digest import KeyFileError
from storage.grants import Grant
from storage.installations import TABLES_SCHEMA, Installation, InstallationRecord
from storage.models import Call, Delivery
from storage.store import SchemaError, Store, StoreClosedError
from tests.postgres_server import Server, binaries, serve
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, HOUR, ONE, TEAM, C, delivery, seed

KEY = b"k" * 32
pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for this module."""
    programs = binaries()
    assert programs is not None
    with serve(programs) as running:
        running.fresh("new")
        store_at(running, "new").open().close()
        yield running


def store_at(server: Server, database: str) -> Store:
    """One process' store, not yet open."""
    return Store(server.url(database, "owner"), key=KEY)


@pytest.fixture
def two(server: Server) -> Iterator[tuple[Store, Store]]:
    """Two processes' stores on one record."""
    server.fresh("two", "new")
    one, other = store_at(server, "two").open(), store_at(server, "two").open()
    yield one, other
    one.close()
    other.close()


def at_once(*work: Callable[[], object]) -> list[object]:
    """Do all of it at the same moment, each on its own thread; what each returned."""
    start = threading.Barrier(len(work))

    def one(each: Callable[[], object]) -> object:
        start.wait(10)
        return each()

    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result(30) for future in [pool.submit(one, each) for each in work]]


def end_sessions(server: Server, database: str) -> None:
    """Have the server end every session on that database, as its restart does."""
    with server.connect() as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
        )


def test_several_start_at_once_on_nothing(server: Server) -> None:
    """Four processes start on an empty database: one makes the schema, and all of them work."""
    server.fresh("empty")
    stores = [store_at(server, "empty") for _ in range(4)]
    at_once(*(each.open for each in stores))
    for number, each in enumerate(stores):
        with each.write() as tx:
            assert inbox.insert_delivery(tx, delivery(str(number)))
    with stores[0].read() as tx:
        assert len(inbox.list_new_deliveries(tx)) == 4
    for each in stores:
        each.close()


def test_who_is_late_writes_nothing_more(two: tuple[Store, Store]) -> None:
    """A process that gave the record back writes no more to it, and the other one goes on."""
    late, other = two
    late.close()
    with pytest.raises(StoreClosedError), late.write():
        pass
    with other.write() as tx:
        assert inbox.insert_delivery(tx, delivery("by the other"))
    with late.open().write() as tx:
        assert inbox.insert_delivery(tx, delivery("opened again"))


def test_a_schema_of_another_name(server: Server) -> None:
    """A record in a schema of its own opens again, and what was changed in it is noticed."""
    server.fresh("several", "new")
    url = f"{server.url('several', 'owner')}&schema=countersign_t0one"
    for _ in range(2):
        with closing(Store(url, key=KEY).open()) as store, store.write() as tx:
            inbox.insert_delivery(tx, delivery("once"))
    with server.connect("several") as owner:
        owner.execute("DROP INDEX countersign_t0one.ix_run_status")
    with pytest.raises(SchemaError, match="index ix_run_status is missing"):
        Store(url, key=KEY).open()
    store_at(server, "several").open().close()


def test_only_who_works_on_the_same_schema_counts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that want a record for themselves ask who else works on its schema."""
    monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 0.1)
    server.fresh("several", "new")
    urls = [f"{server.url('several', 'owner')}&schema=countersign_t0{x}" for x in ("one", "two")]
    stores = [Store(each, key=KEY).open() for each in urls]
    for each in stores:
        with each.read():
            pass  # so that there is a session
    with closing(Store(urls[0], key=KEY).open()) as third:
        with pytest.raises(backups.BackupError, match="another process works with"):
            backups.require_no_other_process(third)
        stores[0].close()
        monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 5.0)
        backups.require_no_other_process(third)
    stores[1].close()


def test_who_has_the_workspace_counts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes the one that has it, whichever sessions it uses."""
    monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 0.1)
    server.fresh("several", "new")
    url = server.url("several", "owner")
    record = InstallationRecord(url).open()
    record.insert_or_update_installation(Installation(workspace="T0ONE", installed_at=AT))
    own = "extract(epoch FROM clock_timestamp()) * 1000000"
    with closing(Store(f"{url}&schema=countersign_t0one", key=KEY).open()) as store:
        for until in (f"{own} + 5000000", f"{own} - 1"):
            with server.connect("several") as owner:
                owner.execute(
                    f"UPDATE {TABLES_SCHEMA}.installation SET owner='one', owner_until={until}"
                )
            if "+" not in until:
                backups.require_no_other_process(store)
                continue
            with pytest.raises(backups.BackupError, match="another process works with"):
                backups.require_no_other_process(store)
    record.close()


def test_only_a_server_and_a_key_will_do(server: Server) -> None:
    """A database in another encoding, of a newer version, or without a key is refused in words."""
    with server.connect() as owner, suppress(psycopg.errors.DuplicateDatabase):
        owner.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(SchemaError, match="latin uses LATIN1; Countersign needs UTF8"):
        store_at(server, "latin").open()
    server.fresh("later", "new")
    with server.connect("later") as owner:
        owner.execute("UPDATE countersign.alembic_version SET version_num = '8888'")
    with pytest.raises(SchemaError, match="newer Countersign"):
        store_at(server, "later").open()
    with pytest.raises(KeyFileError):
        Store(server.url("new", "owner")).open()


def test_what_only_grows_refuses_all_else(server: Server, two: tuple[Store, Store]) -> None:
    """Update, delete and truncate are refused by the server itself, whoever asks."""
    with two[0].write() as tx:
        trail.record_event(tx, "tried", at=AT, actor="system")
    with server.connect("two") as owner:
        for how in ("UPDATE %s SET actor = 'me'", "DELETE FROM %s", "TRUNCATE %s"):
            with pytest.raises(psycopg.errors.RestrictViolation, match="audit is append-only"):
                owner.execute(how % "countersign.audit")
    with two[1].read() as tx:
        assert find_first_broken_row(tx) is None


def test_writers_of_two_processes_take_turns(two: tuple[Store, Store]) -> None:
    """Eight threads of two processes read a number and write the next one, and lose none."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("counter"))

    def add(store: Store) -> None:
        for _ in range(10):
            with store.write() as tx:
                inbox.count_failed_delivery_attempt(
                    tx, inbox.list_new_deliveries(tx)[0], "again", limit=10**6
                )
                trail.record_event(tx, "added", at=AT, actor="system")

    at_once(*(lambda store=store: add(store) for store in two * 4))
    with two[0].read() as tx:
        assert inbox.list_new_deliveries(tx)[0].attempts == 80
        assert find_first_broken_row(tx) is None  # one chain, whoever appended


def test_the_last_use_of_a_grant_is_had_once(two: tuple[Store, Store]) -> None:
    """Two processes take the last use of a remembered approval at once: one has it."""
    for _ in range(10):
        seeded = seed(two[0], C.PENDING, C.PENDING)
        call, other = seeded.call(0), seeded.call(1)
        grant = Grant(
            team=TEAM,
            requester="UBEN00001",
            tool=call.tool,
            schema_digest=call.schema_digest,
            until=AT + HOUR,
            uses=1,
            call_id=call.id,
            given_by="UANA00001",
            given_at=AT,
        )
        with two[0].write() as tx:
            grants.give_grant(tx, grant, run_id=seeded.run_id)

        def take(store: Store, mine: Call, grant_id: str = grant.id) -> bool:
            with store.write() as tx:
                return grants.use_grant(tx, grant_id, AT, mine)

        had = at_once(partial(take, two[0], call), partial(take, two[1], other))
        assert sorted(map(bool, had)) == [False, True]


def test_two_votes_at_once_decide_once(two: tuple[Store, Store]) -> None:
    """Two people approve the same call in two processes: it is decided by one of them."""
    for _ in range(10):
        seeded = seed(two[0])

        def vote(store: Store, person: str, call_id: str = seeded.ids[0]) -> bool:
            with store.write() as tx:
                said = decisions.apply_vote(
                    tx, call_id, 1, "approve", person, at=AT, count_votes=ONE, words=outputs
                )
                return isinstance(said, AppliedDecision)

        said = at_once(lambda: vote(two[0], "UANA00001"), lambda: vote(two[1], "UCLEO0001"))
        assert sorted(map(bool, said)) == [False, True]
        assert seeded.events().count("call.approved") == 1


def test_a_session_that_the_server_ended_is_passed_over(
    server: Server, two: tuple[Store, Store]
) -> None:
    """After the server restarted, the next transaction is begun on a new connection."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("before"))
    end_sessions(server, "two")
    with two[0].read() as tx:
        assert inbox.has_delivery(tx, "before")


def test_a_session_ended_amid_a_transaction_is_the_databases_fault(
    server: Server, two: tuple[Store, Store]
) -> None:
    """What it had written is gone, and the error is one that another try may help against."""

    def write() -> None:
        with two[0].write() as tx:
            inbox.insert_delivery(tx, delivery("lost"))
            end_sessions(server, "two")

    with pytest.raises(DBAPIError) as caught:
        write()
    assert is_temporary_database_error(caught.value)
    with two[0].read() as tx:
        assert not inbox.has_delivery(tx, "lost")


def test_a_statement_that_failed_takes_its_transaction_along(two: tuple[Store, Store]) -> None:
    """Going on after an error never looks like a commit."""

    def write() -> None:
        with two[0].write() as tx:
            inbox.insert_delivery(tx, delivery("half"))
            with suppress(DBAPIError):
                tx.exec_driver_sql("SELECT 1/0")

    with pytest.raises(RuntimeError, match="had failed"):
        write()
    with two[0].read() as tx:
        assert not inbox.has_delivery(tx, "half")


def test_a_nul_in_a_text_loses_nothing(two: tuple[Store, Store]) -> None:
    """PostgreSQL keeps no NUL: another character stands in its place."""
    odd = delivery("odd")
    odd.note = "a\0b"
    with two[0].write() as tx:
        assert inbox.insert_delivery(tx, odd)
    with two[0].read() as tx:
        assert [each.note for each in inbox.list_new_deliveries(tx)] == [
            "a\N{REPLACEMENT CHARACTER}b"
        ]


def test_who_has_read_holds_nothing(server: Server, two: tuple[Store, Store]) -> None:
    """The end of reading is sent at once, though nobody waits for it: no session keeps its view."""
    with two[0].read() as tx:
        assert not inbox.list_new_deliveries(tx)
    begun = "SELECT 1 FROM pg_stat_activity WHERE datname = 'two' AND state ~ 'transaction'"
    until = time.monotonic() + 10
    with server.connect() as owner:
        while owner.execute(begun).fetchone():
            assert time.monotonic() < until


def test_what_runs_again_is_kept_ready_up_to_a_number(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps them ready for a session, and no more than so many."""
    monkeypatch.setattr(postgres_session, "MAX_PREPARED_STATEMENTS", 5)
    with two[0].read() as tx:
        for number in range(20):
            wanted = select(col(Call.id)).where(col(Call.id).in_([f"c{n}" for n in range(number)]))
            for _ in range(3):
                assert tx.scalars(wanted) == []
        ready = tx.exec_driver_sql("SELECT name FROM pg_prepared_statements WHERE name ~ '^own'")
        assert len(ready) == 5


def test_percent_signs_and_repeated_values_arrive(two: tuple[Store, Store]) -> None:
    """A value that stands twice in a statement, and a percent sign in its text, are as written."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("100%"))
    key, name = col(Delivery.key), bindparam("key_")
    twice = select(key).where(key == name, key.endswith("0%", autoescape=True), name != "")
    with two[0].read() as tx:
        assert tx.scalars(twice, {"key_": "100%"}) == ["100%"]
        assert tx.scalars(twice, {"key_": "100"}) == []


@pytest.mark.long
def test_a_process_stopped_amid_a_transaction_holds_up_nobody_for_long(
    two: tuple[Store, Store],
) -> None:
    """The server ends its session, others write, and what it had begun is not committed."""

    def stop() -> None:
        with two[0].write() as stopped:
            inbox.insert_delivery(stopped, delivery("asleep"))
            with two[1].write() as tx:  # waits until the server has had enough
                inbox.insert_delivery(tx, delivery("awake"))
            inbox.insert_delivery(stopped, delivery("too late"))

    with pytest.raises(DBAPIError) as caught:
        stop()
    assert is_temporary_database_error(caught.value)
    with two[1].read() as tx:
        assert [each.key for each in inbox.list_new_deliveries(tx)] == ["awake"]


def test_a_line_that_is_cut_is_noticed() -> None:
    """Every session asks for signs of life: a dead line does not hold a thread for hours."""
    assert postgres_session.CONNECTION_PARAMETERS["tcp_user_timeout"] <= timedelta(
        seconds=15
    ) / timedelta(milliseconds=1)
    assert (
        postgres_session.IDLE_TIMEOUT_SECONDS < postgres_session.LOCK_TIMEOUT_SECONDS
    )  # a stopped writer is gone before others give up
