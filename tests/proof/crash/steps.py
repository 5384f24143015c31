"""The durable steps of one life of the bot, found while it runs, and a strike at one of them.

A step is the moment before or after a commit, a call to Slack or a turn of the model, and around
the effect of a tool. It is named by its kind and its number among such steps in that life.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from bot.agent.planner import Planner
from storage.transaction import Trace, Transaction

_EVENT = re.compile(r"[a-z]+(\.[a-z_]+)+")  # an event of the audit
_CHANGES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\s+(?:OR \w+ )?(?:INTO |FROM )?\"?([\w.]+)", re.I)


ANY = "any step"  # of a life


@dataclass(frozen=True, order=True)
class Step:
    """One step: its kind, and its number among such steps, from 1."""

    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.what} ({self.number})"


class Steps(Trace):
    """Counts the steps of this process, and calls `strike` once at the chosen one."""

    def __init__(
        self, at: Step | None, strike: Callable[[], None], on_disk: Callable[[], None]
    ) -> None:
        """`on_disk` is called after each commit that waited for the disk."""
        self.found: list[Step] = []
        self.struck = False
        self._at, self._strike, self._on_disk = at, strike, on_disk
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._here = threading.local()

    def reached(self, what: str) -> None:
        """A step is reached."""
        with self._lock:
            self._numbers[what] += 1
            step = Step(what, self._numbers[what])
            self.found.append(step)
            due = self._at in (step, Step(ANY, len(self.found)))
            self.struck = self.struck or due
        if due:
            self._strike()

    # commits

    def before_statement(self, sql: str, values: Any) -> None:
        """Note what this thread's transaction changes."""
        if found := _CHANGES.match(sql):
            given = values.values() if isinstance(values, dict) else values
            events = [each for each in given if isinstance(each, str) and _EVENT.fullmatch(each)]
            change = f"{found[1].lower()} {found[2]}"
            self._changes().append(events[0] if change == "insert audit" and events else change)

    def before_commit(self, tx: Transaction) -> None:
        """A step, if the transaction changes anything."""
        changes, self._here.changes = self._changes(), []
        said = [
            each for each in changes if "." in each
        ] or changes  # names from the audit, if there are any
        self._here.commit = f"commit of {', '.join(dict.fromkeys(said))}" if changes else ""
        if self._here.commit and tx.has_changes:
            self.reached(f"{self._here.commit}: before")

    def after_commit(self, tx: Transaction) -> None:
        """A step, if the transaction changed anything."""
        if tx.durable:
            self._on_disk()
        if self._here.commit and tx.has_changes:
            self.reached(f"{self._here.commit}: after")

    def _changes(self) -> list[str]:
        if not hasattr(self._here, "changes"):
            self._here.changes = []
        found: list[str] = self._here.changes
        return found

    # the wires

    def watch_wires(self) -> None:
        """Make each call to Slack and each turn of the model in this process a step."""
        patch, here = pytest.MonkeyPatch(), self._here
        request, answer, turn = (
            HTTPConnection.request,
            HTTPConnection.getresponse,
            Planner.take_turn,
        )

        def ask(connection: HTTPConnection, method: str, url: str, *rest: Any, **more: Any) -> None:
            here.method = url.partition("?")[0].rsplit("/", 1)[-1]
            self.reached(f"Slack's {here.method}: before")
            request(connection, method, url, *rest, **more)

        def answered(connection: HTTPConnection) -> HTTPResponse:
            found = answer(connection)
            self.reached(f"Slack's {here.method}: after")
            return found

        def turned(planner: Planner, *given: Any, **more: Any) -> Any:
            self.reached("turn of the model: before")
            found = turn(planner, *given, **more)
            self.reached("turn of the model: after")
            return found

        patch.setattr(HTTPConnection, "request", ask)
        patch.setattr(HTTPConnection, "getresponse", answered)
        patch.setattr(Planner, "take_turn", turned)
