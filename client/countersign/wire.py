"""The line to Countersign: HTTP by the standard library, tried again while that can help.

It goes to an address, or to the Unix socket beside the bot's record, where the bot's account asks
without a key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import socket
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from countersign.request import (
    CountersignError,
    NoAnswer,
    NotAllowed,
    TooManyAtOnce,
    Unreachable,
)
from countersign.version import VERSION

SCHEME = "unix:"


def address_beside(record: str | os.PathLike[str] = "") -> str:
    """Return the address, unix:…, of the bot on this machine.

    `record`: its SQLite file, by default that of DATABASE_URL, else countersign.db here.
    """
    return f"{SCHEME}{os.path.abspath(os.fspath(record) or _record())}.socket"


def _record() -> str:
    url = os.environ.get("DATABASE_URL", "sqlite:///countersign.db")
    if url.startswith("postgres"):  # as `storage.backend.local_path` has it
        address = f"postgresql://{url.partition('://')[2]}"
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return f"{folder}/countersign-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return url.removeprefix("sqlite:///")


class UnixConnection(HTTPConnection):
    """A connection to the socket at this path."""

    def __init__(self, path: str, host: str = "localhost", **options: Any) -> None:
        """`host`: what stands in the header Host; `options`: as HTTPConnection has them."""
        super().__init__(host, **options)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixHandler(HTTPHandler):
    """Opens http addresses at the socket, whatever host they name."""

    def __init__(self, path: str) -> None:
        """`path`: of the socket."""
        super().__init__()
        self._path = path

    def http_open(self, req: Request) -> Any:
        """Open one."""

        def connect(host: str, **options: Any) -> UnixConnection:
            return UnixConnection(self._path, host, **options)

        return self.do_open(connect, req)


# The line.

KEY_PREFIX = "csk_"
PATIENCE = 60.0  # seconds that a line is tried which is lost
ANSWER = 20.0  # seconds that an answer may take beyond what it was asked to wait
PAUSES = (0.25, 0.5, 1.0)  # seconds between tries, the last for ever: nobody notices a restart
_HERE = ("127.0.0.1", "localhost", "::1")
log = logging.getLogger("countersign.client")


class Wire:
    """For one address and one key; any thread may use it."""

    def __init__(self, url: str, key: str) -> None:
        """Raises NotAllowed where one of them is missing or cannot be right."""
        parts = urlsplit(url)
        is_local = url.startswith(SCHEME)
        if not is_local and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise NotAllowed("Set COUNTERSIGN_URL to where Countersign is, https://…")
        # some other secret must not travel
        if not key.startswith(KEY_PREFIX) and (key or not is_local):
            raise NotAllowed(
                f"Set COUNTERSIGN_API_KEY to the key, {KEY_PREFIX}…, that"
                " `countersign key new` has shown."
            )
        self.url = url.rstrip("/")
        self._base = "http://localhost" if is_local else self.url
        self._key = key
        self._opener = _opener(parts.hostname or "", url.removeprefix(SCHEME) if is_local else "")
        self._is_lost = False  # the last that was said had no answer

    def get(self, path: str, *, waits: float = 0.0, patience: float | None = PATIENCE) -> Any:
        """Return what is there, as JSON; `waits`: how many seconds the answer was asked to wait.

        Raises NotAllowed, and Unreachable after `patience` seconds of no answer; where `patience`
        is None, it is tried once, and NoAnswer and TooManyAtOnce say that it may be tried again.
        """
        return self._say("GET", path, None, {}, waits, patience)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str = "",
        later: float | None = None,
        patience: float = PATIENCE,
    ) -> Any:
        """Say something, and return the answer; raises as `get` does, and ValueError for no JSON.

        `key`: what was said with the same one before is answered as it was, and does nothing more.
        `later`: after so many seconds it may be answered that there is no answer yet.
        """
        said = json.dumps(body, allow_nan=False).encode()
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        if later is not None:
            headers["Prefer"] = f"respond-async, wait={int(later)}"
        return self._say("POST", path, said, headers, later or 0.0, patience)

    def _say(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        waits: float,
        patience: float | None,
    ) -> Any:
        url = self._base + path  # http or https, as was checked
        request = Request(url, body, headers, method=method)  # noqa: S310 # see above
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        request.add_header("Accept", "application/json, application/problem+json")
        request.add_header("User-Agent", f"countersign-client/{VERSION}")
        until = time.monotonic() + (0.0 if patience is None else waits + patience)
        for pause in _pauses():
            again = pause
            error: CountersignError
            try:
                with self._opener.open(request, timeout=waits + ANSWER) as answer:
                    said = answer.read()
                self._found()
                return _read(said)
            except HTTPError as refusal:
                with refusal:
                    asked_to = _retry_after(refusal)
                    error = _refusal(refusal)
                again = max(asked_to or 0.0, pause)
                if not isinstance(error, NoAnswer | TooManyAtOnce) and asked_to is None:
                    self._found()
                    raise error from None
            except (OSError, HTTPException) as lost:
                why = lost.reason if isinstance(lost, URLError) else lost
                error = NoAnswer(f"Countersign does not answer at {self.url} ({why}).")
            if isinstance(error, NoAnswer):
                self._lose(error)
            if time.monotonic() + again >= until:
                raise error from None
            time.sleep(again)
        raise AssertionError("the pauses never end")

    def _lose(self, error: NoAnswer) -> None:
        """Say once that there is no answer: whoever waits for one may wait long."""
        if not self._is_lost:
            self._is_lost = True
            log.warning("%s It is tried again.", error)

    def _found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.warning("Countersign answers again at %s.", self.url)


class _NoRedirects(HTTPRedirectHandler):
    """The key goes to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def _opener(host: str, path: str) -> OpenerDirector:
    """What opens addresses, at the socket of that path where there is one: past every proxy where
    the address is this machine's.
    """
    if path:
        return build_opener(_NoRedirects, ProxyHandler({}), UnixHandler(path))
    return build_opener(_NoRedirects, ProxyHandler({} if host in _HERE else None))


def _pauses() -> Iterator[float]:
    yield from (each * random.uniform(0.75, 1.25) for each in PAUSES)  # noqa: S311 # no secret
    while True:
        yield PAUSES[-1] * random.uniform(0.75, 1.25)  # noqa: S311 # it spreads, it hides nothing


def _read(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        raise Unreachable("What answers there is not Countersign: it says no JSON.") from None


def _retry_after(refusal: HTTPError) -> float | None:
    """The seconds after which to try again, if it says so."""
    said = refusal.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _refusal(refusal: HTTPError) -> CountersignError:
    """What an answer that is no success says, as a sentence."""
    if refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return NoAnswer(f"Countersign cannot answer now (HTTP {refusal.code}).")
    if refusal.code < HTTPStatus.BAD_REQUEST:
        there = refusal.headers.get("Location", "elsewhere")
        return Unreachable(f"That address leads on to {there}; give that one.")
    try:
        said = json.loads(refusal.read())
        sentence = str(said.get("detail") or said["title"])
        fields = [f"{each['field']}: {each['message']}" for each in said.get("errors") or ()]
    except (ValueError, OSError, HTTPException, AttributeError, KeyError, TypeError):
        return Unreachable(f"What answers there is not Countersign (HTTP {refusal.code}).")
    sentence = "; ".join([sentence, *(each for each in fields if each not in sentence)])
    if refusal.code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyAtOnce(sentence)
    return NotAllowed(sentence)
