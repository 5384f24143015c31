"""Where a test's record is kept: in a file, or with RECORD_ON=postgresql on the tests' own server.

Each is a copy of one empty record that is migrated once in a process: migrations are slow.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from storage.store import Store
from tests.postgres_server import Server, binaries, serve

ON_A_SERVER = os.environ.get("RECORD_ON") == "postgresql"
KEY = "of-the-tests-and-of-nobody-else-at-all"
_ends = ExitStack()
atexit.register(_ends.close)


def new_record(path: Path) -> str:
    """The database URL of the record for `path`; an empty one is made if there is none.

    A file's key is made when it is opened; on a server the key is KEY.
    """
    if ON_A_SERVER:
        os.environ["XDG_RUNTIME_DIR"] = _folder()  # for its sockets, whatever folder a test is in
        return _server().url(_database(path.absolute()), "owner")
    if not path.exists():
        shutil.copyfile(_migrated(), path)
    return f"sqlite:///{path}"


def settings_of(path: Path) -> dict[str, str]:
    """The variables by which the bot finds the record for `path`."""
    url = new_record(path)
    on_a_server = {"COUNTERSIGN_KEY": KEY, "XDG_RUNTIME_DIR": _folder()} if ON_A_SERVER else {}
    return {"DATABASE_URL": url} | on_a_server


def store_of(path: Path) -> Store:
    """The record for `path`, not yet open."""
    return Store(new_record(path), key=KEY.encode() if ON_A_SERVER else None)


def drop(path: Path) -> None:
    """Drop the record for `path` from the server; a file is deleted with its folder."""
    if ON_A_SERVER:
        _server().drop(_database(path.absolute()))


@cache
def _folder() -> str:
    return _ends.enter_context(TemporaryDirectory(prefix="countersign-tests-"))


@cache
def _migrated() -> Path:
    path = Path(_folder()) / "new.db"
    Store(f"sqlite:///{path}").open().close()
    return path


@cache
def _server() -> Server:
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    server = _ends.enter_context(serve(programs))
    server.fresh("new")
    Store(server.url("new", "owner"), key=KEY.encode()).open().close()
    return server


@cache
def _database(path: Path) -> str:
    name = f"t{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    _server().fresh(name, "new")
    return name
