"""Checks whether the database accepts a commit: a full disk is found in time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy.exc import OperationalError

pytest.importorskip("prometheus_client")

from bot.monitoring.health_checks import OK, check_writable
from bot.monitoring.metrics import PrometheusMetrics
from storage import inbox
from storage.database_errors import is_temporary_database_error
from storage.store import Store, check_database_writable
from tests.postgres_server import binaries, serve
from tests.proof.crash.troubles import fill
from tests.proof.crash.world import can_mount, mount, unmount
from tests.records import KEY
from tests.runs.fakes import StillClock
from tests.storage.builders import delivery


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk that a server may use."""
    with TemporaryDirectory(prefix="cspg", dir="/tmp") as name:
        folder = Path(name) / "disk"
        if not can_mount(folder):
            pytest.skip("only root may mount a small disk")
        os.chmod(name, 0o755)
        mount(folder)
        try:
            yield folder
        finally:
            unmount(folder)


@pytest.fixture
def server_store(disk: Path) -> Iterator[Store]:
    """A record on a server, whose tables are on that disk and whose log is not."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as server:
        owner = (server.folder / "data").stat()
        os.chown(disk, owner.st_uid, owner.st_gid)
        with server.connect() as root:
            root.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
            root.execute("CREATE DATABASE small TABLESPACE small")
        store = Store(server.url("small", "owner"), key=KEY.encode()).open()
        yield store
        store.close()


def read_up_metric(store: Store) -> bool:
    """What the metric `countersign_database_up` says."""
    metrics = PrometheusMetrics(StillClock().now)
    metrics.attach_store(store)
    lines = (metrics.render_metrics_page() or "").splitlines()
    metrics.close()
    [value] = [each for each in lines if each.startswith("countersign_database_up ")]
    return value.endswith(" 1.0")


def test_a_full_disk_of_the_server_is_found_at_once(server_store: Store, disk: Path) -> None:
    """Existing rows could still be overwritten."""
    assert check_writable(server_store) == OK
    assert read_up_metric(server_store)
    ballast = fill(disk)
    with server_store.write() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = version_num")
    with pytest.raises(OperationalError, match="No space left on device") as failed:
        check_database_writable(server_store)
    assert is_temporary_database_error(failed.value)
    assert not read_up_metric(server_store)
    ballast.unlink()
    assert check_writable(server_store) == OK
    assert read_up_metric(server_store)


@pytest.mark.file
def test_commits_that_the_database_refused_are_counted(store: Store) -> None:
    """The checks themselves are not."""
    told: list[None] = []
    store.set_failed_commit_handler(lambda: told.append(None))
    store.path.rename(store.path.with_name("elsewhere.db"))
    with pytest.raises(OperationalError), store.write() as tx:
        inbox.insert_delivery(tx, delivery("never", "event"))
    assert len(told) == 1
    assert check_writable(store) != OK
    assert len(told) == 1
    with pytest.raises(KeyError), store.write():
        raise KeyError("a bug")
    assert len(told) == 1
