"""The files of the messages that a run is about to hear: read once, kept, and told to the model.

They are fetched before anything is stored, and stored with the words that they belong to.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slack_sdk import WebClient

from bot.agent import file_items
from bot.agent.file_items import Content
from bot.agent.turn import PlannerError
from bot.clock import Clock
from bot.config.model_settings import FilesGiven
from bot.slack.files.reading import FileReader, Read, not_read
from storage import attached_files
from storage.attached_files import AttachedFile
from storage.models import Run
from storage.store import Store
from storage.transaction import Transaction

SECONDS = 20.0  # that all files of the words that are heard at once may take
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """A message with files."""

    key: str  # of the message: `storage.attached_files.message_key`
    person: str  # Slack user id
    name: str
    files: Sequence[Mapping[str, Any]]  # as Slack tells of them
    before: bool = False  # it was there before the words that are heard now


@dataclass(slots=True)
class FilesHeard:
    """What is told of files: an item for each message that has some, and what is to be kept."""

    items: dict[str, Item] = field(default_factory=dict)  # by the key of the message
    rows: list[AttachedFile] = field(default_factory=list)

    def of(self, posted: MessageFiles) -> list[Item]:
        """Return the item about a message's files, where it has any."""
        found = self.items.get(posted.key)
        return [found] if found else []


@dataclass(slots=True)
class _Room:
    """How much more is read."""

    bytes: int  # of pictures and PDFs
    files: int = file_items.MOST_FILES
    text: int = file_items.MOST_TEXT_AT_ONCE  # characters


class AttachedFiles:
    """Reads and keeps files; one for all workers."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        client: WebClient,
        which: FilesGiven,
        stopping: threading.Event,
    ) -> None:
        """`which` are given to the model; the others are only named to it. Once `stopping` is set
        nothing is heard any more.
        """
        self._store = store
        self._clock = clock
        self._reader = FileReader(client, stopping)
        self._which = which
        self._stopping = stopping

    def hear(self, run: Run, posted: Iterable[MessageFiles], known: dict[str, Read]) -> FilesHeard:
        """Read the files of these messages, those first that matter most.

        `known`: what was read before, by Slack's id, to which more is added: a message that changes
        while its files are read is heard again. Raises PlannerError where the process stops.
        """
        heard, until = FilesHeard(), time.monotonic() + SECONDS
        with_files = [each for each in posted if each.files]
        if not with_files:
            return heard
        with self._store.read() as tx:
            room = _Room(file_items.MOST_IN_THREAD - attached_files.size_in(tx, run))
        for each in with_files:
            parts = []
            for told in each.files:
                read = self._read(told, room, known, until)
                if self._stopping.is_set():  # what it could not read is read at the next start
                    raise PlannerError("Countersign is stopping.")
                parts += self._given(run, each, read, room, heard.rows)
            head = file_items.head(each.person, each.name, before=each.before)
            heard.items[each.key] = file_items.item(head, parts)
        return heard

    def keep(self, tx: Transaction, heard: FilesHeard) -> None:
        """Store what is to be kept, in the transaction that stores the items."""
        for each in heard.rows:
            attached_files.add(tx, each, at=self._clock.now())

    def _read(
        self, told: Mapping[str, Any], room: _Room, known: dict[str, Read], until: float
    ) -> Read:
        if self._which is FilesGiven.OFF:
            return not_read(told, file_items.OFF)
        if room.files <= 0:
            return not_read(told, file_items.TOO_MANY)
        room.files -= 1
        slack_id = str(told.get("id") or "")
        found = known.get(slack_id)
        if found is None:
            found = self._reader.read(told, until)
            known[slack_id] = found
        return found

    def _given(
        self, run: Run, posted: MessageFiles, read: Read, room: _Room, kept: list[AttachedFile]
    ) -> list[Item]:
        """Return the parts that tell of a file; what is given of it is added to `kept`."""
        content = read.content
        if content is None:
            return [file_items.words(file_items.left_out(read.name, read.why))]
        if self._which is FilesGiven.TEXT and not content.is_text:
            return [file_items.words(file_items.left_out(read.name, file_items.TEXTS_ONLY))]
        if not (room.text if content.is_text else room.bytes >= len(read.data)):
            why = file_items.TOO_MUCH_TEXT if content.is_text else file_items.NO_ROOM
            return [file_items.words(file_items.left_out(read.name, why))]
        if content.is_text:
            room.text -= min(room.text, len(content.text), file_items.MOST_TEXT)
        else:
            room.bytes -= len(read.data)
        row = AttachedFile(
            run_id=run.id,
            message=posted.key,
            slack_id=read.slack_id,
            person=posted.person,
            media=content.media,
            size=len(read.data),
            sha256=hashlib.sha256(read.data).hexdigest(),
            data=_kept(content, read.data),
            created_at=self._clock.now(),
        )
        kept.append(row)
        label = file_items.words(file_items.label(read.name, len(read.data), content))
        return [label, file_items.reference(row.id, read.name, content)]


def _kept(content: Content, data: bytes) -> str:
    """A file as it is kept: in base64, or a text with its end left out where it is too long."""
    return file_items.cut(content.text) if content.is_text else base64.b64encode(data).decode()
