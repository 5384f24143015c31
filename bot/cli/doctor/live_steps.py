"""What was tried at Slack, step by step: which method, what Slack said, how long it took.

Of what Slack answers only its error codes are kept: no name, no id, no text, no token.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from slack_sdk.errors import SlackApiError

from bot.slack.client import is_final
from bot.slack_codes import code_of

T = TypeVar("T")
OK = "ok"
LEFT_OUT = "left out"
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SCOPES = re.compile(r"[a-z_.:,]{1,200}")


@dataclass(frozen=True, slots=True)
class LiveStep:
    """One step."""

    step: str  # for people
    method: str  # Slack's
    result: str  # `ok`, Slack's error code, or the kind of what went wrong on the way
    seconds: float | None = None  # None: it was not tried
    is_refused: bool = False  # Slack itself said no, so nothing came of it

    @property
    def is_ok(self) -> bool:
        """Whether Slack did it."""
        return self.result == OK


@dataclass(slots=True)
class LiveSteps:
    """All steps; used by one thread."""

    told: Callable[[LiveStep], None] = lambda _: None  # of each step, at once
    all: list[LiveStep] = field(default_factory=list)

    def take(self, step: str, method: str, call: Callable[[], T]) -> T | None:
        """Take a step and keep what came of it; None where it failed. Raises nothing."""
        begun = time.perf_counter()
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - whatever it is is told, and the rest goes on
            refused = isinstance(error, SlackApiError) and is_final(error)
            took = time.perf_counter() - begun
            self.add(LiveStep(step, method, said_of(error), took, is_refused=refused))
            return None
        self.add(LiveStep(step, method, OK, time.perf_counter() - begun))
        return found

    def may_have_done(self) -> bool:
        """Return whether something may have come of the last step."""
        return not self.all[-1].is_refused

    def leave_out(self, step: str, method: str, why: str) -> None:
        """Say that a step could not be taken."""
        self.add(LiveStep(step, method, f"{LEFT_OUT}: {why}"))

    def add(self, tried: LiveStep) -> None:
        """Keep a step that was timed elsewhere."""
        self.all.append(tried)
        self.told(tried)


def said_of(error: Exception) -> str:
    """Return Slack's code with the scope that it misses, else the kind of the error."""
    if not isinstance(error, SlackApiError):
        return type(error).__name__
    code = code_of(error)
    if not _CODE.fullmatch(code):
        return f"HTTP {getattr(error.response, 'status_code', '?')}"
    needed = error.response.get("needed") if hasattr(error.response, "get") else None
    is_scope = isinstance(needed, str) and _SCOPES.fullmatch(needed)
    return f"{code} (needs {needed})" if is_scope else code


def report(steps: Sequence[LiveStep], facts: Sequence[str], cut_short: bool) -> str:
    """Write all of it as Markdown, to be pasted into an issue."""
    wrong = [each for each in steps if not each.is_ok]
    lines = ["## Countersign, tried live", "", *(f"- {each}" for each in facts)]
    lines.append(f"- {len(steps) - len(wrong)} of {len(steps)} steps went well")
    if cut_short:
        lines.append("- It was cut short; what it had made was taken away.")
    lines += ["", "| step | method | result | ms |", "|---|---|---|---|"]
    for each in steps:
        took = "" if each.seconds is None else f"{each.seconds * 1000:.0f}"
        lines.append(f"| {each.step} | `{each.method}` | {each.result} | {took} |")
    return "\n".join(lines)
