"""`countersign verify`: whether a receipt is what an installation has signed, and what it says.

It asks nobody and needs only the installation's public keys.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countersign import receipts
from countersign.cli import console
from countersign.cli.approval_wait import add_approval_options
from countersign.request import CRYPTOGRAPHY_MISSING_ERROR

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


NOT_CHECKED_EXIT_CODE = 2  # nothing is said of the receipt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the receipt, the keys, and what the receipt has to say."""
    parser.add_argument(
        "file",
        type=Path,
        help="output of `countersign receipt` or of the API; - for standard input",
    )
    parser.add_argument(
        "--key",
        required=True,
        type=Path,
        metavar="FILE",
        help="the installation's public keys (/v1/receipt-keys, or `countersign receipt --keys`)",
    )
    parser.add_argument("--tool", default="", help="the tool or action that had to be approved")
    parser.add_argument(
        "--arguments",
        type=Path,
        metavar="FILE",
        help="the arguments to run with, as a JSON object",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="for an auditor: accept any decision, however old; one receipt a line",
    )
    add_approval_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify each receipt of the file; returns the exit code, 1 if one is not valid.

    What keeps it from being verified ends it with `NOT_CHECKED_EXIT_CODE`.
    """
    if arguments.approvers < 0:
        raise console.UsageError("--approvers must be a number from 0")
    try:
        import cryptography  # noqa: F401 - asked for here, to say how to install it
    except ImportError:
        raise console.CommandError(CRYPTOGRAPHY_MISSING_ERROR, NOT_CHECKED_EXIT_CODE) from None
    try:
        keys = receipts.read_public_keys(_read(arguments.key))
        file = arguments.arguments
        given = receipts.parse_object(_read(file), "the file of arguments") if file else None
    except receipts.ReceiptError as error:
        raise console.CommandError(error, NOT_CHECKED_EXIT_CODE) from None
    try:
        receipt_pairs = receipts.split_receipt_file(_read(arguments.file))
    except receipts.ReceiptError as error:
        return console.print_error(error)
    code = 0
    for number, (decision, end) in enumerate(receipt_pairs, 1):
        try:
            _verify_decision(decision, end, keys, arguments, given)
        except receipts.ReceiptError as error:
            which = f"Receipt {number} of {len(receipt_pairs)}" if len(receipt_pairs) > 1 else "It"
            code = console.print_error(f"{which} is not valid. {error}")
    return code


def _read(path: Path) -> str:
    standard_input = path == Path("-")
    try:
        with open(
            0 if standard_input else path, encoding="utf-8-sig", closefd=not standard_input
        ) as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", error)
        raise console.UsageError(f"{path} cannot be read: {why}") from error


def _verify_decision(
    decision: str,
    end: str | None,
    keys: Mapping[str, Ed25519PublicKey],
    expected: argparse.Namespace,
    given: Mapping[str, Any] | None,
) -> None:
    """Check the receipts of one decision and of the call's end; print what they say."""
    receipt = receipts.verify_receipt(decision, keys)
    content, decided = receipt.content, receipt.content.get("decision")
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
    else:
        receipts.check_subject(receipt, tool=expected.tool, arguments=given)
    ended = receipts.verify_receipt(end, keys) if end is not None else None
    if ended is not None:
        receipts.check_end(ended, receipt)
    until = f"Good until {content['goodUntil']}, signed" if content.get("goodUntil") else "Signed"
    lines = [
        f"{_describe_decision(receipt)}: {content.get('effect')}",
        f"{until} with key {receipt.key_id}",
    ]
    if ended is not None:
        at, who = ended.content.get("endedAt"), ended.content.get("reportedBy")
        begin = f"It ended on {at}" if at else "How it ended"
        reported = f", as {who} reported" if who else ""
        lines.append(f"{begin}: {ended.content.get('status')}{reported}")
    console.print_lines(map(console.escape_control_characters, lines))


EVIDENCE_NOTES = {  # what is said of a vote that was not a click in Slack
    "passkey": " (signed with a passkey)",
    "terminal": " (at the bot's terminal)",
    "added": " (neither in Slack nor at the terminal)",
}
LABEL_AND_VERB_BY_DECISION = {  # the label, and the verb of its votes ("" if decided without)
    "approved": ("Approved by", "approve"),
    "rejected": ("Rejected by", "reject"),
    "break_glass": ("Run without approval by", "break_glass"),
    "granted": ("Allowed by a saved approval of", ""),
    "allowed": ("Allowed by the policy, without asking", ""),
}


def _describe_decision(receipt: receipts.Receipt) -> str:
    """Return what was decided, by whom and when, as the beginning of a sentence."""
    content, decided = receipt.content, str(receipt.content.get("decision"))
    said, verb = LABEL_AND_VERB_BY_DECISION.get(decided, (decided.capitalize(), ""))
    who = [_describe_voter(each) for each in receipts.list_votes(receipt, verb)] if verb else []
    if decided == "granted":
        who = [str(content.get("grantedBy", "somebody"))]
    at = content.get("decidedAt")
    return " ".join(filter(None, (said, " and ".join(who), at and f"on {at}")))


def _describe_voter(vote: Mapping[str, Any]) -> str:
    right = f" for {vote['for']}" if vote.get("for") else ""
    return f"{vote.get('person')}{right}{EVIDENCE_NOTES.get(str(vote.get('evidence')), '')}"
