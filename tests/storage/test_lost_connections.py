"""Lost connections to PostgreSQL are known as lost, and statements stay prepared until then."""

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
