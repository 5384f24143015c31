"""Counts what a store does: statements, transactions, commits of writers and waits for the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storage.store import Store
from storage.transaction import Trace, Transaction


@dataclass(slots=True)
class Counts:
    """How many there were of each."""

    statements: int = 0
    transactions: int = 0  # readers' too
    commits: int = 0  # of writers
    waits: int = 0  # commits that waited for the disk


@dataclass(slots=True)
class Counting(Trace):
    """Watches stores, one after the other, each from `watch` on."""

    counts: Counts = field(default_factory=Counts)

    def watch(self, store: Store) -> None:
        """Count what this one does, too."""
        store.trace = self

    def before_statement(self, sql: str, values: Any) -> None:
        """Count a statement."""
        self.counts.statements += 1

    def after_commit(self, tx: Transaction) -> None:
        """Count a transaction."""
        self.counts.transactions += 1
        self.counts.commits += tx.writes
        self.counts.waits += tx.writes and tx.durable
