"""The yardstick: a pause and its resumption on bare SQLAlchemy Core, as durable as ours.

It takes the same steps as a call that asks: load the history; store the request, the proposal, a
card, an audit row and an approval; change pending to approved; change approved to executing and
read the arguments; run the tool; store its result and read the history again; store the answer.
Four commits wait for the disk. It has no policy, digest, votes, inbox or chain, and Countersign's
extra cost is the cost of those. It uses none of our code.
"""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    select,
    update,
)

from bench.figures import Stopwatch, Took

TABLES = MetaData()
ENTRY = Table(
    "entry",
    TABLES,
    Column("thread", String, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("body", Text),
)
APPROVAL = Table(
    "approval",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("thread", String, index=True),
    Column("tool", String),
    Column("arguments", Text),
    Column("status", String),
    Column("version", Integer),
    Column("deadline", BigInteger),
    Column("result", Text),
)
RECORD = Table(
    "record",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("thread", String),
    Column("what", Text),
    Column("at", BigInteger),
)
CARD = Table(
    "card",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("thread", String),
    Column("body", Text),
)
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "foreign_keys=ON")
WORDS = "Some words about an order that somebody wanted looked after, as people write them. " * 3
HOUR = 3_600_000_000  # µs


class Yardstick:
    """Runs stories on a database of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        """Make the database."""
        self._path = folder / "yardstick.db"
        self._engine = _open(self._path)
        self._stories = 0

    def run_story(self, items: int, *, fresh: bool = False) -> Took:
        """Run a pause and its resumption in a new thread with so many entries; return its cost.

        `fresh` opens the database again before the approval. Writing the history is not counted.
        """
        self._stories += 1
        thread, watch = f"thread-{self._stories}", Stopwatch()
        self._write_history(thread, items)
        with watch:
            self._propose(thread)
            if fresh:
                self._engine.dispose()
                self._engine = _open(self._path)
            self._approve(thread)
            self._resume(thread)
        return watch.took

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def _write_history(self, thread: str, items: int) -> None:
        body = json.dumps({"role": "user", "content": WORDS})
        entries = [{"thread": thread, "position": n, "body": body} for n in range(items)]
        with self._engine.begin() as tx:
            tx.execute(insert(ENTRY), entries)

    def _propose(self, thread: str) -> None:
        """The model proposes a call that asks, and the work is suspended."""
        with self._engine.begin() as tx:
            count = len(_read(tx, thread))
        arguments = json.dumps({"thread": thread})
        call = {
            "type": "function_call",
            "call_id": "call_1",
            "name": "note",
            "arguments": arguments,
        }
        pending = {
            "thread": thread,
            "tool": "note",
            "arguments": arguments,
            "status": "pending",
            "version": 0,
            "deadline": _now() + HOUR,
        }
        with self._engine.begin() as tx:
            _append(tx, thread, count, {"role": "user", "content": "Write it down"}, call)
            tx.execute(insert(APPROVAL), pending)
            tx.execute(insert(CARD), {"thread": thread, "body": "card"})
            _note(tx, thread, "proposed")

    def _approve(self, thread: str) -> None:
        """A person approves."""
        with self._engine.begin() as tx:
            _swap(tx, thread, "pending", "approved")
            _note(tx, thread, "approved")

    def _resume(self, thread: str) -> None:
        """The tool runs, and the model answers."""
        with self._engine.begin() as tx:
            _swap(tx, thread, "approved", "executing")
            arguments = select(APPROVAL.c.arguments).where(APPROVAL.c.thread == thread)
            given = json.loads(tx.execute(arguments).scalar_one())
        result = f"noted {given['thread']}"
        with self._engine.begin() as tx:
            _swap(tx, thread, "executing", "done", result=result)
            count = len(_read(tx, thread))
            output = {"type": "function_call_output", "call_id": "call_1", "output": result}
            _append(tx, thread, count, output)
            _note(tx, thread, "executed")
        with self._engine.begin() as tx:
            _append(tx, thread, count + 1, {"role": "assistant", "content": f"Done: {result}"})
            tx.execute(insert(CARD), {"thread": thread, "body": "answer"})


def _open(path: Path) -> Engine:
    """Return an engine with Countersign's durability; create missing tables."""
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # only our own BEGIN
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    TABLES.create_all(engine)
    return engine


def _now() -> int:
    return int(time.time() * 1_000_000)


def _read(tx: Connection, thread: str) -> list[dict[str, object]]:
    """Return the entries of a thread, in order."""
    found = select(ENTRY.c.body).where(ENTRY.c.thread == thread).order_by(ENTRY.c.position)
    return [json.loads(body) for (body,) in tx.execute(found)]


def _append(tx: Connection, thread: str, position: int, *entries: dict[str, str]) -> None:
    rows = [
        {"thread": thread, "position": position + n, "body": json.dumps(entry)}
        for n, entry in enumerate(entries)
    ]
    tx.execute(insert(ENTRY), rows if len(rows) > 1 else rows[0])


def _note(tx: Connection, thread: str, what: str) -> None:
    tx.execute(insert(RECORD), {"thread": thread, "what": what, "at": _now()})


def _swap(tx: Connection, thread: str, old: str, new: str, **columns: str) -> None:
    """Move the approval from one status to the next; RuntimeError if it has another status."""
    where = (APPROVAL.c.thread == thread, APPROVAL.c.status == old)
    moved = {"status": new, "version": APPROVAL.c.version + 1, **columns}
    if tx.execute(update(APPROVAL).where(*where).values(**moved)).rowcount != 1:
        raise RuntimeError(f"{thread} is not {old}")
