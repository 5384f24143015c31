"""Answers on the wire: what the real OpenAI client reads from the stand-in, streamed and whole."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseReasoningItem,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter

from bot.sandbox.openai.server import Planner, Turn

SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "integer"}},
    "additionalProperties": False,
}
TOOL: Any = {
    "type": "function",
    "name": "look_up_order",
    "description": "Look up",
    "parameters": SCHEMA,
    "strict": False,
}
ASK: dict[str, Any] = {
    "model": "gpt-5",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    "tools": [TOOL],
    "store": False,
    "include": ["reasoning.encrypted_content"],
}
TWO = Turn(
    text="I will look.",
    calls=[("look_up_order", {"order_id": 1042}), ("look_up_order", {"order_id": 1043})],
)


def stream(client: OpenAI, **more: Any) -> list[ResponseStreamEvent]:
    """Every event of one streamed answer."""
    return list(client.responses.create(**{**ASK, **more}, stream=True))


def outputs(response: Response) -> list[dict[str, Any]]:
    """The output items as they came, ready to be sent back."""
    return [item.model_dump(mode="json", exclude_unset=True) for item in response.output]


def answered(response: Response, text: str = "ok") -> list[dict[str, Any]]:
    """The transcript after that response, with an output for each of its calls."""
    items = [*ASK["input"], *outputs(response)]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    return items + [
        {"type": "function_call_output", "call_id": each, "output": text} for each in calls
    ]


def test_stream_has_the_documented_events(planner: Planner, client: OpenAI) -> None:
    """Text, reasoning and two calls come as the event sequence of the Responses API, numbered
    without a gap.
    """
    planner.script(TWO)
    events = stream(client)
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


def test_every_event_is_valid_for_the_client(planner: Planner, client: OpenAI) -> None:
    """Each event passes the client's own models in strict validation, not only its lenient
    construction.
    """
    planner.script(TWO)
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in stream(client):
        adapter.validate_python(
            event.model_dump(mode="json", exclude_unset=True, by_alias=True, warnings="error")
        )


def test_deltas_add_up_to_what_is_done(planner: Planner, client: OpenAI) -> None:
    """Deltas joined equal the text and the arguments of the finished items, spaces and line ends
    included.
    """
    text = "One two.\n\n  • three   four\n" + "x" * 50
    planner.script(Turn(text=text, calls=[("look_up_order", {"order_id": 1042})]))
    events = stream(client)
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    arguments = "".join(
        event.delta for event in events if event.type == "response.function_call_arguments.delta"
    )
    assert said == text
    assert json.loads(arguments) == {"order_id": 1042}
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert events[-1].type == "response.completed"
    assert done == events[-1].response.output


def test_whole_answer_has_the_same_content(planner: Planner, client: OpenAI) -> None:
    """Without streaming the client reads text, calls and a usage that adds up."""
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


def test_the_clients_stream_helper_agrees(planner: Planner, client: OpenAI) -> None:
    """The client's accumulating stream helper takes the whole sequence and ends with the final
    response.
    """
    planner.script(TWO)
    with client.responses.stream(**ASK) as running:
        final = running.get_final_response()
    assert [item.type for item in final.output] == [
        "message",
        "reasoning",
        "function_call",
        "function_call",
    ]


def test_reasoning_only_where_it_was_asked_for(planner: Planner, client: OpenAI) -> None:
    """A sealed reasoning item comes before calls when `include` names it, and not otherwise."""
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


def test_what_was_sent_is_taken_back(planner: Planner, client: OpenAI) -> None:
    """Output items returned verbatim with one output for each call are accepted (L01)."""
    planner.script(TWO, Turn(text="done"))
    first = client.responses.create(**ASK)
    assert client.responses.create(**{**ASK, "input": answered(first)}).output_text == "done"
    assert planner.refused == []


def test_scripts_are_used_in_order_and_ids_as_given(planner: Planner, client: OpenAI) -> None:
    """Scripted turns come in order, with the given call ids and raw arguments nonsense included
    (L09, X15).
    """
    planner.script(
        Turn(
            calls=[("a", {}), ("b", "[1,")],
            call_ids=["same", "same"],
            raw_arguments='{"a": 1, "a": 2}',
        ),
        Turn(text="second"),
    )
    calls = [
        i for i in client.responses.create(**ASK).output if isinstance(i, ResponseFunctionToolCall)
    ]
    assert [(c.name, c.call_id, c.arguments) for c in calls] == [
        ("a", "same", '{"a": 1, "a": 2}'),
        ("b", "same", "[1,"),
    ]
    assert client.responses.create(**ASK).output_text == "second"


def test_failed_and_incomplete_responses(planner: Planner, client: OpenAI) -> None:
    """A turn can end as failed or incomplete, as the API reports trouble after the stream began."""
    planner.script(Turn(failed="server_error"), Turn(text="Half", incomplete="max_output_tokens"))
    last = stream(client)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"
    last = stream(client)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_ordered_faults_become_the_clients_errors(
    planner: Planner, client: OpenAI, status: int, expected: type[openai.APIStatusError]
) -> None:
    """An ordered status arrives as the client's exception with its Retry-After, once, and the
    script is kept (X08).
    """
    planner.script(Turn(text="after all"))
    planner.fail(status, retry_after=7)
    with pytest.raises(expected) as caught:
        client.responses.create(**ASK)
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "7"
    assert client.responses.create(**ASK).output_text == "after all"


def test_a_cut_turn_is_said_again(planner: Planner, client: OpenAI) -> None:
    """A cut stream is a connection error for the client, and its scripted turn is said again, whole
    (X08).
    """
    planner.script(TWO)
    planner.cut(after_events=5)
    with pytest.raises(openai.APIConnectionError):
        stream(client)
    again = [item.type for item in client.responses.create(**ASK).output]
    assert again == ["message", "reasoning", "function_call", "function_call"]


def test_a_cut_leaves_the_events_before_it(planner: Planner, client: OpenAI) -> None:
    """What was written before the cut is read, what comes after is not."""
    planner.cut(after_events=5)
    seen = 0
    with pytest.raises(openai.APIConnectionError):
        for _ in client.responses.create(**ASK, stream=True):
            seen += 1
    assert seen == 5


def test_refused_connections(planner: Planner, client: OpenAI) -> None:
    """A refused connection is a connection error for the client, and nothing is recorded as asked."""
    planner.refuse_connection(2)
    for _ in range(2):
        with pytest.raises(openai.APIConnectionError):
            client.responses.create(**ASK)
    assert planner.requests == []
    assert client.responses.create(**ASK).status == "completed"


@pytest.mark.parametrize("after_events", [0, 4])
def test_a_held_request_waits_for_its_release(
    planner: Planner, client: OpenAI, after_events: int
) -> None:
    """A hold shows when the request is there and keeps it, before the answer or in mid-stream,
    until released.
    """
    hold = planner.hold(after_events)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stream, client)
        assert hold.arrived.wait(5)
        assert not answer.done()
        hold.release()
        assert answer.result(5)[-1].type == "response.completed"


def test_stop_ends_what_is_held() -> None:
    """Stopping the server does not wait for a release that nobody will give."""
    with Planner() as planner, ThreadPoolExecutor(1) as pool:
        client = OpenAI(base_url=planner.url, api_key="sk-offline", max_retries=0, timeout=10)
        hold = planner.hold()
        pending = pool.submit(stream, client)
        assert hold.arrived.wait(5)
        planner.stop()
        assert pending.exception(5) is None or isinstance(pending.exception(), openai.APIError)
        hold.release()  # too late, and harmless


def test_a_taken_port_is_reported() -> None:
    """Starting on a port in use raises on the caller's thread instead of hanging."""
    with Planner() as planner, pytest.raises(OSError, match="address"):
        Planner(int(planner.url.split(":")[2].split("/")[0])).start()


def test_models(client: OpenAI) -> None:
    """The model list and a model can be read.

    An unknown model is not found, there and when asked for an answer.
    """
    assert [each.id for each in client.models.list()] == ["stand-in"]
    assert client.models.retrieve("gpt-5").id == "gpt-5"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")
    with pytest.raises(openai.BadRequestError, match="does not exist"):
        client.responses.create(**{**ASK, "model": "no-such-model"})
