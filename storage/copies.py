"""What a record says of itself where it is a copy, or was left for one.

A record with such a row is not the one that lived last: who starts on it takes it up as an older
one, which takes the row away. A backup has one from its first moment on, so that it is known for
what it is wherever it is put. The row also says, under a seal, how much has to be there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import delete, select
from sqlmodel import Field, col

from storage import columns
from storage.chain import Chain, Head
from storage.columns import Row, values
from storage.transaction import Transaction, first, insert_into


class Copied(Row, table=True):
    """That the record is a copy, or was left for one."""

    __tablename__ = "copied"
    seq: int | None = Field(default=None, primary_key=True)
    at: datetime = columns.time()
    why: str  # in which way, for people
    version: str = ""  # of Countersign, which made it
    key_id: str = ""  # of the key that its audit goes on under
    head_seq: int = 0  # how far the audit had come
    head_hash: str = ""
    counts: str = columns.text("{}")  # JSON: how many rows, by table
    problems: str = columns.text("[]")  # JSON: what of the record was not sound when it was copied
    seal: str = ""  # over all that; "" where it says only why
    signing_key: str = columns.text("")  # the key itself, where somebody wanted it in the copy

    @property
    def head(self) -> Head:
        """How far the audit had come."""
        return Head(self.head_seq, self.head_hash)

    @property
    def known(self) -> list[str]:
        """What of the record was not sound when it was copied."""
        found: list[str] = json.loads(self.problems)
        return found

    def is_sealed_by(self, chain: Chain) -> bool:
        """Whether it is as it was written, under the key of `chain`."""
        return self.seal == _seal(self, chain.of(self.key_id) or chain)

    def missing(self, counts: Mapping[str, int]) -> str:
        """Which table does not have the rows it should have; "" where all do."""
        due: dict[str, int] = json.loads(self.counts)
        there = {name: counts.get(name, 0) for name in due}
        odd = [
            f"{there[name]} of {due[name]} rows in {name}"
            for name in due
            if there[name] != due[name]
        ]
        return ", ".join(odd)


_FIRST = select(Copied).order_by(col(Copied.seq)).limit(1)


def noted(tx: Transaction) -> Copied | None:
    """What the record says of itself; None where it is no copy."""
    return first(tx, Copied, _FIRST)


def note(tx: Transaction, row: Copied) -> None:
    """Have the record say this of itself, and nothing else."""
    forget(tx)
    tx.execute(insert_into(Copied), values(row))


def forget(tx: Transaction) -> bool:
    """Have it say nothing of that kind; whether it did."""
    return tx.execute(delete(Copied)).rowcount > 0


def sealed(row: Copied, chain: Chain) -> Copied:
    """The row with its seal, under the key of `chain`."""
    mine = columns.altered(row, key_id=chain.key_id)
    return columns.altered(mine, seal=_seal(mine, chain))


def _seal(row: Copied, chain: Chain) -> str:
    said = (row.at.isoformat(), row.why, row.version, row.counts, row.problems)
    return chain.sign("copied", *said, row.head_seq, row.head_hash)
