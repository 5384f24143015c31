"""What a program says to the running bot, and what it hears: a line of JSON each way.

They meet at a socket beside the database, which only its owner may open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bot.surfaces.private_socket import GarbledError, object_in

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
class Told:
    """What the bot says."""

    run: str = ""  # the request; "" where there is none
    problem: str = ""  # why not, in a sentence
    status: str = ""  # how it ended; "" while it waits or runs
    result: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)  # as they ran


def socket_path(database: Path) -> Path:
    """Where the bot on this database hears programs."""
    return database.with_name(database.name + ".programs")


def write_line(said: CallWanted | Look | Told) -> bytes:
    """One line, to be sent; ValueError for arguments that are no JSON."""
    try:
        return json.dumps(asdict(said), allow_nan=False).encode() + b"\n"
    except TypeError as error:
        raise ValueError(str(error)) from None


def read_wish(line: bytes) -> CallWanted | Look:
    """Read what a program says; raises GarbledError."""
    given = object_in(line)
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


def read_told(line: bytes) -> Told:
    """Read what the bot says; raises GarbledError."""
    given = object_in(line)
    texts = [given.get(name, "") for name in ("run", "problem", "status", "result")]
    arguments = given.get("arguments", {})
    if not all(isinstance(each, str) for each in texts) or not isinstance(arguments, dict):
        raise GarbledError("no answer")
    run, problem, status, result = texts
    return Told(run, problem, status, result, arguments)
