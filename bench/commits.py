"""Counts a store's statements, transactions, writers' commits and waits for the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storage.store import Store
from storage.transaction import Trace, Transaction


@dataclass(slots=True)
class Counts:
    """The number of each."""

    statements: int = 0
    transactions: int = 0  # including reads
    commits: int = 0  # of writers
    waits: int = 0  # commits that waited for the disk


@dataclass(slots=True)
class Counting(Trace):
    """A trace that counts the work of one store after another, each from `watch` on."""

    counts: Counts = field(default_factory=Counts)

    def watch(self, store: Store) -> None:
        """Count this store's work too."""
        store.trace = self

    def before_statement(self, sql: str, values: Any) -> None:
        """Count a statement."""
        self.counts.statements += 1

    def after_commit(self, tx: Transaction) -> None:
        """Count a transaction."""
        self.counts.transactions += 1
        self.counts.commits += tx.writes
        self.counts.waits += tx.writes and tx.durable
