"""The stand-in for the model: a server for OpenAI's Responses API and Chat Completions.

For the demo and for trying tools. It listens on 127.0.0.1 only, keeps nothing between requests, and
is no language model: its answers are scripted turns, or come from the rules in `model_turns`.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Self

from aiohttp import web

from bot.demo.model_turns import Turn, plan_turn

__all__ = ["StandInPlanner", "Turn"]

Item = dict[str, Any]


class StandInPlanner:
    """The stand-in server for the model; it runs between `start` and `stop`, or in a `with`."""

    def __init__(self) -> None:
        self._port = 0  # 0: any free port
        self._scripted: deque[Turn] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._quit: asyncio.Event | None = None

    def script(self, *turns: Turn) -> None:
        """Queue turns, one for each answered request; they are used before the built-in rules."""
        self._scripted.extend(turns)

    @property
    def url(self) -> str:
        """The base URL for the client; RuntimeError before `start()` when the port is not fixed."""
        if not self._port:
            raise RuntimeError("the planner has not been started")
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start serving on a thread of its own; return once the server listens.

        Raises OSError when the port is taken, RuntimeError when the server runs already.
        """
        if self._thread:
            raise RuntimeError("the planner runs already")
        listening: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run_server_thread, args=(listening,), name="planner", daemon=True
        )
        self._thread.start()
        try:
            listening.result()
        except OSError:
            self._thread = None
            raise

    def stop(self) -> None:
        """Stop the server, and whatever it is still answering; does nothing if it does not run."""
        thread, self._thread = self._thread, None
        if thread and self._loop and self._quit:
            self._loop.call_soon_threadsafe(self._quit.set)
            thread.join(timeout=10)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # methods on the server's thread

    def _run_server_thread(self, listening: Future[None]) -> None:
        try:
            asyncio.run(self._serve_until_stopped(listening))
        except OSError as error:
            listening.set_exception(error)

    async def _serve_until_stopped(self, listening: Future[None]) -> None:
        self._loop, self._quit = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self.build_app(), access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._port = runner.addresses[0][1]
            listening.set_result(None)
            await self._quit.wait()
        finally:
            await runner.cleanup()

    def build_app(self) -> web.Application:
        """Return the application with its routes."""
        app = web.Application(client_max_size=32 * 2**20)
        app.router.add_post("/v1/responses", self.handle_responses)
        app.router.add_post("/v1/chat/completions", self.handle_chat)
        app.router.add_get("/v1/models", self.handle_list_models)
        app.router.add_get("/v1/models/{id}", self.handle_get_model)
        return app

    async def handle_list_models(self, _: web.Request) -> web.StreamResponse:
        """Answer with the list of models, which has one entry."""
        return web.json_response({"object": "list", "data": [build_model_entry("stand-in")]})

    async def handle_get_model(self, request: web.Request) -> web.StreamResponse:
        """Answer with one model's entry."""
        return web.json_response(build_model_entry(request.match_info["id"]))

    async def handle_responses(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to the Responses API."""
        body = await request.json()
        items, blank = build_output_items(self._take_turn(body)), build_blank_response(body)
        final = build_final_response(blank, items, body)
        if not body.get("stream"):
            return web.json_response(final)
        return await _stream(request, build_response_events(items, blank, final))

    async def handle_chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to Chat Completions."""
        body = await request.json()
        items = build_output_items(self._take_turn(convert_to_responses_request(body)))
        if not body.get("stream"):
            return web.json_response(build_chat_completion(items, body))
        return await _stream(request, build_chat_completion_chunks(items, body), CHAT_STREAM_END)

    def _take_turn(self, body: dict[str, Any]) -> Turn:
        return self._scripted.popleft() if self._scripted else plan_turn(body)


async def _stream(
    request: web.Request, events: Iterable[Item], end: bytes = b""
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for event in events:
        await response.write(format_event(event))
    await response.write_eof(end)
    return response


def format_event(event: Item) -> bytes:
    """Return the bytes of a server-sent event; its type, if any, becomes its name."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def build_model_entry(name: str) -> Item:
    """Return the entry of one model in the list of models."""
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "offline-stand-in"}


# Answers of the Responses API: a turn as output items, as a whole answer, and as events.


def build_output_items(turn: Turn) -> list[Item]:
    """Return a turn's finished output items (Responses API)."""
    token = secrets.token_hex(16)
    items: list[Item] = []
    if turn.text or not turn.calls:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
        message = {"id": f"msg_{token}", "type": "message", "status": "completed"}
        items.append({**message, "role": "assistant", "content": [part]})
    for index, (name, arguments) in enumerate(turn.calls):
        is_text = isinstance(arguments, str)
        items.append(
            {
                "id": f"fc_{token}_{index}",
                "type": "function_call",
                "status": "completed",
                "arguments": arguments if is_text else json.dumps(arguments, ensure_ascii=False),
                "call_id": f"call_{secrets.token_hex(12)}",
                "name": name,
            }
        )
    return items


def build_blank_response(body: Mapping[str, Any]) -> Item:
    """Return the Response object at its start: the request's settings, and no output yet."""
    return {
        "id": f"resp_{secrets.token_hex(20)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "temperature": body.get("temperature", 1.0),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": [
            {"description": None, "strict": True, **tool} for tool in body.get("tools") or []
        ],
        "top_p": body.get("top_p", 1.0),
    }


def build_final_response(blank: Item, items: list[Item], body: Mapping[str, Any]) -> Item:
    """Return the Response object at its end, with its usage in roughly counted tokens."""
    asked = estimate_tokens([body.get("instructions"), body.get("input"), body.get("tools")])
    said = sum(map(estimate_tokens, items))
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + said,
    }
    ended = {"status": "completed", "completed_at": int(time.time())}
    return {**blank, **ended, "output": items, "usage": usage}


def build_response_events(items: list[Item], blank: Item, final: Item) -> Iterator[Item]:
    """Yield all events of a streamed Response, in order, numbered."""
    for number, event in enumerate(_build_unnumbered_events(items, blank, final)):
        yield {"type": event.pop("type"), "sequence_number": number, **event}


def _build_unnumbered_events(items: list[Item], blank: Item, final: Item) -> Iterator[Item]:
    yield {"type": "response.created", "response": blank}
    yield {"type": "response.in_progress", "response": blank}
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


def replace_media_data(value: Any) -> Any:
    """Return a request's JSON with 4,000 characters in place of each picture's or file's data."""
    if isinstance(value, str):
        return "x" * 4000 if value.startswith("data:") else value
    if isinstance(value, list):
        return [replace_media_data(each) for each in value]
    if isinstance(value, dict):
        return {key: replace_media_data(each) for key, each in value.items()}
    return value


# Answers of Chat Completions: output items as a whole answer, and as the chunks of a stream.

CHAT_STREAM_END = b"data: [DONE]\n\n"


def build_chat_completion(items: list[Item], body: Mapping[str, Any]) -> Item:
    """Return the Chat Completions answer to a request that is not streamed."""
    text, calls = _split_output_items(items)
    message: Item = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None}
    choices = [{**choice, "finish_reason": "tool_calls" if calls else "stop"}]
    head = _build_chat_header(body, "chat.completion")
    return {**head, "choices": choices, "usage": _build_chat_usage(items, body)}


def build_chat_completion_chunks(items: list[Item], body: Mapping[str, Any]) -> Iterator[Item]:
    """Yield all chunks of a streamed Chat Completions answer in order."""
    counts = bool((body.get("stream_options") or {}).get("include_usage"))
    head = _build_chat_header(body, "chat.completion.chunk") | ({"usage": None} if counts else {})
    for delta in _build_chat_deltas(items):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [choice]}
    finish = "tool_calls" if _split_output_items(items)[1] else "stop"
    yield {
        **head,
        "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}],
    }
    if counts:
        yield {**head, "choices": [], "usage": _build_chat_usage(items, body)}


def _build_chat_deltas(items: list[Item]) -> Iterator[Item]:
    text, calls = _split_output_items(items)
    yield {"role": "assistant", "content": None if text is None else "", "refusal": None}
    for piece in split_into_pieces(text or ""):
        yield {"content": piece}
    for index, call in enumerate(calls):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in split_into_pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _split_output_items(items: list[Item]) -> tuple[str | None, list[Item]]:
    """Return the text of output items (None if there is none), and their calls in a chat's form."""
    text = next((each["content"][0]["text"] for each in items if each["type"] == "message"), None)
    return text, [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in items
        if item["type"] == "function_call"
    ]


def _build_chat_header(body: Mapping[str, Any], kind: str) -> Item:
    return {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _build_chat_usage(items: list[Item], body: Mapping[str, Any]) -> Item:
    asked = estimate_tokens([body["messages"], body.get("tools")])
    said = sum(map(estimate_tokens, items))
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


# Converts Chat Completions requests to the form of the Responses API.

# One message may join several user texts. Each text has a first line by which a model can tell, and
# so can this stand-in.
_HEADING_REGEXES = (
    r"(?:Earlier messages|Files)\b[^\n]*\bquoted\b",
    r"[^\n:]{0,80}<@[UW]\w+>\) writes, on [^\n]* UTC:\n",
    r"\(<@[UW]\w+> asked for this with a form",
    r"The agent that works for <@",
    r"\(From Countersign itself",
)
PART_BREAK_PATTERN = re.compile(rf"\n\n(?={'|'.join(_HEADING_REGEXES)})")
HEADING_PATTERN = re.compile("|".join(_HEADING_REGEXES))
OWN_HEADING_PATTERN = re.compile(r"^\(From Countersign itself[^\n]*\n")


def convert_to_responses_request(body: dict[str, Any]) -> dict[str, Any]:
    """Return a checked Chat Completions request in the form of the Responses API."""
    first, *rest = body["messages"]
    has_system = first["role"] in ("system", "developer")
    items = [
        item
        for each in (rest if has_system else body["messages"])
        for item in _convert_message(each)
    ]
    converted = {"model": body["model"], "input": items, "stream": body.get("stream") or False}
    if has_system:
        converted["instructions"] = _join_text_parts(first["content"])
    converted["tools"] = [
        {"type": "function", **each["function"]} for each in body.get("tools") or []
    ]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = {"type": "function", **choice["function"]}
    more = {"tool_choice": choice, "parallel_tool_calls": body.get("parallel_tool_calls")}
    return converted | {name: value for name, value in more.items() if value is not None}


def _convert_message(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match message["role"]:
        case "tool":
            text, call_id = _join_text_parts(message["content"]), message["tool_call_id"]
            yield {"type": "function_call_output", "call_id": call_id, "output": text}
        case "assistant":
            if text := _join_text_parts(message.get("content") or ""):
                part = {"type": "output_text", "text": text}
                yield {"type": "message", "role": "assistant", "content": [part]}
            for call in message.get("tool_calls") or ():
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}
        case role:
            yield from _split_combined_message(role, message["content"])


def _split_combined_message(
    role: str, content: str | list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the messages that one message combines, each as an item of the Responses API."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    item: dict[str, Any] = {}
    for part in parts:
        pieces = PART_BREAK_PATTERN.split(part["text"]) if part["type"] == "text" else [part]
        for piece in pieces:
            begins = isinstance(piece, str) and (piece != pieces[0] or HEADING_PATTERN.match(piece))
            if item and begins:
                yield item
            if not item or begins:
                item = {"role": role, "content": []}
            if not isinstance(piece, str):
                item["content"].append(convert_chat_media_part(piece))
                continue
            own_heading = OWN_HEADING_PATTERN.match(piece)
            item["role"] = "developer" if own_heading else item["role"]
            piece_text = piece[own_heading.end() :] if own_heading else piece
            item["content"].append({"type": "input_text", "text": piece_text})
    yield item


def convert_chat_media_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a picture or a file part in the form of the Responses API."""
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    given = part["image_url"]
    detail = given.get("detail", "auto")
    return {"type": "input_image", "image_url": given["url"], "detail": detail}


def _join_text_parts(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n\n".join(each["text"] for each in content)
