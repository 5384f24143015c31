"""A record of installations, on a file and on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.installations import InstallationRecord
from tests.postgres_server import Server, binaries, serve

OpenRecord = Callable[[], InstallationRecord]  # another process' view of the same record


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server for these tests."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as running:
        yield running


@pytest.fixture(params=["file", "server"])
def open_record(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], InstallationRecord]]:
    """Opens the test's record, once for each process that it plays."""
    if request.param == "file":
        url = f"sqlite:///{tmp_path / 'installations.db'}"
    else:
        server = request.getfixturevalue("server")
        server.fresh("installed")
        url = server.url("installed", "owner")
    opened: list[InstallationRecord] = []

    def open_one() -> InstallationRecord:
        opened.append(InstallationRecord(url).open())
        return opened[-1]

    yield open_one
    for record in opened:
        record.close()


@pytest.fixture
def record(open_record: OpenRecord) -> InstallationRecord:
    """The test's record."""
    return open_record()


@pytest.fixture
def file_record(tmp_path: Path) -> Iterator[InstallationRecord]:
    """A record in a file."""
    opened = InstallationRecord(f"sqlite:///{tmp_path / 'installations.db'}").open()
    yield opened
    opened.close()
