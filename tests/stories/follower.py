"""Following a chat at the bot's socket, line by line, as `countersign chat` does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bot.cli.bot_connection import open_chat_event_socket
from bot.cli.chat_painter import LineReader
from bot.terminal.terminal_messages import ChatEvent, ChatEventKind, TerminalCall, parse_chat_event
from storage.backend import socket_path
from storage.states import CallStatus
from tests.stories.harness import Harness


class ChatFollower:
    """Collects the events of one chat as the bot sends them."""

    def __init__(self, harness: Harness, run: str) -> None:
        self._harness, self.run = harness, run
        self.told: list[ChatEvent] = []

    def wait(self, kind: ChatEventKind, part: str = "") -> ChatEvent:
        """Wait for the first event of this kind with this text."""

        def look() -> ChatEvent | None:
            found = (each for each in self.told if each.kind is kind and part in each.text)
            return next(found, None)

        found: ChatEvent = self._harness.slack.wait(look)
        return found

    def call(self, status: CallStatus) -> TerminalCall:
        """Wait for the first event about a call with this status."""

        def look() -> TerminalCall | None:
            found = (each.call for each in self.told if each.call and each.call.status is status)
            return next(found, None)

        found: TerminalCall = self._harness.slack.wait(look)
        return found


@contextmanager
def followed(harness: Harness, run: str) -> Iterator[ChatFollower]:
    """Follow the chat of a request, as `countersign chat` does."""
    found = ChatFollower(harness, run)
    with open_chat_event_socket(socket_path(harness.app.core.store.path), run) as line:

        def listen() -> None:
            lines = LineReader(line.fileno())
            while not lines.is_over:
                while (told := lines.pop_line()) is not None:
                    found.told.append(parse_chat_event(told))
                lines.read_available()

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        yield found
        line.shutdown(socket.SHUT_RDWR)
        listening.join(30)
