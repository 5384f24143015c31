"""How far the audit has come, noted in a small file beside the database.

By it a record is known to lack rows at its end, and a database that was put back from a copy to be
older than its last life. What is noted is on the disk before, and nobody waits for the note: after
a crash it may be behind by what was committed last, but never ahead.
"""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from storage.chain import Chain, Head

if TYPE_CHECKING:
    from storage.transaction import Transaction

log = logging.getLogger("countersign.audit")
_LINE = 256  # bytes; of the two lines one is written at a time, so a torn write spoils only that
_MARK = "countersign-head"


def head_path(database: Path) -> Path:
    """Where the head of that database's audit is noted."""
    return database.with_name(f"{database.name}.head")


class HeadFile:
    """The note of how far one audit has come."""

    def __init__(self, path: Path, chain: Chain) -> None:
        """Signs with the key of `chain`; makes nothing yet."""
        self.path, self._chain = path, chain
        self._file: int | None = None
        self._noted: Head | None = None

    def read(self) -> Head | None:
        """The newest head that was noted; None where there is none, or none that is signed.

        One noted under another key cannot be checked, and is only compared with the rows.
        """
        try:
            text = self.path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        lines = (text[start : start + _LINE].split() for start in range(0, len(text), _LINE))
        found = [head for head in map(self._parsed, lines) if head]
        return max(found, key=lambda head: head.seq, default=None)

    def _parsed(self, line: list[str]) -> Head | None:
        if len(line) != 5 or line[0] != _MARK or not line[1].isdecimal():
            return None
        _, seq, seal, key, signature = line
        signer = self._chain.of(key)
        if signer and not hmac.compare_digest(signature, signer.sign(_MARK, seq, seal)):
            return None
        return Head(int(seq), seal)

    def contradicts(self, tx: Transaction) -> str:
        """Why the rows are not those of the record's last life; "" where they may be."""
        noted = self.read()  # before the rows: it is never ahead
        last = tx.exec_driver_sql("SELECT max(seq) FROM audit").scalar() or 0
        if noted is None:
            return f"there is no {self.path.name} that says how far it had come" if last else ""
        there = tx.exec_driver_sql("SELECT hash FROM audit WHERE seq = ?", (noted.seq,)).scalar()
        if noted.seq == 0 or there == noted.hash:
            return ""
        if last < noted.seq:
            return f"it ends at row {last} of the audit, and had come to row {noted.seq}"
        return f"row {noted.seq} of the audit is another one than it was"

    def keep(self, head: Head) -> None:
        """Write it down; that it cannot be is logged, for the rows are there already."""
        if head == self._noted:
            return
        try:
            if self._file is None:
                self._file = self._open()
            os.pwrite(self._file, self._line(head), head.seq % 2 * _LINE)
        except OSError as error:
            log.error("%s cannot be written: %s", self.path, error)
        else:
            self._noted = head

    def _line(self, head: Head) -> bytes:
        seq, key = str(head.seq), self._chain.key_id
        line = " ".join((_MARK, seq, head.hash, key, self._chain.sign(_MARK, seq, head.hash)))
        return f"{line:<{_LINE - 1}}\n".encode()

    def _open(self) -> int:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if new:  # a power failure must not take the file itself
            os.pwrite(file, b" " * 2 * _LINE, 0)
            os.fsync(file)
        return file

    def begin_unless_there(self) -> None:
        """Note that a new record is empty, so that one without a file is known to lack rows.

        Without, a death between the first row and its note would look like an older record.
        """
        if self.read() is None:
            self.keep(Head())

    def begin(self, head: Head) -> None:
        """Note this head in the place of one that belongs to another life of the record."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._noted = None
        self.keep(head)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
