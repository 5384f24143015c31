"""Measures start-up, idle tick and memory with many pending calls, each in a new process.

The rows are copies of one real suspended run in SQL, with new ids; only the audit's chain is not
real.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Setup, build_figure
from bench.live import Live
from bench.offline import Bench
from storage import inbox
from storage.models import Delivery
from storage.states import DeliveryKind

COUNTS = (1_000, 10_000, 100_000)
IDS = ("run", "plan", "call")
# What has to differ between copies, besides the ids.
SPECIAL = {
    "seq": "NULL",
    "hash": "lower(hex(randomblob(32)))",
    "requester": "'U' || (ids.n / 10)",
    "thread_ts": "'1700000000.' || printf('%06d', ids.n)",
    "deadline": "old.deadline + 3600000000 + ids.n * 1000",
}


def fill_database(folder: Path, count: int) -> None:
    """Create a database with so many pending calls whose cards are posted."""
    bench = Bench(folder)
    run = bench.ask("1700000000.000000")
    bench.worker.advance_run(run.id)
    message = Delivery(
        key=f"msg:{run.id}",
        kind=DeliveryKind.MESSAGE,
        team=run.team,
        user=run.requester,
        channel=run.channel,
    )
    message.thread_ts, message.received_at, message.run_id = run.thread_ts, run.created_at, run.id
    message.body = json.dumps({"event": {"type": "message", "text": "x" * 1000}})
    with bench.store.write() as tx:
        inbox.insert_delivery(tx, message)
    bench.close()
    db = sqlite3.connect(folder / "countersign.db")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("UPDATE message SET status = 'sent', shown = wanted, ts = '1700000000.000001'")
    db.execute("UPDATE delivery SET status = 'done'")
    for sql in _build_copy_statements(db, count):
        db.execute(sql)
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _build_copy_statements(db: sqlite3.Connection, count: int) -> Iterator[str]:
    """Return the statements that make the copies."""
    yield "CREATE TEMP TABLE ids (n INTEGER PRIMARY KEY, run TEXT, plan TEXT, call TEXT)"
    fresh = ", ".join("lower(hex(randomblob(11)))" for _ in IDS)
    numbers = (
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"
    )
    yield f"{numbers} INSERT INTO ids SELECT i, {fresh} FROM n"
    old = {name: db.execute(f"SELECT id FROM {name}").fetchone()[0] for name in IDS}
    for table in ("run", "plan", "call", "revision", "item", "message", "delivery", "audit"):
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        values = []
        for column in columns:
            value = f'old."{column}"'
            for name in IDS:
                value = f"replace({value}, '{old[name]}', ids.{name})"
            kept = f'CASE typeof(old."{column}") WHEN \'text\' THEN {value} ELSE old."{column}" END'
            values.append(SPECIAL.get(column, kept))
        names = ", ".join(f'"{column}"' for column in columns)
        source = f'SELECT * FROM "{table}"'
        copies = f"SELECT {', '.join(values)} FROM ids, ({source}) AS old ORDER BY ids.n"
        yield f'INSERT INTO "{table}" ({names}) {copies}'


def measure_card(live: Live) -> float:
    """Return the milliseconds from a new request to its card in Slack."""
    began = time.monotonic()
    live.wait(live.ask().find_card)
    return (time.monotonic() - began) * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure three numbers of pending calls."""
    for count in (1_000,) if setup.quick else COUNTS:
        folder = setup.make_folder(f"pending-{count}")
        fill_database(folder, count)
        ready, imports, ticks, cards, memory = [], [], [], [], []
        with Live(folder, people=2) as live:
            for _ in range(1 if setup.quick else 3):
                line = live.start()
                ready.append(line["ready"] - line["began"])
                imports.append(line["imported"] - line["began"])
                told = live.send_command(f"ticks {5 if setup.quick else 50}")
                ticks.append(statistics.median(told["ticks"]) * 1000)
                cards.append(statistics.median(measure_card(live) for _ in range(3)))
                memory.append(live.send_command("report")["VmHWM"])
                live.stop()
        name, where = f"pending.{count}", f"{count:,} pending calls"
        yield build_figure(f"{name}.ready", f"process to ready, {where}", ready, "s", 0.9)
        yield build_figure(f"{name}.imports", "… of it, Python and imports", imports, "s")
        yield build_figure(f"{name}.tick", f"idle tick, {where}", ticks, "ms", 5)
        yield build_figure(f"{name}.card", f"message to its card, {where}", cards, "ms")
        yield build_figure(f"{name}.memory", f"most memory, {where}", memory, "MB", 110)
