"""How commands reach the running bot, which alone decides."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.config.settings import Settings
from bot.surfaces.private_socket import GarbledError
from bot.terminal.terminal_messages import (
    MOST_TOLD,
    Answering,
    Asking,
    read_answering,
    socket_path,
    write_line,
)
from countersign.cli.console import DOTENV, complain, harmless, say

PATIENCE = 45.0  # seconds for an answer: longer than the bot itself takes to give up


class NoBotError(Exception):
    """The bot cannot be reached; the sentence says what to do."""


def ask(asking: Asking) -> int:
    """Say it to the bot and print what it answers; returns the exit code, 1 where nothing counted.

    Raises SettingsError.
    """
    try:
        answer = exchange_line(place(), asking)
    except NoBotError as error:
        return complain(error)
    if not answer.counted:
        return complain(harmless(answer.sentence))
    say(harmless(answer.sentence))
    return 0


def place() -> Path:
    """Return where the bot listens; raises NoBotError without an operator, and SettingsError."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    if settings.operator is None:
        raise NoBotError(
            "There is no operator: set COUNTERSIGN_OPERATOR to your Slack user id, U…, and start"
            " the bot anew."
        )
    return socket_path(settings.database_path)


def exchange_line(path: Path, asking: Asking) -> Answering:
    """Say it to the bot, and return what it answers; raises NoBotError."""
    with connected(path) as bot:
        bot.sendall(write_line(asking))
        return read_answering(_line(bot))


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """A line to the bot; what goes wrong with it raises NoBotError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
            bot.settimeout(PATIENCE)
            bot.connect(str(path.absolute()))
            yield bot
    except TimeoutError:
        sentence = "The bot does not answer; `countersign show` tells what becomes of it."
        raise NoBotError(sentence) from None
    except OSError as error:
        sentence = (
            f"No bot listens at {path} ({error.strerror or error}): it is not running, or was"
            " started without COUNTERSIGN_OPERATOR."
        )
        raise NoBotError(sentence) from None
    except GarbledError:
        sentence = "The bot closed the line without an answer; its log says why."
        raise NoBotError(sentence) from None


def _line(bot: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n") and len(found) <= MOST_TOLD:
        part = bot.recv(65_536)
        if not part:
            break
        found += part
    return found
