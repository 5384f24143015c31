"""HTTP from commands to the running bot, which alone decides, at the socket beside its database."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bot.config.settings import Settings
from bot.terminal.terminal_messages import Answering, Asking, GarbledError, read_answering
from countersign.cli.console import DOTENV, complain, harmless, say
from countersign.wire import UnixConnection
from storage.backend import socket_path

PATIENCE = 45.0  # seconds for an answer: longer than the bot itself takes to give up
AWAY = "No bot listens at {path} ({why}): it is not running."
SILENT = "The bot does not answer; `countersign show` tells what becomes of it."
CUT_OFF = "The bot closed the line without an answer; its log says why."


class NoBotError(Exception):
    """Raised when the bot cannot be reached; the message says what to do."""


class BotRefusedError(ValueError):
    """Raised when the bot refuses to do something; the message says why."""


def ask(asking: Asking) -> int:
    """Send a message to the bot and print the answer; returns the exit code, 1 if it had no effect.

    Raises SettingsError.
    """
    try:
        answer = send(place(), asking)
    except NoBotError as error:
        return complain(error)
    if not answer.counted:
        return complain(harmless(answer.sentence))
    say(harmless(answer.sentence))
    return 0


def place() -> Path:
    """Return the path of the bot's socket.

    Raises NoBotError if there is no operator, and SettingsError.
    """
    settings = Settings.load(os.environ, DOTENV, reading=True)
    if settings.operator is None:
        raise NoBotError(
            "There is no operator: set COUNTERSIGN_OPERATOR to your Slack user id, U…, and start"
            " the bot anew."
        )
    return socket_path(settings.database_path)


def send(path: Path, asking: Asking) -> Answering:
    """Send a message to the bot at this socket, and return the answer; raises NoBotError."""
    try:
        return read_answering(post(path, "/v1/terminal", asdict(asking)))
    except BotRefusedError as error:
        raise NoBotError(str(error)) from None
    except GarbledError:
        raise NoBotError(CUT_OFF) from None


def follow(path: Path, run_id: str) -> socket.socket:
    """Return a socket on which the bot reports what happens in a request's chat.

    Each event is a line of JSON. Raises NoBotError.
    """
    with _reaching(path), closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as bot:
        bot.settimeout(PATIENCE)
        bot.connect(str(path.absolute()))
        # in this older version an answer ends with the connection, and its lines are not chunked
        bot.sendall(f"GET /v1/chats/{quote(run_id, safe='')} HTTP/1.0\r\n\r\n".encode())
        answer = HTTPResponse(bot)
        # without a buffer, so that the lines are left to who reads them
        answer.fp = bot.makefile("rb", buffering=0)  # type: ignore[assignment] # it reads as well
        answer.begin()
        if answer.status == HTTPStatus.OK:
            bot.settimeout(None)
            return bot.dup()
        raise NoBotError(_sentence(answer.read()))


def post(path: Path, route: str, said: Mapping[str, Any], patience: float = PATIENCE) -> Any:
    """Send JSON to the bot at this socket and return the answer; `patience`: seconds to wait.

    Raises NoBotError, and BotRefusedError if the answer is an HTTP error.
    """
    bot = UnixConnection(str(path.absolute()), timeout=patience)
    with _reaching(path), closing(bot):
        bot.request("POST", route, json.dumps(said), {"Content-Type": "application/json"})
        answer = bot.getresponse()
        found = answer.read()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise BotRefusedError(_sentence(found))
    return json.loads(found)


@contextmanager
def _reaching(path: Path) -> Iterator[None]:
    """Raise NoBotError for every connection error in this block."""
    try:
        yield
    except TimeoutError:
        raise NoBotError(SILENT) from None
    except HTTPException:
        raise NoBotError(CUT_OFF) from None
    except OSError as error:
        raise NoBotError(AWAY.format(path=path, why=error.strerror or error)) from None


def _sentence(problem: bytes) -> str:
    """Return the sentence in a problem answer; a general one if it cannot be read."""
    try:
        return str(json.loads(problem)["detail"])
    except (ValueError, KeyError, TypeError):
        return CUT_OFF
