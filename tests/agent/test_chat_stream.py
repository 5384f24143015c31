"""The answers of Chat Completions, streamed: calls in pieces as servers send them, and how they
end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.chat_completions import CHAT_DIALECT
from bot.agent.model_errors import is_tool_use_unsupported, model_error_sentence
from bot.agent.planner import Planner as Turns
from bot.agent.responses import RESPONSES_DIALECT
from bot.agent.turn import PlannerError, Proposal, Reply
from bot.demo.model_server import Turn
from tests.agent.test_planner import REQUEST, Wire, Words
from tests.model_stand_in.answers import OddTurn, build_chat_completion_chunks
from tests.model_stand_in.planner import ApiFeature, StrictPlanner

BODY = {"model": "gpt-5", "messages": [], "stream_options": {"include_usage": True}}
CALLS = [("note", {"text": "one"}), ("note", {"text": "two  three"})]


class ChatWire(Wire):
    """A server that answers each request with one stream of chunks."""

    def __init__(self, sent: Sequence[dict[str, Any]], end: str = "data: [DONE]\n\n") -> None:
        super().__init__(
            "".join([*(f"data: {json.dumps(each)}\n\n" for each in sent), end]).encode()
        )

    def turn(self, words: Words | None = None) -> Reply | Proposal:
        """One turn of the planner over this wire."""
        planner = Turns(self.client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0)
        return planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", words or Words())


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(text: Any, **more: Any) -> dict[str, Any]:
    """A chunk with one piece of a call; `name` is its function's."""
    function = {"arguments": text, **({"name": more.pop("name")} if "name" in more else {})}
    return chunk(tool_calls=[{**more, "function": function}])


def proposed(sent: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call that these chunks come to."""
    result = ChatWire([*sent, chunk("tool_calls")]).turn()
    assert isinstance(result, Proposal)
    return [(each.provider_id, each.name, each.arguments) for each in result.calls]


def test_words_and_calls_come_in_pieces() -> None:
    """Words go on as they come, calls are put together, the last chunk says what it cost."""
    words, turn = Words(), OddTurn(text="I note it.\n\n Twice.", calls=CALLS, call_ids=["c1", "c2"])
    result = ChatWire(list(build_chat_completion_chunks(turn, BODY))).turn(words)
    assert isinstance(result, Proposal)
    assert (result.text, words.text) == (turn.text, turn.text)
    assert [(each.provider_id, json.loads(each.arguments)) for each in result.calls] == [
        ("c1", CALLS[0][1]),
        ("c2", CALLS[1][1]),
    ]
    assert [result.items[each.index]["name"] for each in result.calls] == ["note", "note"]
    assert result.items[0]["content"][0]["text"] == turn.text
    assert result.tokens > 10


A, B = {"id": "a", "name": "note"}, {"id": "b", "name": "peek"}
BOTH = [("a", "note", '{"x": 1}'), ("b", "peek", "{}")]
PIECES = {
    "in turns": [
        piece("", index=0, **A),
        piece('{"x"', index=0),
        piece("{}", index=1, **B),
        piece(": 1}", index=0),
    ],
    "all at one place": [piece('{"x": 1}', index=0, **A), piece("{}", index=0, **B)],
    "at no place": [piece('{"x":', **A), piece(" 1}", id="a"), piece("{}", **B)],
    "an id with each piece": [
        piece('{"x": ', index=0, **A),
        piece("1}", index=0, id="other"),
        piece("{}", index=1, **B),
        piece("", index=1, id="another"),
    ],
    "the name again": [
        piece('{"x": ', index=0, **A),
        piece("1}", index=0, **A),
        piece(None, index=1, **B),
    ],
    "as an object": [piece({"x": 1}, index=0, **A), piece({}, index=1, **B)],
}


@pytest.mark.parametrize("sent", PIECES.values(), ids=PIECES)
def test_pieces_find_their_call(sent: list[dict[str, Any]]) -> None:
    """However a server says which call a piece is of, each call gets its own, and no other's."""
    assert proposed(sent) == BOTH


def test_calls_without_ids_are_told_apart() -> None:
    """Where a server gives neither place nor id, a name begins a call; the id is made elsewhere."""
    sent = [piece("{}", name="note"), piece("{}", name="peek")]
    assert proposed(sent) == [("", "note", "{}"), ("", "peek", "{}")]


@pytest.mark.parametrize(
    ("finish", "cut"),
    [("stop", ""), ("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_an_end_says_whether_it_is_whole(finish: str, cut: str) -> None:
    """An answer that was cut says why, by the word that the Responses API has for it."""
    result = ChatWire([chunk(content="So far."), chunk(finish)]).turn()
    assert isinstance(result, Reply)
    assert (result.text, result.cut_reason) == ("So far.", cut)


def test_an_answer_without_a_word_is_one() -> None:
    """Where the model says nothing at all, that is stored as an answer."""
    result = ChatWire([chunk("stop")]).turn()
    assert isinstance(result, Reply)
    assert [each["role"] for each in result.items] == ["assistant"]


def test_a_call_that_was_cut_off_is_no_call_without_arguments() -> None:
    """Where the answer ended before a call's arguments, they are not taken for none at all."""
    result = ChatWire([piece("", index=0, **A), chunk("length")]).turn()
    assert isinstance(result, Proposal)
    assert result.calls[0].arguments == ""


def test_a_refusal_is_an_answer() -> None:
    """A refusal is read by people as it comes, and stored as one."""
    words = Words()
    result = ChatWire([chunk(refusal="I will"), chunk(refusal=" not."), chunk("stop")]).turn(words)
    assert (result.text, words.text) == ("I will not.",) * 2
    assert result.items[0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([chunk(content="Half")], "The connection to the model broke."),
        ([{"error": {"message": "busy", "code": 502}}], "The connection to the model broke."),
        ([{"error": {"message": "oops", "code": "server_error"}}], "The connection to the model"),
        ([{"error": {"message": "no", "code": 400}}], "The model refused the request: no."),
    ],
)
def test_a_stream_that_fails_is_told(sent: list[dict[str, Any]], told: str) -> None:
    """A stream without an end, or with an error in it, is no answer; some are tried again."""
    with pytest.raises(PlannerError, match=told):
        ChatWire(sent).turn()


def test_the_same_chat_is_posted_as_by_the_library() -> None:
    """Body, address and headers are those of `chat.completions.create`."""
    ours, theirs = ChatWire([chunk("stop")]), ChatWire([chunk("stop")])
    ours.turn()
    [tool] = REQUEST["tools"]
    kept = {key: tool[key] for key in ("name", "description", "parameters")}
    said: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]
    list(
        theirs.client.chat.completions.create(
            model="gpt-5",
            messages=said,
            tools=[{"type": "function", "function": kept}],
            tool_choice="auto",
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    [mine], [other] = ours.requests, theirs.requests
    assert (mine.method, mine.url) == (other.method, other.url)
    assert json.loads(mine.content) == json.loads(other.content)
    assert mine.headers["authorization"] == other.headers["authorization"]


@pytest.fixture
def server() -> Iterator[StrictPlanner]:
    """A local planner."""
    with StrictPlanner() as running:
        yield running


def both(server: StrictPlanner, model: str = "gpt-5") -> Turns:
    """A planner that finds out what the server speaks."""
    client = openai.OpenAI(api_key="sk-offline", base_url=server.url, timeout=10)
    return Turns(
        client, model=model, dialects=(RESPONSES_DIALECT, CHAT_DIALECT), retries=2, backoff=0
    )


def test_the_api_is_found_out_once(server: StrictPlanner) -> None:
    """Where there is no Responses API the turn is taken by chat, and so are all after it."""
    server.without = {ApiFeature.RESPONSES}
    server.script(Turn(text="one"), Turn(text="two"))
    planner = both(server)
    said = [planner.take_turn(REQUEST["input"], [], "Be brief.", Words()).text for _ in range(2)]
    assert said == ["one", "two"]
    assert server.refused == ["Invalid URL (POST /v1/responses)"]
    assert len(server.chats) == 2


def test_a_missing_model_is_no_missing_api(server: StrictPlanner) -> None:
    """What neither API answers is told as it is; a model that is not there is asked for once."""
    server.fail_next_requests(404, times=2)
    with pytest.raises(PlannerError, match="404"):
        both(server).take_turn(REQUEST["input"], [], "Be brief.", Words())
    assert len(server.chats) == 1
    missing = Turns(
        openai.OpenAI(api_key="sk-offline", base_url=server.url),
        model="no such/model",
        dialects=(CHAT_DIALECT, RESPONSES_DIALECT),
        retries=0,
    )
    with pytest.raises(PlannerError, match="does not exist"):
        missing.take_turn(REQUEST["input"], [], "Be brief.", Words())
    assert len(server.requests) == 3


@pytest.mark.parametrize("lacking", [{ApiFeature.TOOLS}, {ApiFeature.TOOLS, ApiFeature.RESPONSES}])
def test_a_model_without_tools_is_refused(server: StrictPlanner, lacking: set[ApiFeature]) -> None:
    """A model that cannot call tools is told in a sentence, and asked no second time."""
    server.without = lacking
    with pytest.raises(PlannerError, match="The model gpt-5 cannot call tools"):
        both(server).take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Your input exceeds the context window of this model.", "context_length_exceeded"),
        ("This model's maximum context length is 4096 tokens.", None),
        ("request (5000 tokens) exceeds the available context size (4096 tokens)", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", None),
    ],
)
def test_a_thread_that_does_not_fit_is_told(said: str, code: str | None) -> None:
    """However a server says that the context is full, people read what to do about it."""
    response = httpx2.Response(400, request=httpx2.Request("POST", "http://model.test/v1"))
    error = openai.BadRequestError(said, response=response, body={"message": said, "code": code})
    assert "longer than the model can read" in model_error_sentence(error)
    other = openai.BadRequestError("no", response=response, body={"message": "Bad tool."})
    assert "Bad tool" in model_error_sentence(other)


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", True),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser', True),
        ("tools param requires --jinja flag", True),
        ("No endpoints found that support tool use.", True),
        ("Unsupported parameter: 'tools' is not supported with this model.", True),
        ("`tool calling` is not supported with this model", True),
        ("Invalid schema for function 'pay': 'format' is not supported.", False),
        ("This model's maximum context length is 4096 tokens, 3000 of them in functions.", False),
        ("The model `gpt-5` does not exist or you do not have access to it.", False),
    ],
)
def test_servers_say_in_many_ways_that_there_are_no_tools(said: str, lacks: bool) -> None:
    """The sentences of servers that are known are understood, and others not mistaken for them."""
    response = httpx2.Response(400, request=httpx2.Request("POST", "http://model.test/v1"))
    error = openai.BadRequestError(said, response=response, body={"message": said})
    assert is_tool_use_unsupported(error) is lacks
