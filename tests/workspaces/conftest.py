"""A record of installations, in a file or on a PostgreSQL server, and a site to install from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from storage.installations import TABLES_SCHEMA, InstallationRecord
from tests.postgres_server import Server, binaries, serve
from tests.workspaces.hosting import Hosting
from tests.workspaces.installing import Browser, Site

OpenRecord = Callable[[], InstallationRecord]  # opens the same record as another process does


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server for these tests."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as running:
        running.fresh("installed")
        yield running


@pytest.fixture(params=["file", "server"])
def open_record(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], InstallationRecord]]:
    """A function that opens the test's record, once for each process that the test plays."""
    if request.param == "file":
        url = f"sqlite:///{tmp_path / 'installations.db'}"
    else:
        server = request.getfixturevalue("server")
        with server.connect("installed") as owner:
            owner.execute(f"DROP SCHEMA IF EXISTS {TABLES_SCHEMA} CASCADE")
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
    """The test's record, opened once."""
    return open_record()


@pytest.fixture
def file_record(tmp_path: Path) -> Iterator[InstallationRecord]:
    """A record in a file."""
    opened = InstallationRecord(f"sqlite:///{tmp_path / 'installations.db'}").open()
    yield opened
    opened.close()


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """A function that makes a site to install from."""
    made: list[Site] = []

    def make(**given: Any) -> Site:
        made.append(Site(tmp_path, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """A site to install from."""
    return make_site()


@pytest.fixture
def ana(site: Site) -> Iterator[Browser]:
    """Ana's browser."""
    with Browser(site) as browser:
        yield browser


@pytest.fixture
def make_hosting() -> Iterator[Callable[..., Hosting]]:
    """A function that makes a process that serves workspaces of a local Slack."""
    made: list[Hosting] = []
    with TemporaryDirectory(
        prefix="hosted-", dir="/tmp"
    ) as folder:  # a short path, because of sockets in it

        def make(*given: Any, **more: Any) -> Hosting:
            made.append(Hosting(Path(folder), *given, **more))
            return made[-1]

        yield make
        for each in made:
            each.close()
