"""Chat Completions of servers that do not stream, or not with tools: answers come whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.chat_completions import CHAT_DIALECT, build_chat_messages
from bot.agent.model_errors import is_streaming_unsupported, model_error_sentence
from bot.agent.planner import Planner as Turns
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import PlannerError, Proposal
from bot.demo.model_server import Turn
from tests.agent.test_planner import REQUEST, Words
from tests.model_stand_in.answers import OddTurn
from tests.model_stand_in.planner import ApiFeature, StrictPlanner

CALLS = [("look_up_order", {"order_id": 1042}), ("look_up_order", {"order_id": 7})]


@pytest.fixture
def server() -> Iterator[StrictPlanner]:
    """A local model server that streams nothing if tools are offered."""
    with StrictPlanner() as running:
        running.without = {ApiFeature.RESPONSES, ApiFeature.STREAMS}
        yield running


def build_planner(server: StrictPlanner) -> Turns:
    """A planner that finds out what the server has, without retries."""
    client = openai.OpenAI(api_key="sk-offline", base_url=server.url, timeout=10)
    return Turns(client, model="gpt-5", dialects=(RESPONSES_DIALECT, CHAT_DIALECT), retries=0)


def list_stream_flags(server: StrictPlanner) -> list[bool]:
    """For each request, whether it asked for a stream."""
    return [bool(each.get("stream")) for each in server.chats]


def test_a_server_that_does_not_stream_is_asked_for_whole_answers(server: StrictPlanner) -> None:
    """A stream that ends before it began costs no retry; later answers are asked for whole.

    Words and calls are those of a stream.
    """
    turn = OddTurn(text="I look.", calls=CALLS, call_ids=["c1", "c1"])
    server.script(turn, Turn(text="That is all."))
    planner, words = build_planner(server), Words()
    first = planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", words)
    assert isinstance(first, Proposal)
    assert (first.text, words.text) == ("I look.", "I look.")
    assert [(each.provider_id, json.loads(each.arguments)) for each in first.calls] == [
        ("c1", CALLS[0][1]),
        ("c1", CALLS[1][1]),
    ]
    assert first.tokens > 10
    second = planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    assert second.text == "That is all."
    assert list_stream_flags(server) == [True, False, False]


def test_a_server_that_has_streamed_is_asked_to_stream_again(server: StrictPlanner) -> None:
    """One lost stream changes nothing."""
    server.without = {ApiFeature.RESPONSES}
    server.script(*(Turn(text=each) for each in ("one", "two", "three")))
    planner = build_planner(server)
    planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    server.cut_next_answers(0)
    for _ in range(2):
        planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    assert list_stream_flags(server) == [True, True, False, True]


def test_the_reason_of_an_empty_stream_reaches_people(server: StrictPlanner) -> None:
    """The whole answer is refused too, with the reason that no stream could give."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content).get("stream"):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"})
        said = "This model's maximum context length is 512 tokens."
        return httpx2.Response(400, json={"error": {"message": said, "param": "messages"}})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="x", base_url="http://model.test/v1", http_client=http)
    planner = Turns(client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0)
    with pytest.raises(PlannerError, match="longer than the model can read"):
        planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())


def test_a_stream_ended_early_is_asked_for_whole() -> None:
    """Some servers end a stream when somebody else asks.

    Its words are void; whole answers are not ended.
    """

    def answer(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content).get("stream"):
            half = json.dumps({"choices": [{"delta": {"content": "Ha"}, "finish_reason": None}]})
            sent = {"content-type": "text/event-stream"}
            return httpx2.Response(200, text=f"data: {half}\n\ndata: [DONE]\n\n", headers=sent)
        choice: dict[str, Any] = {"message": {"content": "Whole."}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice]})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="x", base_url="http://model.test/v1", http_client=http)
    words = Words()
    turn = Turns(client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0).take_turn(
        [], [], "", words
    )
    assert (turn.text, words.text) == ("Whole.", "Whole.")


def test_a_connection_closed_after_an_empty_stream_costs_no_answer() -> None:
    """The server closes the connection after the stream; the request is made again.

    Tokens that it does not count are estimated.
    """
    asked: list[bool] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(bool(json.loads(request.content).get("stream")))
        if asked[-1]:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"})
        if len(asked) == 2:
            raise httpx2.ReadError("Connection reset by peer")
        choice: dict[str, Any] = {"message": {"content": "Whole."}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice]})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="x", base_url="http://model.test/v1", http_client=http)
    planner = Turns(client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0)
    turn = planner.take_turn(REQUEST["input"], [], "Be brief." * 400, Words())
    assert turn.text == "Whole."
    assert asked == [True, False, False]
    assert 900 < turn.tokens < 1_000  # estimated


@pytest.mark.parametrize(
    ("said", "param", "lacks"),
    [
        ("Cannot use tools with stream", None, True),
        ("Automatic streaming tool choice is not supported", None, True),
        ("Your organization must be verified to stream this model.", "stream", True),
        ("Unsupported parameter: 'stream_options' is not supported.", "stream_options", False),
        ("The server is overloaded.", None, False),
    ],
)
def test_refusals_of_streaming_are_recognised(said: str, param: str | None, lacks: bool) -> None:
    """Then the answer is asked for whole; other refusals are errors."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content).get("stream"):
            return httpx2.Response(400, json={"error": {"message": said, "param": param}})
        choice: dict[str, Any] = {"message": {"content": "Whole."}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice]})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = openai.OpenAI(api_key="x", base_url="http://model.test/v1", http_client=http)
    planner = Turns(client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0)
    if lacks:
        assert planner.take_turn(REQUEST["input"], [], "Be brief.", Words()).text == "Whole."
    else:
        with pytest.raises(PlannerError, match=said[:20]):
            planner.take_turn(REQUEST["input"], [], "Be brief.", Words())
    response = httpx2.Response(400, request=httpx2.Request("POST", "http://model.test/v1"))
    error = openai.BadRequestError(said, response=response, body={"message": said, "param": param})
    assert is_streaming_unsupported(error) is lacks


def test_a_validators_dump_is_not_shown_to_people() -> None:
    """A reason in words is shown."""
    told = []
    for said in (
        "7 validation errors: {'type': 'literal_error', 'loc': ('body',)}",
        "No such day.",
    ):
        response = httpx2.Response(400, request=httpx2.Request("POST", "http://model.test/v1"))
        told.append(
            model_error_sentence(
                openai.BadRequestError(said, response=response, body={"message": said})
            )
        )
    assert told == [
        "The model's service answered with an error (400).",
        "The model's service answered with an error (400): No such day.",
    ]


def test_a_message_without_words_has_an_empty_text() -> None:
    """Some servers refuse null."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "c1", "name": "note", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": ""},
    ]
    assert [each["content"] for each in build_chat_messages("", items)] == ["hello", "", ""]
