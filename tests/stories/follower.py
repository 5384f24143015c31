"""Whoever follows a chat at the bot's door, line by line, as `countersign chat` does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bot.cli.bot_connection import follow
from bot.cli.chat_painter import Lines
from bot.terminal.terminal_messages import CallShown, Happening, Happens, read_happening
from storage.backend import socket_path
from storage.states import CallStatus
from tests.stories.harness import Harness


class Followed:
    """What the bot has told of one chat so far."""

    def __init__(self, harness: Harness, run: str) -> None:
        self._harness, self.run = harness, run
        self.told: list[Happening] = []

    def wait(self, kind: Happens, part: str = "") -> Happening:
        """The first thing of that kind with this in its text, waited for."""

        def look() -> Happening | None:
            found = (each for each in self.told if each.kind is kind and part in each.text)
            return next(found, None)

        found: Happening = self._harness.slack.wait(look)
        return found

    def call(self, status: CallStatus) -> CallShown:
        """The first that was told of a call that stands so, waited for."""

        def look() -> CallShown | None:
            found = (each.call for each in self.told if each.call and each.call.status is status)
            return next(found, None)

        found: CallShown = self._harness.slack.wait(look)
        return found


@contextmanager
def followed(harness: Harness, run: str) -> Iterator[Followed]:
    """Follow the chat of a request, as `countersign chat` does."""
    found = Followed(harness, run)
    with follow(socket_path(harness.app.core.store.path), run) as line:

        def listen() -> None:
            lines = Lines(line.fileno())
            while not lines.is_over:
                while (told := lines.take()) is not None:
                    found.told.append(read_happening(told))
                lines.read()

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        yield found
        line.shutdown(socket.SHUT_RDWR)
        listening.join(30)
