"""How commands reach the running bot, which alone decides: HTTP at the socket beside its record."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bot.config.settings import Settings
from bot.terminal.terminal_messages import Answering, Asking, GarbledError, read_answering
from countersign.cli.console import DOTENV, complain, harmless, say
from countersign.unix_socket import UnixConnection
from storage.backend import socket_path

PATIENCE = 45.0  # seconds for an answer: longer than the bot itself takes to give up
AWAY = "No bot listens at {path} ({why}): it is not running."
SILENT = "The bot does not answer; `countersign show` tells what becomes of it."
CUT_OFF = "The bot closed the line without an answer; its log says why."
MOST_HEADERS = 65_536  # bytes


class NoBotError(Exception):
    """The bot cannot be reached; the sentence says what to do."""


class BotRefusedError(ValueError):
    """The bot does not do this; says why in a sentence."""


def ask(asking: Asking) -> int:
    """Say it to the bot and print what it answers; returns the exit code, 1 where nothing counted.

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
    """Return where the bot listens; raises NoBotError without an operator, and SettingsError."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    if settings.operator is None:
        raise NoBotError(
            "There is no operator: set COUNTERSIGN_OPERATOR to your Slack user id, U…, and start"
            " the bot anew."
        )
    return socket_path(settings.database_path)


def send(path: Path, asking: Asking) -> Answering:
    """Say it to the bot at this socket, and return what it answers; raises NoBotError."""
    try:
        return read_answering(_post(path, "/v1/terminal", asdict(asking)))
    except BotRefusedError as error:
        raise NoBotError(str(error)) from None
    except GarbledError:
        raise NoBotError(CUT_OFF) from None


def follow(path: Path, run_id: str) -> tuple[socket.socket, bytes]:
    """Have the bot tell what happens in the chat of a request: a line of JSON for each thing.

    Returns where the lines come, and what has come of them already. Raises NoBotError.
    """
    with _reaching(path), closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as bot:
        bot.settimeout(PATIENCE)
        bot.connect(str(path.absolute()))
        # in the older version an answer ends with the connection, and its lines are not chunked
        bot.sendall(f"GET /v1/chats/{quote(run_id, safe='')} HTTP/1.0\r\n\r\n".encode())
        found = b""
        while b"\r\n\r\n" not in found and len(found) < MOST_HEADERS:
            if not (part := bot.recv(4096)):
                raise HTTPException("no whole header")
            found += part
        head, _, rest = found.partition(b"\r\n\r\n")
        if head.split()[1:2] == [b"200"]:
            bot.settimeout(None)
            return bot.dup(), rest
        while part := bot.recv(65_536):
            rest += part
    raise NoBotError(_sentence(rest))


@dataclass(frozen=True, slots=True)
class KeyShown:
    """A key for a program, which is not shown again."""

    key: str
    webhook_secret: str  # what is told to its address is signed with it; "" for no address


def make_key(
    record: Path,
    name: str,
    person: str,
    tools: Sequence[str],
    *,
    service: bool = False,
    per_hour: int = 60,
    webhook: str = "",
) -> KeyShown:
    """Have the bot on this record make a key for the program of that name.

    `person` answers for it; `tools`: patterns of what it may ask for; `service`: in the name of any
    colleague; `webhook`: an address that is told how its requests stand. Raises NoBotError, and
    BotRefusedError where that cannot be.
    """
    wanted = {"name": name, "person": person, "tools": list(tools), "service": service}
    return _key(record, "/v1/keys", wanted | {"per_hour": per_hour, "webhook": webhook})


def renew_key(record: Path, name: str) -> KeyShown:
    """Have it make a further key for the program of that name; raises as `make_key` does."""
    return _key(record, "/v1/keys/renew", {"name": name})


def revoke_key(record: Path, name: str) -> None:
    """Have a program's keys, or the one key of that id, be good no more; raises as `make_key`."""
    _post(socket_path(record), "/v1/keys/revoke", {"name": name})


def forget_person(record: Path, person: str, patience: float) -> dict[str, Any]:
    """Have it empty what a person asked and wrote, within so many seconds; raises as `make_key`."""
    found: dict[str, Any] = json.loads(
        _post(socket_path(record), "/v1/forget", {"person": person}, patience)
    )
    return found


def _key(record: Path, route: str, wanted: Mapping[str, Any]) -> KeyShown:
    return KeyShown(**json.loads(_post(socket_path(record), route, wanted)))


def _post(path: Path, route: str, said: Mapping[str, Any], patience: float = PATIENCE) -> bytes:
    """Return what the bot answers; raises NoBotError, and BotRefusedError for a problem."""
    body = json.dumps(said).encode()
    bot = UnixConnection(str(path.absolute()), timeout=patience)
    with _reaching(path), closing(bot):
        bot.request("POST", route, body, {"Content-Type": "application/json"})
        answer = bot.getresponse()
        found = answer.read()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise BotRefusedError(_sentence(found))
    return found


@contextmanager
def _reaching(path: Path) -> Iterator[None]:
    """Whatever goes wrong on the way to the bot raises NoBotError."""
    try:
        yield
    except TimeoutError:
        raise NoBotError(SILENT) from None
    except HTTPException:
        raise NoBotError(CUT_OFF) from None
    except OSError as error:
        raise NoBotError(AWAY.format(path=path, why=error.strerror or error)) from None


def _sentence(problem: bytes) -> str:
    """What a problem says."""
    try:
        return str(json.loads(problem)["detail"])
    except (ValueError, KeyError, TypeError):
        return CUT_OFF
