"""Lines from two sides at once: what is typed, and what the bot says. Each comes whole."""

from __future__ import annotations

import os
import re
import select
import unicodedata
from collections import deque

_KEYS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Z]|.)")  # arrows and the like


class Lines:
    """Whole lines of one file descriptor, as bytes without their ends."""

    def __init__(self, source: int) -> None:
        """`source`: a descriptor that can be waited for."""
        self.source = source
        self.is_over = False
        self._rest = b""
        self._ready: deque[bytes] = deque()

    def take(self) -> bytes | None:
        """Return the next line that is there; None where there is none yet."""
        return self._ready.popleft() if self._ready else None

    @property
    def has_line(self) -> bool:
        """Whether `take` returns one."""
        return bool(self._ready)

    def read(self) -> None:
        """Take in what has come; blocks where nothing has."""
        try:
            part = os.read(self.source, 65_536)
        except ConnectionResetError:  # the other side was killed
            part = b""
        if not part:
            self.is_over = True
            if self._rest:  # a last line without an end
                self._ready.append(self._rest)
                self._rest = b""
            return
        *whole, self._rest = (self._rest + part).split(b"\n")
        self._ready += whole


def as_typed(line: bytes) -> str:
    """Return what a person has typed: without keys that are no letters, and blanks around it."""
    text = _KEYS.sub("", line.decode("utf-8", "replace"))
    kept = (each for each in text if each == "\t" or unicodedata.category(each) != "Cc")
    return "".join(kept).strip()


def wait(sides: list[Lines], seconds: float | None = None) -> None:
    """Wait until one of these has a line, or is over."""
    while not any(each.has_line or each.is_over for each in sides):
        readable, _, _ = select.select([each.source for each in sides], [], [], seconds)
        if not readable:
            return
        for each in sides:
            if each.source in readable:
                each.read()
