"""How `approve` and `reject` reach the running bot, which alone decides."""

from __future__ import annotations

import os
import socket

from bot.cli.console import DOTENV, complain, say
from bot.config.settings import Settings
from bot.terminal.wire import (
    MOST,
    Asking,
    GarbledError,
    read_answering,
    socket_path,
    write_line,
)

PATIENCE = 45.0  # seconds for an answer: longer than the bot itself takes to give up


def ask(asking: Asking) -> int:
    """Say it to the bot and print what it answers; returns the exit code, 1 where nothing counted.

    Raises SettingsError.
    """
    settings = Settings.load(os.environ, DOTENV, reading=True)
    if settings.operator is None:
        return complain(
            "There is no operator: set COUNTERSIGN_OPERATOR to your Slack user id, U…, and start"
            " the bot anew."
        )
    path = socket_path(settings.database_path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
            bot.settimeout(PATIENCE)
            bot.connect(str(path.absolute()))
            bot.sendall(write_line(asking))
            answer = read_answering(_line(bot))
    except TimeoutError:
        return complain("The bot does not answer; `countersign show` tells what becomes of it.")
    except OSError as error:
        return complain(
            f"No bot listens at {path} ({error.strerror or error}): it is not running, or was"
            " started without COUNTERSIGN_OPERATOR."
        )
    except GarbledError:
        return complain("The bot closed the line without an answer; its log says why.")
    if not answer.counted:
        return complain(answer.sentence)
    say(answer.sentence)
    return 0


def _line(bot: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n") and len(found) <= MOST:
        part = bot.recv(4096)
        if not part:
            break
        found += part
    return found
