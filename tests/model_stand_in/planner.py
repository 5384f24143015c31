"""A server for OpenAI's Responses API and Chat Completions that is as strict as theirs.

It refuses what they refuse, records what it is asked, and fails, cuts and waits when it is told to.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import Any

from aiohttp import web

from bot.demo.model_server import (
    StandInPlanner,
    Turn,
    build_model_entry,
    convert_to_responses_request,
)
from bot.demo.model_turns import plan_turn
from tests.model_stand_in import responses_checks
from tests.model_stand_in.answers import ModelExchange, StreamEvent
from tests.model_stand_in.chat_checks import check_chat_request
from tests.model_stand_in.responses_schema import RequestRefusal, list_part_types


class ApiFeature(StrEnum):
    """A part of OpenAI's API that the stand-in server can be set to lack."""

    RESPONSES = "responses"  # the Responses API
    COMPACTION = "compaction"  # compacting a long transcript
    TOOLS = "tools"  # a model that can call them
    SIGHT = "sight"  # a model that sees pictures
    FILES = "files"  # a model that reads files
    REQUIRED = "required"  # a tool choice that makes the model call one
    STREAMS = "streams"  # streamed answers when tools are offered


class RequestHold:
    """One request kept waiting: `arrived` is set once it has come, `release()` lets it go on."""

    def __init__(self, after_events: int) -> None:
        self.after_events = after_events
        self.arrived = threading.Event()
        self._lock = threading.Lock()
        self._released = False
        self._wake: Callable[[], object] | None = None

    def release(self) -> None:
        """Let the request go on, or not wait at all when it comes; safe to call twice."""
        with self._lock:
            self._released = True
            wake, self._wake = self._wake, None
        if wake:
            wake()

    async def wait_for_release(self) -> None:
        """Set `arrived` and wait for the release (on the server's loop)."""
        loop, free = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if not self._released:
                self._wake = lambda: loop.call_soon_threadsafe(free.set)
            else:
                free.set()
        self.arrived.set()
        await free.wait()


class ModelServerControls:
    """What steers the stand-in server; usable from any thread, before and after the server starts.

    `requests` holds every JSON body that came, oldest first, those of Chat Completions converted to
    the Responses API's form; `chats` holds these as they came; `refused` the message of every
    refusal; `compactions` the bodies of compaction requests. `context` is how many tokens the model
    reads at once, None for any number; `chunk_delay` is the pause after each delta in seconds;
    `lenient_ids` accepts call ids used twice; `without` names what the server is to lack.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.chats: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.compactions: list[dict[str, Any]] = []
        self.context: int | None = None
        self.without: set[ApiFeature] = set()
        self.chunk_delay = 0.0
        self.lenient_ids = False
        self._lock = threading.Lock()
        self._turns: deque[Turn] = deque()
        self._faults: deque[tuple[int, float | None]] = deque()
        self._cuts: deque[int] = deque()
        self._holds: deque[RequestHold] = deque()
        self._waiting: set[RequestHold] = set()
        self._refusing = 0
        self._era = 0  # grows with each clearing; later scripts are for later requests

    def script(self, *turns: Turn) -> None:
        """Queue turns, one for each answered request; they are used before the built-in rules.

        A turn that was not sent to its end is used again.
        """
        with self._lock:
            self._turns.extend(turns)

    def fail_next_requests(
        self, status: int = 500, retry_after: float | None = None, times: int = 1
    ) -> None:
        """Answer the next `times` requests with this HTTP status; `retry_after` is in seconds."""
        with self._lock:
            self._faults.extend([(status, retry_after)] * times)

    def cut_next_answers(self, after_events: int = 3, times: int = 1) -> None:
        """Cut the next `times` answers short after that many events (at once if not streamed)."""
        with self._lock:
            self._cuts.extend([after_events] * times)

    def refuse_next_connections(self, times: int = 1) -> None:
        """Close the next `times` connections without reading a request's body or answering."""
        with self._lock:
            self._refusing += times

    def hold_next_request(self, after_events: int = 0) -> RequestHold:
        """Keep the next request waiting, before its answer or after that many streamed events."""
        hold = RequestHold(after_events)
        with self._lock:
            self._holds.append(hold)
        return hold

    def clear_script(self) -> None:
        """Forget scripted turns and faults that were not used, and let held requests go on.

        A request from before takes none of the turns that are scripted from now on.
        """
        with self._lock:
            self._era += 1
            self._turns.clear()
            self._faults.clear()
            self._cuts.clear()
            self._refusing = 0
        self._release_all_holds()
        with self._lock:
            self._holds.clear()

    # for the server

    def _should_refuse_connection(self) -> bool:
        with self._lock:
            refusing = self._refusing > 0
            self._refusing -= refusing
        return refusing

    def _store_request(
        self, body: dict[str, Any]
    ) -> tuple[tuple[int, float | None] | None, RequestHold | None, int]:
        """Record a request; return the fault and the hold for it, if any, and the current era."""
        with self._lock:
            self.requests.append(body)
            fault = self._faults.popleft() if self._faults else None
            hold = self._holds.popleft() if self._holds and not fault else None
            if hold:
                self._waiting.add(hold)
            return fault, hold, self._era

    def _pop_scripted_turn(self, era: int) -> tuple[Turn | None, int | None]:
        """Return the scripted turn for a request of this era, and after how many events to cut it.

        Each is None where nothing is scripted, or the era is over.
        """
        with self._lock:
            if era != self._era:
                return None, None
            turn = self._turns.popleft() if self._turns else None
            return turn, (self._cuts.popleft() if self._cuts else None)

    def _requeue_turn(self, turn: Turn, era: int) -> None:
        with self._lock:
            if era == self._era:
                self._turns.appendleft(turn)

    def _release_all_holds(self) -> None:
        with self._lock:
            holds = [*self._waiting, *self._holds]
        for hold in holds:
            hold.release()


FAULTS = {
    429: (
        "Rate limit reached for requests. Please try again later.",
        "requests",
        "rate_limit_exceeded",
    ),
    500: (
        "The server had an error while processing your request. Sorry about that!",
        "server_error",
        None,
    ),
    503: (
        "The engine is currently overloaded, please try again later.",
        "service_unavailable_error",
        None,
    ),
}
OTHER_FAULT = ("The request was refused on demand.", "invalid_request_error", None)


class StrictPlanner(ModelServerControls, StandInPlanner):
    """The strict stand-in server; ModelServerControls has the methods that steer it."""

    def __init__(self, port: int = 0, mind: Callable[[dict[str, Any]], Turn] = plan_turn) -> None:
        """Set the port (0: any free one); `mind` makes a turn of a body where none is scripted."""
        StandInPlanner.__init__(self)
        ModelServerControls.__init__(self)
        self._port = port
        self._mind = mind

    def stop(self) -> None:
        """Stop the server, and whatever it is still answering; does nothing if it does not run."""
        self._release_all_holds()
        super().stop()

    # the server's thread

    def build_app(self) -> web.Application:
        app = super().build_app()
        app.middlewares.append(self._guard_request)
        app.router.add_post("/v1/responses/compact", self._handle_compaction)
        return app

    @web.middleware
    async def _guard_request(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Apply connection faults, check the bearer key, and turn refusals into error bodies."""
        if self._should_refuse_connection():
            return _close_connection(request)
        try:
            scheme, _, key = request.headers.get("Authorization", "").partition(" ")
            if scheme != "Bearer" or not key.strip():
                how = "Provide it in an Authorization header using Bearer auth."
                raise RequestRefusal(f"You didn't provide an API key. {how}", status=401)
            response: web.StreamResponse = await handler(request)
        except RequestRefusal as refusal:
            self.refused.append(refusal.message)
            return _build_json_response(refusal.build_error_body(), refusal.status)
        except web.HTTPException as error:
            message = f"Invalid URL ({request.method} {request.path})"
            return _build_json_response(RequestRefusal(message).build_error_body(), error.status)
        return response

    async def handle_get_model(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        if not responses_checks.MODEL.match(name):
            raise RequestRefusal(
                f"The model '{name}' does not exist.", "model", "model_not_found", 404
            )
        return _build_json_response(build_model_entry(name))

    async def handle_responses(self, request: web.Request) -> web.StreamResponse:
        if ApiFeature.RESPONSES in self.without:
            raise RequestRefusal("Invalid URL (POST /v1/responses)", status=404)
        body = await _read_json_body(request)
        return await self._answer_with_turn(
            request, ModelExchange(body, lambda: self._check_responses_request(body))
        )

    async def _handle_compaction(self, request: web.Request) -> web.StreamResponse:
        if self.without & {ApiFeature.RESPONSES, ApiFeature.COMPACTION}:
            raise RequestRefusal("Invalid URL (POST /v1/responses/compact)", status=404)
        body = await _read_json_body(request)
        self.compactions.append(body)
        return _build_json_response(responses_checks.build_compaction_response(body, self.context))

    async def handle_chat(self, request: web.Request) -> web.StreamResponse:
        body = await _read_json_body(request)
        self.chats.append(body)
        try:
            check_chat_request(body)
        except RequestRefusal as refusal:
            refused = ModelExchange(body, partial(_raise_refusal, refusal), body)
            return await self._answer_with_turn(request, refused)
        asked = convert_to_responses_request(body)
        exchange = ModelExchange(asked, lambda: self._check_chat_request(asked), body)
        return await self._answer_with_turn(request, exchange)

    def _check_responses_request(self, body: Any) -> None:
        responses_checks.check_responses_request(body, lenient_ids=self.lenient_ids)
        responses_checks.check_context_size(body, self.context)
        self._check_model_features(body)

    def _check_chat_request(self, asked: dict[str, Any]) -> None:
        """Refuse a chat, in the Responses API's form, that does not fit the model's abilities."""
        responses_checks.check_context_size(asked, self.context, by_chat=True)
        self._check_model_features(asked)

    def _check_model_features(self, body: dict[str, Any]) -> None:
        if ApiFeature.TOOLS in self.without and body.get("tools"):
            raise RequestRefusal(f"{body['model']} does not support tools")
        there = list_part_types(body["input"]) if self.without else ()
        for part, kind, name in (
            (ApiFeature.SIGHT, "image", "image_url"),
            (ApiFeature.FILES, "file", "file"),
        ):
            if part in self.without and f"input_{kind}" in there:
                what = f"{name} is only supported by certain models."
                raise RequestRefusal(f"Invalid content type. {what}", "input")
        if ApiFeature.REQUIRED in self.without and body.get("tool_choice") == "required":
            raise RequestRefusal("tool_choice cannot be 'required'")

    async def _answer_with_turn(
        self, request: web.Request, exchange: ModelExchange
    ) -> web.StreamResponse:
        fault, hold, era = self._store_request(exchange.body)
        if fault:
            return _build_fault_response(*fault)
        exchange.check()
        if hold and hold.after_events == 0:
            await hold.wait_for_release()
            if request.transport is None or request.transport.is_closing():
                return web.Response()  # the client has gone: the script stays
        scripted, cut = self._pop_scripted_turn(era)
        if ApiFeature.STREAMS in self.without and exchange.body.get("tools"):
            cut = 0 if exchange.body.get("stream") else cut
        sent = False
        try:
            turn = scripted or self._mind(exchange.body)
            if exchange.body.get("stream"):
                events = exchange.build_stream_events(turn)
                response = await self._stream_events(request, events, cut, hold)
            elif cut is not None:
                response = _close_connection(request)
            else:
                response = _build_json_response(*exchange.build_whole_answer(turn))
            sent = cut is None
        finally:
            if scripted and not sent:
                self._requeue_turn(scripted, era)
        return response

    async def _stream_events(
        self,
        request: web.Request,
        sent: Iterator[StreamEvent],
        cut: int | None,
        hold: RequestHold | None,
    ) -> web.StreamResponse:
        headers = {
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            **_build_request_id_header(),
        }
        stream = web.StreamResponse(headers=headers)
        await stream.prepare(request)
        for event in sent:
            if cut is not None and event.number >= cut:
                return _close_connection(request, stream)
            if hold and event.number >= hold.after_events:
                await hold.wait_for_release()
                hold = None
            await stream.write(event.data)
            if self.chunk_delay and event.is_delta:
                await asyncio.sleep(self.chunk_delay)
        if cut is not None:
            return _close_connection(request, stream)
        await stream.write_eof()
        return stream


def _raise_refusal(refusal: RequestRefusal) -> None:
    raise refusal


async def _read_json_body(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except ValueError:
        raise RequestRefusal("We could not parse the JSON body of your request.") from None


def _close_connection(
    request: web.Request, response: web.StreamResponse | None = None
) -> web.StreamResponse:
    if request.transport:
        request.transport.close()  # what was written still arrives, but not the end of the body
    return response or web.Response()


def _build_request_id_header() -> dict[str, str]:
    return {"x-request-id": f"req_{secrets.token_hex(16)}"}


def _build_json_response(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    every = {**_build_request_id_header(), **(headers or {})}
    return web.json_response(body, status=status, headers=every)


def _build_fault_response(status: int, retry_after: float | None) -> web.Response:
    message, kind, code = FAULTS.get(status, OTHER_FAULT)
    error = {"message": message, "type": kind, "param": None, "code": code}
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return _build_json_response({"error": error}, status, headers)
