"""Running one call: real threads, a real portal, and tools that end in every way."""

from __future__ import annotations

import asyncio
import http.client
import logging
import socket
import threading
import urllib.error
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from email.message import Message
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from bot.tools import Effect, ToolContext, ToolError, tool
from bot.tools.runner import (
    LostToolAnswer,
    ToolFailure,
    ToolOutcome,
    ToolSuccess,
    ToolTimeout,
    build_tool_outcome,
)
from tests.tools import NOW
from tests.tools.harness import Nothing, making, run


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


class TestErrors:
    def test_a_refusal_is_in_the_tools_words(self, executor: ThreadPoolExecutor) -> None:
        """ToolError means that nothing was done, whatever it came from."""
        error = ToolError("There is no order 7.")
        error.__cause__ = ConnectionResetError()
        assert run(making(error), executor) == ToolFailure("There is no order 7.")
        assert run(making(error, Effect.READ), executor) == ToolFailure("There is no order 7.")

    def test_a_write_that_raises_has_failed(self, executor: ThreadPoolExecutor) -> None:
        """An exception of the tool's own is a failure, told with its name, on one line."""
        assert run(making(KeyError("sku\nx")), executor) == ToolFailure(
            "KeyError: 'sku\\nx'", certain=False
        )
        assert run(making(SystemExit(3)), executor) == ToolFailure("SystemExit: 3", certain=False)

    @pytest.mark.parametrize(
        "error",
        [
            ConnectionResetError("reset"),
            BrokenPipeError(),
            TimeoutError("slow"),
            socket.gaierror("no name"),
            urllib.error.URLError(TimeoutError()),
            urllib.error.HTTPError("http://x", 502, "bad gateway", Message(), None),
            http.client.RemoteDisconnected("closed"),
            http.client.IncompleteRead(b"half"),
            OSError("network is unreachable"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_a_lost_answer_leaves_a_write_unknown(
        self, executor: ThreadPoolExecutor, error: Exception
    ) -> None:
        """Nobody knows whether a write happened whose answer was lost.

        A read has just failed.
        """
        assert isinstance(run(making(error), executor), LostToolAnswer)
        assert isinstance(run(making(error, Effect.DESTRUCTIVE), executor), LostToolAnswer)
        read = run(making(error, Effect.READ), executor)
        assert isinstance(read, ToolFailure)
        assert read.certain

    def test_a_wrapped_lost_answer_counts_too(self, executor: ThreadPoolExecutor) -> None:
        """Client libraries raise their own errors from the socket's."""
        error = RuntimeError("request failed")
        error.__cause__ = ConnectionResetError("reset")
        assert run(making(error), executor) == LostToolAnswer("RuntimeError: request failed")
        circular = RuntimeError("round")
        circular.__cause__ = KeyError("and round")
        circular.__cause__.__cause__ = circular
        assert isinstance(run(making(circular), executor), ToolFailure)

    @pytest.mark.parametrize(
        "error",
        [
            FileNotFoundError("no such file"),
            PermissionError("read-only"),
            urllib.error.HTTPError("http://x", 409, "conflict", Message(), None),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_an_answer_that_says_no_is_a_failure(
        self, executor: ThreadPoolExecutor, error: Exception
    ) -> None:
        """An OSError that is about a file, or carries a definite answer, leaves nothing open."""
        assert isinstance(run(making(error), executor), ToolFailure)

    def test_long_messages_are_bounded(self, executor: ThreadPoolExecutor) -> None:
        """A page of error text does not fill the transcript."""
        refused = run(making(ToolError("no " * 5000)), executor)
        assert isinstance(refused, ToolFailure)
        assert refused.certain
        assert len(refused.message) == 1000


class TestTime:
    def test_a_tool_that_does_not_end_is_left_behind(self, executor: ThreadPoolExecutor) -> None:
        """The wait ends at the time-out, and the late result can still be had."""
        go = threading.Event()
        slow = making(lambda: "late" if go.wait(20) else "never", timeout=0.05)
        out = run(slow, executor)
        assert isinstance(out, ToolTimeout)
        assert "0.05 seconds" in out.message
        late: Future[Any] = Future()
        out.future.add_done_callback(
            lambda future: late.set_result(build_tool_outcome(slow, Nothing(), future))
        )
        go.set()
        assert late.result(20) == ToolSuccess("late", "late")

    def test_what_was_never_begun_is_certain(self) -> None:
        """No free thread within the time-out: the tool will not start later on its own."""
        go = threading.Event()
        ran: list[int] = []
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(go.wait, 20)
                out = run(making(lambda: ran.append(1), timeout=0.05), pool)
            finally:
                go.set()
        assert isinstance(out, ToolFailure)
        assert out.certain
        assert ran == []

    def test_a_stopped_executor_starts_nothing(self) -> None:
        """While the bot stops, a call ends as certainly not run."""
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        assert run(making("x"), pool) == ToolFailure(
            "The bot is stopping; the tool was not started.", certain=True
        )

    def test_the_lease_is_renewed_while_waiting(self, executor: ThreadPoolExecutor) -> None:
        """A long tool keeps its lease: the beat goes on until the tool ends."""
        beats: list[int] = []
        enough = threading.Event()

        def heartbeat() -> None:
            beats.append(1)
            if len(beats) == 3:
                enough.set()

        out = run(
            making(lambda: enough.wait(20), timeout=20),
            executor,
            heartbeat=heartbeat,
            max_heartbeat_interval=0.01,
        )
        assert out == ToolSuccess("true", "")  # of a yes people are told nothing more
        assert len(beats) >= 3

    def test_a_failing_heartbeat_does_not_lose_the_result(
        self, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A busy database during the wait is logged, and the tool's result still counts."""
        beaten = threading.Event()

        def heartbeat() -> None:
            beaten.set()
            raise RuntimeError("database is busy")

        with caplog.at_level(logging.ERROR):
            out = run(
                making(lambda: beaten.wait(20), timeout=20),
                executor,
                heartbeat=heartbeat,
                max_heartbeat_interval=0.01,
            )
        assert isinstance(out, ToolSuccess)
        assert "run run-1 call call-1: the lease was not renewed" in caplog.text


class TestAsync:
    def test_runs_on_the_portal(self, executor: ThreadPoolExecutor, portal: BlockingPortal) -> None:
        """An async tool runs on the shared loop's thread and gets its arguments and context."""

        @tool(title="Try", effect="Try", does=Effect.WRITE)
        async def attempt(args: Nothing, where: ToolContext) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"token": args.token, "at": where.now, "loop": threading.get_ident()}

        loop = portal.call(threading.get_ident)
        out = run(attempt, executor, Nothing(token="t"), portal=lambda: portal)
        assert isinstance(out, ToolSuccess)
        assert out.output == f'{{"token":"t","at":"{NOW:%Y-%m-%dT%H:%M:%SZ}","loop":{loop}}}'

    def test_its_errors_are_told_apart_as_well(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """The same rules hold, and no tool can end the loop that all share."""

        def raising(error: BaseException) -> ToolOutcome:
            @tool(title="Try", effect="Try", does=Effect.WRITE)
            async def attempt(_args: Nothing, _context: ToolContext) -> None:
                raise error

            return run(attempt, executor, portal=lambda: portal)

        assert raising(ToolError("no")) == ToolFailure("no")
        assert raising(ConnectionResetError("gone")) == LostToolAnswer("ConnectionResetError: gone")
        assert isinstance(raising(SystemExit(1)), ToolFailure)
        assert raising(ValueError("after that")) == ToolFailure(
            "ValueError: after that", certain=False
        )

    def test_cancelled_from_outside_is_unknown(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """A task that was cancelled in the middle may have had its effect."""

        @tool(title="Try", effect="Try", does=Effect.WRITE)
        async def attempt(_args: Nothing, _context: ToolContext) -> None:
            raise asyncio.CancelledError

        assert isinstance(run(attempt, executor, portal=lambda: portal), LostToolAnswer)

    def test_time_is_kept_while_the_loop_is_stalled(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """One async tool that blocks the loop does not hold up the wait for another."""
        go = threading.Event()

        @tool(title="Try", effect="Try", does=Effect.WRITE, timeout=0.05)
        async def attempt(_args: Nothing, _context: ToolContext) -> str:
            return "late"

        stalled = portal.start_task_soon(go.wait, 20)
        try:
            out = run(attempt, executor, portal=lambda: portal)
            assert isinstance(out, ToolTimeout)
        finally:
            go.set()
        assert stalled.result(20)
        assert out.future.result(20) == "late"
