"""Running one tool call on real threads and a real portal, for every way it can end."""

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
from tests.tools.harness import Nothing, make_tool, run_one


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


class TestErrors:
    def test_a_tool_error_is_a_failure_in_the_tools_words(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """A ToolError means that nothing was done, whatever its cause."""
        error = ToolError("There is no order 7.")
        error.__cause__ = ConnectionResetError()
        assert run_one(make_tool(error), executor) == ToolFailure("There is no order 7.")
        assert run_one(make_tool(error, Effect.READ), executor) == ToolFailure(
            "There is no order 7."
        )

    def test_an_exception_of_a_write_is_an_uncertain_failure(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """The message has the exception's name and is on one line."""
        assert run_one(make_tool(KeyError("sku\nx")), executor) == ToolFailure(
            "KeyError: 'sku\\nx'", certain=False
        )
        assert run_one(make_tool(SystemExit(3)), executor) == ToolFailure(
            "SystemExit: 3", certain=False
        )

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
    def test_the_outcome_of_a_write_with_a_lost_answer_is_unknown(
        self, executor: ThreadPoolExecutor, error: Exception
    ) -> None:
        """A read whose answer was lost has simply failed."""
        assert isinstance(run_one(make_tool(error), executor), LostToolAnswer)
        assert isinstance(run_one(make_tool(error, Effect.DESTRUCTIVE), executor), LostToolAnswer)
        read = run_one(make_tool(error, Effect.READ), executor)
        assert isinstance(read, ToolFailure)
        assert read.certain

    def test_a_lost_answer_is_found_behind_a_librarys_own_error(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """Libraries raise their own errors from the socket's, sometimes in a circle."""
        error = RuntimeError("request failed")
        error.__cause__ = ConnectionResetError("reset")
        assert run_one(make_tool(error), executor) == LostToolAnswer("RuntimeError: request failed")
        circular = RuntimeError("round")
        circular.__cause__ = KeyError("and round")
        circular.__cause__.__cause__ = circular
        assert isinstance(run_one(make_tool(circular), executor), ToolFailure)

    @pytest.mark.parametrize(
        "error",
        [
            FileNotFoundError("no such file"),
            PermissionError("read-only"),
            urllib.error.HTTPError("http://x", 409, "conflict", Message(), None),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_an_error_that_is_no_lost_answer_is_a_failure(
        self, executor: ThreadPoolExecutor, error: Exception
    ) -> None:
        """An OSError may be about a file or carry a definite answer."""
        assert isinstance(run_one(make_tool(error), executor), ToolFailure)

    def test_a_long_error_message_is_cut(self, executor: ThreadPoolExecutor) -> None:
        """Otherwise a page of error text would fill the transcript."""
        refused = run_one(make_tool(ToolError("no " * 5000)), executor)
        assert isinstance(refused, ToolFailure)
        assert refused.certain
        assert len(refused.message) == 1000


class TestTime:
    def test_a_tool_is_not_waited_for_beyond_its_time_out(
        self, executor: ThreadPoolExecutor
    ) -> None:
        """Its late result can still be read."""
        go = threading.Event()
        slow = make_tool(lambda: "late" if go.wait(20) else "never", timeout=0.05)
        out = run_one(slow, executor)
        assert isinstance(out, ToolTimeout)
        assert "0.05 seconds" in out.message
        late: Future[Any] = Future()
        out.future.add_done_callback(
            lambda future: late.set_result(build_tool_outcome(slow, Nothing(), future))
        )
        go.set()
        assert late.result(20) == ToolSuccess("late", "late")

    def test_a_tool_that_found_no_free_thread_certainly_did_not_run(self) -> None:
        """It does not start later by itself, either."""
        go = threading.Event()
        ran: list[int] = []
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(go.wait, 20)
                out = run_one(make_tool(lambda: ran.append(1), timeout=0.05), pool)
            finally:
                go.set()
        assert isinstance(out, ToolFailure)
        assert out.certain
        assert ran == []

    def test_a_stopped_executor_starts_no_tool(self) -> None:
        """While the bot stops, a call ends as certainly not run."""
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        assert run_one(make_tool("x"), pool) == ToolFailure(
            "The bot is stopping; the tool was not started.", certain=True
        )

    def test_the_lease_is_renewed_while_a_tool_runs(self, executor: ThreadPoolExecutor) -> None:
        """The heartbeat goes on until the tool ends."""
        beats: list[int] = []
        enough = threading.Event()

        def heartbeat() -> None:
            beats.append(1)
            if len(beats) == 3:
                enough.set()

        out = run_one(
            make_tool(lambda: enough.wait(20), timeout=20),
            executor,
            heartbeat=heartbeat,
            max_heartbeat_interval=0.01,
        )
        assert out == ToolSuccess("true", "")  # people read no summary of a mere yes
        assert len(beats) >= 3

    def test_a_failing_heartbeat_does_not_lose_the_result(
        self, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The database is busy during the wait; that is logged."""
        beaten = threading.Event()

        def heartbeat() -> None:
            beaten.set()
            raise RuntimeError("database is busy")

        with caplog.at_level(logging.ERROR):
            out = run_one(
                make_tool(lambda: beaten.wait(20), timeout=20),
                executor,
                heartbeat=heartbeat,
                max_heartbeat_interval=0.01,
            )
        assert isinstance(out, ToolSuccess)
        assert "run run-1 call call-1: the lease was not renewed" in caplog.text


class TestAsync:
    def test_an_async_tool_runs_on_the_portals_loop(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """It gets its arguments and context."""

        @tool(title="Try", effect="Try", does=Effect.WRITE)
        async def attempt(args: Nothing, where: ToolContext) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"token": args.token, "at": where.now, "loop": threading.get_ident()}

        loop = portal.call(threading.get_ident)
        out = run_one(attempt, executor, Nothing(token="t"), portal=lambda: portal)
        assert isinstance(out, ToolSuccess)
        assert out.output == f'{{"token":"t","at":"{NOW:%Y-%m-%dT%H:%M:%SZ}","loop":{loop}}}'

    def test_errors_of_async_tools_are_told_apart_as_well(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """The same rules hold, and no tool can end the loop that all of them share."""

        def run_tool_that_raises(error: BaseException) -> ToolOutcome:
            @tool(title="Try", effect="Try", does=Effect.WRITE)
            async def attempt(_args: Nothing, _context: ToolContext) -> None:
                raise error

            return run_one(attempt, executor, portal=lambda: portal)

        assert run_tool_that_raises(ToolError("no")) == ToolFailure("no")
        assert run_tool_that_raises(ConnectionResetError("gone")) == LostToolAnswer(
            "ConnectionResetError: gone"
        )
        assert isinstance(run_tool_that_raises(SystemExit(1)), ToolFailure)
        assert run_tool_that_raises(ValueError("after that")) == ToolFailure(
            "ValueError: after that", certain=False
        )

    def test_the_outcome_of_a_cancelled_async_tool_is_unknown(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """A task that was cancelled half-way may have had its effect."""

        @tool(title="Try", effect="Try", does=Effect.WRITE)
        async def attempt(_args: Nothing, _context: ToolContext) -> None:
            raise asyncio.CancelledError

        assert isinstance(run_one(attempt, executor, portal=lambda: portal), LostToolAnswer)

    def test_an_async_tool_times_out_while_another_blocks_the_loop(
        self, executor: ThreadPoolExecutor, portal: BlockingPortal
    ) -> None:
        """The wait for a tool does not depend on the loop."""
        go = threading.Event()

        @tool(title="Try", effect="Try", does=Effect.WRITE, timeout=0.05)
        async def attempt(_args: Nothing, _context: ToolContext) -> str:
            return "late"

        stalled = portal.start_task_soon(go.wait, 20)
        try:
            out = run_one(attempt, executor, portal=lambda: portal)
            assert isinstance(out, ToolTimeout)
        finally:
            go.set()
        assert stalled.result(20)
        assert out.future.result(20) == "late"
