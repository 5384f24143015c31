"""Puts a call before people from any Python program on the bot's machine, without an agent.

It runs in the other program and imports nothing of the bot but the wire. The account must be the
bot's own: the socket beside the database is its.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.programs.wire import (
    LONGEST_LOOK,
    MOST,
    MOST_TOLD,
    CallWanted,
    Look,
    Told,
    Wish,
    read_told,
    socket_path,
    write_line,
)
from bot.surfaces.private_socket import GarbledError, line_of

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
