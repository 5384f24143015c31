"""The stand-in's Chat Completions: what the real client reads, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from bot.demo.model_server import Turn
from tests.demo.model.samples import SCHEMA, TWO
from tests.model_stand_in.answers import OddTurn
from tests.model_stand_in.planner import ApiFeature, StrictPlanner

TOOL: Any = {"type": "function", "function": {"name": "look_up_order", "parameters": SCHEMA}}
SAYS = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up_order", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def ask(client: OpenAI, **changes: Any) -> ChatCompletion:
    """Send one request with these parameters changed, unknown ones included."""
    messages: Any = [SAYS]
    return client.chat.completions.create(model="gpt-5", messages=messages, extra_body=changes)


def test_whole_and_streamed_chats_are_equal(planner: StrictPlanner, client: OpenAI) -> None:
    """Words, calls and usage are equal, and each part is valid for the client."""
    planner.script(TWO, TWO)
    whole = ask(client, tools=[TOOL])
    TypeAdapter(ChatCompletion).validate_python(whole.model_dump(mode="json", exclude_unset=True))
    [choice] = whole.choices
    assert (choice.message.content, choice.finish_reason) == ("I will look.", "tool_calls")
    messages: Any = [SAYS]
    chunks = list(
        client.chat.completions.create(
            model="gpt-5",
            messages=messages,
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    for each in chunks:
        TypeAdapter(ChatCompletionChunk).validate_python(each.model_dump(exclude_unset=True))
    *said, usage = chunks
    deltas = [each.choices[0].delta for each in said]
    assert "".join(each.content or "" for each in deltas) == "I will look."
    assert (usage.choices, usage.usage) == ([], whole.usage)
    assert said[-1].choices[0].finish_reason == "tool_calls"
    pieces = [piece for each in deltas for piece in each.tool_calls or ()]
    for index, order in enumerate((1042, 1043)):
        mine = [each.function for each in pieces if each.index == index and each.function]
        assert mine[0].name == "look_up_order"
        assert json.loads("".join(each.arguments or "" for each in mine)) == {"order_id": order}


def test_a_chat_request_is_kept_in_both_forms(planner: StrictPlanner, client: OpenAI) -> None:
    """As it came, and as a request to the Responses API with one item for each thing said."""
    heard = 'Earlier messages of this Slack thread, quoted for context.\nAna:\n> "hi"'
    wrote = "Ben (<@U1>) writes, on Monday, 2026-11-23, at 08:00 UTC:\nhello"
    system = {"role": "system", "content": "Be brief."}
    both = {"role": "user", "content": f"{heard}\n\n{wrote}"}
    ask(client, messages=[system, both, CALLS, TOLD], tools=[TOOL])
    [kept], [came] = planner.requests, planner.chats
    assert came["messages"][1] == both
    assert (kept["instructions"], kept["tools"][0]["name"]) == ("Be brief.", "look_up_order")
    assert [each.get("type", each.get("role")) for each in kept["input"]] == [
        "user",
        "user",
        "function_call",
        "function_call_output",
    ]
    assert kept["input"][1]["content"][0]["text"] == wrote


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "Unknown parameter: 'colour'"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "Supported values"),
        ({"messages": [{**SAYS, "mood": "good"}]}, "mood"),
        ({"messages": [{"role": "user", "content": None}]}, "content"),
        ({"messages": [SAYS, {"role": "assistant", "content": None}]}, "got null"),
        ({"messages": [SAYS, CALLS]}, "did not have response messages: c1"),
        ({"messages": [SAYS, CALLS, SAYS, TOLD]}, "did not have response messages: c1"),
        ({"messages": [SAYS, TOLD]}, "must be a response to a preceeding message"),
        ({"messages": [SAYS, CALLS, TOLD, TOLD]}, "must be a response to a preceeding message"),
        ({"messages": [SAYS, {**CALLS, "tool_calls": []}]}, "tool_calls"),
        ({"messages": [SAYS, {**CALLS, "tool_calls": [CALL, CALL]}, TOLD, TOLD]}, "Duplicate"),
        ({"messages": [SAYS, {**CALLS, "tool_calls": [{**CALL, "id": "c" * 41}]}]}, "id"),
        ({"tools": []}, "tools"),
        ({"tools": [TOOL, {"type": "function", "name": "flat"}]}, "tools"),
        ({"tools": [{**TOOL, "function": {"name": "look up"}}]}, "name"),
        (
            {"tools": [{**TOOL, "function": {"name": "x", "parameters": {"type": "array"}}}]},
            "Invalid schema for function 'x'",
        ),
        ({"tool_choice": "auto"}, "only allowed when 'tools' are specified"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {}}}, "not found"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        ({"temperature": 0.5}, "'temperature' is not supported"),
        ({"max_tokens": 5}, "'max_tokens' is not supported"),
        ({"model": "gpt-4o", "reasoning_effort": "low"}, "'reasoning_effort' is not supported"),
        ({"input": "hello"}, "Unknown parameter: 'input'"),
    ],
)
def test_chat_requests_that_openai_refuses_are_refused(
    planner: StrictPlanner, client: OpenAI, changes: dict[str, Any], message: str
) -> None:
    """With OpenAI's error; it uses up no scripted turn."""
    planner.script(Turn(text="for the good one"))
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        ask(client, **changes)
    assert caught.value.type == "invalid_request_error"
    assert len(planner.refused) == 1
    assert ask(client).choices[0].message.content == "for the good one"


def test_tool_choice_is_followed(planner: StrictPlanner, client: OpenAI) -> None:
    """A model without tools refuses them."""
    [choice] = ask(client, tools=[TOOL], tool_choice="required").choices
    assert [each.type for each in choice.message.tool_calls or ()] == ["function"]
    assert ask(client, tools=[TOOL], tool_choice="none").choices[0].message.tool_calls is None
    planner.without = {ApiFeature.TOOLS}
    with pytest.raises(openai.BadRequestError, match="gpt-5 does not support tools"):
        ask(client, tools=[TOOL])


def test_a_chat_can_be_told_to_break_off_or_fail(planner: StrictPlanner, client: OpenAI) -> None:
    """A failure is reported streamed and whole."""
    messages: Any = [SAYS]
    planner.script(Turn(text="One two three"))
    planner.cut_next_answers(after_events=5)
    with pytest.raises(openai.APIConnectionError):
        list(client.chat.completions.create(model="gpt-5", messages=messages, stream=True))
    assert ask(client).choices[0].message.content == "One two three"
    planner.script(OddTurn(failed="server_error"), OddTurn(failed="server_error"))
    with pytest.raises(openai.APIError, match="told to fail"):
        list(client.chat.completions.create(model="gpt-5", messages=messages, stream=True))
    with pytest.raises(openai.InternalServerError, match="told to fail"):
        ask(client)
