"""The product's database statements in stories, to find those that scan growing tables."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from storage.store import Store
from storage.transaction import Trace

ROOT = Path(__file__).parents[2]
GROWING = (
    *("answer", "attached", "audit", "call", "delivery", "item", "message", "plan"),
    *("remembered", "revision", "run", "signature", "signing_link", "vote", "webhook"),
)
RARE = {  # functions that may look through a table, and why
    "_run_all_checks": "the checks of the setup, after a start and a new policy",
    "change_channel_id": "Slack gives a channel another id perhaps once",
    "count_signatures": "somebody removes a passkey of their own",
    "erase_personal_data": "a person is forgotten by a command",
    "find_time_of_newest_activity": "a start; it reads the last thousand rows",
    "get_audit_head": "it begins at the end",
    "iterate_starts_with_possible_effect": "few calls fail midway, and only their times are read",
    "purge_old_requests": "once a day",
    "settle_work_if_restored": "a backup was put back",
}


class StatementsOfProduct(Trace):
    """Keeps each statement of the bot, but not of commands and tests, with its values."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._known: set[str] = set()

    def before_statement(self, sql: str, values: Any) -> None:
        """Keep the statement if it is new."""
        if sql in self._known:
            return
        names = _list_functions()
        if names:
            self._known.add(sql)
            if names.isdisjoint(RARE):
                self.found[sql] = values

    def describe_slow(self, store: Store) -> list[str]:
        """Return each statement that scans a growing table, with SQLite's query plan."""
        with store.read() as tx:
            return [
                f"{step}: {sql}"
                for sql, values in list(
                    self.found.items()
                )  # other threads may add statements meanwhile
                if sql.startswith(("SELECT", "UPDATE", "DELETE"))
                for (*_, step) in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
                if _is_growing_scan(step)
            ]


def _is_growing_scan(step: str) -> bool:
    """Whether this step reads a whole growing table, or all calls of a tool."""
    what, _, rest = step.partition(" ")
    return (what == "SCAN" and rest.split(" ")[0] in GROWING) or "ix_call_tool (tool=?)" in step


class PausedStatement(Trace):
    """Holds the first statement of one of the product's functions until it may go on."""

    def __init__(self, function: str) -> None:
        self._function = function
        self.arrived, self.go_on = threading.Event(), threading.Event()

    def before_statement(self, sql: str, values: Any) -> None:
        """Hold the statement if it is the one."""
        if not self.arrived.is_set() and self._function in _list_functions():
            self.arrived.set()
            self.go_on.wait(20)


def _list_functions() -> set[str]:
    """Return the names of the calling functions; none if the bot is not among them."""
    asking, names, frame = "", set(), sys._getframe(2)
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        names.add(name)
        if not path.startswith(f"{ROOT}/storage/"):
            asking = asking or path
        if path.startswith(f"{ROOT}/bot/cli/"):
            return set()
        frame = frame.f_back
    return names if asking.startswith(f"{ROOT}/bot/") else set()
