"""`countersign audit`: whether the record is whole, what it says of one request, all of it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from bot.cards.slack_text import visible
from bot.cli.read_only_core import moment
from bot.config.settings import Settings
from countersign.cli.console import DOTENV, UsageError, complain, say
from storage import record_copies, trail
from storage.chain import Chain
from storage.digest import key_path, read_key
from storage.examination import examine
from storage.models import Audit
from storage.store import ReadOnly
from storage.trail import HeadFile, head_path

COLUMNS = (
    *("seq", "at", "run_id", "call_id", "actor", "event", "data", "payload"),
    *("key_id", "previous", "hash"),
)
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to do with the record, and the options of an export."""
    parser.add_argument(
        "what",
        choices=["verify", "show", "export"],
        help="is it whole · what it says of one request or call · every row",
    )
    parser.add_argument("id", nargs="?", default="", help="show: of the request or the call")
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        help="export: JSON lines (jsonl, if not said otherwise) or a table with a head (csv)",
    )
    for option, which in (("--since", "the first"), ("--until", "the end of")):
        parser.add_argument(
            option,
            type=moment,
            metavar="TIME",
            help=f"export: {which} moment of the rows: 2026-11-24 or 2026-11-24T22:00, in UTC",
        )


def run(arguments: argparse.Namespace) -> int:
    """Verify, show or export the record; returns the exit code, 1 if it is not whole."""
    if bool(arguments.id) != (arguments.what == "show"):
        raise UsageError("`audit show` takes the id of a request or a call, the others none")
    chosen = arguments.format or arguments.since or arguments.until
    if chosen and arguments.what != "export":
        raise UsageError("--format, --since and --until are for `audit export`")
    settings = Settings.load(os.environ, DOTENV, reading=True)
    store = ReadOnly(settings.database_url)
    if trouble := store.trouble():
        return complain(f"The record cannot be read: {trouble}.")
    match arguments.what:
        case "verify":
            return _verify(settings, store)
        case "show":
            return _show(store, arguments.id)
        case _:
            write = FORMATS[arguments.format or "jsonl"]
            return _export(store, write, arguments.since or FIRST, arguments.until or LAST)


def _verify(settings: Settings, store: ReadOnly) -> int:
    """Check that no row was changed, removed or inserted, and print the result.

    Returns the exit code, 1 if the record is not whole or cannot be checked.
    """
    try:
        given = settings.signing_key
        if store.shared and not given:
            raise ValueError("COUNTERSIGN_KEY must be set")
        chain = Chain(given or read_key(key_path(store.path)))
    except (OSError, ValueError) as error:
        return complain(f"Without its key the record cannot be checked: {error}.")
    noted = None  # else before the rows: it is never ahead
    if not store.shared:
        noted = HeadFile(head_path(store.path), chain).read()
    with store.read() as tx:
        copied = record_copies.read_copy_note(tx)
        if copied is not None and copied.is_sealed_by(chain):
            noted = copied.head  # a file beside it is of another life
        found = examine(tx, chain, noted, has_note=not store.shared)
    if copied is not None:
        say(f"Note: {copied.why}, and nobody has started on it yet.")
    if store.shared:
        say(
            "Note: no file beside it says how far it had come: compare the last seal with a copy's."
        )
    for each in found.remarks:
        say(f"Note: {each}.")
    for each in found.problems:
        complain(f"NOT SOUND: {each}.")
    if not found.problems:
        say(f"Sound: {found.head.seq} rows under the key {chain.key_id}.")
        say(f"The last is sealed {found.head.hash}")
    return 1 if found.problems else 0


def _show(store: ReadOnly, wanted: str) -> int:
    """Print in order what happened to a request, or to one call of it; returns the exit code."""
    with store.read() as tx:
        found = [row for row in trail.rows_about(tx, wanted) if _concerns(row, wanted)]
    for row in found:
        say(f"{row.seq}  {row.at:%Y-%m-%d %H:%M:%S.%f}Z  {row.event}  by {visible(row.actor)}")
        about = {} if row.call_id in ("", wanted) else {"call": row.call_id}
        for name, value in (about | trail.row_as_read(row)).items():
            say(f"      {name}: {_plain(value)}")
    return 0 if found else complain(f"The record says nothing of {wanted}.")


def _concerns(row: Audit, wanted: str) -> bool:
    """Return whether an audit row is about the request or call with the id `wanted`."""
    return wanted in (row.run_id, row.call_id) or wanted in row.data


def _plain(value: Any) -> str:
    """Return a value as text on one line, with hidden characters shown."""
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _export(
    store: ReadOnly,
    write: Callable[[Iterable[Audit]], Iterable[str]],
    since: datetime,
    until: datetime,
) -> int:
    """Print the rows from that time as they are read: a long record takes no more memory."""
    with store.read() as tx:
        for line in write(trail.rows_between(tx, since, until)):
            say(line)
    return 0


def _json_lines(rows: Iterable[Audit]) -> Iterator[str]:
    """Yield a JSON object for each row, with the row's data as JSON in it."""
    for row in rows:
        payload = json.loads(row.payload) if row.payload else None
        fields = {**_fields(row), "data": json.loads(row.data), "payload": payload}
        yield json.dumps(fields, ensure_ascii=False)


def _csv(rows: Iterable[Audit]) -> Iterator[str]:
    """Yield the lines of a CSV table, header first; the data of a row is JSON in one cell."""
    yield ",".join(COLUMNS)
    for row in rows:
        fields, text = _fields(row), io.StringIO()
        csv.writer(text, lineterminator="").writerow(fields[name] for name in COLUMNS)
        yield text.getvalue()


def _fields(row: Audit) -> dict[str, Any]:
    """Return the columns of an exported row; their names and order must not change."""
    fields = {**row.model_dump(), "at": row.at.isoformat()}
    return {name: fields[name] for name in COLUMNS}


FORMATS = {"jsonl": _json_lines, "csv": _csv}
