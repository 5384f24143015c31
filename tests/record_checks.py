"""Reads of a record that tests share: a thread's transcript, the first break of the audit chain."""

from __future__ import annotations

import re
from typing import Any

from storage.examination import examine_audit_and_rows
from storage.models import Run
from storage.transaction import Transaction
from storage.transcripts import TranscriptCache


def list_transcript_items(tx: Transaction, run: Run) -> list[dict[str, Any]]:
    """Return every item of the run's thread, in order, read from the rows."""
    return list(TranscriptCache().read_transcript(tx, run).items)


def find_first_broken_row(tx: Transaction) -> int | None:
    """Return the number of the first row that breaks the chain; None if all of it holds."""
    for each in examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems:
        if found := re.match(r"row (\d+) of the audit was changed", each):
            return int(found[1])
        assert not re.search("rows of the audit are sealed", each), each
    return None
