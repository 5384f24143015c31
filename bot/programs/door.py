"""The socket beside the database at which programs put calls before people, and the operator makes
keys for those that ask over HTTP.

Only the account that the bot runs under may open it. It asks as `ProgramRequests` does and decides
nothing; on threads of its own.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from bot.policy.directory import LookupFailedError
from bot.programs.keys import Keys
from bot.programs.wire import (
    MOST,
    CallWanted,
    KeyRenewed,
    KeyUnwanted,
    KeyWanted,
    Look,
    PersonUnwanted,
    Told,
    Wish,
    read_wish,
    socket_path,
    write_line,
)
from bot.runs.program_requests import GLANCE, NotAskedError
from bot.surfaces.port import Host
from bot.surfaces.private_socket import GarbledError, PrivateSocket, line_of
from storage import personal_data

log = logging.getLogger("countersign.programs")
SIDE_BY_SIDE = 32  # programs that are answered, or wait, at once


class ProgramsDoor:
    """A source: what runs under the bot's account may ask, in the name of a colleague."""

    def __init__(self, host: Host) -> None:
        """Nobody is heard yet."""
        self._host = host
        self._keys = Keys(host)
        self._ending = threading.Event()
        path = socket_path(host.store.path)
        self._socket = PrivateSocket(path, self._hear, name="programs", side_by_side=SIDE_BY_SIDE)

    def start(self) -> None:
        """Hear programs."""
        self._socket.open()

    def stop(self) -> None:
        """Hear nobody any more; who waits for an end hears that there is none yet."""
        self._ending.set()
        self._socket.close()

    def _hear(self, visitor: socket.socket) -> None:
        """Answer one program; what it says wrong is told to the log, and changes nothing."""
        try:
            with visitor:
                visitor.sendall(write_line(self._answer(read_wish(line_of(visitor, MOST)))))
        except GarbledError as error:
            log.warning("a program said nothing that is understood: %s", error)
        except OSError as error:
            log.warning("a program went away: %s", error)
        except Exception:
            log.exception("a program could not be answered")

    def _answer(self, wish: Wish) -> Told:
        match wish:
            case Look():
                return self._look(wish)
            case KeyWanted():
                return self._keys.make(wish)
            case KeyRenewed():
                return self._keys.renew(wish.renewed_key)
            case KeyUnwanted():
                return self._keys.revoke(wish.revoked_key)
            case PersonUnwanted():
                return self._forget(wish.forgotten)
            case CallWanted():
                return self._ask(wish)

    def _forget(self, person: str) -> Told:
        """Have a person's words emptied; it takes as long as it takes, and holds up nobody."""
        host = self._host
        actor = host.settings.operator or "system"
        over, now = self._ending.is_set, host.clock.now()
        done = personal_data.forget(host.store, person, at=now, actor=actor, is_over=over)
        if self._ending.is_set():
            return Told(problem="the bot stops, and has not done all of it; do it again")
        return Told(arguments=asdict(done))

    def _ask(self, wish: CallWanted) -> Told:
        try:
            asked = self._host.programs.ask(
                wish.tool,
                wish.arguments,
                requester=wish.requester,
                channel=wish.channel,
                why=wish.why,
                key=wish.key,
            )
        except KeyError:
            return Told(problem=f"there is no tool {wish.tool!r}")
        except LookupFailedError as error:
            return Told(problem=f"Slack could not be asked ({error}); ask again later")
        except ValidationError as error:
            found = "; ".join(f"{_place(each)}: {each['msg']}" for each in error.errors())
            return Told(problem=f"{wish.tool} does not take that: {found}")
        except NotAskedError as error:
            return Told(problem=str(error))
        return Told(asked.run_id)

    def _look(self, look: Look) -> Told:
        asked = self._host.programs.asked(look.run)
        if asked is None:
            return Told(problem=f"there is no request {look.run!r}")
        until = time.monotonic() + look.seconds
        while (ended := asked.ended()) is None:
            if self._ending.wait(GLANCE) or time.monotonic() >= until:
                return Told(look.run)
        return Told(look.run, "", ended.status, ended.result, ended.arguments)


def _place(error: Any) -> str:
    return ".".join(map(str, error["loc"])) or "arguments"
