"""HTTP requests from commands to the running bot, over the Unix socket beside its database."""

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

from pydantic import ValidationError

from bot.config.settings import Settings
from bot.terminal.terminal_messages import CommandResult, OperatorCommand, parse_command_result
from countersign.cli import console
from countersign.wire import UnixConnection
from storage.backend import socket_path

ANSWER_TIMEOUT_SECONDS = 45.0  # longer than the bot's own time limit
BOT_NOT_RUNNING_ERROR = "No bot listens at {path} ({why}): it is not running."
NO_ANSWER_ERROR = "The bot does not answer; `countersign show` shows what happened."
CONNECTION_CLOSED_ERROR = "The bot closed the connection without an answer; its log says why."


class BotUnreachableError(console.CommandError):
    """Raised when the bot cannot be reached; the message says what to do."""


class BotRefusedError(ValueError):
    """Raised when the bot refuses to do something; the message says why."""


def send_command_and_print(command: OperatorCommand) -> int:
    """Send a message to the bot and print the answer; returns the exit code, 1 if it had no effect.

    Raises BotUnreachableError and SettingsError.
    """
    answer = send_command(get_bot_socket_path(), command)
    if not answer.counted:
        return console.print_error(console.escape_control_characters(answer.sentence))
    console.print_line(console.escape_control_characters(answer.sentence))
    return 0


def get_bot_socket_path() -> Path:
    """Return the path of the bot's socket.

    Raises BotUnreachableError if there is no operator, and SettingsError.
    """
    settings = Settings.load(os.environ, console.DOTENV, reading=True)
    if settings.operator is None:
        raise BotUnreachableError(
            "There is no operator: set COUNTERSIGN_OPERATOR to your Slack user id, U…, and"
            " restart the bot.",
            2,
        )
    return socket_path(settings.database_path)


def send_command(path: Path, command: OperatorCommand) -> CommandResult:
    """Send a message to the bot at this socket; return the answer, or raise BotUnreachableError."""
    try:
        return parse_command_result(post_to_bot(path, "/v1/terminal", asdict(command)))
    except BotRefusedError as error:
        raise BotUnreachableError(str(error)) from None
    except ValidationError:
        raise BotUnreachableError(CONNECTION_CLOSED_ERROR) from None


def open_chat_event_socket(path: Path, run_id: str) -> socket.socket:
    """Return a socket on which the bot reports what happens in a request's chat.

    Each event is a line of JSON. Raises BotUnreachableError.
    """
    with (
        _translate_connection_errors(path),
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as bot,
    ):
        bot.settimeout(ANSWER_TIMEOUT_SECONDS)
        bot.connect(str(path.absolute()))
        # HTTP/1.0, so that the answer ends with the connection and its lines are not chunked
        bot.sendall(f"GET /v1/chats/{quote(run_id, safe='')} HTTP/1.0\r\n\r\n".encode())
        answer = HTTPResponse(bot)
        # unbuffered, so that the event lines are left in the socket for the caller
        answer.fp = bot.makefile("rb", buffering=0)  # type: ignore[assignment] # it reads as well
        answer.begin()
        if answer.status == HTTPStatus.OK:
            bot.settimeout(None)
            return bot.dup()
        raise BotUnreachableError(_parse_problem_detail(answer.read()))


def post_to_bot(
    path: Path, route: str, body: Mapping[str, Any], patience: float = ANSWER_TIMEOUT_SECONDS
) -> Any:
    """Send JSON to the bot at this socket and return the answer; `patience`: seconds to wait.

    Raises BotUnreachableError, and BotRefusedError if the answer is an HTTP error.
    """
    bot = UnixConnection(str(path.absolute()), timeout=patience)
    with _translate_connection_errors(path), closing(bot):
        bot.request("POST", route, json.dumps(body), {"Content-Type": "application/json"})
        answer = bot.getresponse()
        found = answer.read()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise BotRefusedError(_parse_problem_detail(found))
    return json.loads(found)


@contextmanager
def _translate_connection_errors(path: Path) -> Iterator[None]:
    """Raise BotUnreachableError for every connection error in this block."""
    try:
        yield
    except TimeoutError:
        raise BotUnreachableError(NO_ANSWER_ERROR) from None
    except HTTPException:
        raise BotUnreachableError(CONNECTION_CLOSED_ERROR) from None
    except OSError as error:
        raise BotUnreachableError(
            BOT_NOT_RUNNING_ERROR.format(path=path, why=error.strerror or error)
        ) from None


def _parse_problem_detail(problem: bytes) -> str:
    """Return the `detail` of an HTTP problem answer; a general sentence if it cannot be read."""
    try:
        return str(json.loads(problem)["detail"])
    except (ValueError, KeyError, TypeError):
        return CONNECTION_CLOSED_ERROR
