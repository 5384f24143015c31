"""A connection to PostgreSQL that is lost is known as such, and keeps its statements until then."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus

from storage.postgres_session import PostgresServerSession, connect_session
from tests.postgres_server import binaries, serve


@pytest.fixture
def session() -> Iterator[PostgresServerSession]:
    """A session on a server of its own."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as server:
        opened = connect_session(host=str(server.folder), dbname="postgres", user="owner")
        yield opened
        opened.close()


def test_an_error_that_is_not_the_servers_is_a_lost_connection(
    session: PostgresServerSession,
) -> None:
    """What libpq says by itself has no code of the server's: it passes, and the session is over."""
    lost = session.raw.pgconn.make_empty_result(ExecStatus.FATAL_ERROR)
    assert not session.is_broken
    with pytest.raises(psycopg.OperationalError):
        session._read_result(lost)
    assert session.is_broken


def test_a_dropped_trigger_takes_no_prepared_statement_along(
    session: PostgresServerSession,
) -> None:
    """psycopg prepares nothing on it, however often jobs are stored by it: where it has prepared
    something, it deallocates all statements once something is dropped, as `forget` does.
    """
    for _ in range(10):
        session.raw.execute("SELECT 2")
        assert session.run_statement("SELECT $1::int", [1]) == ([(1,)], 1)
    session.raw.execute("CREATE TABLE public.short (id int)")
    session.run_psycopg_statement("DROP TABLE public.short")
    session.raw.execute("SELECT 2")
    assert session.run_statement("SELECT $1::int", [1]) == ([(1,)], 1)
