"""Writes a turn as an answer of the Responses API or of Chat Completions, whole or streamed.

It makes data only: it does not decide what a turn says, and opens no socket.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.demo.responses_schema import replace_media_data

REASONING_MODEL = re.compile(r"^(gpt-[5-9]|o\d)")
# The seal is no secret: it only shows whether a reasoning item came back as it was sent.
_SEAL = "countersign stand-in reasoning"
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn: text, then calls as (tool name, arguments); a str goes out as it is.

    `call_ids` replaces the made-up ids in order; `raw_arguments` replaces the first call's JSON;
    `failed` ends the response with that error code, `incomplete` with that reason
    (`max_output_tokens`).
    """

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    call_ids: Sequence[str] | None = None
    raw_arguments: str | None = None
    failed: str | None = None
    incomplete: str | None = None

    def __post_init__(self) -> None:
        if self.call_ids is not None and len(self.call_ids) != len(self.calls):
            raise ValueError("a Turn needs one call id for each call")
        if self.raw_arguments is not None and not self.calls:
            raise ValueError("a Turn with raw arguments needs a call")


def seal_reasoning(item_id: str, summary: Sequence[Any]) -> str:
    """Return the encrypted_content of a reasoning item."""
    digest = hashlib.sha256(
        json.dumps([_SEAL, item_id, list(summary)], sort_keys=True).encode()
    ).digest()
    return "gAAAAA" + base64.urlsafe_b64encode(digest + item_id.encode()).decode()


def is_matching_seal(sealed: str, item_id: str, summary: Sequence[Any]) -> bool:
    """Whether this encrypted_content belongs to exactly this item."""
    return secrets.compare_digest(sealed.encode(), seal_reasoning(item_id, summary).encode())


def build_output_items(turn: Turn, *, reasoning: bool) -> list[Item]:
    """Return the finished output items of a turn.

    `reasoning` puts a sealed reasoning item in front of its calls.
    """
    token = secrets.token_hex(20)
    items: list[Item] = []
    if turn.text or not turn.calls:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
        message = {
            "id": f"msg_{token}",
            "type": "message",
            "status": "completed",
            "content": [part],
        }
        items.append({**message, "role": "assistant"})
    if turn.calls and reasoning:
        item_id = f"rs_{token}"
        items.append(
            {
                "id": item_id,
                "type": "reasoning",
                "summary": [],
                "encrypted_content": seal_reasoning(item_id, []),
            }
        )
    # An id of this form says that it must come back with its reasoning item; the other form stands
    # alone.
    call_token = token if reasoning else token[:32]
    for index, (name, arguments) in enumerate(turn.calls):
        is_text = isinstance(arguments, str)
        text = arguments if is_text else json.dumps(arguments, ensure_ascii=False)
        if index == 0 and turn.raw_arguments is not None:
            text = turn.raw_arguments
        items.append(
            {
                "id": f"fc_{call_token}_{index}",
                "type": "function_call",
                "status": "completed",
                "arguments": text,
                "call_id": turn.call_ids[index]
                if turn.call_ids is not None
                else f"call_{secrets.token_hex(12)}",
                "name": name,
            }
        )
    return items


def build_blank_response(body: Mapping[str, Any]) -> Item:
    """Return the Response object at its start: the request's settings, and no output yet."""
    reasoning = body.get("reasoning") or {}
    text = body.get("text") or {}
    return {
        "id": f"resp_{secrets.token_hex(20)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": {
            "format": text.get("format") or {"type": "text"},
            "verbosity": text.get("verbosity") or "medium",
        },
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": [
            {"description": None, "strict": True, **tool} for tool in body.get("tools") or []
        ],
        "top_logprobs": 0,
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": None,
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def build_final_response(
    blank: Item, turn: Turn, items: list[Item], body: Mapping[str, Any]
) -> Item:
    """Return the Response object at its end, with its usage in roughly counted tokens."""
    asked = estimate_tokens([body.get("instructions"), body.get("input"), body.get("tools")])
    thought = 64 if any(each["type"] == "reasoning" for each in items) else 0
    said = sum(map(estimate_tokens, items)) + thought
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": asked + said,
    }
    done = {
        **blank,
        "status": "completed",
        "completed_at": int(time.time()),
        "output": items,
        "usage": usage,
    }
    if turn.incomplete:
        done |= {
            "status": "incomplete",
            "incomplete_details": {"reason": turn.incomplete},
            "completed_at": None,
        }
    if turn.failed:
        error = {"code": turn.failed, "message": "The stand-in was told to fail."}
        done |= {
            "status": "failed",
            "error": error,
            "output": [],
            "usage": None,
            "completed_at": None,
        }
    return done


def build_numbered_events(
    turn: Turn, items: list[Item], blank: Item, final: Item
) -> Iterator[Item]:
    """Yield all events of the stream in order, numbered."""
    for number, event in enumerate(_build_stream_events(turn, items, blank, final)):
        yield {"type": event.pop("type"), "sequence_number": number, **event}


def _build_stream_events(turn: Turn, items: list[Item], blank: Item, final: Item) -> Iterator[Item]:
    yield {"type": "response.created", "response": blank}
    yield {"type": "response.in_progress", "response": blank}
    if not turn.failed:
        for index, item in enumerate(items):
            yield from _build_item_events(item, index)
    yield {"type": f"response.{final['status']}", "response": final}


def _build_item_events(item: Item, index: int) -> Iterator[Item]:
    empty: dict[str, Item] = {"message": {"content": []}, "function_call": {"arguments": ""}}
    opened = {**item, **empty.get(item["type"], {})}
    if "status" in item:
        opened["status"] = "in_progress"
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    if item["type"] == "message":
        yield from _build_text_events(item, index)
    elif item["type"] == "function_call":
        place = {"item_id": item["id"], "output_index": index}
        for piece in split_into_pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        yield {
            "type": "response.function_call_arguments.done",
            **place,
            "arguments": item["arguments"],
        }
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _build_text_events(item: Item, index: int) -> Iterator[Item]:
    part = item["content"][0]
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in split_into_pieces(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def split_into_pieces(text: str) -> list[str]:
    """Return the text in token-like pieces: words with leading space, long ones in parts."""
    return re.findall(r"\s*\S{1,12}|\s+", text)


def estimate_tokens(value: Any) -> int:
    """Return roughly how many tokens a JSON value takes."""
    return 1 + len(json.dumps(replace_media_data(value))) // 4


# The answers of Chat Completions: a turn as a whole answer, and as the chunks of a stream.

REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def _build_chat_tool_calls(turn: Turn) -> list[Item]:
    """Return the calls of a turn in the form of a Chat Completions message."""
    items = build_output_items(turn, reasoning=False)
    return [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in items
        if item["type"] == "function_call"
    ]


def _get_finish_reason(turn: Turn) -> str:
    if turn.incomplete:
        return REASONS.get(turn.incomplete, turn.incomplete)
    return "tool_calls" if turn.calls else "stop"


def _build_chat_usage(turn: Turn, body: Mapping[str, Any]) -> Item:
    asked = estimate_tokens([body["messages"], body.get("tools")])
    said = estimate_tokens(turn.text) + sum(map(estimate_tokens, _build_chat_tool_calls(turn)))
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _build_chat_header(body: Mapping[str, Any], kind: str) -> Item:
    return {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": None,
    }


def build_failure_body(turn: Turn) -> Item:
    """Return the error body with which a turn fails."""
    message = "The stand-in was told to fail."
    error = {"message": message, "type": "server_error", "param": None, "code": turn.failed}
    return {"error": error}


def build_chat_completion(turn: Turn, body: Mapping[str, Any]) -> Item:
    """Return the Chat Completions answer to a request that is not streamed."""
    message: Item = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.calls:
        message["tool_calls"] = _build_chat_tool_calls(turn)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _get_finish_reason(turn),
    }
    head = _build_chat_header(body, "chat.completion")
    return {**head, "choices": [choice], "usage": _build_chat_usage(turn, body)}


def build_chat_chunks(turn: Turn, body: Mapping[str, Any]) -> Iterator[Item]:
    """Yield all chunks of a streamed Chat Completions answer in order."""
    counts = bool((body.get("stream_options") or {}).get("include_usage"))
    head = _build_chat_header(body, "chat.completion.chunk") | ({"usage": None} if counts else {})
    if turn.failed:
        yield build_failure_body(turn)
        return
    for delta in _build_chat_deltas(turn):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [choice]}
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _get_finish_reason(turn)}
    yield {**head, "choices": [last]}
    if counts:
        yield {**head, "choices": [], "usage": _build_chat_usage(turn, body)}


def _build_chat_deltas(turn: Turn) -> Iterator[Item]:
    says = bool(turn.text or not turn.calls)
    yield {"role": "assistant", "content": "" if says else None, "refusal": None}
    for piece in split_into_pieces(turn.text):
        yield {"content": piece}
    for index, call in enumerate(_build_chat_tool_calls(turn)):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in split_into_pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream: its number, its bytes, and whether it is a delta."""

    number: int
    data: bytes
    is_delta: bool


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """A request in the Responses API's form, the check that may refuse it, and its answers."""

    body: dict[str, Any]
    check: Callable[[], None]
    chat: dict[str, Any] | None = None  # as it came, where it is one of Chat Completions

    def build_stream_events(self, turn: Turn) -> Iterator[StreamEvent]:
        """Yield the events of the streamed answer."""
        if self.chat is not None:
            # counted as if a message's beginning were told by itself, as the Responses API does
            for number, chunk in enumerate(build_chat_chunks(turn, self.chat), start=3):
                said = any(each["delta"] for each in chunk.get("choices") or ())
                yield StreamEvent(number, f"data: {json.dumps(chunk)}\n\n".encode(), said)
            yield StreamEvent(number + 1, b"data: [DONE]\n\n", is_delta=False)
            return
        items, blank, final = self._build_responses_answer(turn)
        for number, event in enumerate(build_numbered_events(turn, items, blank, final)):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            yield StreamEvent(number, data, event["type"].endswith(".delta"))

    def build_whole_answer(self, turn: Turn) -> tuple[Item, int]:
        """Return the answer in one piece, and its HTTP status."""
        if self.chat is None:
            return self._build_responses_answer(turn)[-1], 200
        if turn.failed:
            return build_failure_body(turn), 500
        return build_chat_completion(turn, self.chat), 200

    def _build_responses_answer(self, turn: Turn) -> tuple[list[Item], Item, Item]:
        """Return the output items, and the response at its start and at its end."""
        wanted = "reasoning.encrypted_content" in (self.body.get("include") or [])
        reasons = wanted and bool(REASONING_MODEL.match(self.body["model"]))
        items = build_output_items(turn, reasoning=reasons)
        blank = build_blank_response(self.body)
        return items, blank, build_final_response(blank, turn, items, self.body)
