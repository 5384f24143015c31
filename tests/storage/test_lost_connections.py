"""Lost connections to PostgreSQL are known as lost, and statements stay prepared until then."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus

from bot.replicas.replicas import NOTIFY_CHANNEL, ReplicaNotification, ReplicaNotificationExchange
from storage.postgres_session import PostgresServerSession, connect_session
from tests.postgres_server import Server, binaries, serve


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for this module."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as running:
        yield running


@pytest.fixture
def session(server: Server) -> Iterator[PostgresServerSession]:
    """A session on the server."""
    opened = connect_session(host=str(server.folder), dbname="postgres", user="owner")
    yield opened
    opened.close()


def test_an_error_of_libpq_itself_is_a_lost_connection(
    session: PostgresServerSession,
) -> None:
    """It has no code of the server's; it is temporary, and the session is over."""
    lost = session.raw.pgconn.make_empty_result(ExecStatus.FATAL_ERROR)
    assert not session.is_broken
    with pytest.raises(psycopg.OperationalError):
        session._read_result(lost)
    assert session.is_broken


def test_prepared_statements_survive_a_drop(
    session: PostgresServerSession,
) -> None:
    """psycopg deallocates all of them after a DROP once it has prepared one, so it prepares none
    here.
    """
    for _ in range(10):
        session.raw.execute("SELECT 2")
        assert session.run_statement("SELECT $1::int", [1]) == ([(1,)], 1)
    session.raw.execute("CREATE TABLE public.short (id int)")
    session.run_psycopg_statement("DROP TABLE public.short")
    session.raw.execute("SELECT 2")
    assert session.run_statement("SELECT $1::int", [1]) == ([(1,)], 1)


def test_a_notification_is_sent_although_its_connection_was_ended(server: Server) -> None:
    """By a limit for idle sessions, a firewall, or a restart of the server."""
    sender = ReplicaNotificationExchange(server.connect, {}, "one")
    with server.connect() as line:
        line.execute(f"LISTEN {NOTIFY_CHANNEL}")
        sender.notify_other_replicas(ReplicaNotification.WORK)
        line.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE '%pg_notify%' AND pid <> pg_backend_pid()"
        )
        sender.notify_other_replicas(ReplicaNotification.POST)
        heard = [each.payload for each in line.notifies(timeout=10, stop_after=2)]
    sender.stop()
    assert heard == ["work one", "post one"]
