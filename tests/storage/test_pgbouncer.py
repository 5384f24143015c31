"""The record behind a real PgBouncer: in session mode it works, otherwise it does not open."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from storage.store import SchemaError, Store
from tests.postgres_server import Server, binaries, serve

PGBOUNCER = shutil.which("pgbouncer", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
pytestmark = [
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
    pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed"),
]
CONFIG = """
[databases]
* = host={folder}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}/pooler
auth_type = trust
auth_file = {folder}/pooler/users
pool_mode = {mode}
server_round_robin = {in_turn}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with an empty database."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as running:
        running.fresh("record")
        yield running


@contextmanager
def pool(server: Server, mode: str, in_turn: int) -> Iterator[str]:
    """Run PgBouncer in that mode; yields the URL of the database behind it."""
    folder = server.folder / "pooler"
    folder.mkdir()
    (folder / "users").write_text('"owner" ""\n"agent" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(CONFIG.format(folder=server.folder, mode=mode, in_turn=in_turn))
    shutil.chown(folder, server.folder.stat().st_uid)
    assert PGBOUNCER is not None
    user = server.folder.stat().st_uid
    process = subprocess.Popen([PGBOUNCER, config], user=user, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert any("process up" in line for line in process.stderr)  # else it has ended
        yield f"postgresql://owner@/record?host={folder}&port=6432"
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


@pytest.mark.parametrize("in_turn", [0, 1])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_changes_the_session_is_refused(
    server: Server, mode: str, in_turn: int
) -> None:
    """A prepared statement of one session could be another's there."""
    with pool(server, mode, in_turn) as url, pytest.raises(SchemaError, match="pool_mode"):
        Store(url, key=b"k" * 32).open()


def test_a_pooler_in_session_mode_is_taken(server: Server) -> None:
    """Each session has one of the server's for itself."""
    with pool(server, "session", 0) as url:
        store = Store(url, key=b"k" * 32).open()
        with store.write():
            pass
        store.close()
