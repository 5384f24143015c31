"""The answers of Chat Completions: a turn as a whole answer, and as the chunks of a stream.

It makes data only. It may not decide what a turn says, and it opens no socket.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bot.demo.model.wire import Item, Turn, output_items, pieces, tokens

REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def _called(turn: Turn) -> list[Item]:
    """The calls of a turn, whole, as a message has them."""
    items = output_items(turn, reasoning=False)
    return [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in items
        if item["type"] == "function_call"
    ]


def _finish(turn: Turn) -> str:
    if turn.incomplete:
        return REASONS.get(turn.incomplete, turn.incomplete)
    return "tool_calls" if turn.calls else "stop"


def _usage(turn: Turn, body: Mapping[str, Any]) -> Item:
    asked = tokens([body["messages"], body.get("tools")])
    said = tokens(turn.text) + sum(map(tokens, _called(turn)))
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _head(body: Mapping[str, Any], kind: str) -> Item:
    return {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": None,
    }


def failure(turn: Turn) -> Item:
    """The error that a turn fails with."""
    message = "The stand-in was told to fail."
    error = {"message": message, "type": "server_error", "param": None, "code": turn.failed}
    return {"error": error}


def whole_chat(turn: Turn, body: Mapping[str, Any]) -> Item:
    """The answer to a request that is not streamed."""
    message: Item = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.calls:
        message["tool_calls"] = _called(turn)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(turn)}
    head = _head(body, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(turn, body)}


def chunks(turn: Turn, body: Mapping[str, Any]) -> Iterator[Item]:
    """Every chunk of the stream in its order."""
    counts = bool((body.get("stream_options") or {}).get("include_usage"))
    head = _head(body, "chat.completion.chunk") | ({"usage": None} if counts else {})
    if turn.failed:
        yield failure(turn)
        return
    for delta in _deltas(turn):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [choice]}
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish(turn)}
    yield {**head, "choices": [last]}
    if counts:
        yield {**head, "choices": [], "usage": _usage(turn, body)}


def _deltas(turn: Turn) -> Iterator[Item]:
    says = bool(turn.text or not turn.calls)
    yield {"role": "assistant", "content": "" if says else None, "refusal": None}
    for piece in pieces(turn.text):
        yield {"content": piece}
    for index, call in enumerate(_called(turn)):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
