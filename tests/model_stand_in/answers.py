"""Builds a turn's answer as OpenAI's servers do: sealed reasoning, all settings, failures.

It only makes data: it does not decide what a turn says, and opens no socket.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.demo import model_server
from bot.demo.model_server import Item, Turn

REASONING_MODEL = re.compile(r"^(gpt-[5-9]|o\d)")
FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# The seal is no secret: it only shows whether a reasoning item came back as it was sent.
_SEAL = "countersign stand-in reasoning"
_THOUGHT = 64  # tokens
_FAILURE = "The stand-in was told to fail."


@dataclass(frozen=True, slots=True)
class OddTurn(Turn):
    """A turn with chosen call ids, or one that ends badly.

    `call_ids` replaces the made-up ids in order; `failed` ends the response with that error code,
    `incomplete` with that reason (`max_output_tokens`).
    """

    call_ids: Sequence[str] | None = None
    failed: str | None = None
    incomplete: str | None = None

    def __post_init__(self) -> None:
        if self.call_ids is not None and len(self.call_ids) != len(self.calls):
            raise ValueError("a Turn needs one call id for each call")


def as_odd(turn: Turn) -> OddTurn:
    """The turn itself, or one with the same words and calls that ends well."""
    return turn if isinstance(turn, OddTurn) else OddTurn(turn.text, turn.calls)


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

    `reasoning` puts a sealed reasoning item in front of its calls, whose ids then say that they
    must come back with it.
    """
    items = model_server.build_output_items(turn)
    calls = [each for each in items if each["type"] == "function_call"]
    for call, call_id in zip(calls, as_odd(turn).call_ids or (), strict=False):
        call["call_id"] = call_id
    token = secrets.token_hex(20)
    sealed = seal_reasoning(f"rs_{token}", [])
    thought = {"id": f"rs_{token}", "type": "reasoning", "summary": []}
    thought["encrypted_content"] = sealed
    if reasoning and as_odd(turn).incomplete and not (turn.text or calls):
        return [thought]  # the limit was reached before there was a word
    if calls and reasoning:
        for index, call in enumerate(calls):
            call["id"] = f"fc_{token}_{index}"
        items.insert(items.index(calls[0]), thought)
    return items


def build_blank_response(body: Mapping[str, Any]) -> Item:
    """Return the Response object at its start: all of the request's settings, and no output yet."""
    reasoning = body.get("reasoning") or {}
    text = body.get("text") or {}
    return {
        **model_server.build_blank_response(body),
        "background": False,
        "completed_at": None,
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store", True),
        "text": {
            "format": text.get("format") or {"type": "text"},
            "verbosity": text.get("verbosity") or "medium",
        },
        "top_logprobs": 0,
        "truncation": body.get("truncation") or "disabled",
        "usage": None,
        "user": body.get("user"),
    }


def build_final_response(
    blank: Item, turn: Turn, items: list[Item], body: Mapping[str, Any]
) -> Item:
    """Return the Response object at its end, with its usage in roughly counted tokens."""
    done, odd = model_server.build_final_response(blank, items, body), as_odd(turn)
    if any(each["type"] == "reasoning" for each in items):
        usage = done["usage"]
        usage["output_tokens_details"] = {"reasoning_tokens": _THOUGHT}
        usage |= {name: usage[name] + _THOUGHT for name in ("output_tokens", "total_tokens")}
    if odd.incomplete:
        why = {"reason": odd.incomplete}
        done |= {"status": "incomplete", "incomplete_details": why, "completed_at": None}
    if odd.failed:
        error = {"code": odd.failed, "message": _FAILURE}
        done |= {"status": "failed", "error": error, "output": []}
        done |= {"usage": None, "completed_at": None}
    return done


def build_response_events(
    turn: Turn, items: list[Item], blank: Item, final: Item
) -> Iterator[Item]:
    """Yield all events of the stream in order, numbered."""
    sent = [] if as_odd(turn).failed else items
    return model_server.build_response_events(sent, blank, final)


def build_failure_body(code: str | None) -> Item:
    """Return the error body with which a turn fails."""
    error = {"message": _FAILURE, "type": "server_error", "param": None, "code": code}
    return {"error": error}


def build_chat_completion(turn: Turn, body: Mapping[str, Any]) -> Item:
    """Return the Chat Completions answer to a request that is not streamed."""
    items = build_output_items(turn, reasoning=False)
    return _set_finish_reason(model_server.build_chat_completion(items, body), turn)


def build_chat_completion_chunks(turn: Turn, body: Mapping[str, Any]) -> Iterator[Item]:
    """Yield all chunks of a streamed Chat Completions answer in order."""
    if failed := as_odd(turn).failed:
        yield build_failure_body(failed)
        return
    for chunk in model_server.build_chat_completion_chunks(
        build_output_items(turn, reasoning=False), body
    ):
        yield _set_finish_reason(chunk, turn)


def _set_finish_reason(answer: Item, turn: Turn) -> Item:
    why = as_odd(turn).incomplete
    for choice in answer["choices"]:
        if why and choice["finish_reason"]:
            choice["finish_reason"] = FINISH_REASONS.get(why, why)
    return answer


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
    chat: dict[str, Any] | None = None  # as it came, if it is a Chat Completions request

    def build_stream_events(self, turn: Turn) -> Iterator[StreamEvent]:
        """Yield the events of the streamed answer."""
        if self.chat is not None:
            # numbered as if the start of a message had events of its own, as in the Responses API
            for number, chunk in enumerate(build_chat_completion_chunks(turn, self.chat), start=3):
                said = any(each["delta"] for each in chunk.get("choices") or ())
                yield StreamEvent(number, model_server.format_event(chunk), said)
            yield StreamEvent(number + 1, model_server.CHAT_STREAM_END, is_delta=False)
            return
        items, blank, final = self._build_responses_answer(turn)
        for number, event in enumerate(build_response_events(turn, items, blank, final)):
            is_delta = event["type"].endswith(".delta")
            yield StreamEvent(number, model_server.format_event(event), is_delta)

    def build_whole_answer(self, turn: Turn) -> tuple[Item, int]:
        """Return the answer in one piece, and its HTTP status."""
        if self.chat is None:
            return self._build_responses_answer(turn)[-1], 200
        if failed := as_odd(turn).failed:
            return build_failure_body(failed), 500
        return build_chat_completion(turn, self.chat), 200

    def _build_responses_answer(self, turn: Turn) -> tuple[list[Item], Item, Item]:
        """Return the output items, and the response at its start and at its end."""
        wanted = "reasoning.encrypted_content" in (self.body.get("include") or [])
        reasons = wanted and bool(REASONING_MODEL.match(self.body["model"]))
        items = build_output_items(turn, reasoning=reasons)
        blank = build_blank_response(self.body)
        return items, blank, build_final_response(blank, turn, items, self.body)
