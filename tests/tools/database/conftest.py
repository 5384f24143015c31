"""A fresh database of each kind; PostgreSQL's are skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import Server, binaries, serve
from tests.tools.database.harness import (
    World,
    create_postgres_world,
    create_sqlite_world,
    prepare_server,
)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One PostgreSQL server for all tests, which are skipped where none is installed."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: what concerns it is not tested here")
    with serve(programs) as server:
        prepare_server(server)
        yield server


# tests for both kinds run on PostgreSQL in `make test-long` only; `test_postgres.py` always does
@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A fresh database of each kind."""
    if request.param == "sqlite":
        return create_sqlite_world(tmp_path)
    return create_postgres_world(request.getfixturevalue("postgres_server"))


@pytest.fixture
def lite(tmp_path: Path) -> World:
    """A fresh SQLite database."""
    return create_sqlite_world(tmp_path)


@pytest.fixture
def pg(postgres_server: Server) -> World:
    """A fresh PostgreSQL database."""
    return create_postgres_world(postgres_server)
