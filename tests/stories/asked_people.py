"""Helpers for stories about questions to people."""

from __future__ import annotations

from typing import Any

from tests.stories.harness import Harness

HOURS = 3600


def question(**fields: Any) -> tuple[str, dict[str, Any]]:
    """Build a call that asks a person."""
    return "ask_person", fields


def outcome(harness: Harness, part: str) -> str:
    """Wait for the output with this text that the model was given for its question."""

    def look() -> str | None:
        if not harness.planner.requests:
            return None
        found = [str(each["output"]) for each in harness.outputs()]
        return next((each for each in found if part in each), None)

    return str(harness.slack.wait(look))
