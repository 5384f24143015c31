"""A thread of the bot that ends with an error ends the process, so that it is started again."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

import pytest

from tests.stories.harness import Harness

LOOP_LOG = logging.getLogger("countersign.loop")


class BrokenLog(logging.Filter):
    """A part of somebody's logging that cannot take errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Raise an error for any error that is logged."""
        if record.levelno >= logging.ERROR:
            raise RuntimeError("the log is broken")
        return True


@pytest.mark.file
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_process_ends_with_its_loop(own_harness: Callable[..., Harness]) -> None:
    """It would stay connected, store what people do, and never answer."""
    harness = own_harness()
    harness.settle()
    broken_log = BrokenLog()
    LOOP_LOG.addFilter(broken_log)
    with sqlite3.connect(harness.app.core.settings.database_path) as record:
        record.execute("ALTER TABLE delivery RENAME TO elsewhere")
    try:
        harness.app.core.signals.work.notify()
        with pytest.raises(RuntimeError, match="the log is broken"):
            harness.app.wait()
    finally:
        LOOP_LOG.removeFilter(broken_log)
        record.execute("ALTER TABLE elsewhere RENAME TO delivery")
        record.close()
    harness.restart()
