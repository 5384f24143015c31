"""How long an answer of the model may become: one that repeats itself comes to no end."""

from __future__ import annotations

import time
from typing import Any

import openai

from bot.agent.turn import PlannerError

MOST = 200_000  # characters of one answer, with its calls and what it thinks aloud
TIMES = 5.0  # the time without a sign of it that one answer may take in all
ENDLESS = (
    "The model's answer came to no end, as where it repeats itself, and was broken off. Ask in "
    "other words, or for less at once."
)


class AnswerBounds:
    """Those of one answer."""

    def __init__(self, client: openai.OpenAI) -> None:
        """It begins now. `client` knows how long it waits for a sign."""
        timeout = client.timeout
        quiet = timeout if isinstance(timeout, int | float) or timeout is None else timeout.read
        self._until = None if quiet is None else time.monotonic() + TIMES * quiet
        self._left = MOST

    def take(self, event: dict[str, Any]) -> None:
        """Count what came; raises PlannerError where that is too much, or took too long."""
        self._left -= _length(event.get("delta")) + _length(event.get("choices"))
        is_late = self._until is not None and time.monotonic() > self._until
        if self._left < 0 or is_late:
            raise PlannerError(ENDLESS)


def _length(part: Any) -> int:
    """How many characters stand in it."""
    if isinstance(part, str):
        return len(part)
    if isinstance(part, dict):
        return sum(map(_length, part.values()))
    return sum(map(_length, part)) if isinstance(part, list) else 0
