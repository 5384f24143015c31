"""What the stories of questions to people share."""

from __future__ import annotations

from typing import Any

from tests.stories.harness import Harness

HOURS = 3600


def question(**fields: Any) -> tuple[str, dict[str, Any]]:
    """A call that asks a person."""
    return "ask_person", fields


def outcome(harness: Harness, part: str) -> str:
    """What the model was told of its question, waited for."""

    def look() -> str | None:
        if not harness.planner.requests:
            return None
        found = [str(each["output"]) for each in harness.outputs()]
        return next((each for each in found if part in each), None)

    return str(harness.slack.wait(look))
