"""Work for asyncio on threads of its own: they may wait for days, and hold up no other, nor the
end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises; in the context of whoever awaits.

    Whoever is cancelled does not wait for it; it goes on.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if ended.done():  # cancelled meanwhile
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)  # type: ignore[arg-type] # T itself may be None

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work)
        except Exception as raised:  # noqa: BLE001 # it is raised where it is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="countersigned", daemon=True).start()
    return await ended
