"""What is kept of a revision: the shape of its schema, and a database that its build has left."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

import storage.migrations
from storage.migrations import SCRIPTS_FOLDER, newest
from storage.schema import SchemaShape, read_schema_shape, upgrade_schema
from storage.store import Store

SHAPES = Path(storage.migrations.__file__).parent / "shapes"
HERE = Path(__file__).parent
KEY = "of-the-tests-and-of-nobody-else-at-all"
SLACK = "slack.json"  # when it was, and what stood in Slack then
RECORD = ("countersign.db", "countersign.db.head", SLACK)


def statements_of(path: Path, *, triggers: bool = True) -> str:
    """All that makes the schema of the file at `path`, as `shapes.statements` reads it."""
    kinds = ("table", "index", "trigger") if triggers else ("table", "index")
    with closing(sqlite3.connect(path)) as raw:
        found = [
            sql
            for kind in kinds
            for (sql,) in raw.execute(
                "SELECT sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL ORDER BY name",
                (kind,),
            )
        ]
    lines = "\n;\n".join([*found, ""]).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


@contextmanager
def migrated(url: str, revision: str) -> Iterator[Store]:
    """An empty database that was brought to that revision, one after the other."""
    store = Store(url, key=KEY.encode())
    store.database.open(exclusive=True)
    try:
        store.database.create_if_missing()
        upgrade_schema(store.database, None, SCRIPTS_FOLDER, revision)
        yield store
    finally:
        store.close()


def shape_at(url: str, revision: str) -> SchemaShape:
    """The shape to which the migrations bring an empty database."""
    with migrated(url, revision) as store, store.read() as tx:
        return read_schema_shape(tx.exec_driver_sql, tx.dialect.name)


def kept_statements(revision: str) -> Path:
    """Where it is written what makes an SQLite file of that revision."""
    return SHAPES / f"{revision}.sqlite.sql"


def kept_shape(revision: str) -> Path:
    """Where the shape of that revision on PostgreSQL is written."""
    return SHAPES / f"{revision}.postgresql.json"


def record_of(revision: str) -> Path:
    """Where the database of that revision is."""
    return HERE / f"{revision}.tar.gz"


def freeze_shapes(file: Path, postgresql: str) -> None:
    """Write down the shapes of the newest revision; `file` and the database there are empty."""
    revision = newest()
    with migrated(f"sqlite:///{file}", revision):
        kept_statements(revision).write_text(statements_of(file), "utf-8")
    shape = dict(sorted(shape_at(postgresql, revision).items()))
    kept_shape(revision).write_text(json.dumps(shape, indent=1) + "\n", "utf-8")


def pack(folder: Path, revision: str) -> None:
    """Keep the record in that folder."""
    with tarfile.open(record_of(revision), "w:gz") as tar:
        for name in RECORD:
            content = (folder / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, BytesIO(content))


def unpack(revision: str, folder: Path) -> Path:
    """Put the record of that revision into a folder; where its database is."""
    with tarfile.open(record_of(revision)) as tar:
        tar.extractall(folder, filter="data")
    return folder / RECORD[0]
