"""One file of a message, as Slack tells of it: read, or known why it is not. It stores nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.agent import file_items
from bot.agent.file_items import Content, content_of
from bot.messages.text import visible
from bot.slack.files.fetching import (
    Fetcher,
    NoMoreError,
    NotAllowedError,
    NotAtSlackError,
    NotFetchedError,
    TooLargeError,
)
from bot.slack_codes import code_of

log = logging.getLogger("countersign.files")
ASK_FIRST = "check_file_info"  # of a channel shared with another company
_OURS = ("hosted", "snippet", "")  # modes of files that are what was uploaded
_GONE = ("tombstone", "hidden_by_limit")
_WHY = {
    "missing_scope": file_items.NOT_ALLOWED,
    "no_permission": file_items.NOT_ALLOWED,
    "access_denied": file_items.NOT_ALLOWED,
    "file_deleted": file_items.HIDDEN,
    "file_not_found": file_items.HIDDEN,
    "not_visible": file_items.HIDDEN,
}
Told = Mapping[str, Any]  # a file as Slack tells of it


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read, or why it was not."""

    slack_id: str
    name: str  # on one line, with nothing hidden in it
    data: bytes = b""
    content: Content | None = None
    why: str = ""


class FileReader:
    """Reads files by what Slack tells of them; any thread."""

    def __init__(self, client: WebClient, stopping: threading.Event) -> None:
        """`client` only reads; once `stopping` is set nothing more is fetched."""
        self._client = client
        self._fetcher = Fetcher(client.token or "", client.base_url, stopping)

    def read(self, told: Told, until: float) -> Read:
        """Return the file, had by `until` (`time.monotonic`), or why it is not; raises nothing."""
        try:
            if told.get("file_access") == ASK_FIRST:
                told = self._client.files_info(file=told["id"])["file"]
            return self._read(told, until)
        except SlackApiError as error:
            problem: object = code_of(error)
            why = _WHY.get(str(problem), file_items.NOT_FETCHED)
        except TooLargeError as error:
            size = max(_size(told), file_items.MOST_BYTES + 1)
            why, problem = file_items.too_large(size), error
        except NotAtSlackError as error:
            why, problem = file_items.ELSEWHERE, error
        except NotAllowedError as error:
            why, problem = file_items.NOT_ALLOWED, error
        except NoMoreError as error:
            why, problem = file_items.HIDDEN, error
        except (NotFetchedError, OSError, HTTPException, LookupError, ValueError) as error:
            why, problem = file_items.NOT_FETCHED, error
        log.warning("the file %s was not read: %s", told.get("id"), problem)
        return not_read(told, why)

    def _read(self, told: Told, until: float) -> Read:
        if why := _unread(told):
            return not_read(told, why)
        got = self._fetcher.fetch(str(told.get("url_private") or ""), file_items.MOST_BYTES, until)
        if got.is_page and not (_is_page(told) and len(got.data) == _size(told)):
            raise NotAllowedError("a page came instead of it")
        content = content_of(got.data, said_to_be_text=_is_text(told))
        if content is None:
            return not_read(told, file_items.UNREADABLE if got.data else file_items.EMPTY)
        return Read(str(told.get("id") or ""), name_of(told), got.data, content)


def not_read(told: Told, why: str) -> Read:
    """Return a file of which only the name is given, and why."""
    return Read(str(told.get("id") or ""), name_of(told), why=why)


def name_of(told: Told) -> str:
    """Return what a file is called, on one line and with nothing hidden in it."""
    name = " ".join(str(told.get("name") or "").encode("utf-8", "replace").decode().split())
    return visible(name)[: file_items.LONGEST_NAME] or file_items.UNNAMED


def _unread(told: Told) -> str:
    """Why a file is not even fetched; "" where it is."""
    mode, size = str(told.get("mode") or ""), _size(told)
    if mode in _GONE:
        return file_items.HIDDEN
    if told.get("is_external") or mode == "external":
        return file_items.ELSEWHERE
    if mode not in _OURS:
        return file_items.OWN_DOCUMENT
    if size > file_items.MOST_BYTES:
        return file_items.too_large(size)
    return ""


def _size(told: Told) -> int:
    size = told.get("size")
    return size if isinstance(size, int) else 0


def _is_page(told: Told) -> bool:
    return told.get("mimetype") == "text/html" or told.get("filetype") == "html"


def _is_text(told: Told) -> bool:
    return str(told.get("mimetype") or "").startswith("text/")
