"""Reading of one file attached to a Slack message, or the reason why it is not read.

Nothing is stored here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.agent import file_items
from bot.cards.slack_text import show_hidden_characters
from bot.slack_codes import extract_error_code

# Download of a file from Slack with the bot's token.

SLACK_FILE_HOSTS = frozenset({"files.slack.com", "files.slack-gov.com"})
READ_TIMEOUT_SECONDS = 5.0  # without any data; then the attempt is given up
MAX_ATTEMPTS = 2
_READ_CHUNK_BYTES = 65_536
_MIN_SERVER_ERROR_STATUS = 500


class NotFetchedError(Exception):
    """Raised when a file could not be downloaded; the message is for the log."""

    def __init__(self, problem: str, reason: str = file_items.DOWNLOAD_FAILED_REASON) -> None:
        """`reason` is what the model is told."""
        super().__init__(problem)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """The bytes of a file, and whether they came as a web page."""

    data: bytes
    is_web_page: bool


class _NoRedirectHandler(HTTPRedirectHandler):
    """A redirect handler that follows no redirect: urllib raises HTTPError for it instead."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return None, so that the redirect is not followed."""


class FileFetcher:
    """A downloader of one workspace's files; any thread."""

    def __init__(
        self, get_token: Callable[[], str], api_url: str, stopping: threading.Event | None = None
    ) -> None:
        """`get_token` returns the bot's current token.

        `api_url`: where Slack's Web API is; files may be on the same host, as in a sandbox.

        Once `stopping` is set nothing more is downloaded.
        """
        self._get_token = get_token
        self._stopping = stopping or threading.Event()
        self._origin = urlsplit(api_url)[:2]
        self._opener: OpenerDirector | None = None

    def fetch(self, url: str, most: int, until: float) -> FetchedFile:
        """Download a file of `most` bytes at most, by the time `until` (`time.monotonic`).

        Raises NotFetchedError.
        """
        if not self._is_slack_url(url):
            raise NotFetchedError("its address is not Slack's", file_items.EXTERNAL_FILE_REASON)
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            try:
                return self._download_once(url, most, until)
            except HTTPError as error:
                error.close()
                status = f"status {error.code}"
                if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                    raise NotFetchedError(status, file_items.HIDDEN_FILE_REASON) from error
                # Slack redirects to its sign-in page if the token has no access
                if error.code < _MIN_SERVER_ERROR_STATUS:
                    raise NotFetchedError(status, file_items.MISSING_SCOPE_REASON) from error
                failed: Exception = error
            except (OSError, HTTPException, ValueError) as error:
                failed = error
            if not attempts_left or time.monotonic() >= until or self._stopping.is_set():
                raise NotFetchedError(str(failed)) from failed
        raise AssertionError("there is a first try")

    def _is_slack_url(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if parts[:2] == self._origin:
            return True
        plain = port is None and parts.username is None
        return parts.scheme == "https" and host in SLACK_FILE_HOSTS and plain

    def _download_once(self, url: str, max_bytes: int, until: float) -> FetchedFile:
        if self._opener is None:  # created on first use: it reads certificates and proxy settings
            self._opener = build_opener(_NoRedirectHandler)
        request = Request(url, headers={"Authorization": f"Bearer {self._get_token()}"})  # noqa: S310 - https, or the host that the operator named
        patience = max(0.1, min(READ_TIMEOUT_SECONDS, until - time.monotonic()))
        with self._opener.open(request, timeout=patience) as answer:
            if answer.status != HTTPStatus.OK:
                raise URLError(f"status {answer.status}")
            data = self._read_body(answer, max_bytes, until)
            return FetchedFile(data, answer.headers.get_content_type() == "text/html")

    def _read_body(self, answer: Any, max_bytes: int, until: float) -> bytes:
        """Return the whole body of an answer; NotFetchedError if it has more than `max_bytes`."""
        body = bytearray()
        while chunk := answer.read1(_READ_CHUNK_BYTES):
            body += chunk
            if len(body) > max_bytes:
                reason = file_items.too_large_note(max_bytes + 1)
                raise NotFetchedError(f"more than {max_bytes} bytes", reason)
            if time.monotonic() >= until or self._stopping.is_set():
                raise TimeoutError("it took too long")
        if answer.length:  # the connection broke
            raise URLError(f"{answer.length} bytes are missing")
        return bytes(body)


log = logging.getLogger("countersign.files")
CHECK_FILE_INFO = "check_file_info"  # `file_access` in a channel shared with another company
_UPLOADED_FILE_MODES = ("hosted", "snippet", "")  # Slack keeps these as they were uploaded
_HIDDEN_FILE_MODES = ("tombstone", "hidden_by_limit")
_OMISSION_REASON_BY_CODE = {
    "missing_scope": file_items.MISSING_SCOPE_REASON,
    "no_permission": file_items.MISSING_SCOPE_REASON,
    "access_denied": file_items.MISSING_SCOPE_REASON,
    "file_deleted": file_items.HIDDEN_FILE_REASON,
    "file_not_found": file_items.HIDDEN_FILE_REASON,
    "not_visible": file_items.HIDDEN_FILE_REASON,
}
SlackFile = Mapping[str, Any]  # a file as Slack describes it


@dataclass(frozen=True, slots=True)
class FileReadResult:
    """A file that was read, or the reason why it was not."""

    slack_id: str
    name: str  # on one line, without hidden characters
    data: bytes = b""
    content: file_items.FileContent | None = None
    omission_reason: str = ""


class FileReader:
    """A reader of files, given Slack's descriptions of them; any thread."""

    def __init__(self, client: WebClient, stopping: threading.Event) -> None:
        """`client` only reads; once `stopping` is set nothing more is downloaded."""
        self._client = client
        self._fetcher = FileFetcher(lambda: client.token or "", client.base_url, stopping)

    def read_file(self, file: SlackFile, until: float) -> FileReadResult:
        """Return the file, or the reason why it was not read by `until`; raise nothing.

        `file` is Slack's description of the file, `until` a time of `time.monotonic`.
        """
        try:
            if _is_incomplete(file):
                metadata = self._client.files_info(file=file["id"])["file"]
                if not _is_posted_where_named(metadata, file.get("named_in")):
                    raise NotFetchedError("its message names it and does not have it")
                file = metadata
            return self._download_file(file, until)
        except SlackApiError as error:
            problem: object = extract_error_code(error)
            why = _OMISSION_REASON_BY_CODE.get(str(problem), file_items.DOWNLOAD_FAILED_REASON)
        except NotFetchedError as error:
            why, problem = error.reason, error
        except (OSError, HTTPException, LookupError, ValueError) as error:
            why, problem = file_items.DOWNLOAD_FAILED_REASON, error
        log.warning("the file %s was not read: %s", file.get("id"), problem)
        return build_unread_result(file, why)

    def _download_file(self, metadata: SlackFile, until: float) -> FileReadResult:
        if why := _find_skip_reason(metadata):
            return build_unread_result(metadata, why)
        if not (url := str(metadata.get("url_private") or "")):
            raise NotFetchedError("Slack does not say where it is")
        got = self._fetcher.fetch(url, file_items.MAX_FILE_BYTES, until)
        is_page = metadata.get("mimetype") == "text/html" or metadata.get("filetype") == "html"
        if got.is_web_page and not (is_page and len(got.data) == _get_file_size(metadata)):
            raise NotFetchedError("a web page came instead of it", file_items.MISSING_SCOPE_REASON)
        is_text = str(metadata.get("mimetype") or "").startswith("text/")
        content = file_items.recognise_content(got.data, said_to_be_text=is_text)
        if content is None:
            why = file_items.UNSUPPORTED_TYPE_REASON if got.data else file_items.EMPTY_FILE_REASON
            return build_unread_result(metadata, why)
        return FileReadResult(
            str(metadata.get("id") or ""), format_file_name(metadata), got.data, content
        )


def build_unread_result(file: SlackFile, why: str) -> FileReadResult:
    """Return a file with only its name and the reason why it was not read."""
    return FileReadResult(str(file.get("id") or ""), format_file_name(file), omission_reason=why)


def format_file_name(file: SlackFile) -> str:
    """Return a file's name on one line, with hidden characters made visible."""
    name = " ".join(str(file.get("name") or "").encode("utf-8", "replace").decode().split())
    return (
        show_hidden_characters(name)[: file_items.MAX_FILE_NAME_CHARS]
        or file_items.UNNAMED_FILE_LABEL
    )


def _is_incomplete(file: SlackFile) -> bool:
    """Return whether a message's description of its file lacks what is needed to read the file.

    That is so in a channel shared with another company, and while Slack works on an upload.
    """
    if file.get("file_access") == CHECK_FILE_INFO:
        return True
    return not (file.get("url_private") or _find_skip_reason(file))


def _is_posted_where_named(metadata: SlackFile, place: Mapping[str, str] | None) -> bool:
    """Return whether the message at `place`, which names a file, has it; True for no place.

    Its author may name any file, also one that only the bot can see.
    """
    if place is None:
        return True
    shares = [each.get(place["channel"]) or () for each in (metadata.get("shares") or {}).values()]
    return any(share.get("ts") == place["ts"] for each in shares for share in each)


def _find_skip_reason(metadata: SlackFile) -> str:
    """Return the reason not to download a file; "" if it is to be downloaded."""
    mode, size = str(metadata.get("mode") or ""), _get_file_size(metadata)
    if mode in _HIDDEN_FILE_MODES:
        return file_items.HIDDEN_FILE_REASON
    if metadata.get("is_external") or mode == "external":
        return file_items.EXTERNAL_FILE_REASON
    if mode not in _UPLOADED_FILE_MODES:
        return file_items.SLACK_DOCUMENT_REASON
    if size > file_items.MAX_FILE_BYTES:
        return file_items.too_large_note(size)
    return ""


def _get_file_size(metadata: SlackFile) -> int:
    size = metadata.get("size")
    return size if isinstance(size, int) else 0
