"""Runs one tool call, bounded in time and output, and reports its steps to whoever listens."""

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
from pydantic_core import to_json

from bot.live import EventKind, Live, StepEnd, StepEvent, ToolStep
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
from bot.tools.declared_secrets import mask_secret_texts
from storage.masking import mask_secrets
from storage.models import Call, Run

# Running one tool call: bounded in time and output, its end told apart. It decides nothing and
# writes nothing.

log = logging.getLogger(__name__)


# What people are told of a call that ran: its tool's own sentence, else the text it returned.


def tool_outcome(tool: Tool[Any], args: BaseModel, result: Any) -> str:
    """Return what the tool says of its own run, unmasked; "" where it says nothing in words.

    Raises nothing: the effect has happened, whatever its sentence does.
    """
    if tool.outcome is None:
        return _in_words(result)
    try:
        error_line = tool.outcome(args, result)
    except Exception:
        log.exception("%s ran, and its outcome sentence failed", tool.name)
        return ""
    return error_line if isinstance(error_line, str) else ""


def _in_words(result: Any) -> str:
    """Return the first line of a text, or how many rows a table has."""
    if isinstance(result, Table):
        return tables.table_summary(result)
    if not isinstance(result, str):
        return ""
    return next((line for line in result.splitlines() if line.strip()), "")


SUMMARY_LENGTH = 200  # characters
FIRST_BEAT = 1.0  # seconds after which a tool counts as one that takes long
MESSAGE_LENGTH = 1_000  # characters
NOTE_LENGTH = 60  # characters kept free for the note about what is not shown

# OSErrors about files on this machine: the tool knows what happened, no answer was lost.
LOCAL = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


@dataclass(frozen=True, slots=True)
class ToolSuccess:
    """It returned."""

    output: str  # for the model, at most the tool's max_output characters
    summary: str  # for people: plain text, one line, at most 200 characters, secrets masked
    table: Table | None = None  # for people to see in the thread, in JSON values


@dataclass(frozen=True, slots=True)
class ToolRefusal:
    """It said no, and did nothing where that is certain."""

    message: str
    certain: bool = True  # nothing can have changed


@dataclass(frozen=True, slots=True)
class ToolStateChange:
    """It would do something else than was shown, and did nothing."""

    message: str


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """It failed."""

    message: str
    certain: bool  # nothing can have changed


@dataclass(frozen=True, slots=True)
class LostToolAnswer:
    """It may or may not have had its effect."""

    message: str


@dataclass(frozen=True, slots=True)
class ToolTimeout:
    """It is still running; nobody waits for it any more."""

    future: Future[Any]
    message: str


Ended = ToolSuccess | ToolRefusal | ToolStateChange | ToolFailure | LostToolAnswer
ToolOutcome = Ended | ToolTimeout


def run_tool(
    tool: Tool[Any],
    args: BaseModel,
    context: ToolContext,
    *,
    portal: Callable[[], BlockingPortal],
    executor: Executor,
    heartbeat: Callable[[], None] | None = None,
    beat: float = 10.0,
) -> ToolOutcome:
    """Call `tool` with validated `args` on a thread of `executor` and wait at most `tool.timeout`
    seconds.

    `portal` is called only when the tool is async. `heartbeat` is called while waiting: first after
    a second at most, then after ever longer, every `beat` seconds at last; what it raises is
    logged, for the tool runs on regardless. Raises nothing of its own.
    """
    try:
        # what it logs on its thread is about this call, too
        future = executor.submit(copy_context().run, _call, tool, args, context, portal)
    except RuntimeError:  # the executor was shut down
        return ToolFailure("The bot is stopping; the tool was not started.", certain=True)
    deadline, patience = time.monotonic() + tool.timeout, min(beat, FIRST_BEAT)
    while not future.done():
        left = deadline - time.monotonic()
        if left <= 0:
            return _out_of_time(tool, future)
        done, _ = wait([future], timeout=min(left, patience))
        patience = min(beat, 2 * patience)
        if not done and heartbeat is not None:
            _beat(heartbeat, context)
    return tool_end(tool, args, future)


def tool_end(tool: Tool[Any], args: BaseModel, future: Future[Any]) -> Ended:
    """How a finished call ended; also for the late result of a TimedOut."""
    if future.cancelled():  # an executor cancels only what it has not begun
        return ToolFailure("The bot is stopping; the tool was not started.", certain=True)
    error = future.exception()
    if error is None:
        return _ran(tool, args, future.result())
    message = error_line(tool, args, error)
    if isinstance(error, ToolError):
        certain = tool.does is Effect.READ or not isinstance(error, BrokeOffError)
        return (
            ToolStateChange(message)
            if isinstance(error, ChangedError)
            else ToolRefusal(message, certain)
        )
    if tool.does is Effect.READ:
        return ToolFailure(message, certain=True)
    return LostToolAnswer(message) if _answer_lost(error) else ToolFailure(message, certain=False)


def error_line(tool: Tool[Any], args: BaseModel, error: BaseException) -> str:
    """Return what a tool raised as one line of at most 1,000 characters, its secrets masked."""
    return one_line(tool, args, _message(error), MESSAGE_LENGTH)


def one_line(tool: Tool[Any], args: BaseModel, text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters, the call's secrets masked."""
    return _clip(conceal_secrets(tool, args, _clean(text)), limit)


def output(result: Any, limit: int) -> str:
    """A result as the model is given it: text as it is, anything else as compact JSON, at most
    `limit` characters.
    """
    text = _clean(
        result if isinstance(result, str) else "Done." if result is None else _json(result)
    )
    if len(text) <= limit:
        return text
    kept = max(limit - NOTE_LENGTH, 0)
    return f"{text[:kept]}\n[… {len(text) - kept} more characters not shown]"


def _call(
    tool: Tool[Any], args: BaseModel, context: ToolContext, portal: Callable[[], BlockingPortal]
) -> Any:
    # Async tools wait on this thread too, so that a stalled event loop cannot hold up the caller's
    # clock.
    result = tool.function(args, context)
    return portal().call(await_result, result) if inspect.isawaitable(result) else result


async def await_result(result: Awaitable[Any]) -> Any:
    """Return what an async tool or preview comes to; nothing it raises ends the thread of all."""
    try:
        return await result
    # would end the shared portal and every other async tool
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


def _out_of_time(tool: Tool[Any], future: Future[Any]) -> ToolOutcome:
    if future.cancel():
        return ToolFailure(
            f"The tool found no free worker within {tool.timeout:g} seconds; nothing was done.",
            certain=True,
        )
    return ToolTimeout(future, f"The tool did not end within {tool.timeout:g} seconds.")


def _beat(heartbeat: Callable[[], None], context: ToolContext) -> None:
    try:
        heartbeat()
    except Exception:
        log.exception("run %s call %s: the lease was not renewed", context.run_id, context.call_id)


def _ran(tool: Tool[Any], args: BaseModel, result: Any) -> ToolSuccess:
    try:
        if isinstance(result, Table):
            table = tables.json_table(result)
            text = _clean(tables.table_for_model(table, tool.max_output))
            return ToolSuccess(text, _summary(tool, args, table), table)
        return ToolSuccess(output(result, tool.max_output), _summary(tool, args, result))
    except Exception as error:  # noqa: BLE001 # logged without its traceback, which may quote secrets
        # It did run: a result nobody can write down must not turn into a failure.
        why = error_line(tool, args, error)
        log.error("the result of %s cannot be written down: %s", tool.name, why)
        text = f"The tool ran, but its result cannot be shown ({type(error).__name__})."
        return ToolSuccess(text, text)


def _summary(tool: Tool[Any], args: BaseModel, result: Any) -> str:
    """Return what people are told of it, on one line of at most 200 characters."""
    return one_line(tool, args, tool_outcome(tool, args, result), SUMMARY_LENGTH)


def _answer_lost(error: BaseException) -> bool:
    """Whether this, or what it was raised from, means that an answer went missing on the way."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        # an OSError, yet an answer: only 5xx leaves it open what was done
        if isinstance(cause, HTTPError):
            return cause.code >= 500
        if isinstance(cause, CancelledError):  # an async tool stopped in the middle
            return True
        if isinstance(cause, OSError | HTTPException) and not isinstance(cause, LOCAL):
            return True
        cause = cause.__cause__
    return False


def _message(error: BaseException) -> str:
    text = " ".join(_clean(str(error)).split())
    if isinstance(error, ToolError):
        return text or "The tool refused."
    if isinstance(error, ValidationError):  # its text is for programmers, and quotes the data
        count = error.error_count()
        values = f"{count} value{'s' * (count != 1)}"
        return f"What the tool worked with did not have the form it takes ({values})."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def conceal_secrets(tool: Tool[Any], args: BaseModel, text: str) -> str:
    """Return a text with the call's secrets masked wherever they stand in it."""
    return mask_secret_texts(text, args, tool.secret_paths(args))


def _json(result: Any) -> str:
    return to_json(result, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()


def _clean(text: str) -> str:
    """Without what a database or a socket would choke on: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _clip(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


LENGTH = 100  # characters
SO_FAR = 60  # characters of how far it is
BETWEEN = 1.0  # seconds between two words of a tool on how far it is


def step_sentence(tool: Tool[Any], args: BaseModel, call: Call) -> ToolStep:
    """Return what a call of this tool does, on one line of at most 100 characters.

    Raises nothing: a sentence that fails is none.
    """
    doing = ""
    if tool.step is not None:
        try:
            said = tool.step(args)
            doing = (
                mask_secrets(one_line(tool, args, said, LENGTH)) if isinstance(said, str) else ""
            )
        except Exception as error:  # noqa: BLE001 # its traceback may quote secrets
            why = error_line(tool, args, error)
            log.error("%s runs, and its step sentence failed: %s", tool.name, why)
    return ToolStep(
        call_id=call.id,
        tool=tool.name,
        title=one_line(tool, args, tool.title, LENGTH),
        doing=doing.rstrip(" .…"),
        asked=call.asked_at is not None,
    )


class StepTeller:
    """Tells how one call goes on; used by the thread that waits for it, and by its tool."""

    def __init__(self, live: Live, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> None:
        """Its words are put together when somebody listens, once."""
        self._live, self._run = live, run
        self._of = tool, args, call
        self._step: ToolStep | None = None
        self._lock = threading.RLock()  # the tool may tell on threads of its own
        self._so_far, self._is_over, self._said_at = "", False, float("-inf")
        self.is_long = False  # somebody was told that it takes long

    def began(self) -> None:
        """The tool is about to be called."""
        self._tell(EventKind.STEP_BEGAN)

    def goes_on(self) -> None:
        """It takes long."""
        self.is_long = True
        self._tell(EventKind.STEP_GOES_ON)

    def says(self, words: str) -> None:
        """The tool says how far it is; any thread, told once a second at most."""
        now = time.monotonic()
        with self._lock:
            if self._is_over:
                return
            tool, args, _ = self._of
            self._so_far = mask_secrets(one_line(tool, args, words, SO_FAR))
            if now - self._said_at < BETWEEN:
                return  # the next beat tells it
            self._said_at = now
            self._tell(EventKind.STEP_TOLD)

    def ended(self, outcome: ToolOutcome) -> None:
        """It is over, and how is stored."""
        with self._lock:
            self._is_over = True
        self._tell(EventKind.STEP_ENDED, step_end(self._of[0], outcome))

    def _tell(self, kind: EventKind, end: StepEnd | None = None) -> None:
        self._live.tell(lambda: StepEvent(kind, self._run, self._words(), end))

    def _words(self) -> ToolStep:
        if self._step is None:
            self._step = step_sentence(*self._of)
        return replace(self._step, so_far=self._so_far) if self._so_far else self._step


def step_end(tool: Tool[Any], outcome: ToolOutcome) -> StepEnd:
    """Return how a tool ended."""
    match outcome:
        case ToolSuccess():
            return StepEnd.DONE if tool.agent is None else StepEnd.ENTRUSTED
        case ToolStateChange():
            return StepEnd.NOT_DONE
        case LostToolAnswer() | ToolTimeout() if tool.does is not Effect.READ:
            return StepEnd.UNKNOWN
        case _:
            return StepEnd.FAILED
