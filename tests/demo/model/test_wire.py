"""The stand-in's answers, streamed and whole, as the real OpenAI client reads them."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseReasoningItem,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter

from bot.demo.model_server import Turn
from tests.demo.model.samples import ASK, TWO, answered, read_stream
from tests.model_stand_in.planner import StrictPlanner


def test_a_stream_has_the_documented_events(planner: StrictPlanner, client: OpenAI) -> None:
    """Text, reasoning and two calls, numbered without a gap."""
    planner.script(TWO)
    events = read_stream(client)
    names: list[str] = []
    for event in events:
        if not (names and names[-1] == event.type):
            names.append(event.type)
    call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    text = ["output_text.delta", "output_text.done"]
    message = [
        "output_item.added",
        "content_part.added",
        *text,
        "content_part.done",
        "output_item.done",
    ]
    expected = [
        "created",
        "in_progress",
        *message,
        "output_item.added",
        "output_item.done",
        *call,
        *call,
        "completed",
    ]
    assert names == [f"response.{each}" for each in expected]
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_every_event_is_valid_for_the_client(planner: StrictPlanner, client: OpenAI) -> None:
    """In strict validation of the client's models."""
    planner.script(TWO)
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in read_stream(client):
        adapter.validate_python(
            event.model_dump(mode="json", exclude_unset=True, by_alias=True, warnings="error")
        )


def test_deltas_add_up_to_the_finished_items(planner: StrictPlanner, client: OpenAI) -> None:
    """Text and arguments, white space included."""
    text = "One two.\n\n  • three   four\n" + "x" * 50
    planner.script(Turn(text=text, calls=[("look_up_order", {"order_id": 1042})]))
    events = read_stream(client)
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    arguments = "".join(
        event.delta for event in events if event.type == "response.function_call_arguments.delta"
    )
    assert said == text
    assert json.loads(arguments) == {"order_id": 1042}
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert events[-1].type == "response.completed"
    assert done == events[-1].response.output


def test_a_whole_answer_has_the_same_content_as_a_stream(
    planner: StrictPlanner, client: OpenAI
) -> None:
    """Text, calls, and a usage that adds up."""
    planner.script(TWO)
    response = client.responses.create(**ASK)
    assert response.output_text == "I will look."
    calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
    assert [json.loads(each.arguments) for each in calls] == [
        {"order_id": 1042},
        {"order_id": 1043},
    ]
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    TypeAdapter(Response).validate_python(
        response.model_dump(mode="json", exclude_unset=True, by_alias=True)
    )


def test_the_clients_stream_helper_agrees(planner: StrictPlanner, client: OpenAI) -> None:
    """It reads the whole sequence and returns the final response."""
    planner.script(TWO)
    with client.responses.stream(**ASK) as running:
        final = running.get_final_response()
    assert [item.type for item in final.output] == [
        "message",
        "reasoning",
        "function_call",
        "function_call",
    ]


def test_reasoning_comes_only_if_it_was_asked_for(planner: StrictPlanner, client: OpenAI) -> None:
    """It is sealed, and comes before calls if `include` names it."""
    planner.script(TWO, TWO)
    kept = [
        item
        for item in client.responses.create(**ASK).output
        if isinstance(item, ResponseReasoningItem)
    ]
    assert len(kept) == 1
    assert kept[0].encrypted_content
    bare = client.responses.create(**{**ASK, "include": []})
    assert not [item for item in bare.output if item.type == "reasoning"]


def test_returned_output_items_are_accepted(planner: StrictPlanner, client: OpenAI) -> None:
    """With one output for each call."""
    planner.script(TWO, Turn(text="done"))
    first = client.responses.create(**ASK)
    assert client.responses.create(**{**ASK, "input": answered(first)}).output_text == "done"
    assert planner.refused == []
