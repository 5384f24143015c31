"""A command in a process of its own on a pty, with somebody who types and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DRAWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[│╭╮╰╯─]")  # colours, movements, frames
ROWS, COLUMNS = 50, 90


class Typist:
    """Runs a `countersign` command on a terminal of 50 rows and 90 columns."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *words: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        paths = os.pathsep.join([str(ROOT), str(folder)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bot", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, **environ, "PYTHONPATH": paths, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)
        self._ours = ours
        self._raw = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 65_536)
            except OSError:  # the other side is closed
                return
            if not part:
                return
            self._raw += part

    @property
    def raw(self) -> str:
        """All that the command has written, with control sequences."""
        return self._raw.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        """The words that the command has written, on one line."""
        return " ".join(_DRAWN.sub("", self.raw).split())

    def reads(self, wait: Callable[[Callable[[], bool]], object], text: str) -> None:
        """Wait until the screen has this text; `wait` polls."""
        try:
            wait(lambda: text in self.screen)
        except Exception as error:
            raise AssertionError(f"{text!r} is not in {self.screen[-1500:]!r}") from error

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, line.encode() + b"\n")

    def press(self, keys: str) -> None:
        """Press these keys without Enter."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Press Ctrl-D, and return the exit code."""
        os.write(self._ours, b"\x04")
        return self.process.wait(20)

    def close(self) -> None:
        """Kill the command if it is still running, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reading.join(5)
        os.close(self._ours)
