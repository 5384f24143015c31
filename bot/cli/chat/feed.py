"""What the bot tells of one chat, each thing once, also where the bot was away in between."""

from __future__ import annotations

import socket
from pathlib import Path

from bot.cli.chat.lines import Lines
from bot.cli.terminal.asking import NoBotError, connected
from bot.surfaces.private_socket import GarbledError
from bot.terminal.terminal_messages import (
    Asking,
    CallShown,
    Happening,
    Happens,
    Wish,
    read_answering,
    read_happening,
    write_line,
)


class Feed:
    """The line at which one chat is followed; closed by `close`."""

    def __init__(self, bot: Path) -> None:
        """`bot`: where it listens. Nothing is followed yet."""
        self.run = ""  # the newest request of the chat
        self.is_away = False  # the bot has hung up
        self.lines: Lines | None = None
        self._bot = bot
        self._line: socket.socket | None = None
        self._told: set[str] = set()
        self._calls: dict[str, CallShown] = {}

    def follow(self, run: str) -> None:
        """Hear what happens in the chat of this request, unless that is heard already.

        Raises NoBotError.
        """
        self.run = run
        if self._line is None:
            self._open()

    def _open(self) -> None:
        with connected(self._bot) as line:
            line.sendall(write_line(Asking(Wish.FOLLOW, self.run)))
            line.settimeout(None)
            self._line = line.dup()
        self.lines, self.is_away = Lines(self._line.fileno()), False

    def take(self) -> Happening | None:
        """Return the next thing that was not told before; None where there is none yet.

        Notices that the bot has hung up. Raises NoBotError where it says that it tells nothing.
        """
        while self.lines is not None and (line := self.lines.take()) is not None:
            found = _understood(line)
            if self._is_new(found):
                return found
        if self.lines is not None and self.lines.is_over:
            self.close()
            self.is_away = True
        return None

    def again(self) -> bool:
        """Return whether the bot is there again, and is heard from now on."""
        try:
            self._open()
        except NoBotError:
            return False
        return True

    def close(self) -> None:
        """Hear nothing any more."""
        if self._line is not None:
            self._line.close()
        self._line, self.lines = None, None

    def _is_new(self, found: Happening) -> bool:
        """Return whether this was not told before: whoever follows anew is told all from the
        beginning of the request.
        """
        if found.kind is Happens.STATE:
            self.run = found.run
        if found.call is not None:
            name = found.call.id.rpartition(":")[0]
            before, self._calls[name] = self._calls.get(name), found.call
            return before != found.call
        if not found.id:
            return True
        is_new = found.id not in self._told
        self._told.add(found.id)
        return is_new


def _understood(line: bytes) -> Happening:
    """Return what the bot says that happened; raises NoBotError where it says something else."""
    try:
        return read_happening(line)
    except GarbledError:
        pass
    try:  # that it tells nothing, and why
        raise NoBotError(read_answering(line).sentence)
    except GarbledError:
        raise NoBotError("The bot said something that is not understood.") from None
