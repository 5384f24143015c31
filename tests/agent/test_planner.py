"""The planner posts and reads plain JSON, with the same result as the typed client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from bot.agent.model_errors import CutStreamError
from bot.agent.planner import Planner
from bot.agent.turn import ModelRequestRefusedError, PlannerError, Proposal, Reply, clean_tool_name
from bot.demo.model_server import Turn
from tests.model_stand_in.answers import (
    OddTurn,
    as_odd,
    build_blank_response,
    build_final_response,
    build_output_items,
    build_response_events,
)

REQUEST: dict[str, Any] = {
    "model": "gpt-5",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    "tools": [
        {
            "type": "function",
            "name": "look_up_order",
            "description": "Look up",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "integer"}}},
            "strict": False,
        }
    ],
}
CALL = ("look_up_order", {"order_id": 1042})
TURNS = [
    Turn(text="One two.\n\n  three"),
    Turn(text="I will look.", calls=[CALL, CALL]),
    Turn(calls=[("look_up_order", '{"order_id": 1e2, "order_id": 7}')]),
    OddTurn(text="Cut short", incomplete="max_output_tokens"),
    OddTurn(failed="server_error"),
    OddTurn(failed="rate_limit_exceeded"),
    OddTurn(failed="invalid_prompt"),
]
COMPLETED = {"type": "response.completed", "response": {"usage": {"total_tokens": 7}}}


class Words:
    """A sink that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def discard_text(self) -> None:
        self.text = ""


class Wire:
    """A server that answers each request with one stream of events and keeps the requests."""

    def __init__(self, sent: Sequence[dict[str, Any]] | bytes) -> None:
        self.requests: list[httpx2.Request] = []
        self._body = sent if isinstance(sent, bytes) else b"".join(map(as_sse, sent))
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        self.client = openai.OpenAI(
            api_key="sk-offline", base_url="http://model.test/v1", http_client=http, max_retries=0
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(
            200, content=self._body, headers={"content-type": "text/event-stream"}
        )

    def turn(self, words: Words | None = None) -> Reply | Proposal:
        """Take one turn of the planner over this wire."""
        planner = Planner(self.client, model="gpt-5", retries=0)
        return planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", words or Words())


def as_sse(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def list_recorded_events(turn: Turn) -> list[dict[str, Any]]:
    """The events of a turn as the local model server sends them."""
    body = {**REQUEST, "stream": True}
    items, blank = build_output_items(turn, reasoning=True), build_blank_response(body)
    return list(
        build_response_events(turn, items, blank, build_final_response(blank, turn, items, body))
    )


def read_typed_events(client: openai.OpenAI) -> list[Any]:
    """The events that the typed client reads from the stream."""
    return list(client.responses.create(**REQUEST, stream=True))


def summarise_events(found: Sequence[Any]) -> tuple[str, list[dict[str, Any]], int | None]:
    """Text, items and tokens (None: not complete) of typed events.

    Raises as the planner does within a try.
    """
    text, items, tokens = "", [], None
    for event in found:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                text += event.delta
            case "response.output_item.done":
                items += convert_items([event.item])
            case "response.completed" | "response.incomplete":
                output = event.response.output or []
                if not items and output:  # the whole answer comes only now
                    text, items = text or event.response.output_text, convert_items(output)
                usage = event.response.usage
                tokens = usage.total_tokens if usage else 0
            case "response.failed":
                error = event.response.error
                if error is not None and error.code in ("server_error", "rate_limit_exceeded"):
                    raise CutStreamError(error.message.rstrip("."))
                why = error.message.rstrip(".") if error else "no reason given"
                raise ModelRequestRefusedError(f"The model refused the request: {why}.")
            case "error":
                raise CutStreamError(event.message)
    while items and items[-1]["type"] == "reasoning":  # no server takes reasoning back at the end
        items.pop()
    return text, items, tokens


def convert_items(typed: Sequence[Any]) -> list[dict[str, Any]]:
    """The items as the planner keeps them."""
    items = [each.to_dict(mode="json") for each in typed]
    for item in items:
        if item["type"] == "function_call":
            item["name"] = clean_tool_name(item["name"])
    return [each for each in items if each["type"] != "function_call_output"]  # only we write these


def check_same(sent: Sequence[dict[str, Any]]) -> None:
    """Check that the planner reads the same from these events as the typed client."""
    words = Words()
    try:
        text, items, tokens = summarise_events(read_typed_events(Wire(sent).client))
    except (PlannerError, CutStreamError) as error:
        check_failure(sent, error)
        return
    assert tokens is not None
    result = Wire(sent).turn(words)
    assert (result.text, words.text, result.tokens) == (text, text, tokens)
    assert result.items == items


def check_failure(sent: Sequence[dict[str, Any]], expected: Exception) -> None:
    """Check that the planner's turn over these events fails, and for that reason."""
    with pytest.raises(PlannerError) as caught:
        Wire(sent).turn()
    error: BaseException | None = caught.value
    if isinstance(expected, CutStreamError):
        assert str(error) == "The connection to the model broke."
        error = caught.value.__cause__
    assert (type(error), str(error)) == (type(expected), str(expected))


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: as_odd(turn).failed or turn.text or "raw")
def test_recorded_streams_are_read_as_by_the_typed_client(turn: Turn) -> None:
    """The same text, items, tokens and failures."""
    check_same(list_recorded_events(turn))


def test_the_request_equals_the_librarys() -> None:
    """Body, address and headers are those of `responses.create`."""
    ours, theirs = Wire([COMPLETED]), Wire([COMPLETED])
    ours.turn()
    more = {"include": ["reasoning.encrypted_content"], "truncation": "disabled", "store": False}
    list(theirs.client.responses.create(**REQUEST, **more, instructions="Be brief.", stream=True))
    [mine], [other] = ours.requests, theirs.requests
    assert (mine.method, mine.url) == (other.method, other.url)
    assert json.loads(mine.content) == json.loads(other.content)
    leave_out = ("content-length",)  # the order of the body's keys may differ
    assert {k: v for k, v in mine.headers.items() if k not in leave_out} == {
        k: v for k, v in other.headers.items() if k not in leave_out
    }


def list_event_types() -> list[type[BaseModel]]:
    """Every event type that the library knows."""
    union = get_args(ResponseStreamEvent)[0]
    return list(get_args(union))


@pytest.mark.parametrize("kind", list_event_types(), ids=lambda kind: kind.__name__)
def test_every_event_type_is_read_as_by_the_typed_client(kind: type[BaseModel]) -> None:
    """One event of the type comes before the end of a stream."""
    for event in build_values(kind, 0):
        check_same([event, COMPLETED])


def build_values(annotation: Any, depth: int) -> Iterator[Any]:
    """Values of a type as JSON; of a model, one for each choice of its parts near the top."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from build_values(get_args(annotation)[0], depth)
    elif origin in (Union, UnionType):
        choices = [each for each in get_args(annotation) if each is not NoneType]
        for each in choices if depth < 2 else choices[:1]:
            yield from build_values(each, depth)
    elif origin is Literal:
        yield get_args(annotation)[0]
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _objects(annotation, depth)
    elif origin is list:
        yield [next(build_values(get_args(annotation)[0], depth + 1))]
    elif origin is dict or annotation in (dict, object, Any):
        yield {"a key": "a value"}
    else:
        yield {str: "some words", int: 3, float: 0.5, bool: True}[annotation]


def _objects(kind: type[BaseModel], depth: int) -> Iterator[dict[str, Any]]:
    fields = {
        field.alias or name: list(build_values(field.annotation, depth + 1))
        for name, field in kind.model_fields.items()
        if field.is_required() or depth < 2
    }
    for number in range(max(map(len, fields.values()), default=1)):
        yield {name: values[number % len(values)] for name, values in fields.items()}


def test_items_are_kept_verbatim() -> None:
    """A reasoning item and one of an unknown kind, with all fields."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAA", "new": None},
        {"id": "x", "type": "of_tomorrow", "number": 1.50, "nested": {"b": [1, None], "a": "ä"}},
    ]
    sent = [{"type": "response.output_item.done", "item": item} for item in items]
    result = Wire([*sent, COMPLETED]).turn()
    assert json.dumps(result.items) == json.dumps(items)


def test_unknown_events_are_ignored() -> None:
    """So is data that is no object."""
    odd = [{"type": "response.dreamt", "dream": {"delta": "x"}}, {"type": "x"}, COMPLETED]
    assert Wire(odd).turn() == Reply("", [], 7, input_tokens=7)
    assert Wire(b'data: [1, 2]\n\ndata: "word"\n\n' + as_sse(COMPLETED)).turn().tokens == 7


@pytest.mark.parametrize(
    "sent", [b"", b"data: {broken\n\n", b'data: {"type": "response.created"}\n\n']
)
def test_a_stream_without_an_end_is_a_broken_connection(sent: bytes) -> None:
    """Its body ends early or cannot be read."""
    with pytest.raises(PlannerError, match="connection to the model broke"):
        Wire(sent).turn()
