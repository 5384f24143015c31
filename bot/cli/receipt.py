"""`countersign receipt`: signed statements of what was decided, for `countersign verify`."""

from __future__ import annotations

import argparse
import json
import os
from datetime import datetime

from bot.approvals.receipts import NoReceiptError, ReceiptWriter
from bot.cli.read_only_core import ReadOnlyCore, open_core
from bot.config.settings import Settings
from bot.signing_key import get_signing_key
from countersign.cli.console import DOTENV, CommandError, UsageError, print_error, print_line
from storage import calls, request_lists
from storage.digest import KeyFileError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the id of what was asked, and --keys."""
    parser.add_argument("id", nargs="?", default="", help="of a request or a call")
    parser.add_argument(
        "--keys", action="store_true", help="print the public keys that receipts are signed with"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a line of JSON for each decided call; returns the exit code, 1 if there is none."""
    if bool(arguments.id) == arguments.keys:
        raise UsageError("give the id of a request or a call, or --keys")
    core, writer = _open_record_for_signing()
    if arguments.keys:
        print_line(json.dumps(writer.build_public_keys()))
        return 0
    with core.store.read() as tx:
        call = calls.find_call(tx, arguments.id)
        found = [call] if call else calls.list_calls_of_request(tx, arguments.id)
        if not found:
            return print_error(f"Nothing in the record has the id {arguments.id}.")
        try:
            for each in found:
                print_line(json.dumps(writer.write_receipts(tx, each)))
        except NoReceiptError as error:
            return print_error(error)
    return 0


def export_receipts(since: datetime, until: datetime) -> int:
    """Print the receipts of the calls decided in that time, a line each, in order.

    A call that has none is named on standard error with the reason. Returns the exit code; raises
    CommandError if the record cannot be read.
    """
    core, writer = _open_record_for_signing()
    with core.store.read() as tx:
        for call in request_lists.iterate_calls_decided_between(tx, since, until):
            try:
                print_line(json.dumps(writer.write_receipts(tx, call)))
            except NoReceiptError as error:
                print_error(f"No receipt of {call.id}. {error}")
    return 0


def _open_record_for_signing() -> tuple[ReadOnlyCore, ReceiptWriter]:
    """Return what reads the record and what signs receipts; raises CommandError."""
    core = open_core("The record cannot be read")
    try:
        key = get_signing_key(Settings.load(os.environ, DOTENV, reading=True))
    except (KeyFileError, OSError) as error:
        raise CommandError(f"Without its key nothing can be signed: {error}.") from error
    return core, ReceiptWriter(key, core.tools)
