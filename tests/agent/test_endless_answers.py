"""An answer of the model without an end is broken off, by its length or by its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.chat_completions import CHAT_DIALECT
from bot.agent.planner import ENDLESS_ANSWER_ERROR, MAX_ANSWER_CHARS, Planner
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import Dialect, PlannerError
from tests.agent.test_planner import Words

AGAIN = "and again, "


def build_chunk(**delta: Any) -> dict[str, Any]:
    """A chunk of Chat Completions."""
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


def build_calls(text: str) -> list[dict[str, Any]]:
    """The calls of a chunk."""
    return [{"index": 0, "id": "a", "function": {"name": "note", "arguments": text}}]


ENDLESS_EVENTS: dict[str, tuple[Dialect, dict[str, Any]]] = {
    "words": (RESPONSES_DIALECT, {"type": "response.output_text.delta", "delta": AGAIN}),
    "a refusal": (RESPONSES_DIALECT, {"type": "response.refusal.delta", "delta": AGAIN}),
    "arguments": (
        RESPONSES_DIALECT,
        {"type": "response.function_call_arguments.delta", "delta": AGAIN},
    ),
    "thoughts": (RESPONSES_DIALECT, {"type": "response.reasoning_text.delta", "delta": AGAIN}),
    "words in a chat": (CHAT_DIALECT, build_chunk(content=AGAIN)),
    "arguments in a chat": (CHAT_DIALECT, build_chunk(tool_calls=build_calls(AGAIN))),
    "thoughts in a chat": (CHAT_DIALECT, build_chunk(reasoning_content=AGAIN)),
}


def run_endless_turn(dialect: Dialect, event: dict[str, Any], timeout: float) -> tuple[Words, int]:
    """Take a turn answered by this event for ever; return the words and the number of requests."""
    asked = 0
    line = f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n".encode()

    def answer(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        lines: Iterator[bytes] = repeat(line)
        return httpx2.Response(200, content=lines, headers={"content-type": "text/event-stream"})

    client = openai.OpenAI(
        api_key="sk-offline",
        base_url="http://model.test/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
        timeout=timeout,
    )
    words, given = Words(), [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    planner = Planner(client, model="gpt-5", dialects=(dialect,), backoff=0)
    with pytest.raises(PlannerError) as ended:
        planner.take_turn(given, [], "Be brief.", words)
    assert str(ended.value) == ENDLESS_ANSWER_ERROR
    return words, asked


@pytest.mark.parametrize("name", ENDLESS_EVENTS)
def test_an_answer_that_repeats_itself_is_broken_off(name: str) -> None:
    """It is not asked for again, and the error says why."""
    words, asked = run_endless_turn(*ENDLESS_EVENTS[name], 120.0)
    assert len(words.text) <= MAX_ANSWER_CHARS
    assert asked == 1


@pytest.mark.parametrize("event", [{"type": "response.in_progress"}, {"type": "x", "delta": ""}])
def test_an_answer_that_takes_too_long_is_broken_off(event: dict[str, Any]) -> None:
    """Though events come, they have nothing that could be counted."""
    _, asked = run_endless_turn(RESPONSES_DIALECT, event, 0.05)
    assert asked == 1
