"""A request to the stand-in, whichever API it is of, and its answer on the wire.

It opens no socket, and does not decide what is answered.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.demo.responses_checks import REASONING_MODEL, check, fits
from bot.demo.responses_schema import CompactBody, Refusal, parse
from bot.demo.responses_wire import (
    Item,
    Turn,
    blank_response,
    events,
    final_response,
    output_items,
    pieces,
    seal,
    tokens,
)

# The answers of Chat Completions: a turn as a whole answer, and as the chunks of a stream.

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


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: the how-manyth, what is written, whether it has words."""

    number: int
    data: bytes
    is_delta: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as the Responses API has it, what may refuse it, and how it is answered."""

    body: dict[str, Any]
    check: Callable[[], None]
    chat: dict[str, Any] | None = None  # as it came, where it is one of Chat Completions

    def events(self, turn: Turn) -> Iterator[Event]:
        """The answer, streamed."""
        if self.chat is not None:
            # counted as if a message's beginning were told by itself, as the Responses API does
            for number, chunk in enumerate(chunks(turn, self.chat), start=3):
                said = any(each["delta"] for each in chunk.get("choices") or ())
                yield Event(number, f"data: {json.dumps(chunk)}\n\n".encode(), said)
            yield Event(number + 1, b"data: [DONE]\n\n", is_delta=False)
            return
        items, blank, final = self._response(turn)
        for number, event in enumerate(events(turn, items, blank, final)):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            yield Event(number, data, event["type"].endswith(".delta"))

    def whole(self, turn: Turn) -> tuple[Item, int]:
        """The answer in one piece, and its HTTP status."""
        if self.chat is None:
            return self._response(turn)[-1], 200
        return (failure(turn), 500) if turn.failed else (whole_chat(turn, self.chat), 200)

    def _response(self, turn: Turn) -> tuple[list[Item], Item, Item]:
        """The output items, and the response at its beginning and its end."""
        wanted = "reasoning.encrypted_content" in (self.body.get("include") or [])
        reasons = wanted and bool(REASONING_MODEL.match(self.body["model"]))
        items = output_items(turn, reasoning=reasons)
        blank = blank_response(self.body)
        return items, blank, final_response(blank, turn, items, self.body)


def compacted(body: Any, context: int | None) -> Item:
    """Answer a request to say items in fewer: every message of a user, then one sealed item for all
    the rest, as OpenAI's server does. Raises Refusal for what it refuses.
    """
    if not isinstance(body, dict):
        raise Refusal("We could not parse the JSON body of your request: expected an object.")
    asked = parse(CompactBody, body, "")
    check({"model": asked.model, "input": asked.input, "instructions": asked.instructions})
    fits(body, context)
    items = [] if isinstance(asked.input, str) else asked.input
    said = [
        {
            "id": f"msg_{secrets.token_hex(20)}",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": each["content"]}]
            if isinstance(each["content"], str)
            else each["content"],
        }
        for each in items
        if each.get("role") == "user"
    ]
    name = f"cmp_{secrets.token_hex(20)}"
    made = {"id": name, "type": "compaction", "encrypted_content": seal(name, [])}
    read, written = tokens([asked.instructions, asked.input]), tokens(made)
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
    return {
        "id": f"resp_{secrets.token_hex(20)}",
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*said, made],
        "usage": usage,
    }
