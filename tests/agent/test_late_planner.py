"""The planner that is made when it is first needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from bot.agent.late_planner import LazyPlanner
from bot.agent.turn import AnswerSink, PlannerError, Reply


class Silent:
    """A sink that drops the words."""

    def write(self, text: str) -> None:
        """Drop them."""

    def discard_text(self) -> None:
        """Nothing to void."""


class Short:
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
        """The one word."""
        return Reply("yes", [], 1)

    compaction_server_id = ""

    def compact_items(self, items: object, instructions: str) -> None:
        """Its server has no means of its own."""

    def close(self) -> None:
        """Note it."""
        self.closed = True


def test_the_planner_is_made_once() -> None:
    """It is made for the first turn, serves all of them, and is closed; then no turn begins."""
    made: list[Short] = []

    def make() -> Short:
        made.append(Short())
        return made[-1]

    late = LazyPlanner(make)
    assert made == []
    assert [late.take_turn([], [], "", Silent()) for _ in range(2)] == [Reply("yes", [], 1)] * 2
    late.close()
    assert [each.closed for each in made] == [True]
    with pytest.raises(PlannerError):
        late.take_turn([], [], "", Silent())


def test_a_client_that_cannot_be_made_is_told() -> None:
    """A fault in making the client fails the turn with a sentence; the next one tries again."""

    def make() -> Short:
        raise ImportError("socksio is missing")

    late = LazyPlanner(make)
    late.prepare()
    for _ in range(2):
        with pytest.raises(PlannerError, match="socksio is missing"):
            late.take_turn([], [], "", Silent())


def test_a_start_waits_for_no_library_of_the_model() -> None:
    """Putting the bot together imports neither the model's library nor the parsers of databases."""
    heavy = "{'openai', 'aiohttp', 'sqlglot', 'psycopg'}"
    code = f"import sys, bot.cli.service, bot.app; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "[]\n"
