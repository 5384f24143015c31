"""What is kept of a revision: the shape of its schema, and a database left by its build."""

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
SLACK = "slack.json"  # the time, and the messages in Slack then
RECORD = ("countersign.db", "countersign.db.head", SLACK)


def read_schema_statements(path: Path, *, triggers: bool = True) -> str:
    """The statements that make the schema of a file, as `shapes.statements` reads them."""
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
def open_migrated(url: str, revision: str) -> Iterator[Store]:
    """An empty database that was migrated to that revision, one revision after another."""
    store = Store(url, key=KEY.encode())
    store.database.open(exclusive=True)
    try:
        store.database.create_if_missing()
        upgrade_schema(store.database, None, SCRIPTS_FOLDER, revision)
        yield store
    finally:
        store.close()


def compute_shape(url: str, revision: str) -> SchemaShape:
    """The shape to which the migrations bring an empty database."""
    with open_migrated(url, revision) as store, store.read() as tx:
        return read_schema_shape(tx.exec_driver_sql, tx.dialect.name)


def get_statements_path(revision: str) -> Path:
    """The file with the statements that make an SQLite file of that revision."""
    return SHAPES / f"{revision}.sqlite.sql"


def get_shape_path(revision: str) -> Path:
    """The file with the shape of that revision on PostgreSQL."""
    return SHAPES / f"{revision}.postgresql.json"


def get_record_path(revision: str) -> Path:
    """The archive with the database of that revision."""
    return HERE / f"{revision}.tar.gz"


def freeze_shapes(file: Path, postgresql: str) -> None:
    """Write the shapes of the newest revision; `file` and the PostgreSQL database are empty."""
    revision = newest()
    with open_migrated(f"sqlite:///{file}", revision):
        get_statements_path(revision).write_text(read_schema_statements(file), "utf-8")
    shape = dict(sorted(compute_shape(postgresql, revision).items()))
    get_shape_path(revision).write_text(json.dumps(shape, indent=1) + "\n", "utf-8")


def pack(folder: Path, revision: str) -> None:
    """Pack the record in that folder."""
    with tarfile.open(get_record_path(revision), "w:gz") as tar:
        for name in RECORD:
            content = (folder / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, BytesIO(content))


def unpack(revision: str, folder: Path) -> Path:
    """Unpack the record of that revision into a folder; returns the path of its database."""
    with tarfile.open(get_record_path(revision)) as tar:
        tar.extractall(folder, filter="data")
    return folder / RECORD[0]
