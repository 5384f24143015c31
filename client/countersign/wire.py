"""HTTP requests to Countersign with the standard library, retried while that can help.

They go to a URL, or to the Unix socket beside the bot's database, where the bot's own account needs
no key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import socket
import time
import urllib.request
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from itertools import chain, repeat
from typing import Any, TypeGuard
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from countersign.request import CountersignError, NoAnswer, NotAllowed, TooManyRequests, Unreachable
from countersign.version import VERSION

UNIX_SCHEME = "unix:"


def build_bot_socket_address(record: str | os.PathLike[str] = "") -> str:
    """Return the unix:… address of the socket beside the database of the bot on this machine.

    `record`: the bot's SQLite file, by default the one in DATABASE_URL, else countersign.db in the
    working directory.
    """
    return f"{UNIX_SCHEME}{os.path.abspath(os.fspath(record) or _get_database_path())}.socket"


def _get_database_path() -> str:
    url = os.environ.get("DATABASE_URL", "").strip() or "sqlite:///countersign.db"
    if url.startswith("postgres"):  # the same as `storage.backend.build_local_path`
        address = f"postgresql://{url.partition('://')[2]}"
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return f"{folder}/countersign-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return url.removeprefix("sqlite:///")


class UnixConnection(HTTPConnection):
    """An HTTP connection over the Unix socket at a path."""

    def __init__(self, path: str, host: str = "localhost", **options: Any) -> None:
        """Store the path; `host` is for the Host header, `options` are those of HTTPConnection."""
        super().__init__(host, **options)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixHandler(urllib.request.HTTPHandler):
    """A urllib handler that opens http: URLs over one Unix socket, whatever host they name."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, req: urllib.request.Request) -> Any:
        """Send one request over the socket and return the response."""
        return self.do_open(partial(UnixConnection, self._path), req)


# Requests with an API key, and when they are tried again.

API_KEY_PREFIX = "csk_"
RETRY_TIMEOUT_SECONDS = 60.0  # to retry after a lost connection
ANSWER_TIMEOUT_SECONDS = 20.0  # beyond the wait that was asked for
RETRY_PAUSES_SECONDS = (0.25, 0.5, 1.0)  # the last repeats; short, so that nobody notices a restart
# of a proxy before Countersign, which limits requests or has lost one
PROXY_RETRY_STATUSES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT)
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
log = logging.getLogger("countersign.client")


class ApiTransport:
    """JSON requests to one Countersign address with one key; safe to use from any thread."""

    def __init__(self, url: str, key: str) -> None:
        """Check the address and the key; raises NotAllowed if one is missing or malformed."""
        url, key = url.strip(), key.strip()  # a value read from a file may end in a newline
        is_local = url.startswith(UNIX_SCHEME)
        if "@" in url.partition("://")[2].partition("/")[0]:  # not repeated: it has a password
            raise NotAllowed(
                "COUNTERSIGN_URL may not contain a user name or password, as in https://name@…"
            )
        host = "" if is_local else _find_host(url)
        if not is_local and not host:
            given = f"; {url!r} is not an address" if url else ""
            raise NotAllowed(f"Set COUNTERSIGN_URL to the address of Countersign, https://…{given}")
        # so that no other secret is sent by mistake
        is_key = key.startswith(API_KEY_PREFIX) and key.isascii() and key.isprintable()
        if not is_key and (key or not is_local):
            raise NotAllowed(
                f"Set COUNTERSIGN_API_KEY to the key, {API_KEY_PREFIX}…, that `countersign key"
                " new` printed."
            )
        self.url = url.rstrip("/")
        self._base = "http://localhost" if is_local else self.url
        self._key = key
        self._opener = _build_opener(host, url.removeprefix(UNIX_SCHEME) if is_local else "")
        self._is_lost = False  # logged as not answering, and not yet as answering again

    def get(
        self, path: str, *, waits: float = 0.0, patience: float | None = RETRY_TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON at a path; `waits`: seconds that the server was asked to wait first.

        Raises NotAllowed, and Unreachable after `patience` seconds without an answer. If `patience`
        is None, the request is tried once, and NoAnswer and TooManyRequests say that it may be
        tried again.
        """
        return self._send("GET", path, None, {}, waits, patience)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str = "",
        later: float | None = None,
        patience: float = RETRY_TIMEOUT_SECONDS,
    ) -> Any:
        """Send a JSON body and return the answer's JSON.

        `key`: an idempotency key; a body sent again with the same key gets the earlier answer and
        does nothing more. `later`: seconds after which the server may answer that there is no
        answer yet. Raises as `get` does, and ValueError or TypeError for a body that is not JSON.
        """
        data = json.dumps(body, allow_nan=False).encode()
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        if later is not None:
            headers["Prefer"] = f"respond-async, wait={int(later)}"
        return self._send("POST", path, data, headers, later or 0.0, patience)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        waits: float,
        patience: float | None,
    ) -> Any:
        url = self._base + path  # http or https, as was checked
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 # see above
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        request.add_header("Accept", "application/json, application/problem+json")
        request.add_header("User-Agent", f"countersign-client/{VERSION}")
        until = time.monotonic() + (0.0 if patience is None else waits + patience)
        pauses = chain(RETRY_PAUSES_SECONDS, repeat(RETRY_PAUSES_SECONDS[-1]))
        timeout = waits + ANSWER_TIMEOUT_SECONDS
        while True:
            again = next(pauses) * random.uniform(0.75, 1.25)  # noqa: S311 # no secret: it spreads
            begun = time.monotonic()
            error: CountersignError
            try:
                with self._opener.open(request, timeout=timeout) as answer:
                    answer_body = answer.read()
                self._log_reached_again()
                return _parse_answer(answer_body)
            except HTTPError as refusal:
                with refusal:
                    asked_to = _parse_retry_after(refusal)
                    error = _build_http_error(refusal)
                again = max(asked_to or 0.0, again)
                if not isinstance(error, NoAnswer | TooManyRequests) and asked_to is None:
                    self._log_reached_again()
                    raise error from None
            except (OSError, HTTPException) as lost:
                why = lost.reason if isinstance(lost, URLError) else lost
                if _is_caller_timeout(why, begun + timeout):
                    raise why from None
                error = NoAnswer(f"Countersign does not answer at {self.url} ({why}).")
            if isinstance(error, NoAnswer) and not self._is_lost:
                self._is_lost = True
                log.warning("%s Trying again.", error)
            if time.monotonic() + again >= until:
                raise error from None
            time.sleep(again)

    def _log_reached_again(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.warning("Countersign answers again at %s.", self.url)


def _is_caller_timeout(error: object, until: float) -> TypeGuard[TimeoutError]:
    """Return whether the caller's own time limit, such as an alarm, has ended a connection.

    `until`: the monotonic time at which the connection itself times out. The error of an operating
    system has a number.
    """
    if not isinstance(error, TimeoutError) or error.errno is not None:
        return False
    return time.monotonic() < until


def _find_host(url: str) -> str:
    """Return the host in an http or https address; "" if it is none that can be asked."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        return ""
    return (
        host if parts.scheme in ("http", "https") and url.isprintable() and " " not in url else ""
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect handler that follows none, so that the key reaches only the configured address."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


def _build_opener(host: str, path: str) -> urllib.request.OpenerDirector:
    """Return a urllib opener; `path`: the Unix socket to use, "" for none.

    It bypasses every proxy for a socket and for a `host` on this machine.
    """
    if path:
        return urllib.request.build_opener(
            _NoRedirects, urllib.request.ProxyHandler({}), UnixHandler(path)
        )
    return urllib.request.build_opener(
        _NoRedirects, urllib.request.ProxyHandler({} if host in LOOPBACK_HOSTS else None)
    )


def _parse_answer(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise Unreachable(
            "What answers there is not Countersign: the answer is not JSON."
        ) from None


def _parse_retry_after(refusal: HTTPError) -> float | None:
    """Return the seconds of the Retry-After header; None if it is missing or not a number."""
    said = refusal.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _build_http_error(refusal: HTTPError) -> CountersignError:
    """Return the error for an unsuccessful HTTP answer, with a sentence for people."""
    if refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return NoAnswer(f"Countersign cannot answer now (HTTP {refusal.code}).")
    if refusal.code < HTTPStatus.BAD_REQUEST:
        location = refusal.headers.get("Location", "elsewhere")
        return Unreachable(f"That address redirects to {location}; use that one.")
    try:
        problem = json.loads(refusal.read())
        sentence = str(problem.get("detail") or problem["title"])
        fields = [f"{each['field']}: {each['message']}" for each in problem.get("errors") or ()]
    except (ValueError, OSError, HTTPException, AttributeError, KeyError, TypeError):
        if refusal.code in PROXY_RETRY_STATUSES:
            return NoAnswer(f"Countersign cannot answer now (HTTP {refusal.code}).")
        return Unreachable(f"What answers there is not Countersign (HTTP {refusal.code}).")
    sentence = "; ".join([sentence, *(each for each in fields if each not in sentence)])
    if refusal.code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(sentence)
    return NotAllowed(sentence)
