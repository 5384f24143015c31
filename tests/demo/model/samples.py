"""Requests to the stand-in for the model, and the transcript after its answer."""

from __future__ import annotations

from typing import Any

from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent

from bot.demo.model_server import Turn

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


def read_stream(client: OpenAI, **more: Any) -> list[ResponseStreamEvent]:
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
