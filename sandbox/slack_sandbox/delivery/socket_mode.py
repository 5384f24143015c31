"""Socket Mode: tickets, sockets, envelopes, acknowledgements and redelivery.

Runs on the server's event loop; only `Hub.send`, `Hub.disconnect` and `Hub.cut` may be called from
other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, WSMsgType, web

from slack_sandbox.delivery.timers import Timers
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

RETRY_DELAYS = (
    0.0,
    60.0,
    300.0,
)  # seconds of the sandbox's clock from a failed attempt to the next one; then Slack gives up
MAX_SOCKETS = 10
# seconds between the notice and the close
CLOSE_NOTICE_SECONDS = {
    "warning": 10.0,
    "refresh_requested": 1.0,
}
CLOSE_FRAME_TIMEOUT_SECONDS = 2.0  # for the app to answer the server's close frame
_HOST = "applink-sandbox"


@dataclass(eq=False)
class Socket:
    """One connection of an app."""

    number: int
    ws: web.WebSocketResponse
    frames: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)  # None ends the socket
    is_closing: bool = False  # the server is closing it


class Hub:
    """All connections of one app, and what is on its way to it."""

    def __init__(
        self, world: World, app: App, loop: asyncio.AbstractEventLoop, timers: Timers
    ) -> None:
        self.world, self.app, self.loop, self.timers = world, app, loop, timers
        self.sockets: list[Socket] = []
        self.closed: list[int] = []  # each ended socket's close code; 1006 without a close frame
        self.max_frame_bytes = 0  # longer messages are sent in several frames; 0: never
        self.counts_dead = 0.0  # seconds a socket ended with 1006 still counts as connected
        self._died: list[float] = []  # when sockets ended with 1006, time.monotonic()
        self._tickets: set[str] = set()
        self._waiting: list[Delivery] = []  # events that found no socket
        self._by_envelope: dict[str, Delivery] = {}
        self._numbers = 0
        self._turn = 0

    # sending

    def ticket_url(self) -> str:
        """A WebSocket address that works once."""
        ticket = secrets.token_urlsafe(12)
        self._tickets.add(ticket)
        return (
            f"{self.world.url.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={self.app.id}"
        )

    def send(self, delivery: Delivery) -> None:
        """Pass a payload to any one socket.

        Without a socket, an event waits and an interaction fails at once.
        """
        with self.world.lock:
            if not self.sockets and delivery.kind != "events_api":
                self._settle(delivery, "no_socket")
                return
        self.loop.call_soon_threadsafe(self._attempt, delivery)

    def _attempt(self, delivery: Delivery) -> None:
        with self.world.lock:
            if delivery.outcome == "acked":
                return
            if not self.sockets:
                if delivery.kind != "events_api":
                    self._settle(delivery, "no_socket")
                else:
                    self._waiting.append(delivery)
                return
            socket = self.sockets[self._turn % len(self.sockets)]
            self._turn += 1
            delivery.envelope_id = str(uuid.uuid4())
            delivery.envelope_ids.append(delivery.envelope_id)
            self._by_envelope[delivery.envelope_id] = delivery
            delivery.socket_id = socket.number
            delivery.sent_at = time.monotonic()
            delivery.attempts += 1
            delivery.next_at = None
            socket.frames.put_nowait(json.dumps(self._envelope(delivery)))
            self.loop.call_later(
                self.world.ack_seconds, self._overdue, delivery, delivery.envelope_id
            )
            self.world.touch([])

    @staticmethod
    def _envelope(delivery: Delivery) -> Json:
        frame: Json = {
            "envelope_id": delivery.envelope_id,
            "payload": delivery.payload,
            "type": delivery.kind,
            "accepts_response_payload": delivery.accepts_response_payload,
        }
        if delivery.kind == "events_api":
            frame |= {"retry_attempt": delivery.attempts - 1, "retry_reason": delivery.retry_reason}
        return frame

    def _overdue(self, delivery: Delivery, envelope_id: str) -> None:
        """Handle a missing acknowledgement: send an event again later, let an interaction fail."""
        with self.world.lock:
            if delivery.outcome != "pending" or delivery.envelope_id != envelope_id:
                return
            if delivery.kind != "events_api" or delivery.attempts > len(RETRY_DELAYS):
                self._settle(delivery, "timeout")
                return
            delivery.retry_reason = "timeout"
            delivery.next_at = self.timers.after(
                RETRY_DELAYS[delivery.attempts - 1], lambda: self._attempt(delivery)
            )
            self.world.touch([])

    def _settle(self, delivery: Delivery, outcome: str) -> None:
        delivery.settle(outcome)
        self.world.touch([])

    # receiving

    async def link(self, request: web.Request) -> web.StreamResponse:
        """Serve the WebSocket for a ticket."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403, text="this ticket is used up or was never issued")
        self._tickets.discard(ticket)
        ws = web.WebSocketResponse(autoping=True, timeout=CLOSE_FRAME_TIMEOUT_SECONDS)
        await ws.prepare(request)
        if len(self.sockets) >= MAX_SOCKETS:
            await ws.send_str(json.dumps(self._disconnect_frame("too_many_websockets")))
            await ws.close()
            return ws
        self._numbers += 1
        socket = Socket(self._numbers, ws)
        socket.frames.put_nowait(json.dumps(self._hello()))
        with self.world.lock:
            self.sockets.append(socket)
            waiting, self._waiting = self._waiting, []
        for delivery in waiting:
            self._attempt(delivery)
        writer = asyncio.create_task(self._write(socket))
        self.world.touch([])
        try:
            async for frame in ws:
                if frame.type is WSMsgType.TEXT:
                    self._received(frame.data, socket)
        finally:
            with self.world.lock:
                self.sockets = [other for other in self.sockets if other is not socket]
            await self._end(socket, writer)
        return ws

    async def _end(self, socket: Socket, writer: asyncio.Task[None]) -> None:
        """Wait for the app's close frame, if it is the server that closes, and note the code."""
        if socket.is_closing:
            await asyncio.wait([writer])
        writer.cancel()
        code = socket.ws.close_code or WSCloseCode.ABNORMAL_CLOSURE
        with self.world.lock:
            self.closed.append(int(code))
            if code == WSCloseCode.ABNORMAL_CLOSURE:
                self._died.append(time.monotonic())
            self.world.touch([])

    async def _write(self, socket: Socket) -> None:
        with contextlib.suppress(ConnectionError):
            while (frame := await socket.frames.get()) is not None:
                transport = socket.ws._req.transport if socket.ws._req else None
                if self.max_frame_bytes and transport:
                    transport.write(b"".join(_split_message(frame.encode(), self.max_frame_bytes)))
                else:
                    await socket.ws.send_str(frame)
            socket.is_closing = True
            await socket.ws.close()

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self.sockets) + 1 + self._dead(),
            "debug_info": {"host": _HOST, "build_number": 1, "approximate_connection_time": 18060},
            "connection_info": {"app_id": self.app.id},
        }

    def _dead(self) -> int:
        """Return how many broken sockets are still counted as connections."""
        since = time.monotonic() - self.counts_dead
        return sum(died > since for died in self._died)

    def _disconnect_frame(self, reason: str) -> Json:
        return {
            "type": "disconnect",
            "reason": reason,
            "num_connections": len(self.sockets),
            "debug_info": {"host": _HOST},
            "connection_info": {"app_id": self.app.id},
        }

    def _received(self, text: str, socket: Socket) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            return
        if not isinstance(frame, dict):
            return
        with self.world.lock:
            delivery = self._by_envelope.get(str(frame.get("envelope_id")))
            if delivery is None or delivery.outcome != "pending":
                return
            if self.world.loses_ack(delivery):
                self._overdue(delivery, delivery.envelope_id)  # as if the three seconds had passed
                return
            delivery.acked_at, delivery.acked_by = time.monotonic(), socket.number
            payload = frame.get("payload")
            delivery.ack = payload if isinstance(payload, dict) else None
            self._settle(delivery, "acked")

    # disconnecting

    def disconnect(self, reason: str) -> None:
        """Announce on every socket that it will close, and close it after the reason's notice."""
        self.loop.call_soon_threadsafe(self._say_goodbye, reason)

    def _say_goodbye(self, reason: str) -> None:
        for socket in list(self.sockets):
            socket.frames.put_nowait(json.dumps(self._disconnect_frame(reason)))
            self.loop.call_later(
                CLOSE_NOTICE_SECONDS.get(reason, 0.0), socket.frames.put_nowait, None
            )

    def cut(self) -> None:
        """Drop every connection without a word."""

        def drop() -> None:
            for socket in list(self.sockets):
                transport = socket.ws._req.transport if socket.ws._req else None
                if transport:
                    transport.abort()

        self.loop.call_soon_threadsafe(drop)


def _split_message(message: bytes, most: int) -> Iterator[bytes]:
    """Yield the frames (RFC 6455, 5.2) of a text message, with at most so many bytes of it each."""
    for start in range(0, len(message), most):
        part = message[start : start + most]
        is_last = start + most >= len(message)
        yield bytes((is_last << 7 | (0 if start else WSMsgType.TEXT), 127))
        yield len(part).to_bytes(8, "big") + part
