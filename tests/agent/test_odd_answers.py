"""Answers that a model's server should not give, in both dialects: read as far as possible.

Whatever they hold is stored as text, and a strict server takes it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.model_errors import CutStreamError, build_planner_error, is_api_missing
from bot.agent.turn import (
    MAX_PLAUSIBLE_TOKENS,
    ModelRequestTooLongError,
    PlannerError,
    Proposal,
    Reply,
    UnusableReasoningError,
)
from tests.agent.test_chat_stream import ChatWire, build_chunk, build_piece
from tests.agent.test_planner import COMPLETED, Wire, Words
from tests.model_stand_in.responses_checks import check_responses_request

Json = dict[str, Any]
HALVES = ["It is \ud83c", "\udf89 here", ", and half: \ud83c", " of it"]
WHOLE = "It is \N{PARTY POPPER} here, and half: \ufffd of it"


def build_delta(text: Any) -> Json:
    """Words of a response, as they come."""
    return {"type": "response.output_text.delta", "delta": text}


def build_item_event(item: Any) -> Json:
    """A whole item of a response."""
    return {"type": "response.output_item.done", "item": item}


def build_message_item(text: str) -> Json:
    """An item of words."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}


def build_call_item(**how: Any) -> Json:
    """An item of a call."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "note"}
    return {**item, "arguments": "{}", **how}


@pytest.mark.parametrize(
    "wire",
    [
        Wire(
            [
                *map(build_delta, HALVES),
                build_item_event(build_message_item("".join(HALVES))),
                COMPLETED,
            ]
        ),
        ChatWire([*(build_chunk(content=each) for each in HALVES), build_chunk("stop")]),
    ],
    ids=["responses", "chat"],
)
def test_a_character_that_comes_in_halves_is_put_together(wire: Wire) -> None:
    """In the stream and in the stored item; a single half becomes a replacement character."""
    words = Words()
    result = wire.turn(words)
    assert (result.text, words.text) == (WHOLE, WHOLE)
    assert result.items[0]["content"][0]["text"] == WHOLE


def test_a_half_character_at_the_end_is_stored_as_a_replacement() -> None:
    """It is not passed on, as its other half could still come."""
    words = Words()
    result = ChatWire([build_chunk(content="ten \ud83c"), build_chunk("stop")]).turn(words)
    assert (result.text, words.text) == ("ten \ufffd", "ten ")


ODD = ["", "n" * 65, "no te", "n\u00f6te", "\ud800note", None, {}, 5]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("arguments", ["", None, {"text": "a"}, 5, '{"text": "\ud800"}'])
def test_an_odd_call_is_stored_in_a_form_that_servers_accept(name: Any, arguments: Any) -> None:
    """It is not taken for a tool with a similar name, and the thread can go on."""
    result = Wire(
        [build_item_event(build_call_item(name=name, arguments=arguments)), COMPLETED]
    ).turn()
    assert isinstance(result, Proposal)
    output = {"type": "function_call_output", "call_id": "c1", "output": "REFUSED"}
    check_responses_request({"model": "gpt-5", "input": [*result.items, output]})
    assert json.dumps(result.items, ensure_ascii=False).encode()
    [call] = result.calls
    assert call.name == str(name or "").replace("\ud800", "\ufffd")
    assert call.name != "note"
    if isinstance(arguments, dict):
        assert json.loads(call.arguments) == arguments


@pytest.mark.parametrize("call_id", ["i" * 65, "i" * 5000, "", None])
def test_a_call_id_that_no_server_accepts_is_dropped(call_id: Any) -> None:
    """Whoever stores the call makes an id."""
    result = Wire([build_item_event(build_call_item(call_id=call_id)), COMPLETED]).turn()
    assert isinstance(result, Proposal)
    assert [each.provider_id for each in result.calls] == [""]


NONSENSE = [None, 0, -1, 10**400, "x", [], {}, [None], [[]], {"type": None}, True]


@pytest.mark.parametrize("value", NONSENSE, ids=lambda each: str(each)[:9])
def test_wrong_types_in_a_response_are_ignored(value: Any) -> None:
    """In the place of words, items or token counts."""
    end: list[Json] = [
        {"type": "response.completed", "response": value},
        {"type": "response.completed", "response": {"usage": value}},
        {"type": "response.completed", "response": {"usage": {"total_tokens": value}}},
        {
            "type": "response.incomplete",
            "response": {"incomplete_details": value, "usage": {"output_tokens": value}},
        },
    ]
    odd = [
        build_item_event(value),
        {"type": "response.output_item.done"},
        {"type": "response.refusal.delta"},
    ]
    for each in end:
        result = Wire(
            [
                build_delta("a"),
                build_delta(value),
                *odd,
                build_item_event(build_message_item("a")),
                each,
            ]
        ).turn()
        assert isinstance(result, Reply)
        assert result.text == ("ax" if value == "x" else "a")
        assert 0 <= result.tokens < MAX_PLAUSIBLE_TOKENS
    result = Wire(
        [
            build_item_event(build_message_item("a")),
            build_item_event({"type": "function_call_output"}),
            COMPLETED,
        ]
    ).turn()
    assert [each["type"] for each in result.items] == ["message"]


@pytest.mark.parametrize("value", NONSENSE, ids=lambda each: str(each)[:9])
def test_wrong_types_in_a_chat_are_ignored(value: Any) -> None:
    """In the place of choices, pieces or token counts."""
    usage = {"total_tokens": value, "completion_tokens": value}
    odd: list[Json] = [
        {"choices": value},
        {"choices": [value]},
        {"choices": [], "usage": value},
        {"choices": [], "usage": usage},
        {"choices": [], "usage": {"total_tokens": 9, "completion_tokens": value}},
        build_chunk(content=None, tool_calls=value),
        build_chunk(content="a"),
    ]
    result = ChatWire([*odd, build_chunk(value or "stop"), build_chunk("stop")]).turn()
    assert isinstance(result, Reply)
    assert result.text == "a"
    assert 0 <= result.tokens < MAX_PLAUSIBLE_TOKENS


@pytest.mark.parametrize(
    "kept", [[], [build_message_item("a")], [build_call_item()]], ids=["nothing", "words", "a call"]
)
def test_reasoning_without_a_following_item_is_not_kept(kept: list[Json]) -> None:
    """A server takes back reasoning only with what followed it."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    why = {"incomplete_details": {"reason": "max_output_tokens"}}
    end = {"type": "response.incomplete", "response": why}
    result = Wire([*map(build_item_event, [*kept, thought]), end]).turn()
    assert [each["type"] for each in result.items] == [each["type"] for each in kept]


MESSAGES = {
    "nothing": (None, "no reason given"),
    "an object": ({"a": 1}, "{'a': 1}"),
    "a lot": ("and so on " * 900, ("and so on " * 30).rstrip()),
}


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize(
    "fail",
    [
        lambda error: Wire([{"type": "response.failed", "response": {"error": error}}]),
        lambda error: ChatWire([{"error": error}]),
    ],
    ids=["responses", "chat"],
)
def test_a_failed_response_is_reported_in_a_sentence(
    fail: Callable[[Json], Wire], name: str
) -> None:
    """Whatever is in the place of its reason."""
    message, told = MESSAGES[name]
    with pytest.raises(PlannerError) as ended:
        fail({"code": "odd", "message": message}).turn()
    assert str(ended.value) == f"The model refused the request: {told}."
    with pytest.raises(PlannerError, match="longer than the model can read"):
        fail({"code": "context_length_exceeded", "message": message}).turn()


def test_an_error_event_can_say_that_the_request_is_too_long() -> None:
    """It is no broken connection, after which the same would be asked again."""
    told = {"message": "Too long.", "param": "input", "sequence_number": 2}
    with pytest.raises(ModelRequestTooLongError, match="longer than the model can read"):
        Wire([{"type": "error", "code": "context_length_exceeded", **told}]).turn()


@pytest.mark.parametrize("response", [None, 5, {}, {"error": None}, {"error": "x"}])
def test_a_failure_in_an_odd_form_is_a_failure(response: Any) -> None:
    """Even if nothing in it can be understood."""
    with pytest.raises(PlannerError, match="no reason given"):
        Wire([{"type": "response.failed", "response": response}]).turn()
    with pytest.raises((CutStreamError, PlannerError, openai.OpenAIError)):
        Wire([{"type": "error"}]).turn()


def test_halves_of_a_character_in_arguments_are_put_together() -> None:
    """As in words."""
    pieces = [build_piece('{"text": "\ud83c', id="c1", name="note"), build_piece('\udf89"}')]
    result = ChatWire([*pieces, build_chunk("tool_calls")]).turn()
    assert isinstance(result, Proposal)
    assert json.loads(result.calls[0].arguments) == {"text": "\N{PARTY POPPER}"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "invalid_encrypted_content", "message": "Not verified."},
        {
            "type": "response.failed",
            "response": {"error": {"code": "invalid_encrypted_content", "message": "No."}},
        },
    ],
)
def test_unusable_reasoning_may_be_told_in_a_stream(event: Json) -> None:
    """Asking for the same again could not help."""
    with pytest.raises(UnusableReasoningError):
        Wire([event]).turn()


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (400, "invalid_encrypted_content", "The encrypted content for item rs_1 is odd."),
        (400, "400", "litellm.BadRequestError: The encrypted content gAA could not be verified."),
        (400, None, "Invalid 'input[2].id': 'call_1'. Expected an ID that begins with 'fc'."),
        (400, "string_above_max_length", "Invalid 'input[4].id': string too long."),
        (404, None, "Item with id 'rs_1' not found. Items are not persisted when `store` is set."),
        (
            400,
            None,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        ),
        (
            400,
            None,
            "Item 'msg_1' of type 'message' was provided without its required 'reasoning' "
            "item: 'rs_1'.",
        ),
    ],
)
def test_unusable_reasoning_is_told_in_several_ways(
    status: int, code: str | None, said: str
) -> None:
    """Not even with a 404 is the API taken to be missing."""
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://model.test"))
    body = {"message": said, "code": code}
    error = openai.APIStatusError(said, response=response, body=body)
    assert isinstance(build_planner_error(error, "gpt-5"), UnusableReasoningError)
    assert not is_api_missing(error)


@pytest.mark.parametrize("said", [[], ["It is here."]], ids=["only a call", "words and a call"])
def test_an_answer_may_come_only_as_a_whole_at_the_end_of_a_stream(said: list[str]) -> None:
    """As a gateway sends it that has asked its model without streaming."""
    output = [*map(build_message_item, said), build_call_item(), {"type": "function_call_output"}]
    words = Words()
    whole = {**COMPLETED, "response": {**COMPLETED["response"], "output": output}}
    taken = Wire([whole]).turn(words)
    assert isinstance(taken, Proposal)
    assert (taken.text, words.text, taken.items) == (*["".join(said)] * 2, output[:-1])
    assert [each.name for each in taken.calls] == ["note"]
    streamed = Wire([*map(build_delta, said), whole]).turn(words := Words())
    assert (streamed, words.text) == (taken, "".join(said))


def test_the_end_of_a_stream_adds_nothing_to_what_was_streamed() -> None:
    """It repeats all of the answer."""
    item, words = build_message_item("It is here."), Words()
    whole = {**COMPLETED, "response": {**COMPLETED["response"], "output": [item]}}
    taken = Wire([build_delta("It is here."), build_item_event(item), whole]).turn(words)
    assert (taken.text, words.text, taken.items) == ("It is here.", "It is here.", [item])
