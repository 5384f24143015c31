"""`countersign receipt`: signed statements of what was decided, for `countersign verify`."""

from __future__ import annotations

import argparse
import json
import os

from bot.approvals.receipts import NoReceiptError, ReceiptWriter
from bot.cli.read_only_core import open_core
from bot.config.settings import Settings
from bot.signing_key import get_signing_key
from countersign.cli.console import DOTENV, UsageError, print_error, print_line
from storage import calls
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
    core = open_core("The record cannot be read")
    try:
        key = get_signing_key(Settings.load(os.environ, DOTENV, reading=True))
    except (KeyFileError, OSError) as error:
        return print_error(f"Without its key nothing can be signed: {error}.")
    writer = ReceiptWriter(key, core.tools)
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
