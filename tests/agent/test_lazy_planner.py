"""The planner that is made when it is first needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from bot.agent.late_planner import LazyPlanner
from bot.agent.turn import AnswerSink, PlannerError, Reply


class DroppingSink:
    """A sink that drops the words."""

    def write(self, text: str) -> None:
        """Drop them."""

    def discard_text(self) -> None:
        """Do nothing: there are no words."""


class OneWordPlanner:
    """Answers with one word, and knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: AnswerSink,
    ) -> Reply:
        """Return the one word."""
        return Reply("yes", [], 1)

    compaction_server_id = ""

    def compact_items(self, items: object, instructions: str) -> None:
        """Return None: its server cannot compact."""

    def close(self) -> None:
        """Record that it was closed."""
        self.closed = True


def test_the_planner_is_made_once() -> None:
    """For the first turn, and it serves all of them; closed, it takes no more."""
    made: list[OneWordPlanner] = []

    def make() -> OneWordPlanner:
        made.append(OneWordPlanner())
        return made[-1]

    late = LazyPlanner(make)
    assert made == []
    assert [late.take_turn([], [], "", DroppingSink()) for _ in range(2)] == [
        Reply("yes", [], 1)
    ] * 2
    late.close()
    assert [each.closed for each in made] == [True]
    with pytest.raises(PlannerError):
        late.take_turn([], [], "", DroppingSink())


def test_a_failure_to_make_the_client_fails_the_turn() -> None:
    """With the reason; the next turn tries again."""

    def make() -> OneWordPlanner:
        raise ImportError("socksio is missing")

    late = LazyPlanner(make)
    late.prepare()
    for _ in range(2):
        with pytest.raises(PlannerError, match="socksio is missing"):
            late.take_turn([], [], "", DroppingSink())


def test_starting_the_bot_does_not_import_the_models_library() -> None:
    """Nor the parsers of databases."""
    heavy = "{'openai', 'aiohttp', 'sqlglot', 'psycopg'}"
    code = f"import sys, bot.cli.service, bot.app; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "[]\n"
