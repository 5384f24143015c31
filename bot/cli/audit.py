"""`countersign audit` and `receipt`: verify, show or export the audit rows; print receipts."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from bot.approvals.receipts import NoReceiptError, ReceiptWriter
from bot.cards.slack_text import show_hidden_characters
from bot.cli import read_only_core
from bot.config.settings import Settings
from bot.signing_key import get_signing_key
from countersign.cli import console
from countersign.cli.commands import CommandFunctions
from storage import calls, record_copies, request_lists, trail
from storage.digest import AuditChainSealer, KeyFileError
from storage.examination import examine_audit_and_rows
from storage.record import Audit, Call, ReadOnlyStore, Transaction

COLUMNS = (
    *("seq", "at", "run_id", "call_id", "actor", "event", "data", "payload"),
    *("key_id", "previous", "hash"),
)
EARLIEST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: what to do with the record, and the options of an export."""
    parser.add_argument(
        "what",
        choices=["verify", "show", "export"],
        help="verify: is anything missing or changed; show: the rows of one request or call;"
        " export: every row",
    )
    parser.add_argument("id", nargs="?", default="", help="show: id of the request or the call")
    parser.add_argument(
        "--format",
        choices=[*FORMATTER_BY_FORMAT, RECEIPTS_FORMAT],
        help="export: jsonl (JSON lines, the default), csv, or receipts (signed receipts)",
    )
    for option, which in (("--since", "from"), ("--until", "before")):
        parser.add_argument(
            option,
            type=read_only_core.parse_time_option,
            metavar="TIME",
            help=f"export: only rows {which} this time: 2026-11-24 or 2026-11-24T22:00, in UTC",
        )


def run(arguments: argparse.Namespace) -> int:
    """Verify, show or export the audit rows; returns the exit code, 1 if verification fails."""
    if bool(arguments.id) != (arguments.what == "show"):
        raise console.UsageError(
            "`audit show` takes the id of a request or a call; verify and export take none"
        )
    chosen = arguments.format or arguments.since or arguments.until
    if chosen and arguments.what != "export":
        raise console.UsageError("--format, --since and --until are for `audit export`")
    since, until = arguments.since or EARLIEST_TIME, arguments.until or LATEST_TIME
    if arguments.format == RECEIPTS_FORMAT:
        return _export_receipts(since, until)
    settings = Settings.load(os.environ, console.DOTENV, reading=True)
    store = ReadOnlyStore(settings.database_url)
    if trouble := store.describe_read_problem():
        return console.print_error(f"The record cannot be read: {trouble}.")
    match arguments.what:
        case "verify":
            return _verify_record(settings, store)
        case "show":
            return _print_history(store, arguments.id)
        case _:
            write = FORMATTER_BY_FORMAT[arguments.format or "jsonl"]
            with store.read() as tx:  # rows are printed while read, so memory stays small
                console.print_lines(write(trail.iterate_audit_rows_between(tx, since, until)))
            return 0


def _verify_record(settings: Settings, store: ReadOnlyStore) -> int:
    """Print whether any row was changed, removed or inserted; returns the exit code."""
    try:
        chain = AuditChainSealer(get_signing_key(settings))
    except (KeyFileError, OSError) as error:
        return console.print_error(f"The record cannot be checked without its key: {error}.")
    noted = None  # read before the rows, so that it is never ahead of them
    if not store.is_multi_process:
        noted = trail.AuditHeadFile(trail.audit_head_file_path(store.path), chain).read_head()
    with store.read() as tx:
        copied = record_copies.find_copy_note(tx)
        if copied is not None and copied.has_valid_seal(chain):
            noted = copied.audit_head  # the file beside a copy belongs to an older database
        examination = examine_audit_and_rows(tx, chain, noted, has_note=not store.is_multi_process)
    if copied is not None:
        console.print_line(f"Note: {copied.why}, and no bot has been started on it yet.")
    if store.is_multi_process:
        console.print_line(
            "Note: no file beside it records its last seal: compare the last seal with a copy's."
        )
    read_only_core.print_examination(examination, chain.key_id)
    if examination.problems:
        return 1
    console.print_line(f"The last seal is {examination.head.hash}")
    return 0


def _print_history(store: ReadOnlyStore, request_or_call: str) -> int:
    """Print in order what happened to a request, or to one call of it; returns the exit code."""
    with store.read() as tx:
        rows = [
            row
            for row in trail.list_audit_rows_of_request(tx, request_or_call)
            if request_or_call in (row.run_id, row.call_id) or request_or_call in row.data
        ]
    for row in rows:
        console.print_line(
            f"{row.seq}  {row.at:%Y-%m-%d %H:%M:%S.%f}Z  {row.event}  by "
            f"{show_hidden_characters(row.actor)}"
        )
        about = {} if row.call_id in ("", request_or_call) else {"call": row.call_id}
        for name, value in (about | trail.get_audit_row_data(row)).items():
            console.print_line(f"      {name}: {_format_on_one_line(value)}")
    return 0 if rows else console.print_error(f"No request or call has the id {request_or_call}.")


def _format_on_one_line(value: Any) -> str:
    return show_hidden_characters(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


def _format_json_lines(rows: Iterable[Audit]) -> Iterator[str]:
    """Yield a JSON object for each row, with the row's data as JSON in it."""
    for row in rows:
        payload = json.loads(row.payload) if row.payload else None
        fields = {**_build_export_fields(row), "data": json.loads(row.data), "payload": payload}
        yield json.dumps(fields, ensure_ascii=False)


def _format_csv_lines(rows: Iterable[Audit]) -> Iterator[str]:
    """Yield the lines of a CSV table, header first; the data of a row is JSON in one cell."""
    yield ",".join(COLUMNS)
    for row in rows:
        fields, text = _build_export_fields(row), io.StringIO()
        csv.writer(text, lineterminator="").writerow(fields[name] for name in COLUMNS)
        yield text.getvalue()


def _build_export_fields(row: Audit) -> dict[str, Any]:
    """Return the columns of an exported row; their names and order must not change."""
    fields = {**row.model_dump(), "at": row.at.isoformat()}
    return {name: fields[name] for name in COLUMNS}


RECEIPTS_FORMAT = "receipts"
FORMATTER_BY_FORMAT = {"jsonl": _format_json_lines, "csv": _format_csv_lines}


def _add_receipt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", help="id of a request or a call")
    parser.add_argument(
        "--keys", action="store_true", help="print the public keys that receipts are signed with"
    )


def _run_receipt(arguments: argparse.Namespace) -> int:
    """Print a line of JSON for each call, or the public keys; return 1 if a receipt is missing."""
    if bool(arguments.id) == arguments.keys:
        raise console.UsageError("give the id of a request or a call, or --keys")
    core, writer = _open_record_for_signing()
    if arguments.keys:
        console.print_line(json.dumps(writer.build_public_keys()))
        return 0
    with core.store.read() as tx:
        call = calls.find_call(tx, arguments.id)
        requested_calls = [call] if call else calls.list_calls_of_request(tx, arguments.id)
        if not requested_calls:
            return console.print_error(f"No request or call has the id {arguments.id}.")
        return _print_receipts(writer, tx, requested_calls)


def _export_receipts(since: datetime, until: datetime) -> int:
    """Print the receipts of the calls decided in [since, until), a line for each call."""
    core, writer = _open_record_for_signing()
    with core.store.read() as tx:
        decided = request_lists.iterate_calls_decided_between(tx, since, until)
        _print_receipts(writer, tx, decided)
    return 0


def _print_receipts(writer: ReceiptWriter, tx: Transaction, found: Iterable[Call]) -> int:
    """Print the receipts of each call, or on standard error why it has none; 1 if one has none."""
    code = 0
    for call in found:
        try:
            console.print_line(json.dumps(writer.write_receipts(tx, call)))
        except NoReceiptError as error:
            code = console.print_error(f"No receipt of {call.id}. {error}")
    return code


def _open_record_for_signing() -> tuple[read_only_core.ReadOnlyCore, ReceiptWriter]:
    """Return the opened record and the writer of signed receipts; raises CommandError."""
    core = read_only_core.open_core()
    try:
        key = get_signing_key(core.settings)
    except (KeyFileError, OSError) as error:
        raise console.CommandError(f"Nothing can be signed without the key: {error}.") from error
    return core, ReceiptWriter(key, core.tools)


RECEIPT = CommandFunctions(_add_receipt_arguments, _run_receipt)
