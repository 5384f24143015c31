"""The stand-in refuses what exceeds its context, and compacts items as OpenAI does."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseCompactionItem

from tests.model_stand_in.planner import StrictPlanner

SAYS: Any = {"role": "user", "content": "hello " * 2_000}
CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}


def test_a_request_over_the_context_is_refused(planner: StrictPlanner, client: OpenAI) -> None:
    """By both APIs, with their code and words, unless old items may be left out."""
    planner.context = 1_000
    for ask in (
        lambda: client.responses.create(model="gpt-5", input=[SAYS]),
        lambda: client.chat.completions.create(model="gpt-5", messages=[SAYS]),
        lambda: client.responses.compact(model="gpt-5", input=[SAYS]),
    ):
        with pytest.raises(openai.BadRequestError, match="context") as refused:
            ask()
        assert refused.value.code == "context_length_exceeded"
    client.responses.create(model="gpt-5", input=[SAYS], truncation="auto")
    client.responses.create(model="gpt-5", input="hello")


def test_items_can_be_compacted(planner: StrictPlanner, client: OpenAI) -> None:
    """The user's words, then one sealed item, which is accepted unchanged.

    Each call needs an output.
    """
    items: Any = [SAYS, CALL, OUTPUT, {"role": "assistant", "content": "Well."}]
    raw = client.responses.with_raw_response.compact(model="gpt-5", input=items, instructions="Go.")
    made = raw.parse()
    assert made.object == "response.compaction"
    assert made.usage.input_tokens > made.usage.output_tokens > 0
    assert isinstance(made.output[-1], ResponseCompactionItem)
    again: Any = raw.http_response.json()["output"]
    assert [each["type"] for each in again] == ["message", "compaction"]
    assert again[0]["content"] == [{"type": "input_text", "text": SAYS["content"]}]
    client.responses.create(model="gpt-5", input=[*again, {"role": "user", "content": "hello"}])
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        client.responses.compact(model="gpt-5", input=items[:2])
    again[-1]["encrypted_content"] += "x"
    with pytest.raises(openai.BadRequestError, match="could not be verified"):
        client.responses.create(model="gpt-5", input=again)
