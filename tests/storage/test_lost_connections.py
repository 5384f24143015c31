"""A connection to PostgreSQL that is lost is known as such, whoever notices."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import ExecStatus

from storage.postgres_session import connect_session
from tests.postgres_server import binaries, serve


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_an_error_that_is_not_the_servers_is_a_lost_connection() -> None:
    """What libpq says by itself has no code of the server's: it passes, and the session is over."""
    programs = binaries()
    assert programs is not None
    with serve(programs) as server:
        session = connect_session(host=str(server.folder), dbname="postgres", user="owner")
        lost = session.raw.pgconn.make_empty_result(ExecStatus.FATAL_ERROR)
        assert not session.is_broken
        with pytest.raises(psycopg.OperationalError):
            session._read_result(lost)
        assert session.is_broken
        session.close()
