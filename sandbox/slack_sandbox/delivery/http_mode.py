"""Signed HTTP: payloads to an app's request URLs, with Slack's time limit and its retries.

Runs on the server's loop; only `HttpMode.send` and `HttpMode.verify` may be called from other
threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urljoin

import aiohttp

from slack_sandbox.delivery.signing import signed
from slack_sandbox.delivery.timers import Timers
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.events import VERIFICATION
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

# seconds of the sandbox's clock from a failed attempt to the next one; then Slack gives up
RETRY_DELAYS = (0.0, 60.0, 300.0)
MAX_REDIRECTS = 2
_REDIRECT_STATUSES = (301, 302, 307, 308)
_OUTCOMES = {
    "http_timeout": "timeout",
    "connection_failed": "unreachable",
    "ssl_error": "unreachable",
}


class _Failed(Exception):
    """Raised for an attempt without an acknowledgement; `reason` is Slack's word for why."""

    def __init__(self, reason: str, *, retry: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.retry = reason, retry


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    is_json: bool

    def payload(self) -> Json | None:
        """Return the app's answer: a JSON object, else {"text": …}; None for a blank one."""
        text = self.body.decode(errors="replace")
        if not text.strip():
            return None
        try:
            parsed: Any = json.loads(text)
        except ValueError:
            parsed = None
        return parsed if self.is_json and isinstance(parsed, dict) else {"text": text}


class HttpMode:
    """The payloads on their way to apps that take HTTP requests."""

    def __init__(
        self,
        world: World,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        signing_time: Callable[[], float],
    ) -> None:
        self.world, self.loop, self.timers = world, loop, timers
        # the apps' time in Unix seconds, since apps refuse old signatures
        self._signing_time = signing_time
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # start and end

    async def close(self) -> None:
        """Give up what is on its way and close the connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # sending

    def send(self, delivery: Delivery) -> None:
        """Send a payload to the URL for its kind."""
        self.loop.call_soon_threadsafe(lambda: self._start(self._attempt(delivery)))

    def verify(self, app: App) -> None:
        """Have the app prove that the request URL is its own, as Slack does before saving one."""

        async def ask() -> None:
            with contextlib.suppress(_Failed):  # tried again before the first event is sent
                await self._verified(app)

        self.loop.call_soon_threadsafe(lambda: self._start(ask()))

    async def _attempt(self, delivery: Delivery) -> None:
        with self.world.lock:
            if delivery.outcome != "pending":
                return
            delivery.attempts += 1
            delivery.next_at = None
            delivery.sent_at = time.monotonic()
        try:
            if delivery.kind == "events_api":
                await self._verified(delivery.app)
            answer = await self._post(delivery)
            if self.world.loses_ack(delivery):
                raise _Failed("http_timeout")
        except _Failed as failed:
            self._failed(delivery, failed)
        else:
            self._done(delivery, "acked", answer)

    def _failed(self, delivery: Delivery, failed: _Failed) -> None:
        delivery.retry_reason = failed.reason
        if (
            delivery.kind == "events_api"
            and failed.retry
            and delivery.attempts <= len(RETRY_DELAYS)
        ):
            delay = RETRY_DELAYS[delivery.attempts - 1]
            delivery.next_at = self.timers.after(
                delay, lambda: self._start(self._attempt(delivery))
            )
            self.world.touch([])
        else:
            self._done(delivery, _OUTCOMES.get(failed.reason, "http_error"))

    def _done(self, delivery: Delivery, outcome: str, answer: _Answer | None = None) -> None:
        with self.world.lock:
            if answer:
                delivery.acked_at = time.monotonic()
                delivery.ack = answer.payload()
            delivery.settle(outcome)
            self.world.touch([])

    async def _verified(self, app: App) -> None:
        """Return once the app has answered the challenge for its request URL."""
        app = self.world.apps[app.id]  # the first workspace's, since all share one request URL
        if app.verified:
            return
        challenge = secrets.token_urlsafe(32)
        payload = {"token": VERIFICATION, "challenge": challenge, "type": "url_verification"}
        delivery = Delivery("url_verification", payload, app, attempts=1, sent_at=time.monotonic())
        with self.world.lock:
            self.world.deliveries.append(delivery)
        try:
            answer = await self._post(delivery)
            said = answer.payload() or {}
            if challenge not in (said.get("challenge"), str(said.get("text")).strip()):
                raise _Failed("http_error")
        except _Failed as failed:
            self._failed(delivery, failed)
            raise
        app.verified = True
        self._done(delivery, "acked", answer)

    # one request

    async def _post(self, delivery: Delivery) -> _Answer:
        """Send a payload; return the app's 2xx answer (200 for interactions), or raise _Failed."""
        url, body, kind = written(delivery)
        if not url:
            raise _Failed("connection_failed", retry=False)
        headers = {
            "Content-Type": kind,
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
        }
        headers |= (
            {"Accept": "*/*"}
            if delivery.kind == "events_api"
            else {"Accept": "application/json,*/*"}
        )
        headers |= signed(
            self.world.apps[delivery.app.id].signing_secret, int(self._signing_time()), body
        )
        if delivery.attempts > 1:
            headers |= {
                "X-Slack-Retry-Num": str(delivery.attempts - 1),
                "X-Slack-Retry-Reason": delivery.retry_reason,
            }
        try:
            async with asyncio.timeout(self.world.ack_seconds):
                return await self._follow(url, body, headers, any_2xx=delivery.kind == "events_api")
        except TimeoutError:
            raise _Failed("http_timeout") from None
        except aiohttp.ClientSSLError:
            raise _Failed("ssl_error") from None
        except aiohttp.ClientConnectionError:
            raise _Failed("connection_failed") from None
        except aiohttp.ClientError:
            raise _Failed("unknown_error") from None

    async def _follow(
        self, url: str, body: bytes, headers: dict[str, str], *, any_2xx: bool
    ) -> _Answer:
        self._session = self._session or aiohttp.ClientSession()
        for _ in range(MAX_REDIRECTS + 1):
            async with self._session.post(
                url, data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = _Answer(
                    response.status, await response.read(), "json" in response.content_type
                )
                if answer.status in _REDIRECT_STATUSES and "Location" in response.headers:
                    url = urljoin(url, response.headers["Location"])
                    continue
                if answer.status == 200 or (any_2xx and 200 <= answer.status < 300):
                    return answer
                raise _Failed("http_error", retry=response.headers.get("x-slack-no-retry") != "1")
        raise _Failed("too_many_redirects")


def written(delivery: Delivery) -> tuple[str, bytes, str]:
    """Return where a payload goes ("" without a URL for it), its bytes and their content type."""
    app, payload = delivery.app, delivery.payload
    if delivery.kind in ("events_api", "url_verification"):
        return app.events_url, json.dumps(payload).encode(), "application/json"
    form = "application/x-www-form-urlencoded"
    if delivery.kind == "slash_commands":
        fields = {key: value for key, value in payload.items() if value is not None}
        return app.command_url(str(payload["command"])), urlencode(fields).encode(), form
    url = app.options_url if payload["type"] == "block_suggestion" else app.interactivity_url
    return url, urlencode({"payload": json.dumps(payload)}).encode(), form
