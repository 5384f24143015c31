"""`countersign outcome`: a job says how it went with what `countersign ask` had approved for it."""

from __future__ import annotations

import argparse

from countersign.cli.approval_wait import read_receipt
from countersign.cli.console import UsageError, complain, harmless
from countersign.client import Countersign
from countersign.errors import CountersignError

SUCCEEDED, FAILED = "succeeded", "failed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add of what it is said, and what."""
    parser.add_argument("receipt", help="what `countersign ask` has printed as receipt")
    parser.add_argument("how", choices=[SUCCEEDED, FAILED])
    parser.add_argument("--result", default="", help="in words, for the card and the record")


def run(arguments: argparse.Namespace) -> int:
    """Say it; returns the exit code."""
    receipt = read_receipt(arguments.receipt)
    if receipt is None:
        raise UsageError("a receipt is what `countersign ask` has printed, ID:…")
    request_id, claimant = receipt
    done = arguments.how == SUCCEEDED
    try:
        Countersign().report(request_id, claimant, succeeded=done, result=arguments.result)
    except CountersignError as error:
        return complain(harmless(str(error)))
    return 0
