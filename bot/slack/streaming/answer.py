"""The words of one model turn, streamed to the thread while they come, where Slack allows it.

The row in the outbox is written before the stream begins; `finish` stores the whole text with the
turn, and the outbox closes the stream. A short answer is never streamed: it is posted at once.
Where Slack refused a stream, none is begun for an hour.
"""

from __future__ import annotations

import logging
import time

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.messages.text import neutral_markdown, split_markdown
from bot.policy.directory import Directory
from bot.signals import Signals
from bot.slack.errors import is_limited
from bot.slack.lookups.mentions import with_names
from bot.slack.streaming.refusals import Streaming
from storage import moves, outbox, runs
from storage.models import Message, Run
from storage.states import MessageKind, MessageStatus, RunStatus
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.stream")
PART = 11_000  # characters; one message holds 12,000 of Markdown
BEGIN = 120  # characters before a stream is worth its place
PACE = 0.7  # seconds between appends: Slack allows about a hundred a minute


class SlackAnswer:
    """One turn's words; used by one worker thread."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        signals: Signals,
        client: WebClient,
        streaming: Streaming,
        run: Run,
    ) -> None:
        """`run` as claimed: its fence is checked while the words come."""
        self._store = store
        self._directory = directory
        self._signals = signals
        self._client = client
        self._streaming = streaming
        self._run = run
        self._began = 0
        self._reset()

    def _reset(self) -> None:
        self._row: Message | None = None
        self._text = ""  # all that came
        self._shown = ""  # what the stream holds, neutralised
        self._open = False
        # streaming does not work here; the outbox posts
        self._dead = not self._streaming.works(self._run.channel)
        self._last = time.monotonic()

    def write(self, text: str) -> None:
        """More words; raises moves.FencedError when the run was stopped or taken away."""
        self._text += text
        if self._signals.stopping.is_set():
            # the run stays RUNNING, and the next start takes it up
            raise moves.FencedError(self._run.id)
        begins = self._row is None and not self._dead and len(self._text) >= BEGIN
        if time.monotonic() - self._last < PACE and not begins:
            return
        self._last = time.monotonic()
        with self._store.read() as tx:
            held = runs.held_by(tx, self._run.id, self._run.fence)
        if held.status is not RunStatus.RUNNING:
            raise moves.FencedError(self._run.id)
        if begins or self._row is not None:
            self._push()

    def restart(self) -> None:
        """The turn is tried again: what was shown is closed and withdrawn."""
        self.abandon()
        self._reset()

    def finish(self, tx: Transaction, text: str, *, last: bool, record: str = "") -> None:
        """Leave the whole text to the outbox, in the caller's transaction."""
        parts = split_markdown(text, PART) if text else []
        ending = {"record": record}
        if self._row is not None:
            first = parts.pop(0) if parts else ""
            streamed = (
                self._open and not parts and self._neutral(first).strip() == self._shown.strip()
            )
            body = {"text": first, "last": last and not parts, "streamed": streamed, **ending}
            moves.message(tx, self._row, MessageStatus.CLOSING, body=outbox.dump(body))
        for number, part in enumerate(parts):
            body = {"text": part, "last": last and number == len(parts) - 1, **ending}
            outbox.put(tx, self._message(f":{number}", MessageStatus.PENDING, body))

    def abandon(self) -> None:
        """No more will come: close what is open."""
        if self._row is not None:
            with self._store.write() as tx:
                if outbox.is_streaming(tx, self._row):
                    words = outbox.dump({"text": "", "last": False, "streamed": False})
                    moves.message(tx, self._row, MessageStatus.CLOSING, body=words)
            self._signals.post.give()

    def _message(self, suffix: str, status: MessageStatus, body: dict[str, object]) -> Message:
        run = self._run
        return Message(
            key=f"answer:{run.id}:{run.turns}:{run.fence}:{self._began}{suffix}",
            kind=MessageKind.ANSWER,
            run_id=run.id,
            channel=run.channel,
            thread_ts=run.thread_ts,
            status=status,
            body=outbox.dump(body),
        )

    def _push(self) -> None:
        if self._dead:
            return
        ready = _safe(self._text)[:PART]
        more = self._neutral(ready)[len(self._shown) :]
        if not more.strip():
            return
        try:
            if self._row is None:
                self._begin(more)
            else:
                self._client.chat_appendStream(
                    channel=self._run.channel, ts=self._row.ts, markdown_text=more
                )
            self._shown += more
        except SlackApiError as error:
            if not self._open:
                self._streaming.refused(self._run.channel, error)
            if not self._open or not is_limited(error):
                log.info("run %s: no streaming here: %s", self._run.id, error.response.get("error"))
                self._dead, self._open = True, False
        except Exception as error:  # noqa: BLE001 - the outbox brings the text anyway
            log.info("run %s: streaming broke: %s", self._run.id, type(error).__name__)
            self._dead, self._open = True, False

    def _neutral(self, text: str) -> str:
        return neutral_markdown(with_names(self._directory, text))

    def _begin(self, text: str) -> None:
        """Write the row, then start the stream, then note where it is."""
        self._began += 1
        row = self._message(
            "", MessageStatus.STREAMING, {"text": "", "last": False, "streamed": False}
        )
        with self._store.write() as tx:
            outbox.put(tx, row)
            self._row = outbox.by_key(tx, row.key)
        response = self._client.chat_startStream(
            channel=self._run.channel,
            thread_ts=self._run.thread_ts,
            markdown_text=text,
            recipient_user_id=self._run.requester,
            recipient_team_id=self._run.team,
        )
        assert self._row is not None
        self._row.ts, self._open = str(response["ts"]), True
        with self._store.write() as tx:
            outbox.change(tx, self._row, ts=self._row.ts)


def _safe(text: str) -> str:
    """What of a growing text can be shown already: not half of something in angle brackets."""
    cut = text.rfind("<")
    return text if cut < 0 or ">" in text[cut:] or len(text) - cut > 100 else text[:cut]
