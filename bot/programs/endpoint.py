"""The socket beside the database at which programs put calls before people, and the operator makes
keys for those that ask over HTTP.

Only the account that the bot runs under may open it. It asks as `ProgramRequests` does and decides
nothing; on threads of its own.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from bot.policy.authority import LookupFailedError
from bot.programs.key_text import new_key_text, webhook_secret
from bot.programs.program_client import (
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
from bot.tools.names import NamedKind, NameResolver
from storage import personal_data, programs
from storage.programs import ClientKey

if TYPE_CHECKING:
    from bot.surfaces.port import Host


# Keys for programs that ask over HTTP: made and revoked for the operator, by the running bot.

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,64}", re.ASCII)
MOST_PER_HOUR = 100_000
HERE = ("localhost", "127.0.0.1", "::1")  # hosts that may be told without TLS
SYSTEM = "system"  # who made a key, for the audit, where the settings name no operator


class Keys:
    """One per process; any thread."""

    def __init__(self, host: Host) -> None:
        """`host` knows who is a colleague."""
        self._host = host
        self._by = host.settings.operator or SYSTEM

    def make(self, wanted: KeyWanted) -> Told:
        """Make a key; what is wrong with the wish is told as its problem. Looks people up."""
        try:
            person = self._person(wanted.person)
            _insist(wanted)
        except LookupFailedError as error:
            return Told(problem=f"Slack could not be asked ({error}); try again later")
        except ValueError as error:
            return Told(problem=str(error).rstrip("."))
        return self._made(wanted, person)

    def renew(self, name: str) -> Told:
        """Make a further key for the program of that name, for the same; the others still hold."""
        with self._host.store.read() as tx:
            old = programs.current_key(tx, self._host.identity.team, name)
        if old is None:
            return Told(problem=f"no key of the name {name!r} is good")
        service, per_hour = old.is_service, old.per_hour
        same = KeyWanted(name, old.person, old.patterns, service, per_hour, old.webhook)
        return self._made(same, old.person, beside=True)

    def _made(self, wanted: KeyWanted, person: str, *, beside: bool = False) -> Told:
        host, text = self._host, new_key_text()
        row = ClientKey(
            id=text.id,
            team=host.identity.team,
            name=wanted.new_key,
            person=person,
            is_service=wanted.service,
            tools=json.dumps(wanted.tools),
            per_hour=wanted.per_hour,
            hash=text.hash,
            webhook=wanted.webhook,
            made_at=host.clock.now(),
        )
        with host.store.write() as tx:
            is_made = programs.make_key(tx, row, self._by, beside=beside)
        if not is_made:
            why = f"there is a key of that name; `countersign key revoke {wanted.new_key}` ends it"
            return Told(problem=why)
        signing = webhook_secret(host.store.key, text.id) if wanted.webhook else ""
        return Told(key=str(text), webhook_secret=signing)

    def revoke(self, name: str) -> Told:
        """Have the program of that name ask no more, or nobody by the one key of that id; from the
        next request on it is refused.
        """
        host = self._host
        with host.store.write() as tx:
            if programs.revoke_key(tx, host.identity.team, name, self._by, at=host.clock.now()):
                return Told()
        return Told(problem=f"no key of the name {name!r} is good")

    def _person(self, named: str) -> str:
        """The id of who answers for it; ValueError for nobody, or somebody who may not ask."""
        authority = self._host.authority
        person = NameResolver(authority.directory, None).id_of(NamedKind.PERSON, named)
        if not authority.colleague(person):
            raise ValueError(f"{named} is not a full member of this workspace")
        return person


def _insist(wanted: KeyWanted) -> None:
    """Raise ValueError, with a sentence, for a wish that cannot be met."""
    if not _NAME.fullmatch(wanted.new_key):
        raise ValueError("a name is up to 40 small letters, digits, '.', '_' and '-'")
    if not wanted.tools or not all(map(_PATTERN.fullmatch, wanted.tools)):
        raise ValueError("--tools takes names of tools, with * for any letters: 'deploy_*'")
    if not 1 <= wanted.per_hour <= MOST_PER_HOUR:
        raise ValueError(f"--per-hour is a number from 1 to {MOST_PER_HOUR:,}")
    if wanted.webhook:
        _insist_on_address(wanted.webhook)


def _insist_on_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("--webhook is no address") from None
    if not host or parts.username or parts.password or not url.isascii() or not url.isprintable():
        raise ValueError("--webhook is an address, https://…, without a name or password in it")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in HERE):
        raise ValueError("--webhook begins with https://; only this machine is told without TLS")


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
