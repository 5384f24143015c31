"""Streamed answers of Chat Completions: calls in pieces, and how answers end."""

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
        """Take one turn of the planner over this wire."""
        planner = Turns(self.client, model="gpt-5", dialects=(CHAT_DIALECT,), retries=0)
        return planner.take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", words or Words())


def build_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def build_piece(text: Any, **more: Any) -> dict[str, Any]:
    """A chunk with one piece of a call; `name` is its function's."""
    function = {"arguments": text, **({"name": more.pop("name")} if "name" in more else {})}
    return build_chunk(tool_calls=[{**more, "function": function}])


def propose_calls(sent: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call that these chunks add up to."""
    result = ChatWire([*sent, build_chunk("tool_calls")]).turn()
    assert isinstance(result, Proposal)
    return [(each.provider_id, each.name, each.arguments) for each in result.calls]


def test_words_and_calls_are_put_together_from_pieces() -> None:
    """Words are passed on as they come; the last chunk has the number of tokens."""
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
        build_piece("", index=0, **A),
        build_piece('{"x"', index=0),
        build_piece("{}", index=1, **B),
        build_piece(": 1}", index=0),
    ],
    "all at one place": [build_piece('{"x": 1}', index=0, **A), build_piece("{}", index=0, **B)],
    "at no place": [build_piece('{"x":', **A), build_piece(" 1}", id="a"), build_piece("{}", **B)],
    "an id with each piece": [
        build_piece('{"x": ', index=0, **A),
        build_piece("1}", index=0, id="other"),
        build_piece("{}", index=1, **B),
        build_piece("", index=1, id="another"),
    ],
    "the name again": [
        build_piece('{"x": ', index=0, **A),
        build_piece("1}", index=0, **A),
        build_piece(None, index=1, **B),
    ],
    "as an object": [build_piece({"x": 1}, index=0, **A), build_piece({}, index=1, **B)],
}


@pytest.mark.parametrize("sent", PIECES.values(), ids=PIECES)
def test_each_piece_is_added_to_its_own_call(sent: list[dict[str, Any]]) -> None:
    """However the server says which call a piece belongs to."""
    assert propose_calls(sent) == BOTH


def test_calls_without_index_and_id_are_separated_by_name() -> None:
    """A name begins a call; its id is made later."""
    sent = [build_piece("{}", name="note"), build_piece("{}", name="peek")]
    assert propose_calls(sent) == [("", "note", "{}"), ("", "peek", "{}")]


@pytest.mark.parametrize(
    ("finish", "cut"),
    [("stop", ""), ("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_a_cut_answer_has_the_reason(finish: str, cut: str) -> None:
    """By the word that the Responses API has for it."""
    result = ChatWire([build_chunk(content="So far."), build_chunk(finish)]).turn()
    assert isinstance(result, Reply)
    assert (result.text, result.cut_reason) == ("So far.", cut)


def test_an_empty_answer_is_an_answer() -> None:
    """It is stored as an answer."""
    result = ChatWire([build_chunk("stop")]).turn()
    assert isinstance(result, Reply)
    assert [each["role"] for each in result.items] == ["assistant"]


def test_a_call_cut_before_its_arguments_has_none() -> None:
    """It would be taken for a call without arguments otherwise."""
    result = ChatWire([build_piece("", index=0, **A), build_chunk("length")]).turn()
    assert isinstance(result, Proposal)
    assert result.calls[0].arguments == ""


def test_a_streamed_refusal_is_an_answer() -> None:
    """People read it as it comes, and it is stored as a refusal."""
    words = Words()
    result = ChatWire(
        [build_chunk(refusal="I will"), build_chunk(refusal=" not."), build_chunk("stop")]
    ).turn(words)
    assert (result.text, words.text) == ("I will not.",) * 2
    assert result.items[0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


# as OpenRouter ends a stream whose provider failed
BROKEN_OFF = {
    "choices": [{"finish_reason": "error", "error": {"message": "no credit", "code": 402}}]
}


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([build_chunk(content="Half")], "The connection to the model broke."),
        ([{"error": {"message": "busy", "code": 502}}], "The connection to the model broke."),
        ([{"error": {"message": "oops", "code": "server_error"}}], "The connection to the model"),
        ([{"error": {"message": "no", "code": 400}}], "The model refused the request: no."),
        (
            [build_piece("", index=0, **A), build_chunk("error")],
            "The connection to the model broke.",
        ),
        ([build_chunk(content="Half"), BROKEN_OFF], "The model refused the request: no credit."),
    ],
)
def test_a_failed_stream_raises_an_error_in_words(sent: list[dict[str, Any]], told: str) -> None:
    """A stream without an end, or with an error in it, is no answer; some are tried again."""
    with pytest.raises(PlannerError, match=told):
        ChatWire(sent).turn()


def test_the_chat_request_equals_the_librarys() -> None:
    """Body, address and headers are those of `chat.completions.create`."""
    ours, theirs = ChatWire([build_chunk("stop")]), ChatWire([build_chunk("stop")])
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
    """A local model server."""
    with StrictPlanner() as running:
        yield running


def build_planner(server: StrictPlanner, model: str = "gpt-5") -> Turns:
    """A planner that finds out which API the server has."""
    client = openai.OpenAI(api_key="sk-offline", base_url=server.url, timeout=10)
    return Turns(
        client, model=model, dialects=(RESPONSES_DIALECT, CHAT_DIALECT), retries=2, backoff=0
    )


def test_the_servers_api_is_found_out_once(server: StrictPlanner) -> None:
    """Without a Responses API every turn uses Chat Completions."""
    server.without = {ApiFeature.RESPONSES}
    server.script(Turn(text="one"), Turn(text="two"))
    planner = build_planner(server)
    said = [planner.take_turn(REQUEST["input"], [], "Be brief.", Words()).text for _ in range(2)]
    assert said == ["one", "two"]
    assert server.refused == ["Invalid URL (POST /v1/responses)"]
    assert len(server.chats) == 2


def test_a_missing_model_is_not_taken_for_a_missing_api(server: StrictPlanner) -> None:
    """If neither API answers, the error says so; a missing model is asked for once."""
    server.fail_next_requests(404, times=2)
    with pytest.raises(PlannerError, match="404"):
        build_planner(server).take_turn(REQUEST["input"], [], "Be brief.", Words())
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
def test_a_model_that_cannot_call_tools_is_refused(
    server: StrictPlanner, lacking: set[ApiFeature]
) -> None:
    """The error says so, and the model is not asked again."""
    server.without = lacking
    with pytest.raises(PlannerError, match="The model gpt-5 cannot call tools"):
        build_planner(server).take_turn(REQUEST["input"], REQUEST["tools"], "Be brief.", Words())
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
def test_a_full_context_is_explained_to_people(said: str, code: str | None) -> None:
    """However the server words it, people read what to do about it."""
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
def test_refusals_of_tools_are_recognised(said: str, lacks: bool) -> None:
    """Sentences of known servers; similar ones are not mistaken for them."""
    response = httpx2.Response(400, request=httpx2.Request("POST", "http://model.test/v1"))
    error = openai.BadRequestError(said, response=response, body={"message": said})
    assert is_tool_use_unsupported(error) is lacks
