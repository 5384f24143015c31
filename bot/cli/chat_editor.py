"""The line that is typed at a terminal: edited with the usual keys, with what was typed before.

What the bot says meanwhile interrupts it; what was typed so far then stands there again. What was
typed is remembered as long as the chat, and never kept on disk.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

RESET = "\x1b[0m"


class _Readline(Protocol):
    """The standard library's module, which not every Python has."""

    def set_auto_history(self, enabled: bool, /) -> None: ...
    def get_current_history_length(self) -> int: ...
    def get_history_item(self, index: int, /) -> str | None: ...
    def get_line_buffer(self) -> str: ...
    def insert_text(self, text: str, /) -> None: ...
    def set_startup_hook(self, hook: Callable[[], object] | None = None, /) -> None: ...


class _NewsError(Exception):
    """The bot has said something while a line was typed."""


class Editor:
    """One for each process, on its main thread."""

    def __init__(self, readline: _Readline) -> None:
        """`readline`: the module."""
        self._readline = readline
        self._typed = ""  # so far, before the bot said something
        self._asks = False
        signal.signal(signal.SIGIO, self._interrupt)

    def ask(
        self, prompt: str, style: str = "", *, news: int | None = None, kept: bool = False
    ) -> str | None:
        """Return the line that is typed; None where something came at the descriptor `news`.

        `style`: the escape sequence before the prompt; `kept`: the arrow keys bring the line back
        later. EOFError at the end of what is typed.
        """
        self._readline.set_auto_history(kept)
        before = self._readline.get_current_history_length()
        # between these marks stands what takes no room
        asked = f"\x01{style}\x02{prompt}\x01{RESET}\x02" if style else prompt
        try:
            with self._interrupted_by(news):
                if news is not None and select.select([news], [], [], 0)[0]:
                    return None
                line = self._read(asked, self._typed if kept else "")
        except _NewsError:
            now = self._readline.get_current_history_length()
            if now == before:
                self._erase(prompt)
                return None
            line = self._readline.get_history_item(now) or ""  # it was typed to its end by then
        if kept:
            self._typed = ""
        return line

    def _read(self, asked: str, typed: str) -> str:
        """Ask for a line that begins with what was typed before."""
        self._readline.set_startup_hook(lambda: self._readline.insert_text(typed))
        try:
            self._asks = True
            return input(asked)
        finally:
            self._asks = False
            self._readline.set_startup_hook(None)

    @contextmanager
    def _interrupted_by(self, news: int | None) -> Iterator[None]:
        """Have whatever comes there interrupt what is typed."""
        if news is None:
            yield
            return
        flags = fcntl.fcntl(news, fcntl.F_GETFL)
        fcntl.fcntl(news, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(news, fcntl.F_SETFL, flags | os.O_ASYNC)
        try:
            yield
        finally:
            fcntl.fcntl(news, fcntl.F_SETFL, flags)

    def _interrupt(self, *_: object) -> None:
        if self._asks:
            self._typed = self._readline.get_line_buffer()
            raise _NewsError

    def _erase(self, prompt: str) -> None:
        """Leave the lines empty on which the prompt and what was typed stand."""
        rows = len(prompt + self._typed) // max(1, shutil.get_terminal_size().columns)
        up = f"\x1b[{rows}A" if rows else ""
        sys.stdout.write(f"\r{up}\x1b[J")
        sys.stdout.flush()


def editor() -> Editor | None:
    """Return what edits lines here; None where nobody types at a terminal, or Python has none."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        return None
    with suppress(ImportError):  # Python may have been built without it
        import readline

        return Editor(readline)
    return None
