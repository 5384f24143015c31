"""The outbox: posts each message once, and draws it again until it tells the truth.

A message whose answer was lost is looked up before it is posted again.
Its client never retries by itself: a post repeated on a dropped connection would be a second card.

    pending ─► sending (own commit) ─► sent(ts)

What is found sending later is looked up by its key, and sent again where it is not there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any

from slack_sdk.errors import SlackApiError

from bot.approvals.undeliverable import close_unseen, tell_of_file
from bot.clock import Clock
from bot.messages import answers
from bot.signals import Signals
from bot.slack.posting import PASSING, Posting, key_of
from bot.slack.render import Renderer
from storage import moves, outbox
from storage.models import Message
from storage.states import MessageKind, MessageStatus
from storage.store import Store

log = logging.getLogger("countersign.outbox")
M = MessageStatus
ONCE = (MessageKind.PRIVATE, MessageKind.FILE)  # cannot be looked up surely: never sent twice
EVENT_TYPE = "countersign"
TRIES = 4  # before a message that is itself the problem is set aside
CERTAIN = 500  # an answer below this status says that nothing was posted
GONE = {"message_not_found", "edit_window_closed", "cant_update_message"}
STREAM_OVER = {"message_not_in_streaming_state", "stopped_by_user", "message_not_found"}


class Outbox:
    """One per process. `flush` may be called from one thread at a time; `run` is that thread."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        renderer: Renderer,
        posting: Posting,
        lanes: int = 4,
    ) -> None:
        """Channels are served side by side by `lanes` threads."""
        self._store, self._clock = store, clock
        self._signals, self._wake = signals, signals.post
        self._renderer, self._posting, self._client = renderer, posting, posting.client
        self._stopping = threading.Event()
        self._lanes = ThreadPoolExecutor(lanes, thread_name_prefix="outbox")
        self._lock = threading.Lock()
        self._taken: set[str] = set()  # channels a lane is at work on
        self._looking = False
        with store.read() as tx:
            self._inherited = outbox.newest(tx)  # messages up to this one were there before

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.give()

    def is_idle(self) -> bool:
        """Whether no wake is outstanding and nothing is being sent; postponed ones may remain."""
        with self._lock:
            return not (self._looking or self._taken or self._wake.is_given())

    def stop(self) -> None:
        """Finish what is being sent and no more."""
        self._stopping.set()
        self._wake.give()

    def run(self) -> None:
        """The thread's body: hand out whatever is due, wait, again."""
        while not self._stopping.is_set():
            # before the wake is cleared, so that there is no moment that only looks idle
            self._looking = True
            self._wake.clear()
            try:
                wait = self._hand_out()
            except Exception:
                log.exception("the outbox failed")
                wait = 1.0
            self._looking = False
            self._signals.rest.changed()
            self._wake.wait(wait)
        self._lanes.shutdown(wait=True)

    def _hand_out(self) -> float:
        """Give each channel that has something due a lane, unless it has one.

        The seconds until there may be more.
        """
        with self._store.read() as tx:
            due, later = outbox.channels_due(tx, self._clock.now()), outbox.next_due(tx)
        for channel in due:
            with self._lock:
                if channel in self._taken or self._stopping.is_set():
                    continue
                self._taken.add(channel)
            self._lanes.submit(self._serve, channel)
        return min(30.0, max(0.05, (later - self._clock.now()).total_seconds())) if later else 30.0

    def _serve(self, channel: str) -> None:
        try:
            # only now: what was due before this lane was ours may be sent already
            with self._store.read() as tx:
                due = outbox.due(tx, self._clock.now(), channel)
            self._lane(due)
        except Exception:
            log.exception("a lane of the outbox failed")
        finally:
            self._wake.give()  # more may have become due for this channel meanwhile
            with self._lock:
                self._taken.discard(channel)

    def _lane(self, rows: list[Message]) -> None:
        for row in rows:
            self._signals.give_way()
            if self._stopping.is_set() or not self._send(row):
                return  # the later ones of this channel wait, so that nothing overtakes

    def _send(self, row: Message) -> bool:
        """Send or draw one message; False when it has to be tried again later."""
        try:
            self._dispatch(row)
            return True
        except SlackApiError as error:
            return self._failed(row, error)
        except Exception as error:  # noqa: BLE001 - all that fails on the way is retried
            log.warning("message %s (%s): %s: %s", row.seq, row.kind, type(error).__name__, error)
            if row.attempts >= TRIES and not isinstance(error, OSError | HTTPException):
                self._set_aside(row, error)
                return True
            self._later(row, f"{type(error).__name__}: {error}")
            return False

    def _set_aside(self, row: Message, error: Exception) -> None:
        """Give up a message that cannot be drawn, so that the later ones in its channel go on."""
        try:
            self._give_up(row, type(error).__name__)
        except Exception:
            log.exception("message %s (%s) is set aside", row.seq, row.kind)
            with self._store.write() as tx:
                moves.message(tx, row, M.FAILED, error=str(error)[:300], due_at=None)

    def _dispatch(self, row: Message) -> None:
        if row.kind in ONCE or row.status is M.CLOSING:
            self._store.harden()  # what Slack is told of is on the disk
        if row.kind is MessageKind.PRIVATE:
            self._posting.private(row)
            self._sent(row, "", shown=row.wanted)
        elif row.kind is MessageKind.FILE:
            self._sent(row, self._posting.upload(row), shown=row.wanted)
        elif row.status is M.CLOSING:
            self._close_stream(row)
        elif row.ts:
            self._update(row)
        else:
            self._post(row)

    def _post(self, row: Message) -> None:
        if row.channel.startswith(("U", "W")):
            self._open_dm(row)
            return  # from now on it belongs to the DM's lane: two lanes would post it twice
        if found := self._posted_before(row):
            version = 0 if row.kind is MessageKind.CARD else row.wanted
            self._sent(row, str(found["ts"]), shown=version)
            return
        self._posting.link_back(row)
        drawn, version = self._renderer.draw(row)
        self._store.harden()
        if row.status is not M.SENDING:
            with self._store.write(durable=False, told=False) as tx:
                moves.message(tx, row, M.SENDING)
            row.status = M.SENDING
        response = self._client.chat_postMessage(
            channel=row.channel,
            thread_ts=row.thread_ts or None,
            text=drawn.text,
            blocks=drawn.blocks or None,
            metadata={"event_type": EVENT_TYPE, "event_payload": {"key": row.key}},
            unfurl_links=False,
            unfurl_media=False,
        )
        self._sent(row, str(response["ts"]), shown=version)

    def _posted_before(self, row: Message) -> Mapping[str, Any] | None:
        """The message in Slack that this row was posted as, if it may have been.

        Only what is SENDING may have been, or was before this process began: a power failure
        may have taken SENDING along.
        """
        if row.status is M.SENDING or (row.seq or 0) <= self._inherited:
            return self._posting.find(row, lambda message: key_of(message) == row.key)
        return None

    def _open_dm(self, row: Message) -> None:
        """Open the DM of a message to a person; it is posted there next."""
        opened = self._client.conversations_open(users=row.channel)
        with self._store.write() as tx:
            outbox.change(tx, row, channel=str(opened["channel"]["id"]))

    def _update(self, row: Message) -> None:
        drawn, version = self._renderer.draw(row)
        self._store.harden()
        self._client.chat_update(
            channel=row.channel, ts=row.ts, text=drawn.text, blocks=drawn.blocks
        )
        self._sent(row, row.ts, shown=version)

    def _close_stream(self, row: Message) -> None:
        """Stop a stream with its last blocks.

        Where it does not hold the whole text, write it over.
        """
        body = outbox.body(row)
        last: Mapping[str, Any] = (
            {"blocks": [answers.feedback(row.run_id)]} if body.get("last") else {}
        )
        if not row.ts and (lost := self._posting.find(row, self._posting.is_lost_stream)):
            row.ts = str(lost["ts"])
        if row.ts:
            try:
                self._client.chat_stopStream(
                    channel=row.channel, ts=row.ts, **(last if body["streamed"] else {})
                )
            except SlackApiError as error:
                if error.response.get("error") not in STREAM_OVER:
                    raise
                body["streamed"] = False
        if not row.ts:
            with self._store.write() as tx:
                target = M.PENDING if body["text"] else M.FAILED
                moves.message(tx, row, target, error="the stream never began")
        elif body["streamed"]:
            self._sent(row, row.ts, shown=row.wanted)
        else:
            self._update(row)

    def _sent(self, row: Message, ts: str, *, shown: int) -> None:
        once = row.kind in ONCE
        with self._store.write(durable=once, told=once) as tx:
            outbox.sent(tx, row, ts=ts, shown=shown)
        row.status, row.ts = M.SENT, ts

    def _failed(self, row: Message, error: SlackApiError) -> bool:
        """Deal with an error Slack answered with: wait, draw anew, or give up and tell the request.

        True: go on.
        """
        code = str(error.response.get("error", ""))
        status = getattr(error.response, "status_code", 200)
        if code in PASSING or status == 429 or status >= CERTAIN:
            limited = status < CERTAIN and code in ("ratelimited", "rate_limited")
            if limited and row.status is M.SENDING:  # it was certainly not posted
                with self._store.write() as tx:
                    moves.message(tx, row, M.PENDING)
                row.status = M.PENDING
            self._later(row, code, float(error.response.headers.get("Retry-After", 0) or 0))
            return False
        if row.ts and code in GONE and row.kind is MessageKind.CARD:
            log.warning("card %s is gone (%s), posting it anew", row.seq, code)
            with self._store.write() as tx:
                moves.message(tx, row, M.PENDING, ts="", shown=0)
            return True
        log.error("run %s: message %s (%s) cannot be sent: %s", row.run_id, row.seq, row.kind, code)
        self._give_up(row, code)
        return True

    def _later(self, row: Message, error: str, seconds: float = 0.0) -> None:
        wait = seconds or min(60.0, 0.5 * 2 ** min(row.attempts, 7))
        due: datetime = self._clock.now() + timedelta(seconds=wait)
        with self._store.write() as tx:
            outbox.change(tx, row, attempts=row.attempts + 1, due_at=due, error=error[:300])

    def _give_up(self, row: Message, code: str) -> None:
        """Mark a message that will never be sent as failed.

        A card that nobody can see fails closed: what it asks for is not done.
        """
        with self._store.write() as tx:
            moves.message(tx, row, M.FAILED, error=code, due_at=None)
            if row.kind is MessageKind.FILE:
                tell_of_file(tx, row)
            at, is_card = self._clock.now(), row.kind is MessageKind.CARD
            lost = is_card and close_unseen(tx, row, code, at=at)
        if lost:
            self._signals.work.give()
