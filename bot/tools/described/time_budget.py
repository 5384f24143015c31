"""The processor time that a check of arguments may take. Imports nothing of the bot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_SECONDS = 0.2  # for one value; also for all parts of a schema when it is read
# the same for arguments that were checked before and are on record: as much again and more, so
# that no call is turned away after it was approved because a check took a little longer
MOST_SECONDS_AGAIN = 2.0
patience: ContextVar[float] = ContextVar("seconds of processor", default=MOST_SECONDS)


@contextmanager
def allow_more_check_time() -> Iterator[None]:
    """Allow more time, inside the block, for values that were checked before and are on record."""
    token = patience.set(MOST_SECONDS_AGAIN)
    try:
        yield
    finally:
        patience.reset(token)
