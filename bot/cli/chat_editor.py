"""The line editor of the chat: the usual keys, and the lines that were typed before.

News from the bot interrupts a line; the next prompt has its text again. The lines are remembered as
long as the chat runs, and never written to disk.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

RESET = "\x1b[0m"


class _LineInterruptedError(Exception):
    """Raised when the bot sends something while a line is typed."""


class LineEditor:
    """The line editor; one for each process, on its main thread."""

    def __init__(self, readline: ModuleType) -> None:
        """Use the module `readline`, and let SIGIO interrupt a line."""
        self._readline = readline
        self._typed = ""  # so far, before the bot said something
        self._asks = False
        signal.signal(signal.SIGIO, self._handle_sigio)

    def read_line(
        self, prompt: str, style: str = "", *, news: int | None = None, kept: bool = False
    ) -> str | None:
        """Return the line that is typed; None if something arrived at the descriptor `news` first.

        `style`: the escape sequence before the prompt; `kept`: the arrow keys bring the line back
        later. Raises EOFError at the end of input.
        """
        self._readline.set_auto_history(kept)
        before = self._readline.get_current_history_length()
        # between these marks stands what takes no room
        asked = f"\x01{style}\x02{prompt}\x01{RESET}\x02" if style else prompt
        try:
            with self._interrupt_on_input(news):
                if news is not None and select.select([news], [], [], 0)[0]:
                    return None
                line = self._read_prefilled_line(asked, self._typed if kept else "")
        except _LineInterruptedError:
            now = self._readline.get_current_history_length()
            if now == before:
                self._erase_prompt(prompt)
                return None
            line = self._readline.get_history_item(now) or ""  # it was typed to its end by then
        if kept:
            self._typed = ""
        return line

    def _read_prefilled_line(self, asked: str, typed: str) -> str:
        """Read a line that already begins with the text `typed`."""
        self._readline.set_startup_hook(lambda: self._readline.insert_text(typed))
        try:
            self._asks = True
            return input(asked)
        finally:
            self._asks = False
            self._readline.set_startup_hook(None)

    @contextmanager
    def _interrupt_on_input(self, news: int | None) -> Iterator[None]:
        """Have input at the descriptor `news` interrupt the line that is typed in this block."""
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

    def _handle_sigio(self, *_: object) -> None:
        if self._asks:
            self._typed = self._readline.get_line_buffer()
            raise _LineInterruptedError

    def _erase_prompt(self, prompt: str) -> None:
        """Clear the terminal lines with the prompt and the text typed so far."""
        rows = len(prompt + self._typed) // max(1, shutil.get_terminal_size().columns)
        up = f"\x1b[{rows}A" if rows else ""
        sys.stdout.write(f"\r{up}\x1b[J")
        sys.stdout.flush()


def build_line_editor() -> LineEditor | None:
    """Return a line editor; None without a terminal, or if Python has no readline."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        return None
    with suppress(ImportError):  # Python may have been built without it
        import readline

        return LineEditor(readline)
    return None
