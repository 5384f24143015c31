"""Puts a call before people from any Python program on the bot's machine, without an agent.

It runs in the other program and imports nothing of the bot but the wire. The account must be the
bot's own: the socket beside the database is its.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bot.surfaces.private_socket import GarbledError, line_of, object_in

# What a program says to the running bot, and what it hears: a line of JSON each way.

MOST = 1_000_000  # bytes of what a program says
MOST_TOLD = 16_000_000  # bytes of what it hears
LONGEST_LOOK = 5.0  # seconds that one look waits for an end


@dataclass(frozen=True, slots=True)
class CallWanted:
    """A call that a program puts before people."""

    tool: str
    arguments: Mapping[str, Any]
    requester: str  # the Slack user id of whoever answers for it
    channel: str = ""  # the id of a channel; "": the requester's direct messages
    why: str = ""
    key: str = ""  # what was asked with it before is not asked again


@dataclass(frozen=True, slots=True)
class Look:
    """Asks how a request has ended."""

    run: str
    seconds: float = 0.0  # to wait for it; LONGEST_LOOK at most


@dataclass(frozen=True, slots=True)
class KeyRenewed:
    """A further key that the operator wants for a program, for the same as the one it has."""

    renewed_key: str  # the program's name


@dataclass(frozen=True, slots=True)
class KeyWanted:
    """A key that the operator wants for a program which asks over HTTP."""

    new_key: str  # the program's name
    person: str  # who answers for it: a Slack user id, or a @handle
    tools: tuple[str, ...]  # patterns of what it may ask for
    service: bool = False  # it may ask in the name of any colleague
    per_hour: int = 60
    webhook: str = ""  # an address that is told how its requests stand


@dataclass(frozen=True, slots=True)
class KeyUnwanted:
    """A key that is to be good no more."""

    revoked_key: str  # the program's name, or the id of one of its keys


@dataclass(frozen=True, slots=True)
class PersonUnwanted:
    """A person whose words the operator wants emptied."""

    forgotten: str  # a Slack user id


Wish = CallWanted | Look | KeyWanted | KeyRenewed | KeyUnwanted | PersonUnwanted


@dataclass(frozen=True, slots=True)
class Told:
    """What the bot says."""

    run: str = ""  # the request; "" where there is none
    problem: str = ""  # why not, in a sentence
    status: str = ""  # how it ended; "" while it waits or runs
    result: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)  # as they ran
    key: str = ""  # the key that was made: it is told this once
    webhook_secret: str = ""  # what is told to its address is signed with it


def socket_path(database: Path) -> Path:
    """Where the bot on this database hears programs."""
    return database.with_name(database.name + ".programs")


def write_line(said: Wish | Told) -> bytes:
    """One line, to be sent; ValueError for arguments that are no JSON."""
    try:
        return json.dumps(asdict(said), allow_nan=False).encode() + b"\n"
    except TypeError as error:
        raise ValueError(str(error)) from None


def read_wish(line: bytes) -> Wish:
    """Read what a program, or the operator's command, says; raises GarbledError."""
    given = object_in(line)
    if not {"new_key", "renewed_key", "revoked_key"}.isdisjoint(given):
        return _about_a_key(given)
    if isinstance(person := given.get("forgotten"), str):
        return PersonUnwanted(person)
    if "run" in given:
        run, seconds = given.get("run"), given.get("seconds", 0.0)
        if not isinstance(run, str) or not isinstance(seconds, int | float):
            raise GarbledError("no look at a request")
        return Look(run, min(max(float(seconds), 0.0), LONGEST_LOOK))
    names = ("tool", "requester", "channel", "why", "key")
    texts = [given.get(name, "") for name in names]
    arguments = given.get("arguments")
    if not all(isinstance(each, str) for each in texts) or not isinstance(arguments, dict):
        raise GarbledError("neither a request nor a look at one")
    tool, requester, channel, why, key = texts
    return CallWanted(tool, arguments, requester, channel, why, key)


def _about_a_key(given: Mapping[str, Any]) -> KeyWanted | KeyRenewed | KeyUnwanted:
    """What is said of a key; the command that says it has read its own options."""
    try:
        if "revoked_key" in given:
            return KeyUnwanted(str(given["revoked_key"]))
        if "renewed_key" in given:
            return KeyRenewed(str(given["renewed_key"]))
        name, person, tools = given["new_key"], given["person"], tuple(map(str, given["tools"]))
        service, per_hour = bool(given["service"]), int(given["per_hour"])
        return KeyWanted(str(name), str(person), tools, service, per_hour, str(given["webhook"]))
    except (LookupError, TypeError, ValueError):
        raise GarbledError("no word of a key") from None


def read_told(line: bytes) -> Told:
    """Read what the bot says; raises GarbledError."""
    given = object_in(line)
    names = ("run", "problem", "status", "result", "key", "webhook_secret")
    texts = {name: given.get(name, "") for name in names}
    arguments = given.get("arguments", {})
    if not all(isinstance(each, str) for each in texts.values()) or not isinstance(arguments, dict):
        raise GarbledError("no answer")
    return Told(**texts, arguments=arguments)


PATIENCE = 45.0  # seconds that the bot may take to answer
AGAIN = 0.5  # seconds between two tries where no bot listens, while one waits


class NotRunningError(ConnectionError):
    """No bot listens beside this database, or it went away before it answered."""


class TurnedAwayError(ValueError):
    """The bot does not put this before people; says why in a sentence."""


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """How a call ended."""

    status: str  # succeeded, failed, rejected, expired, cancelled, refused, superseded, invalidated
    result: str  # what the tool returned, as text, or in words why it was not done
    arguments: Mapping[str, Any]  # as they ran, or were last proposed: people may have edited them


@dataclass(frozen=True, slots=True)
class Requested:
    """A call that was put before people; `run_id` says which, in any later life of the program."""

    run_id: str
    database: Path

    def ended(self, seconds: float = 0.0) -> RequestEnded | None:
        """Return how it ended; None while it waits or runs, after so many seconds (five at most).

        Raises NotRunningError, and TurnedAwayError for a request that this bot does not know.
        """
        told = say_to_the_bot(Look(self.run_id, seconds), self.database)
        return RequestEnded(told.status, told.result, told.arguments) if told.status else None

    def wait(self, seconds: float) -> RequestEnded:
        """Return how it ended, waiting so long at most; raises TimeoutError, and it goes on.

        A bot that is started anew meanwhile is waited for.
        """
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                found = self.ended(min(max(left, 0.0), LONGEST_LOOK))
            except NotRunningError:
                if left <= 0:
                    raise
                time.sleep(min(AGAIN, left))
                continue
            if found is not None:
                return found
            if left <= 0:
                raise TimeoutError("nobody has decided yet")


def request(
    tool: str,
    arguments: Mapping[str, Any],
    *,
    requester: str,
    channel: str = "",
    why: str = "",
    key: str = "",
    database: str | Path = "",
) -> Requested:
    """Put a call before people, and return once it is stored; nothing has been decided by then.

    `requester`: the Slack user id of whoever answers for it, and does not approve it. `channel`:
    the id of the channel where it is asked, "" for the requester's direct messages. `why` is for
    the approver. `key`: what was asked with this key before is returned, and not asked again.
    `database`: the bot's SQLite file, by default that of DATABASE_URL, else countersign.db here.

    Raises NotRunningError, in which case it may have been stored or not (ask again with the same
    `key`), TurnedAwayError, and ValueError for arguments that are no JSON.
    """
    place = Path(database or _database()).absolute()
    wanted = CallWanted(tool, dict(arguments), requester, channel, why, key)
    return Requested(say_to_the_bot(wanted, place).run, place)


def _database() -> str:
    url = os.environ.get("DATABASE_URL", "sqlite:///countersign.db")
    if url.startswith("postgres"):  # as `storage.backend.local_path` has it
        address = f"postgresql://{url.partition('://')[2]}"
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return f"{folder}/countersign-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return url.removeprefix("sqlite:///")


def say_to_the_bot(said: Wish, database: Path, *, patience: float = PATIENCE) -> Told:
    """Say one thing to the bot, and return what it answers, within so many seconds.

    Raises NotRunningError, and TurnedAwayError where that is a problem.
    """
    line = write_line(said)
    if len(line) > MOST:
        raise TurnedAwayError(f"it is longer than {MOST:,} bytes")
    path = socket_path(database)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
            bot.settimeout(patience)
            bot.connect(str(path))
            bot.sendall(line)
            told = read_told(line_of(bot, MOST_TOLD))
    except (OSError, GarbledError) as error:
        raise NotRunningError(f"no bot answers at {path} ({error})") from error
    if told.problem:
        raise TurnedAwayError(told.problem)
    return told
