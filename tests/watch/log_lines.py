"""The JSON log, captured for a test."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bot.monitoring.logs import LogFormat, create_log_handler


class Lines:
    """What was written to the log meanwhile."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = create_log_handler(LogFormat.JSON, self._stream)

    @property
    def text(self) -> str:
        """All of it."""
        return self._stream.getvalue()

    def read(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines that have these fields; raises ValueError unless each line is JSON."""
        found = [json.loads(each) for each in self.text.splitlines()]
        return [each for each in found if fields.items() <= each.items()]


@contextmanager
def json_lines(level: int = logging.INFO) -> Iterator[Lines]:
    """Capture the log until the block ends."""
    lines, root = Lines(), logging.getLogger()
    own = logging.getLogger("countersign")  # Bolt sets its level, as the app has this name
    before = root.level, own.level
    # the scheduler of an earlier test's bot may still log
    lines.handler.addFilter(lambda record: not record.name.startswith("apscheduler"))
    root.addHandler(lines.handler)
    root.setLevel(level)
    own.setLevel(logging.NOTSET)
    try:
        yield lines
    finally:
        root.setLevel(before[0])
        own.setLevel(before[1])
        root.removeHandler(lines.handler)
