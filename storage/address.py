"""What DATABASE_URL says: which kind of database it is, and where."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

if TYPE_CHECKING:
    from storage.backend import Backend

SUPPORTED = (
    "DATABASE_URL must name an SQLite file, e.g. sqlite:///countersign.db, or a database of"
    " PostgreSQL, e.g. postgresql://countersign@db.internal/countersign"
)


def is_shared(url: str) -> bool:
    """Whether several processes may write the database at this address."""
    return url.startswith("postgres")


def local_path(url: str) -> Path:
    """After which path what lies beside the record on this machine is named.

    For SQLite the file itself. A server's record has no place here, so its address gives a name in
    the folder that the system keeps for this account's sockets, else in the working folder;
    `bot.programs.client` finds it the same way.
    """
    if is_shared(url):
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return Path(folder) / f"countersign-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    return Path(url.removeprefix("sqlite:///"))


def server_address(address: str) -> str:
    """The address of a PostgreSQL database as SQLAlchemy has it; ValueError for any other."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("postgres", "postgresql", "postgresql+psycopg") or not rest:
        raise ValueError("it is no address of PostgreSQL: postgresql://user:password@host/database")
    name = rest.partition("?")[0].rpartition("@")[2].partition("/")[2]
    if not name or "/" in name:
        raise ValueError("it names no database")
    return f"postgresql://{rest}"


def backend_of(url: str) -> Backend:
    """The database at an SQLAlchemy URL; ValueError for one that cannot hold the record.

    Found by name: nobody loads the driver of the other kind.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(SUPPORTED) from None
    if is_shared(url):
        made: Backend = import_module("storage.postgres.database").PostgresDatabase(
            parsed, local_path(url)
        )
        return made
    if not url.startswith("sqlite") or not parsed.database or parsed.database == ":memory:":
        raise ValueError(SUPPORTED)
    file: Backend = import_module("storage.sqlite").SqliteFile(parsed)
    return file
