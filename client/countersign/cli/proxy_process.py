"""The process of `countersign mcp-proxy`: it ends when its host goes away, or tells it to."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import mcp.client.stdio as server_process
from anyio import create_task_group, move_on_after, open_signal_receiver

from countersign.mcp_client.connection import NotReachedError, ServerConnection
from countersign.mcp_proxy.held_calls import HeldCalls
from countersign.mcp_proxy.people import PeopleTools
from countersign.mcp_proxy.proxy import serve

ENDS_WITHIN = 1.7  # seconds after a signal
SERVER_ENDS_WITHIN = 0.4  # seconds that the server has at each step of being ended


def serve_until_told(
    made: Callable[[], ServerConnection],
    held_calls: HeldCalls,
    people: PeopleTools,
    **options: Any,
) -> NoReturn:
    """Serve at stdin and stdout until the host goes away or a signal comes; ends the process then.

    `made` makes the connection to the server behind. Raises NotReachedError where that cannot be
    reached at the start.
    """
    sdk = logging.getLogger("mcp")  # it logs tracebacks of what a server says
    sdk.addHandler(logging.NullHandler())
    sdk.propagate = False

    async def work() -> None:
        behind = made()
        async with create_task_group() as both:
            both.start_soon(_end_when_told, behind)
            await serve(behind, held_calls, people, **options)
            both.cancel_scope.cancel()

    try:
        anyio.run(work)
    except BaseExceptionGroup as errors:
        found, _ = errors.split(NotReachedError)
        if found is None:
            raise
        error: BaseException = found
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    _leave()


async def _end_when_told(behind: ServerConnection) -> None:
    """End the server behind and this process, whatever is under way: people are asked about a call
    that was made and not reported.
    """
    with open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            server_process.PROCESS_TERMINATION_TIMEOUT = SERVER_ENDS_WITHIN
            server_process.FORCE_KILL_TIMEOUT = SERVER_ENDS_WITHIN
            with move_on_after(ENDS_WITHIN):
                await behind.close()
            _leave()


def _leave() -> NoReturn:
    """End the process without waiting for threads that wait for people, or for the host."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
