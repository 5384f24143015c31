"""The demo's own stand-in for the model: answers of both APIs, read by the real client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from bot.demo.model_server import StandInPlanner, Turn
from tests.demo.model.samples import ASK, TOOL, TWO

SAYS: Any = [{"role": "user", "content": "hello"}]
NAMES = ["look_up_order", "look_up_order"]


@pytest.fixture
def planner() -> Iterator[StandInPlanner]:
    """The demo's stand-in, instead of the strict one."""
    with StandInPlanner() as running:
        yield running


def check_valid(kind: Any, found: Any) -> None:
    """Check that the client's own models accept it in strict validation."""
    TypeAdapter(kind).validate_python(found.model_dump(mode="json", exclude_unset=True))


def test_a_response_is_valid_whole_and_streamed(planner: StandInPlanner, client: OpenAI) -> None:
    """Words and calls are the same."""
    planner.script(TWO, TWO)
    whole = client.responses.create(**ASK)
    check_valid(Response, whole)
    events = list(client.responses.create(**ASK, stream=True))
    for event in events:
        check_valid(ResponseStreamEvent, event)
    assert events[-1].type == "response.completed"
    for each in (whole, events[-1].response):
        assert each.output_text == "I will look."
        assert [i.name for i in each.output if i.type == "function_call"] == NAMES
        assert each.usage is not None
        assert each.usage.total_tokens == each.usage.input_tokens + each.usage.output_tokens


def test_a_chat_is_valid_whole_and_streamed(planner: StandInPlanner, client: OpenAI) -> None:
    """Words, calls and usage are the same."""
    planner.script(TWO, TWO)
    function = {name: value for name, value in TOOL.items() if name != "type"}
    tools: Any = [{"type": "function", "function": function}]
    whole = client.chat.completions.create(model="gpt-5", messages=SAYS, tools=tools)
    check_valid(ChatCompletion, whole)
    message = whole.choices[0].message
    assert (message.content, whole.choices[0].finish_reason) == ("I will look.", "tool_calls")
    assert [each.function.name for each in message.tool_calls or () if each.type == "function"] == (
        NAMES
    )
    *chunks, last = client.chat.completions.create(
        model="gpt-5",
        messages=SAYS,
        tools=tools,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in (*chunks, last):
        check_valid(ChatCompletionChunk, chunk)
    deltas = [each.choices[0].delta for each in chunks]
    assert "".join(each.content or "" for each in deltas) == "I will look."
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert last.usage == whole.usage


def test_scripted_turns_come_before_those_of_the_rules(
    planner: StandInPlanner, client: OpenAI
) -> None:
    """The model's name does not matter."""
    planner.script(Turn(text="first"), Turn(text="second"))
    said = [client.responses.create(model="any", input="hello").output_text for _ in range(3)]
    assert said[:2] == ["first", "second"]
    assert "offline stand-in planner" in said[2]
    assert [each.id for each in client.models.list()] == ["stand-in"]
    assert client.models.retrieve("any").id == "any"


def test_a_running_stand_in_cannot_be_started_again() -> None:
    """Its address is known once it runs, and stopping twice is safe."""
    planner = StandInPlanner()
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = planner.url
    with planner, pytest.raises(RuntimeError, match="runs already"):
        planner.start()
    planner.stop()
