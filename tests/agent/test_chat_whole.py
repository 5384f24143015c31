"""Chat Completions of servers that do not stream, or not where tools are offered: asked for all at
once.
"""

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
    """A local planner that streams nothing where tools are offered."""
    with StrictPlanner() as running:
        running.without = {ApiFeature.RESPONSES, ApiFeature.STREAMS}
        yield running


def asking(server: StrictPlanner) -> Turns:
    """A planner that finds out what the server has, and tries nothing twice."""
    client = openai.OpenAI(api_key="sk-offline", base_url=server.url, timeout=10)
    return Turns(client, model="gpt-5", dialects=(RESPONSES_DIALECT, CHAT_DIALECT), retries=0)


def streamed(server: StrictPlanner) -> list[bool]:
    """Of each chat that was asked for, whether it was to be streamed."""
    return [bool(each.get("stream")) for each in server.chats]


def test_what_is_not_streamed_is_asked_for_whole(server: StrictPlanner) -> None:
    """A stream that ends before it began costs no retry; from then on answers are asked for whole.

    Words and calls are those that a stream would have come to.
    """
    turn = OddTurn(text="I look.", calls=CALLS, call_ids=["c1", "c1"])
    server.script(turn, Turn(text="That is all."))
    planner, words = asking(server), Words()
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
    assert streamed(server) == [True, False, False]


def test_who_has_streamed_is_asked_to_stream_again(server: StrictPlanner) -> None:
    """One stream that was lost changes nothing for a server that has streamed before."""
    server.without = {ApiFeature.RESPONSES}
    server.script(*(Turn(text=each) for each in ("one", "two", "three")))
    planner = asking(server)
    planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    server.cut_next_answers(0)
    for _ in range(2):
        planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    assert streamed(server) == [True, True, False, True]


def test_why_nothing_was_streamed_is_told(server: StrictPlanner) -> None:
    """Where it is refused whole, too, people read the reason that no stream could give."""

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


def test_a_stream_that_the_server_ends_early_is_asked_for_whole() -> None:
    """Some servers end one stream as soon as somebody else asks: what it has said is void, and the
    answer comes whole, which they do not end.
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


def test_the_line_of_an_empty_stream_may_be_closed() -> None:
    """A server that fails in a stream closes its line, be it under the next request, which is then
    made again. What a server does not count is reckoned.
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
    assert 900 < turn.tokens < 1_000  # which this server has not counted


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
def test_servers_say_that_they_do_not_stream(said: str, param: str | None, lacks: bool) -> None:
    """A refusal of the stream is told from any other; then the answer is asked for whole."""

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


def test_a_dump_is_no_reason_for_people() -> None:
    """What a server's validator writes is left out of the sentence; a reason in words is told."""
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


def test_a_message_of_calls_alone_has_words_of_none() -> None:
    """No message is without words, not even as null, which some servers refuse."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "c1", "name": "note", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": ""},
    ]
    assert [each["content"] for each in build_chat_messages("", items)] == ["hello", "", ""]
