"""Fetches the bytes of a file that Slack keeps, by the bot's token.

The token goes to Slack's own hosts alone, no redirect is followed, and neither size nor time is
Slack's to choose.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

HOSTS = frozenset({"files.slack.com", "files.slack-gov.com"})
SILENCE = 5.0  # seconds without a byte after which a try is given up
TRIES = 2
_SOME = 65_536  # bytes that are read at once
_SERVERS = 500  # the least status that is the server's own fault


class NotFetchedError(Exception):
    """The file could not be had."""


class NotAllowedError(NotFetchedError):
    """Slack does not give it to this app."""


class TooLargeError(NotFetchedError):
    """It has more bytes than are read."""


class NotAtSlackError(NotFetchedError):
    """It is not at Slack."""


class NoMoreError(NotFetchedError):
    """It is not there any more."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of a file, and whether they came as a web page."""

    data: bytes
    is_page: bool


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: it becomes the error that its status is."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Go nowhere."""


class Fetcher:
    """Fetches files of one workspace; any thread."""

    def __init__(self, token: str, api_url: str, stopping: threading.Event | None = None) -> None:
        """`api_url`: where Slack's Web API is; files may be on the same host, as in a sandbox.

        Once `stopping` is set nothing more is fetched.
        """
        self._token = token
        self._stopping = stopping or threading.Event()
        self._origin = urlsplit(api_url)[:2]
        self._opener: OpenerDirector | None = None

    def fetch(self, url: str, most: int, until: float) -> Fetched:
        """Return the file at `url` of at most `most` bytes, had by `until` (`time.monotonic`).

        Raises NotFetchedError.
        """
        if not self._is_slacks(url):
            raise NotAtSlackError("its address is not Slack's")
        for left in reversed(range(TRIES)):
            try:
                return self._once(url, most, until)
            except HTTPError as error:
                error.close()
                if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                    raise NoMoreError(f"status {error.code}") from error
                if error.code < _SERVERS:  # Slack sends whom it does not know to its sign-in page
                    raise NotAllowedError(f"status {error.code}") from error
                failed: Exception = error
            except (OSError, HTTPException, ValueError) as error:
                failed = error
            if not left or time.monotonic() >= until or self._stopping.is_set():
                raise NotFetchedError(str(failed)) from failed
        raise AssertionError("there is a first try")

    def _is_slacks(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if parts[:2] == self._origin:
            return True
        plain = port is None and parts.username is None
        return parts.scheme == "https" and host in HOSTS and plain

    def _once(self, url: str, most: int, until: float) -> Fetched:
        if self._opener is None:  # it reads certificates and proxies
            self._opener = build_opener(_Stay)
        request = Request(url, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310 - https, or the host that the operator named
        patience = max(0.1, min(SILENCE, until - time.monotonic()))
        with self._opener.open(request, timeout=patience) as answer:
            if answer.status != HTTPStatus.OK:
                raise URLError(f"status {answer.status}")
            data = self._read(answer, most, until)
            return Fetched(data, answer.headers.get_content_type() == "text/html")

    def _read(self, answer: Any, most: int, until: float) -> bytes:
        """All that the answer holds; TooLargeError once it is more than `most` bytes."""
        found = bytearray()
        while chunk := answer.read1(_SOME):
            found += chunk
            if len(found) > most:
                raise TooLargeError(f"more than {most} bytes")
            if time.monotonic() >= until or self._stopping.is_set():
                raise TimeoutError("it took too long")
        if answer.length:  # the line broke
            raise URLError(f"{answer.length} bytes are missing")
        return bytes(found)
