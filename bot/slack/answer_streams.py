"""Streaming of the model's answers, with the steps of requests in progress as tasks above them.

A step that a card shows does not become a task. Steps that end within seconds appear with the
answer, if it is long enough to be streamed; a step that takes longer starts the stream, and the
answer follows in it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.cards import block_kit
from bot.cards.answers import EMPTY_FOOTER, ModelAnswerFooter
from bot.cards.notices import tool_step_label
from bot.cards.slack_text import count_slack_characters
from bot.clock import Clock
from bot.monitoring import live_events
from bot.policy.authority import Directory
from bot.signals import Signals
from bot.slack.client import SlackClient, is_feature_missing, is_permanent_refusal, is_rate_limited
from bot.slack.directory import replace_other_mentions_in_text
from bot.slack.organisation import find_recipient_team
from bot.slack_codes import extract_error_code
from storage import moves, outbox, runs
from storage.record import Message, Run, Store, Transaction
from storage.states import MODEL_DRIVEN_SOURCES, MessageKind, MessageStatus, RunSource, RunStatus

# The steps of one request as Slack draws them: tasks with a title and a state.

MAX_TASKS = 20  # above one answer; a message holds 50 blocks


class TaskStatus(StrEnum):
    """Slack's states of a task."""

    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"
    PENDING = "pending"


TASK_STATUS_BY_OUTCOME = {
    live_events.ToolStepOutcome.DONE: TaskStatus.COMPLETE,
    live_events.ToolStepOutcome.FAILED: TaskStatus.ERROR,
    live_events.ToolStepOutcome.UNKNOWN: TaskStatus.ERROR,
    live_events.ToolStepOutcome.NOT_DONE: TaskStatus.PENDING,
}


class StepTaskList:
    """The steps of one request as Slack tasks, and which of them a stream shows; any thread."""

    def __init__(self) -> None:
        self._chunks: dict[str, dict[str, Any]] = {}  # by call id, in their current state
        self._sent: dict[str, dict[str, Any]] = {}  # by call id, as a stream shows them
        self._progress_counts: dict[str, int] = {}

    def add_or_update_task(self, step: live_events.ToolStep, status: TaskStatus) -> None:
        """Add a step with this status, or update it; ignore new steps beyond MAX_TASKS."""
        if step.call_id in self._chunks or len(self._chunks) < MAX_TASKS:
            title = tool_step_label(step.doing, step.title)
            task = {"type": "task_update", "id": step.call_id, "title": title, "status": status}
            self._chunks[step.call_id] = task

    def remove_task(self, step: live_events.ToolStep) -> None:
        """Remove a step that only delegated work, as the sub-agent's own steps are shown."""
        self._chunks.pop(step.call_id, None)

    def increment_progress_count(self, step: live_events.ToolStep) -> int:
        """Count one more progress event of a long step, and return the count."""
        self._progress_counts[step.call_id] = self._progress_counts.get(step.call_id, 0) + 1
        return self._progress_counts[step.call_id]

    def list_unsent_tasks(self) -> list[dict[str, Any]]:
        """Return the tasks whose current state no stream shows yet, in order."""
        return [each for key, each in list(self._chunks.items()) if self._sent.get(key) != each]

    def mark_tasks_sent(self, chunks: list[dict[str, Any]]) -> None:
        """Record that the open stream shows these tasks."""
        self._sent |= {each["id"]: each for each in chunks}


def build_stream_arguments(
    text: str, tasks: list[dict[str, Any]], *, chunked: bool = False
) -> dict[str, Any]:
    """Return the Slack arguments that add text and tasks to a stream; {} for neither.

    `chunked`: the stream began with chunks, so words have to be sent as a chunk, too.
    """
    if not tasks and not chunked:
        return {"markdown_text": text} if text else {}
    words = [{"type": "markdown_text", "text": text}] if text else []
    chunks = [*tasks, *words]
    return {"chunks": chunks} if chunks else {}


# Channels where Slack refused to stream, so that it is not tried again with each answer.

REFUSAL_DURATION = timedelta(hours=1)  # before it is tried again
STREAMS, TASKS = "streams", "tasks"  # what Slack may refuse
ALL_CHANNELS = ""  # in place of a channel's id


class StreamRefusals:
    """The channels in which Slack has refused streams or tasks within the hour; any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[tuple[str, str], datetime] = {}  # by (what was refused, channel)

    def can_stream(self, channel: str) -> bool:
        """Return whether to stream answers in this channel: Slack has not refused that lately."""
        return self._is_allowed(STREAMS, channel)

    def note_stream_refusal(self, channel: str, error: SlackApiError) -> None:
        """Remember for an hour that Slack refused a stream, unless the error is temporary."""
        if is_permanent_refusal(error) or is_feature_missing(error):
            self._note_refusal(STREAMS, ALL_CHANNELS if is_feature_missing(error) else channel)

    def can_show_tasks(self, channel: str) -> bool:
        """Return whether to show steps as tasks in this channel: Slack has not refused lately."""
        return self._is_allowed(TASKS, channel)

    def note_task_refusal(self, channel: str, error: SlackApiError) -> None:
        """Remember for an hour that Slack refused tasks: for most errors in all channels."""
        is_here = extract_error_code(error) == "channel_type_not_supported"
        self._note_refusal(TASKS, channel if is_here else ALL_CHANNELS)

    def _is_allowed(self, what: str, channel: str) -> bool:
        with self._lock:
            found = [self._until.get((what, each)) for each in (channel, ALL_CHANNELS)]
        return not any(until and until > self._clock.now() for until in found)

    def _note_refusal(self, what: str, channel: str) -> None:
        with self._lock:
            self._until[what, channel] = self._clock.now() + REFUSAL_DURATION


# The words of one model turn, streamed to the thread while they arrive, where Slack allows it.

log = logging.getLogger("countersign.stream")
MIN_STREAM_CHARS = 120  # shorter answers are not worth a stream
CHUNK_REFUSAL_CODES = {"invalid_chunks", "invalid_arguments"}
APPEND_INTERVAL_SECONDS = 0.7  # Slack allows about a hundred a minute


class StreamedAnswer:
    """The answer of one model turn, streamed to the thread; used by one worker thread."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        signals: Signals,
        client: WebClient,
        streaming: StreamRefusals,
        run: Run,
        tasks: StepTaskList,
        keep: Callable[[StreamedAnswer], None],
    ) -> None:
        """Begin with no text and no stream; `run`: the claimed run, whose fence `write` checks.

        `tasks`: the steps of the request so far. `keep` is called with this answer if its turn ends
        without words while the stream stays open.
        """
        self._store = store
        self._directory = directory
        self._signals = signals
        self._client = client
        self._streaming = streaming
        self.run = run
        self._tasks = tasks
        self._keep_open = keep
        self._is_over = False  # nothing more is streamed
        self._chunked = False
        self._row: Message | None = None
        self._text = ""  # all words so far
        self._shown = ""  # what the stream shows, formatted as a quote
        self._is_open, self._ts = False, ""
        # Slack does not stream here: the outbox posts the answer
        self._is_dead = not self._streaming.can_stream(self.run.channel)
        self._sent_at = time.monotonic()

    def write(self, text: str) -> None:
        """Add words, and send them if it is time; StaleFenceError if the run was stopped.

        The same error is raised when another worker has taken the run, and when the process stops.
        """
        self._text += text
        if self._signals.stopping.is_set():
            # the run stays RUNNING, and the next start continues it
            raise moves.StaleFenceError(self.run.id)
        begins = not self._is_open and not self._is_dead and len(self._text) >= MIN_STREAM_CHARS
        if time.monotonic() - self._sent_at < APPEND_INTERVAL_SECONDS and not begins:
            return
        self._sent_at = time.monotonic()
        with self._store.read() as tx:
            current_run = runs.get_run_with_fence(tx, self.run.id, self.run.fence)
            # a stream does not wait in the outbox: it would overtake messages queued before it
            begins = begins and not outbox.has_unposted_messages(tx, current_run)
        if current_run.status is not RunStatus.RUNNING:
            raise moves.StaleFenceError(self.run.id)
        if begins or self._is_open:
            self._send_new_content()

    def show_steps(self) -> None:
        """Send the states of the request's steps to Slack, even without any words; never fail."""
        try:
            self._send_new_content()
        except Exception as error:  # noqa: BLE001 - it is a comfort
            log.info("run %s: no steps shown: %s", self.run.id, type(error).__name__)

    def is_open_for_run(self, run: Run) -> bool:
        """Return whether this answer is still open and belongs to the run's present claim."""
        return not self._is_over and run.fence == self.run.fence

    def discard_text(self) -> None:
        """Discard the words, as the turn is tried again; its stream takes those of the next try.

        If those do not go on from what the stream shows, the outbox overwrites it at the end.
        """
        self._text = ""

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Store the whole text for the outbox, in the caller's transaction.

        The footer (`record`) goes with the last part. Without words, an open stream is kept for the
        next turn unless this one is the last.
        """
        if self._is_open and not text and not self._shown and not last:
            self._text = ""
            self._keep_open(self)
            return
        self._is_over = True
        parts = block_kit.split_into_message_parts(text) if text else []
        middle, ending = {"last": False, "ours": record.ours}, {"last": last, **asdict(record)}
        if self._row is not None:
            first = parts.pop(0) if parts else ""
            rest = None if parts or record.ours else self._find_missing_text(first)
            closing = self._build_closing_fields(rest) | (middle if parts else ending)
            _close_row(tx, self._row, {"text": first} | closing)
        for number, part in enumerate(parts):
            body = {"text": part, **(ending if number == len(parts) - 1 else middle)}
            outbox.queue_message(tx, self._build_message(f":{number}", MessageStatus.PENDING, body))

    def close_failed_answer(self) -> None:
        """Have the outbox close the open stream and withdraw its words."""
        self._is_over = True
        if self._row is not None:
            with self._store.write() as tx:
                if outbox.is_stream_open(tx, self._row):
                    closing = self._build_closing_fields(self._find_missing_text(""))
                    _close_row(tx, self._row, {"text": "", "last": False} | closing)
                else:  # the request ended meanwhile, perhaps while Slack was starting the stream
                    outbox.close_given_up_stream(tx, self._row)
            self._signals.outbox.notify()

    def _find_missing_text(self, text: str) -> str | None:
        """Return what the stream lacks of `text`; None if it has other text or is not open."""
        whole = self._render_text(text)
        if not self._is_open or whole.strip() == self._shown.strip():
            return "" if self._is_open else None
        return whole[len(self._shown) :] if whole.startswith(self._shown) else None

    def _build_closing_fields(self, rest: str | None) -> dict[str, Any]:
        """Return the message fields by which the outbox closes the stream.

        `rest` is the text to add; None makes the outbox overwrite the message.
        """
        tasks = self._list_unsent_tasks() if self._chunked else []
        add = build_stream_arguments(rest or "", tasks, chunked=self._chunked)
        return {"streamed": rest is not None, "rest": add}

    def _build_message(
        self, suffix: str, status: MessageStatus, body: dict[str, object]
    ) -> Message:
        run = self.run
        return Message(
            key=f"answer:{run.id}:{run.turns}:{run.fence}{suffix}",
            kind=MessageKind.ANSWER,
            run_id=run.id,
            channel=run.channel,
            thread_ts=run.thread_ts,
            status=status,
            body=outbox.dump_message_body(body),
        )

    def _send_new_content(self) -> None:
        if self._is_dead:
            return
        framed_text = self._render_text(
            block_kit.cut_before_unfinished_link(self._text[: block_kit.MAX_PART_CHARS])
        )
        tasks = self._list_unsent_tasks()
        # words that do not continue what is shown, or do not fit, are left to the outbox
        is_short = count_slack_characters(framed_text) <= block_kit.MAX_PART_CHARS
        fits = is_short and framed_text.startswith(self._shown)
        more = framed_text[len(self._shown) :] if fits else ""
        more = more if more.strip(" >\n") else ""
        if not more and not tasks:
            return
        try:
            self._append_or_start_stream(more, tasks)
        except SlackApiError as error:
            if tasks and self._is_task_refusal(error):
                self._streaming.note_task_refusal(self.run.channel, error)
                self._send_new_content()  # without the tasks
                return
            if not self._is_open:
                self._streaming.note_stream_refusal(self.run.channel, error)
            if not self._is_open or not is_rate_limited(error):
                log.info("run %s: no streaming here: %s", self.run.id, extract_error_code(error))
                self._is_dead, self._is_open = True, False
        except moves.StaleFenceError:
            raise
        except Exception as error:  # noqa: BLE001 - the outbox brings the text anyway
            log.info("run %s: streaming broke: %s", self.run.id, type(error).__name__)
            self._is_dead, self._is_open = True, False

    def _list_unsent_tasks(self) -> list[dict[str, Any]]:
        """Return the tasks to send now; none if Slack takes no tasks in this channel."""
        can = self._chunked or not self._is_open
        draws = self._streaming.can_show_tasks(self.run.channel)
        return self._tasks.list_unsent_tasks() if can and draws else []

    def _is_task_refusal(self, error: SlackApiError) -> bool:
        if self._is_open:
            return extract_error_code(error) in CHUNK_REFUSAL_CODES
        return is_permanent_refusal(error)

    def _append_or_start_stream(self, more: str, tasks: list[dict[str, Any]]) -> None:
        """Append words and tasks to the stream, or start the stream with them."""
        if self._is_open:
            self._client.chat_appendStream(
                channel=self.run.channel,
                ts=self._ts,
                **build_stream_arguments(more, tasks, chunked=self._chunked),
            )
        else:
            self._start_stream(more, tasks)
        self._shown += more
        self._tasks.mark_tasks_sent(tasks)

    def _render_text(self, text: str) -> str:
        return block_kit.format_as_blockquote(replace_other_mentions_in_text(self._directory, text))

    def _start_stream(self, text: str, tasks: list[dict[str, Any]]) -> None:
        """Store an outbox row, start the stream, then store the stream's timestamp in the row."""
        if self._row is None:
            self._row = self._insert_stream_row()
        response = self._client.chat_startStream(
            channel=self.run.channel,
            thread_ts=self.run.thread_ts,
            recipient_user_id=self.run.requester,
            recipient_team_id=find_recipient_team(self._directory, self.run),
            **build_stream_arguments(text, tasks),
        )
        self._ts, self._is_open, self._chunked = str(response["ts"]), True, bool(tasks)
        self._row.ts = self._ts
        with self._store.write() as tx:
            outbox.update_message(tx, self._row, ts=self._ts)

    def _insert_stream_row(self) -> Message:
        """Store a row for a new stream; StaleFenceError if the run is no longer RUNNING."""
        row = self._build_message(
            "", MessageStatus.STREAMING, {"text": "", "last": False, "streamed": False}
        )
        with self._store.write() as tx:
            current_run = runs.get_run_with_fence(tx, self.run.id, self.run.fence)
            if current_run.status is not RunStatus.RUNNING:
                raise moves.StaleFenceError(self.run.id)
            outbox.queue_message(tx, row)
            stored_row = outbox.find_message_by_key(tx, row.key)
        assert stored_row is not None
        return stored_row


def _close_row(tx: Transaction, row: Message, body: dict[str, Any]) -> None:
    body_json = outbox.dump_message_body(body)
    moves.change_message_status(tx, row, MessageStatus.CLOSING, body=body_json)


MAX_REMEMBERED_REQUESTS = 500  # requests whose steps are kept
MIN_PROGRESS_EVENTS = 2  # of a step, before it starts a stream: that takes three seconds


class StreamedAnswerRegistry:
    """The streamed answers of runs, also those that a long step has begun before any words.

    One per process; any thread.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        signals: Signals,
        client: SlackClient,
        clock: Clock,
    ) -> None:
        """`client` must have no retry handlers."""
        self._parts = store, directory, signals, client
        self._stopping = signals.stopping
        self._streaming = StreamRefusals(clock)
        self._lock = threading.Lock()
        self._tasks: OrderedDict[str, StepTaskList] = OrderedDict()  # by the request's id
        self._answers: dict[str, StreamedAnswer] = {}
        signals.live.listen(self.handle_event)

    def get_or_create_answer(self, run: Run) -> StreamedAnswer:
        """Return the answer for one turn: the one that the run's steps began, or a new one."""
        with self._lock:
            begun, tasks = self._answers.pop(run.id, None), self._tasks.get(_get_root_run_id(run))
        if begun is not None and begun.is_open_for_run(run):
            return begun
        return StreamedAnswer(
            *self._parts, self._streaming, run, tasks or StepTaskList(), self._keep_open_answer
        )

    def handle_event(self, event: live_events.Event) -> None:
        """Record a step from a live event; end a run's stream when it waits or is over.

        Steps of sub-agents are added to the same tasks; they start no stream, as the parent's run
        owns it.
        """
        if (
            isinstance(event, live_events.RunEvent)
            and event.kind is not live_events.EventKind.WORKS
        ):
            self._abandon_open_answer(event.run, over=event.kind is live_events.EventKind.OVER)
        if not isinstance(event, live_events.StepEvent) or event.step.asked:
            return
        if event.run.source not in MODEL_DRIVEN_SOURCES:
            return
        root = _get_root_run_id(event.run)
        with self._lock:
            begun = self._answers.get(event.run.id)
            tasks = self._tasks.setdefault(root, StepTaskList())
            self._tasks.move_to_end(root)
            if len(self._tasks) > MAX_REMEMBERED_REQUESTS:
                self._tasks.popitem(last=False)
        if event.end is live_events.ToolStepOutcome.ENTRUSTED:
            tasks.remove_task(event.step)
        else:
            status = TASK_STATUS_BY_OUTCOME[event.end] if event.end else TaskStatus.IN_PROGRESS
            tasks.add_or_update_task(event.step, status)
        if begun is not None and not begun.is_open_for_run(event.run):
            begun = None
        goes_on = event.kind is live_events.EventKind.STEP_GOES_ON
        is_long = goes_on and tasks.increment_progress_count(event.step) >= MIN_PROGRESS_EVENTS
        is_answered = event.run.source is RunSource.MESSAGE and not self._stopping.is_set()
        if begun is None and is_long and is_answered:
            begun = self.get_or_create_answer(event.run)
            self._keep_open_answer(begun)
        if begun is not None:
            begun.show_steps()

    def _keep_open_answer(self, answer: StreamedAnswer) -> None:
        """Keep an answer that has no words yet and whose stream stays open."""
        with self._lock:
            self._answers[answer.run.id] = answer

    def _abandon_open_answer(self, run: Run, *, over: bool) -> None:
        with self._lock:
            if over:
                self._tasks.pop(run.id, None)
            begun = self._answers.pop(run.id, None)
        if begun is not None:
            begun.close_failed_answer()


def _get_root_run_id(run: Run) -> str:
    """Return the id of the run that a person started, of which `run` may be a sub-agent's."""
    return run.root_id or run.id
