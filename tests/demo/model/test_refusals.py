"""Mistakes that the real API refuses are refused by the stand-in in the same way."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import openai
import pytest
from openai import OpenAI

from bot.demo.model_server import Turn
from tests.demo.model.samples import ASK, TOOL, TWO, answered
from tests.model_stand_in.planner import StrictPlanner

CALL = {"type": "function_call", "call_id": "c1", "name": "look_up_order", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
SAYS = {"role": "user", "content": "hello"}


def ask(client: OpenAI, **changes: Any) -> openai.types.responses.Response:
    """Send one request with these parameters changed, unknown ones included."""
    return client.responses.create(model="gpt-5", input="hello", extra_body=changes)


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"colour": "red"}, "colour", "unknown_parameter"),
        ({"max_output_tokens": "many"}, "max_output_tokens", "invalid_type"),
        ({"store": "no"}, "store", "invalid_type"),
        ({"include": ["everything"]}, "include[0]", "invalid_value"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_value"),
        ({"temperature": 0.5}, "temperature", "unsupported_parameter"),
        (
            {"model": "gpt-4o", "reasoning": {"effort": "low"}},
            "reasoning.effort",
            "unsupported_parameter",
        ),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
        ({"conversation": "conv_1"}, "conversation", "unsupported"),
        (
            {"tools": [{"type": "function", "function": TOOL}]},
            "tools[0].name",
            "missing_required_parameter",
        ),
        ({"tools": [{**TOOL, "name": "look up"}]}, "tools[0].name", "invalid_value"),
        ({"tools": [{**TOOL, "type": "magic"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [TOOL, TOOL]}, "tools", "invalid_value"),
        (
            {"tools": [{**TOOL, "parameters": {"type": "array"}}]},
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (
            {"tools": [{**TOOL, "strict": True}]},
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        ({"tool_choice": {"type": "function", "name": "other"}}, "tool_choice", None),
        ({"input": [{"role": "narrator", "content": "x"}]}, "input[0].role", "invalid_value"),
        ({"input": [{**SAYS, "mood": "good"}]}, "input[0].mood", "unknown_parameter"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content", "invalid_type"),
        (
            {"input": [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}]},
            "input[0].content[0].type",
            "invalid_value",
        ),
        ({"input": [{"type": "magic"}]}, "input[0].type", "invalid_value"),
        ({"input": [{**CALL, "id": "call_1"}, OUTPUT]}, "input[0].id", "invalid_value"),
        (
            {"input": [{**CALL, "call_id": ""}, {**OUTPUT, "call_id": ""}]},
            "input[0].call_id",
            "invalid_value",
        ),
        ({"input": [{**CALL, "arguments": {}}, OUTPUT]}, "input[0].arguments", "invalid_type"),
    ],
)
def test_malformed_requests_are_refused(
    planner: StrictPlanner, client: OpenAI, changes: Any, param: str, code: str | None
) -> None:
    """The error names the parameter, and `refused` records it."""
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **changes)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.type == "invalid_request_error"
    assert len(planner.refused) == 1


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([SAYS, CALL], "No tool output found for function call c1"),
        ([SAYS, OUTPUT], "No tool call found for function call output with call_id c1"),
        ([SAYS, OUTPUT, CALL], "No tool call found"),
        ([SAYS, CALL, OUTPUT, OUTPUT], "Duplicate function call output with call_id c1"),
        ([SAYS, CALL, OUTPUT, CALL, OUTPUT], "Duplicate function call with call_id c1"),
        (
            [
                {**CALL, "id": "fc_1"},
                OUTPUT,
                {**CALL, "id": "fc_1", "call_id": "c2"},
                {**OUTPUT, "call_id": "c2"},
            ],
            "fc_1",
        ),
    ],
)
def test_invalid_transcripts_are_refused(client: OpenAI, items: list[Any], message: str) -> None:
    """A call without its one output, an output without its call, ids used twice."""
    with pytest.raises(openai.BadRequestError, match=message):
        ask(client, input=items)


def test_odd_call_ids_are_accepted_on_demand(planner: StrictPlanner, client: OpenAI) -> None:
    """Call ids may be empty or repeated then; each call still needs its output."""
    planner.lenient_ids = True
    empty = [{**CALL, "call_id": ""}, {**OUTPUT, "call_id": ""}]
    assert ask(client, input=[SAYS, CALL, OUTPUT, CALL, OUTPUT, *empty]).status == "completed"
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        ask(client, input=[SAYS, CALL, OUTPUT, CALL])


def test_reasoning_must_come_back_as_it_was(planner: StrictPlanner, client: OpenAI) -> None:
    """Altered, emptied, missing or left alone it is refused."""
    planner.script(TWO)
    items = answered(client.responses.create(**ASK))
    place = next(index for index, item in enumerate(items) if item.get("type") == "reasoning")
    for change, message in (
        (
            {"encrypted_content": items[place]["encrypted_content"][:-4] + "AAA="},
            "could not be verified",
        ),
        ({"summary": [{"type": "summary_text", "text": "mine"}]}, "could not be verified"),
        ({"encrypted_content": None}, "not persisted"),
    ):
        altered = deepcopy(items)
        altered[place] |= change
        with pytest.raises(openai.APIStatusError, match=message):
            ask(client, input=altered)
    with pytest.raises(openai.BadRequestError, match="without its required 'reasoning' item"):
        ask(client, input=items[:place] + items[place + 1 :])
    with pytest.raises(openai.BadRequestError, match="without its required following item"):
        ask(client, input=items[: place + 1])


def test_a_key_is_needed(planner: StrictPlanner) -> None:
    """Every path answers 401 without one, before anything else is checked."""
    client = OpenAI(
        base_url=planner.url,
        api_key="x",
        max_retries=0,
        default_headers={"Authorization": "Basic x"},
    )
    with client:
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        with pytest.raises(openai.AuthenticationError):
            ask(client, colour="red")
    assert planner.requests == []


def test_an_unknown_path_is_not_found(client: OpenAI) -> None:
    """With OpenAI's error body."""
    with pytest.raises(openai.NotFoundError, match="Invalid URL"):
        client.embeddings.create(model="gpt-5", input="x")


def test_a_refusal_uses_up_no_script(planner: StrictPlanner, client: OpenAI) -> None:
    """The next valid request gets the scripted turn."""
    planner.script(Turn(text="for the good one"))
    with pytest.raises(openai.BadRequestError):
        list(
            client.responses.create(
                model="gpt-5", input="x", stream=True, extra_body={"colour": "red"}
            )
        )
    assert ask(client).output_text == "for the good one"
