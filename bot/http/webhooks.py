"""Tells programs' webhooks how their requests stand, from what the database records.

An event is stored as due, then sent until the address accepts it, for up to a day. Nothing is
decided here, and no request is held up. Any number of processes may do this on one database.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import NamedTuple

import anyio
from anyio.from_thread import BlockingPortal
from httpx2 import AsyncClient, HTTPError
from standardwebhooks import Webhook as Signature

from bot.clock import get_machine_time
from bot.http.api_bodies import build_request_shown
from bot.http.keys import derive_webhook_secret
from bot.runs.program_requests import ProgramRequests
from bot.signals import Signal
from bot.tools.preview import AsyncPortal
from storage import programs as program_requests
from storage import webhooks
from storage.digest import list_current_and_older_keys

POST_TIMEOUT_SECONDS = 10.0  # for the whole request, however slow the address is
ACCEPTED_STATUS_CODES = range(200, 300)
GONE_STATUS_CODE = 410  # the address wants no more messages


class PostResult(NamedTuple):
    """The result of one attempt to post a webhook message."""

    is_taken: bool
    is_last: bool = False  # retrying is useless
    why: str = ""


class WebhookPoster:
    """The HTTP client that posts webhook messages; one per process, thread-safe."""

    def __init__(self) -> None:
        """Create the client; its thread starts with the first message."""
        self._client = AsyncClient(timeout=None, follow_redirects=False)
        self._portal = AsyncPortal()
        self._lock = threading.Lock()
        self._running: BlockingPortal | None = None
        self._closed = False

    def post_message(self, url: str, body: str, headers: dict[str, str]) -> PostResult:
        """Post a message to `url`; return the result of the attempt."""
        try:
            return self._start_portal().call(self._post_once, url, body, headers)
        except (CancelledError, RuntimeError):  # the portal is closed, or is just being closed
            return PostResult(False, why="this process is stopping")

    async def _post_once(self, url: str, body: str, headers: dict[str, str]) -> PostResult:
        try:
            with anyio.fail_after(POST_TIMEOUT_SECONDS):
                async with self._client.stream(
                    "POST", url, content=body, headers=headers
                ) as answer:
                    status = answer.status_code  # the rest of the answer is not read
        except (HTTPError, TimeoutError) as error:
            return PostResult(False, why=type(error).__name__)
        return PostResult(
            status in ACCEPTED_STATUS_CODES, status == GONE_STATUS_CODE, f"it answered {status}"
        )

    def close(self) -> None:
        """Post nothing more; attempts under way are cut short."""
        with self._lock:
            portal, self._running, self._closed = self._running, None, True
        if portal is None:  # nothing was ever posted, so nothing has to be stopped
            return
        portal.call(portal.stop, True)
        self._portal.close()

    def _start_portal(self) -> BlockingPortal:
        """Return the portal to the client's thread; raises CancelledError after `close`."""
        with self._lock:
            if self._closed:
                raise CancelledError
            self._running = self._portal()
            return self._running


log = logging.getLogger("countersign.webhooks")
BUSY_POLL_SECONDS = 1.0  # between checks while something is expected
IDLE_POLL_SECONDS = 30.0  # between checks while nothing is expected
MAX_CONCURRENT_POSTS = 16
MAX_CONCURRENT_POSTS_PER_KEY = 4  # so that a slow address holds up no other key's
KEY_REVOKED_REASON = "its key is revoked"


class WebhookNotifier:
    """A thread that notifies webhooks; one per process: `start` once, `stop` once."""

    def __init__(self, programs: ProgramRequests, asked: Signal) -> None:
        """`programs` knows how requests stand; `asked`: the signal for new ones with a webhook."""
        self._store, self._clock = programs.store, programs.clock
        self._programs = programs
        self._asked = asked
        self._poster = WebhookPoster()
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT_POSTS, thread_name_prefix="webhook")
        self._under_way: dict[str, str] = {}  # the key of each request that a post is about
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to notify, first of what an earlier process left."""
        getattr(self._clock, "on_shift", []).append(self._asked.notify)
        self._thread.start()

    def stop(self) -> None:
        """Notify no more; attempts under way are made again by the next process."""
        self._stopping.set()
        self._asked.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._poster.close()

    def _run_loop(self) -> None:
        try:
            with self._store.write() as tx:
                webhooks.register_missed_requests(tx, at=self._clock.now())
        except Exception:
            log.exception("requests from before the restart could not be looked up")
        while not self._stopping.is_set():
            self._asked.clear()
            try:
                pause = self._notify_due_webhooks()
            except Exception:
                log.exception("webhooks could not be processed")
                pause = IDLE_POLL_SECONDS
            self._asked.wait(pause)
        self._pool.shutdown()

    def _notify_due_webhooks(self) -> float:
        """Store new events, begin to post those due; return the seconds until the next look."""
        now = self._clock.now()
        with self._store.read() as tx:
            unstored = webhooks.list_unstored_webhooks(tx)
        if unstored:
            with self._store.write(durable=False) as tx:
                for each in unstored:
                    webhooks.make_webhook_due(tx, each, at=now)
        if self._start_due_posts(now) or self._under_way:
            return BUSY_POLL_SECONDS  # a post that ends also wakes the loop
        with self._store.read() as tx:
            next_at = webhooks.find_next_webhook_time(tx)
            expected = webhooks.count_requests_awaiting_webhooks(tx)
        longest = timedelta(seconds=BUSY_POLL_SECONDS if expected else IDLE_POLL_SECONDS)
        pause = min(longest, next_at - self._clock.now()) if next_at else longest
        return max(pause.total_seconds(), 0.0)

    def _start_due_posts(self, now: datetime) -> bool:
        """Begin to post what is due and has room; True if there was any."""
        with self._store.read() as tx:
            due = webhooks.list_due_webhooks(tx, now, 2 * MAX_CONCURRENT_POSTS)
        of_key, begun = Counter([*self._under_way.values()]), False
        for each in due:
            # of one request what was decided is told before the end, as long as both are taken
            if (
                each.run_id not in self._under_way
                and of_key[each.key_id] < MAX_CONCURRENT_POSTS_PER_KEY
                and len(self._under_way) < MAX_CONCURRENT_POSTS
            ):
                self._under_way[each.run_id] = each.key_id
                self._pool.submit(self._post_and_wake_loop, each)
                of_key[each.key_id] += 1
                begun = True
        return begun

    def _post_and_wake_loop(self, row: webhooks.Webhook) -> None:
        try:
            self._post_event(row)
        except Exception:
            log.exception("a webhook could not be delivered")  # it is tried again, a while later
            return
        finally:
            del self._under_way[row.run_id]
        self._asked.notify()

    def _post_event(self, row: webhooks.Webhook) -> None:
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            key = program_requests.find_api_key(tx, row.key_id)
            if key is None or key.revoked_at or not key.webhook:
                webhooks.give_up_webhook(tx, row, KEY_REVOKED_REASON)
                return
            if not webhooks.begin_webhook_attempt(tx, row, at=now):
                return
        program_request = self._programs.find_request(row.run_id, key)
        if program_request is None:
            return
        data = build_request_shown(program_request.load_status()).model_dump(mode="json")
        message = {"type": row.kind.value, "timestamp": row.made_at.isoformat(), "data": data}
        body = json.dumps(message)
        post_result = self._poster.post_message(key.webhook, body, self._build_headers(row, body))
        with self._store.write(durable=False) as tx:
            if post_result.is_taken:
                webhooks.mark_webhook_delivered(tx, row, at=self._clock.now())
            elif post_result.is_last:
                webhooks.give_up_webhook(tx, row, post_result.why)
            else:
                webhooks.record_failed_webhook_attempt(tx, row, post_result.why)
        if not post_result.is_taken:
            log.warning("the webhook of %s was not delivered: %s", key.name, post_result.why)

    def _build_headers(self, row: webhooks.Webhook, body: str) -> dict[str, str]:
        """Return the headers of an attempt, signed by the current signing key and older ones."""
        at = get_machine_time(self._clock)  # the receiver compares it with its own clock
        keys = list_current_and_older_keys(self._store.signing_key)
        secrets = [derive_webhook_secret(each, row.key_id) for each in keys]
        return {
            "Content-Type": "application/json",
            "User-Agent": "Countersign",
            "webhook-id": row.id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": " ".join(
                Signature(each).sign(row.id, at, body) for each in secrets
            ),
        }
