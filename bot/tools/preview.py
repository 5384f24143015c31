"""Runs tools' previews (what a call would do) on threads of their own, with a time limit."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import BaseModel

from bot.policy.authority import LookupPendingError
from bot.tools import Preview, Tool, ToolContext, ToolError
from bot.tools.runner import await_result, format_masked_error, mask_call_secrets


class AsyncPortal:
    """Runs async functions for other threads, on one thread that starts with the first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __call__(self) -> BlockingPortal:
        """Return the portal; start its thread if needed."""
        with self._lock:
            if self._portal is None:
                self._portal = self._stack.enter_context(start_blocking_portal())
            return self._portal

    def close(self) -> None:
        """Stop the portal's thread."""
        with self._lock:
            self._stack.close()
            self._portal = None


PREVIEW_TIMEOUT_SECONDS = 10.0
PREVIEW_THREADS = 8  # a pool of its own: a preview that hangs takes no thread from the tools
MAX_PREVIEW_AGE_SECONDS = 30.0  # of a preview started before it is needed
MAX_EDIT_PREVIEWS = 100  # kept for edits that are still being submitted

log = logging.getLogger("countersign.preview")


class PreviewRunner:
    """Asks tools for the previews of calls; one instance serves all threads."""

    def __init__(self, seconds: float = PREVIEW_TIMEOUT_SECONDS) -> None:
        self.portal = AsyncPortal()  # where async previews and async tools run
        self._timeout_seconds = seconds
        self._pool = ThreadPoolExecutor(PREVIEW_THREADS, thread_name_prefix="preview")
        self._lock = threading.Lock()
        # previews started before they are needed, each with its monotonic start time
        self._started_previews: dict[tuple[str, int, str], tuple[Future[Preview], float]] = {}

    def run_preview(self, tool: Tool[Any], args: BaseModel, context: ToolContext) -> Preview:
        """Return the tool's preview, or a line that says why there is none.

        Raises ToolError if the tool says that the call would fail.
        """
        if tool.preview is None:
            return Preview("")
        return self._await_preview(
            tool, args, self._start_preview(tool, args, context), self._timeout_seconds
        )

    def get_or_start_edit_preview(
        self,
        tool: Tool[Any],
        args: BaseModel,
        context: ToolContext,
        key: tuple[str, int, str],
        *,
        patience: float,
        then: Callable[[], None],
    ) -> Preview:
        """Return the preview of an edited call; started once per key (call, revision, arguments).

        Raises ToolError if the tool says that the call would fail, and LookupPendingError if
        the preview is not ready after `patience` seconds; `then` is called once it is.
        """
        if tool.preview is None:
            return Preview("")
        now = time.monotonic()
        with self._lock:
            entry = self._started_previews.get(key)
            if entry is None or now - entry[1] > max(
                MAX_PREVIEW_AGE_SECONDS, self._timeout_seconds
            ):
                entry = self._started_previews[key] = self._start_preview(tool, args, context), now
                while len(self._started_previews) > MAX_EDIT_PREVIEWS:
                    del self._started_previews[next(iter(self._started_previews))]
        future, started_at = entry
        seconds_left = max(started_at + self._timeout_seconds - now, 0)
        if patience < seconds_left and not (wait([future], patience).done or future.done()):
            raise LookupPendingError(_build_completion_future(future, seconds_left, then))
        try:
            return self._await_preview(tool, args, future, seconds_left)
        except ToolError:  # the cause may be fixed before the edit is submitted again
            self.discard_edit_preview(key)
            raise

    def discard_edit_preview(self, key: tuple[str, int, str]) -> None:
        """Drop the started preview of an edited call, if there is one."""
        with self._lock:
            self._started_previews.pop(key, None)

    def close(self) -> None:
        """Accept no further previews and cancel those not yet begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_preview(
        self, tool: Tool[Any], args: BaseModel, context: ToolContext
    ) -> Future[Preview]:
        try:
            return self._pool.submit(self._make_preview, tool, args, context)
        except RuntimeError:  # the pool was shut down
            stopped: Future[Preview] = Future()
            stopped.cancel()
            stopped.set_running_or_notify_cancel()
            return stopped

    def _make_preview(self, tool: Tool[Any], args: BaseModel, context: ToolContext) -> Preview:
        assert tool.preview is not None
        preview = tool.preview(args, context)
        if inspect.isawaitable(preview):
            preview = self.portal().call(_await_within, preview, self._timeout_seconds)
        if isinstance(preview, str):
            preview = Preview(preview)
        if not isinstance(preview, Preview):
            raise TypeError(f"it returned {type(preview).__name__}, not a text or a Preview")
        in_thread = preview.in_thread
        return replace(
            preview,
            text=mask_call_secrets(tool, args, str(preview.text)),
            expects=str(preview.expects),
            in_thread=None if in_thread is None else mask_call_secrets(tool, args, str(in_thread)),
        )

    def _await_preview(
        self, tool: Tool[Any], args: BaseModel, future: Future[Preview], seconds: float
    ) -> Preview:
        """Return the finished preview, or a line that says why there is none.

        Waits up to `seconds`. Raises the tool's ToolError, with its secrets masked.
        """
        try:
            error = future.exception(seconds)
        except TimeoutError:
            future.cancel()
            return _build_missing_preview(
                tool, f"it took longer than {self._timeout_seconds:g} seconds"
            )
        except CancelledError:
            return _build_missing_preview(tool, "the bot is stopping")
        if error is None:
            return future.result()
        message = format_masked_error(tool, args, error)
        if isinstance(error, ToolError):
            raise ToolError(message, field=error.field) from error
        return _build_missing_preview(tool, message)


def _build_missing_preview(tool: Tool[Any], why: str) -> Preview:
    log.warning("no preview of %s: %s", tool.name, why)
    return Preview(f"(no preview: {why[:200]})")


def _build_completion_future(
    future: Future[Preview], seconds: float, then: Callable[[], None]
) -> Future[None]:
    """Return a future that is done when the preview is, or after `seconds`; then call `then`."""
    answer: Future[None] = Future()

    def done(_: Future[Preview] | None = None) -> None:
        with suppress(InvalidStateError):
            answer.set_result(None)
            alarm.cancel()
            then()

    alarm = threading.Timer(seconds, done)
    alarm.daemon = True
    alarm.start()
    future.add_done_callback(done)
    return answer


async def _await_within(made: Awaitable[Any], seconds: float) -> Any:
    with anyio.fail_after(seconds):
        return await await_result(made)
