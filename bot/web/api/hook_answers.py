"""The outermost layer: a hook of Claude Code's is answered 200 with a no, whatever goes wrong.

Claude Code lets a tool be used wherever its hook is answered anything else. So this stands before
everything that may refuse, fail or take too long; it decides nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.web.api.claude_code import EventHeard, HookEvent, denied
from countersign.durations import seconds

log = logging.getLogger("countersign.api")
HOOKS, CLAUDE_CODE = "/v1/hooks", "/v1/hooks/claude-code"
WAIT = "9m"  # that people have, where nothing is said: less than the hook's own ten minutes
LATE = 10.0  # seconds after a deadline in which the clock denies
MOST, REST = 1_000_000, 1.0  # bytes and seconds of what is heard though it is refused
SLOW = 30.0  # and further seconds for all else, after which it is a no
CLOSE = (b"connection", b"close")  # what comes behind it on the line is not to be believed
BROKEN = "Something went wrong in Countersign."
CUT_SHORT = "Countersign was stopped before there was an answer; ask again in a minute."
TOO_LATE = "Countersign had no answer in time."
NO_PATH = f"Countersign has no such address; its hook is POST {CLAUDE_CODE}."
UNREADABLE = "What came in was no request that can be read."
_WORDS = ("hook", "claude")  # in an address that was mistyped
# below these stand random ids, which may hold such a word; Slack and MCP hosts are no coding agents
_OTHERS = ("/v1/requests", "/v1/questions", "/slack", "/mcp")


def is_hook(method: str, path: str) -> bool:
    """Whether a coding agent asks there, or means to: below the hooks' address by any method, or
    at an address like it.
    """
    found = re.sub("/+", "/", path.lower())
    if found == HOOKS or found.startswith(f"{HOOKS}/"):
        return True
    other = any(found == each or found.startswith(f"{each}/") for each in _OTHERS)
    return method == "POST" and not other and any(each in found for each in _WORDS)


def prefers_later(headers: Headers) -> bool:
    """Whether who asks prefers to ask again, as RFC 7240 writes it."""
    return "respond-async" in headers.get("prefer", "")


class HookAnswers:
    """ASGI: hands all on; a hook gets its answer from here where there is none that is good."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: all that this process answers over HTTP."""
        self._app = app
        self._left: set[asyncio.Task[None]] = set()  # that ended too late: they are cancelled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        if scope["type"] != "http" or not is_hook(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
        elif scope["path"] == CLAUDE_CODE and prefers_later(Headers(scope=scope)):
            await self._app(scope, receive, send)  # a program, which says no by itself
        else:
            await self._answer(scope, _Heard(receive), _Answer(send))

    async def _answer(self, scope: Scope, receive: _Heard, answer: _Answer) -> None:
        work = asyncio.ensure_future(self._work(scope, receive, answer))
        why = BROKEN
        try:
            ended, _ = await asyncio.wait({work}, timeout=_longest(scope))
            if ended and not answer.is_over:
                await receive.rest()
            why = answer.why if ended else TOO_LATE
            if ended and (work.cancelled() or work.exception() is not None):
                error = None if work.cancelled() else work.exception()
                log.error("a hook could not be answered", exc_info=error)
        except asyncio.CancelledError:  # the server ends, and waits no longer
            why = CUT_SHORT
            raise
        finally:
            if not work.done():
                self._left.add(work)
                work.add_done_callback(self._left.discard)
                work.cancel()
            await answer.refuse(why, receive.event.event)

    async def _work(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        await self._app(scope, receive, answer.heard)


class _Heard:
    """What one hook says, handed on; at which hook that is, is heard along."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left, self._is_gone = MOST, False
        self.event = EventHeard()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            part, more = message.get("body", b""), message.get("more_body", False)
            self._left -= len(part)
            self.event.take(part, is_last=not more)
        else:
            self._is_gone = True
        return message

    async def rest(self) -> None:
        """Hear the rest of what is refused unread, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REST):
                while not (self.event.is_whole or self._is_gone) and self._left > 0:
                    await self()


class _Answer:
    """What one hook has been answered so far: nothing, blanks, or all of it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._problem = bytearray()
        self._refused_with: list[tuple[bytes, bytes]] = []  # headers
        self._start: Message | None = None  # goes out with the first of what follows it
        self._begun = self._said = self._over = False

    async def heard(self, message: Message) -> None:
        """Hand on what the app says, where it is an answer; keep what it says is wrong."""
        if self._over:
            return
        if message["type"] == "http.response.start":
            self._status, self._start = message["status"], message
            self._refused_with = [(n.lower(), value) for n, value in message.get("headers", ())]
            return
        if self._status != HTTPStatus.OK or self._start is None:
            self._problem.extend(message.get("body", b""))
            return
        is_last = not message.get("more_body", False)
        self._said = self._said or bool(message.get("body", b"").strip())
        if is_last and not self._said:
            return  # blanks to the end are no answer
        self._over = is_last
        await self._begin(self._start)
        await self._send(message)

    async def _begin(self, start: Message) -> None:
        if not self._begun:
            self._begun = True
            await self._send(start)

    @property
    def why(self) -> str:
        """Why there is no good answer, as the app says it."""
        if self._status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            return NO_PATH
        try:
            return str(json.loads(bytes(self._problem))["detail"])
        except (ValueError, KeyError, TypeError):
            return BROKEN

    @property
    def is_over(self) -> bool:
        """Whether all has been said."""
        return self._over

    async def refuse(self, why: str, event: HookEvent) -> None:
        """Say no, unless all has been said; nothing that is said later is heard."""
        if self._over:
            return
        self._over = True
        body = b"" if self._said else refusal(why, event)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            *(each for each in self._refused_with if each == CLOSE),
        ]
        await self._begin({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def refusal(why: str, event: HookEvent = HookEvent.BEFORE) -> bytes:
    """The body that says no."""
    said: dict[str, Any] = denied(why, event)
    return json.dumps(said).encode()


def _longest(scope: Scope) -> float:
    """The seconds after which there is no answer any more."""
    said = QueryParams(scope["query_string"]).get("wait", WAIT)
    return (seconds(said) or seconds(WAIT) or 0) + LATE + SLOW
