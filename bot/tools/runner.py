"""Runs one tool call with limits on time and output, and reports its steps to live listeners."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Executor, Future, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel, ValidationError

from bot.monitoring import live_events
from bot.tools import (
    BrokeOffError,
    ChangedError,
    Effect,
    Table,
    Tool,
    ToolContext,
    ToolError,
    tables,
)
from bot.tools.declared_values import mask_secret_texts
from countersign.durations import format_count
from storage.masking import mask_secrets
from storage.models import Call, Run

# This module decides nothing about a call and writes nothing to the database.

log = logging.getLogger(__name__)


def outcome_sentence(tool: Tool[Any], args: BaseModel, result: Any) -> str:
    """Return one sentence on what a finished call did, unmasked; "" if there is none.

    The tool's outcome function gives the sentence, else the result does. Raises nothing: the effect
    has happened already, even if its sentence fails.
    """
    if tool.outcome is None:
        return _describe_result(result)
    try:
        sentence = tool.outcome(args, result)
    except Exception:
        log.exception("%s ran, and its outcome sentence failed", tool.name)
        return ""
    return sentence if isinstance(sentence, str) else ""


def _describe_result(result: Any) -> str:
    """Return the first non-blank line of a text, or a table's row count; "" for anything else."""
    if isinstance(result, Table):
        return tables.row_count_text(result)
    if not isinstance(result, str):
        return ""
    return next((line for line in result.splitlines() if line.strip()), "")


MAX_SUMMARY_CHARS = 200
FIRST_BEAT_SECONDS = 1.0  # from then on the call counts as long-running
MAX_ERROR_CHARS = 1_000
OMISSION_NOTE_CHARS = 60  # kept free for the note about what is not shown

# OSErrors about files on this machine: the tool knows what happened, so no answer was lost.
LOCAL_FILE_ERRORS = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


@dataclass(frozen=True, slots=True)
class ToolSuccess:
    """The tool returned a result."""

    output: str  # for the model, at most the tool's max_output characters
    summary: str  # for people: plain text, one line, at most 200 characters, secrets masked
    table: Table | None = None  # for people to see in the thread, in JSON values


@dataclass(frozen=True, slots=True)
class StaleToolCall:
    """The tool did nothing because what people were shown no longer holds."""

    message: str


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """The tool refused the call, or failed; if not `certain`, something may have changed."""

    message: str
    certain: bool = True  # nothing can have changed


@dataclass(frozen=True, slots=True)
class LostToolAnswer:
    """The answer to the tool was lost: the effect may or may not have happened."""

    message: str


@dataclass(frozen=True, slots=True)
class ToolTimeout:
    """The tool did not end in time and still runs, but the bot no longer waits for it."""

    future: Future[Any]
    message: str


FinishedToolOutcome = ToolSuccess | StaleToolCall | ToolFailure | LostToolAnswer
ToolOutcome = FinishedToolOutcome | ToolTimeout


def run_tool(
    tool: Tool[Any],
    args: BaseModel,
    context: ToolContext,
    *,
    portal: Callable[[], BlockingPortal],
    executor: Executor,
    heartbeat: Callable[[], None] | None = None,
    max_heartbeat_interval: float = 10.0,
) -> ToolOutcome:
    """Call `tool` on a thread of `executor`; wait at most `tool.timeout` seconds for its outcome.

    `args` are validated. `portal` is called only when the tool is async. `heartbeat` is called
    while waiting: first after at most a second, then at growing intervals up to
    `max_heartbeat_interval` seconds; errors that it raises are logged, since the tool runs on
    regardless. Raises nothing of its own.
    """
    try:
        # the context makes log lines from the tool's thread belong to this call, too
        future = executor.submit(copy_context().run, _call_function, tool, args, context, portal)
    except RuntimeError:  # the executor was shut down
        return ToolFailure("The bot is stopping; the tool was not started.")
    deadline = time.monotonic() + tool.timeout
    patience = min(max_heartbeat_interval, FIRST_BEAT_SECONDS)
    while not future.done():
        left = deadline - time.monotonic()
        if left <= 0:
            return _handle_timeout(tool, future)
        done, _ = wait([future], timeout=min(left, patience))
        patience = min(max_heartbeat_interval, 2 * patience)
        if not done and heartbeat is not None:
            _send_heartbeat(heartbeat, context)
    return build_tool_outcome(tool, args, future)


def build_tool_outcome(
    tool: Tool[Any], args: BaseModel, future: Future[Any]
) -> FinishedToolOutcome:
    """Return how a finished call ended; also used for the late result of a ToolTimeout."""
    if future.cancelled():  # an executor cancels only what it has not begun
        return ToolFailure("The bot is stopping; the tool was not started.")
    error = future.exception()
    if error is None:
        return _build_success(tool, args, future.result())
    message = format_masked_error(tool, args, error)
    if isinstance(error, ToolError):
        certain = tool.does is Effect.READ or not isinstance(error, BrokeOffError)
        is_stale = isinstance(error, ChangedError)
        return StaleToolCall(message) if is_stale else ToolFailure(message, certain)
    if tool.does is Effect.READ:
        return ToolFailure(message)
    return (
        LostToolAnswer(message) if _was_answer_lost(error) else ToolFailure(message, certain=False)
    )


def format_masked_error(tool: Tool[Any], args: BaseModel, error: BaseException) -> str:
    """Return a tool's error as one line of at most 1,000 characters, the call's secrets masked."""
    return format_masked_line(tool, args, _describe_error(error), MAX_ERROR_CHARS)


def format_masked_line(tool: Tool[Any], args: BaseModel, text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters, the call's secrets masked."""
    return tables.clip_line(mask_call_secrets(tool, args, text), limit)


def format_result_for_model(result: Any, limit: int) -> str:
    """Return a result as the model gets it: text as it is, anything else as compact JSON.

    A text of more than `limit` characters is cut, with a note on how much is missing.
    """
    text = _replace_unstorable_characters(
        result
        if isinstance(result, str)
        else "Done."
        if result is None
        else tables.dump_json(result)
    )
    if len(text) <= limit:
        return text
    kept = max(limit - OMISSION_NOTE_CHARS, 0)
    return f"{text[:kept]}\n[… {len(text) - kept} more characters not shown]"


def _call_function(
    tool: Tool[Any], args: BaseModel, context: ToolContext, portal: Callable[[], BlockingPortal]
) -> Any:
    # Async tools wait on this thread too, so that a stalled event loop cannot hold up the caller's
    # clock.
    result = tool.function(args, context)
    return portal().call(await_result, result) if inspect.isawaitable(result) else result


async def await_result(result: Awaitable[Any]) -> Any:
    """Return the result of an async tool or preview.

    Raises RuntimeError in place of KeyboardInterrupt and SystemExit, which would end the shared
    thread.
    """
    try:
        return await result
    # these would end the shared portal and every other async tool
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


def _handle_timeout(tool: Tool[Any], future: Future[Any]) -> ToolOutcome:
    if future.cancel():
        return ToolFailure(
            f"The tool found no free worker within {tool.timeout:g} seconds; nothing was done."
        )
    return ToolTimeout(future, f"The tool did not end within {tool.timeout:g} seconds.")


def _send_heartbeat(heartbeat: Callable[[], None], context: ToolContext) -> None:
    try:
        heartbeat()
    except Exception:
        log.exception("run %s call %s: the lease was not renewed", context.run_id, context.call_id)


def _build_success(tool: Tool[Any], args: BaseModel, result: Any) -> ToolSuccess:
    try:
        if isinstance(result, Table):
            table = tables.convert_table_to_json_values(result)
            text = _replace_unstorable_characters(
                tables.render_table_for_model(table, tool.max_output)
            )
            return ToolSuccess(text, _summary_line(tool, args, table), table)
        return ToolSuccess(
            format_result_for_model(result, tool.max_output), _summary_line(tool, args, result)
        )
    except Exception as error:  # noqa: BLE001 # logged without its traceback, which may quote secrets
        # The tool did run: that its result cannot be written down must not make it a failure.
        why = format_masked_error(tool, args, error)
        log.error("the result of %s cannot be written down: %s", tool.name, why)
        text = f"The tool ran, but its result cannot be shown ({type(error).__name__})."
        return ToolSuccess(text, text)


def _summary_line(tool: Tool[Any], args: BaseModel, result: Any) -> str:
    """Return the sentence people read about a finished call: one line, at most 200 characters."""
    return format_masked_line(tool, args, outcome_sentence(tool, args, result), MAX_SUMMARY_CHARS)


def _was_answer_lost(error: BaseException) -> bool:
    """Whether this error, or a cause of it, means that the tool's own request got no answer."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        # an OSError, but an answer: only after a 5xx is it unknown what was done
        if isinstance(cause, HTTPError):
            return cause.code >= 500
        if isinstance(cause, CancelledError):  # an async tool stopped in the middle
            return True
        if isinstance(cause, OSError | HTTPException) and not isinstance(cause, LOCAL_FILE_ERRORS):
            return True
        cause = cause.__cause__
    return False


def _describe_error(error: BaseException) -> str:
    text = " ".join(_replace_unstorable_characters(str(error)).split())
    if isinstance(error, ToolError):
        return text or "The tool refused."
    if isinstance(error, ValidationError):  # its text is for programmers, and quotes the data
        count = error.error_count()
        values = format_count(count, "value")
        return f"The tool worked with data of the wrong form ({values})."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def mask_call_secrets(tool: Tool[Any], args: BaseModel, text: str) -> str:
    """Return a text as it can be stored, with the call's secrets masked wherever they appear."""
    text = _replace_unstorable_characters(text)
    return mask_secret_texts(text, args, tool.list_secret_paths(args))


def _replace_unstorable_characters(text: str) -> str:
    """Return the text with lone surrogates and NUL replaced, which databases and sockets refuse."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


MAX_STEP_TEXT_CHARS = 100
MAX_PROGRESS_CHARS = 60
PROGRESS_INTERVAL_SECONDS = 1.0


def build_tool_step(tool: Tool[Any], args: BaseModel, call: Call) -> live_events.ToolStep:
    """Return what listeners see of a running call; its sentence has at most 100 characters.

    Raises nothing: if the sentence fails, the step has none.
    """
    doing = ""
    if tool.step is not None:
        try:
            sentence = tool.step(args)
            doing = (
                mask_secrets(format_masked_line(tool, args, sentence, MAX_STEP_TEXT_CHARS))
                if isinstance(sentence, str)
                else ""
            )
        except Exception as error:  # noqa: BLE001 # its traceback may quote secrets
            why = format_masked_error(tool, args, error)
            log.error("%s runs, and its step sentence failed: %s", tool.name, why)
    return live_events.ToolStep(
        call_id=call.id,
        tool=tool.name,
        title=format_masked_line(tool, args, tool.title, MAX_STEP_TEXT_CHARS),
        doing=doing.rstrip(" .…"),
        asked=call.asked_at is not None,
    )


class CallProgressReporter:
    """Reports one call's progress to live listeners; used by the waiting thread and by the tool."""

    def __init__(
        self,
        live: live_events.LiveEventBroadcaster,
        run: Run,
        call: Call,
        tool: Tool[Any],
        args: BaseModel,
    ) -> None:
        """Build nothing yet: the texts for listeners are made once, when somebody listens."""
        self._live, self._run = live, run
        self._tool_and_args = tool, args, call
        self._step: live_events.ToolStep | None = None
        self._lock = threading.RLock()  # the tool may report progress from threads of its own
        self._so_far, self._is_over, self._reported_at = "", False, float("-inf")
        self.is_long = False  # reported as long-running

    def report_start(self) -> None:
        """Report that the tool is about to be called."""
        self._report(live_events.EventKind.STEP_BEGAN)

    def report_long_running(self) -> None:
        """Report that the call takes long."""
        self.is_long = True
        self._report(live_events.EventKind.STEP_GOES_ON)

    def report_progress(self, words: str) -> None:
        """Report the progress that the tool states; from any thread, at most once a second."""
        now = time.monotonic()
        with self._lock:
            if self._is_over:
                return
            tool, args, _ = self._tool_and_args
            self._so_far = mask_secrets(format_masked_line(tool, args, words, MAX_PROGRESS_CHARS))
            if now - self._reported_at < PROGRESS_INTERVAL_SECONDS:
                return  # the next report includes it
            self._reported_at = now
            self._report(live_events.EventKind.STEP_TOLD)

    def report_end(self, outcome: ToolOutcome) -> None:
        """Report the call's outcome, after it was stored."""
        with self._lock:
            self._is_over = True
        self._report(
            live_events.EventKind.STEP_ENDED, classify_step_end(self._tool_and_args[0], outcome)
        )

    def _report(
        self, kind: live_events.EventKind, end: live_events.ToolStepOutcome | None = None
    ) -> None:
        self._live.broadcast(
            lambda: live_events.StepEvent(kind, self._run, self._build_step(), end)
        )

    def _build_step(self) -> live_events.ToolStep:
        if self._step is None:
            self._step = build_tool_step(*self._tool_and_args)
        return replace(self._step, so_far=self._so_far) if self._so_far else self._step


def classify_step_end(tool: Tool[Any], outcome: ToolOutcome) -> live_events.ToolStepOutcome:
    """Return how a call's step ended, in the form that live listeners get."""
    match outcome:
        case ToolSuccess():
            return (
                live_events.ToolStepOutcome.DONE
                if tool.agent is None
                else live_events.ToolStepOutcome.ENTRUSTED
            )
        case StaleToolCall():
            return live_events.ToolStepOutcome.NOT_DONE
        case LostToolAnswer() | ToolTimeout() if tool.does is not Effect.READ:
            return live_events.ToolStepOutcome.UNKNOWN
        case _:
            return live_events.ToolStepOutcome.FAILED
