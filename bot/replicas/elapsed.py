"""How much time has passed, whatever the machine's clock says and though it slept meanwhile."""

from __future__ import annotations

import time

_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux has it


def elapsed() -> float:
    """Return seconds since some moment that stays the same while the process lives."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
