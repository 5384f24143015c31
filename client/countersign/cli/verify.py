"""`countersign verify`: whether a receipt is what an installation has signed, and what it says.

It asks nobody and needs only the installation's public keys.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countersign import receipts
from countersign.cli import console
from countersign.cli.approval_wait import add_approval_options

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

NO_CRYPTOGRAPHY = "Receipts need cryptography: pip install 'countersign-client[verify]'."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the receipt, the keys, and what the receipt has to say."""
    parser.add_argument(
        "file", help="what `countersign receipt` or the API gave; - for the standard input"
    )
    parser.add_argument(
        "--key",
        required=True,
        type=Path,
        metavar="FILE",
        help="the installation's public keys (/v1/receipt-keys, or `countersign receipt --keys`)",
    )
    parser.add_argument("--tool", default="", help="the tool or action that was to be approved")
    parser.add_argument(
        "--arguments",
        type=Path,
        metavar="FILE",
        help="the arguments that are to run, as a JSON object",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="for an auditor: accept any decision, however old; one receipt a line",
    )
    add_approval_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify each receipt of the file; returns the exit code, 1 if one does not hold."""
    if arguments.approvers < 0:
        raise console.UsageError("--approvers takes a number from 0")
    try:
        import cryptography  # noqa: F401 - asked for here, to say how to install it
    except ImportError:
        return console.print_error(NO_CRYPTOGRAPHY)
    try:
        keys = receipts.read_public_keys(_read(arguments.key))
        given = json.loads(_read(arguments.arguments)) if arguments.arguments else None
        text = sys.stdin.read() if arguments.file == "-" else _read(Path(arguments.file))
        if given is not None and not isinstance(given, dict):
            raise console.UsageError("--arguments takes a file with a JSON object")
        for decision, end in receipts.split_receipt_file(text):
            _verify_decision(decision, end, keys, arguments, given)
    except receipts.ReceiptError as error:
        return console.print_error(f"It does not hold. {error}")
    except ValueError as error:
        return console.print_error(f"The arguments cannot be read: {error}.")
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise console.UsageError(
            f"{path} cannot be read: {getattr(error, 'strerror', error)}"
        ) from error


def _verify_decision(
    decision: str,
    end: str | None,
    keys: Mapping[str, Ed25519PublicKey],
    expected: argparse.Namespace,
    given: Mapping[str, Any] | None,
) -> None:
    """Check the receipts of one decision and of the call's end; print what they say."""
    receipt = receipts.verify_receipt(decision, keys)
    content, decided = receipt.content, str(receipt.content.get("decision"))
    now = datetime.now(UTC)  # noqa: TID251 - a command of a moment, without a clock of its own
    if decided == "approved" or not expected.record:
        receipts.check_approval(
            receipt,
            tool=expected.tool,
            arguments=given,
            approvers=expected.approvers,
            passkeys=expected.passkeys,
            now=receipts.get_decision_time(receipt) if expected.record else now,
        )
    signers = receipts.list_approvers(receipt, passkeys=True)
    found = [
        f"{each} (signed with a passkey)" if each in signers else each
        for each in receipts.list_approvers(receipt)
    ]
    who = " and ".join(found) or "nobody, as policy or a grant allows it"
    effect = console.escape_control_characters(str(content.get("effect")))
    what = f"Approved by {who}" if decided == "approved" else decided.capitalize()
    until = f"Good until {content['goodUntil']}, signed" if content.get("goodUntil") else "Signed"
    console.print_line(
        f"{console.escape_control_characters(what)} on {content.get('decidedAt')}: {effect}"
    )
    console.print_line(f"{until} with key {receipt.key_id}")
    if end is not None:
        ended = receipts.verify_receipt(end, keys)
        receipts.check_end(ended, receipt)
        status = console.escape_control_characters(str(ended.content.get("status")))
        console.print_line(f"It ended on {ended.content.get('endedAt')}: {status}")
