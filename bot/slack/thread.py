"""Turns a run's held messages into transcript items, with earlier messages of their thread."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from slack_sdk import WebClient

from bot.agent import file_items, prompt
from bot.agent.turn import PlannerError
from bot.cards.slack_text import show_hidden_characters
from bot.cards.views import extract_message_text
from bot.clock import Clock
from bot.config.connection_settings import AttachedFilesMode
from bot.policy.authority import Directory, LookupFailedError
from bot.slack.file_reader import FileReader, FileReadResult, build_unread_result
from storage import inbox, runs, transcripts
from storage.record import Delivery, Run, Store, Transaction

# The files of the messages that a run reads: downloaded once, stored, and given to the model.

FILES_TIMEOUT_SECONDS = 20.0  # for all files of messages read together
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """A message and its files."""

    key: str  # of the message; see `storage.transcripts.build_message_key`
    person: str  # Slack user id
    name: str
    files: Sequence[Mapping[str, Any]]  # as Slack describes them
    item: Item | None = None  # the item with its text; None for an earlier message of the thread


@dataclass(slots=True)
class FileTranscriptItems:
    """The transcript items about files, and the rows to store with them."""

    items: dict[str, Item] = field(default_factory=dict)  # by the message's key
    rows: list[transcripts.AttachedFile] = field(default_factory=list)

    def list_items_of_message(self, posted: MessageFiles) -> list[Item]:
        """Return the item about a message's files in a list; [] if it has none."""
        found = self.items.get(posted.key)
        return [found] if found else []


@dataclass(slots=True)
class _FileBudget:
    """The numbers of files, bytes and characters that may still be read."""

    bytes: int  # of pictures and PDFs
    files: int = file_items.MAX_FILES_AT_ONCE
    text: int = file_items.MAX_TEXT_CHARS_AT_ONCE  # in characters


class AttachedFileReader:
    """The reading and storing of files attached to messages; one for all workers."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        client: WebClient,
        which: AttachedFilesMode,
        stopping: threading.Event,
    ) -> None:
        """`which`: the files that the model is given; it gets only the names of others.

        Once `stopping` is set no file is read any more.
        """
        self._store = store
        self._clock = clock
        self._reader = FileReader(client, stopping)
        self._which = which
        self._stopping = stopping

    def read_files_of_messages(
        self, run: Run, posted: Iterable[MessageFiles], known: dict[str, FileReadResult]
    ) -> FileTranscriptItems:
        """Read the files of these messages in order, and return their transcript items.

        `known`: files read before, by Slack's id; this call adds to it, so that reading again after
        a message has changed downloads nothing twice. Raises PlannerError if the process stops.
        """
        items, until = FileTranscriptItems(), time.monotonic() + FILES_TIMEOUT_SECONDS
        with_files = [each for each in posted if each.files]
        if not with_files:
            return items
        with self._store.read() as tx:
            room = _FileBudget(
                file_items.MAX_FILE_BYTES_PER_THREAD - transcripts.sum_attached_file_bytes(tx, run)
            )
        for each in with_files:
            parts = []
            for file in each.files:
                read = self._read_within_budget(file, room, known, until)
                if self._stopping.is_set():  # the next start reads the files again
                    raise PlannerError("Countersign is stopping.")
                parts += self._build_item_parts(run, each, read, room, items.rows)
            head = file_items.files_heading(each.person, each.name, before=each.item is None)
            items.items[each.key] = file_items.build_files_item(head, parts)
        return items

    def insert_files(self, tx: Transaction, items: FileTranscriptItems) -> None:
        """Store the files that were read, in the transaction that stores the items about them."""
        for each in items.rows:
            transcripts.insert_attached_file(tx, each, at=self._clock.now())

    def _read_within_budget(
        self,
        file: Mapping[str, Any],
        room: _FileBudget,
        known: dict[str, FileReadResult],
        until: float,
    ) -> FileReadResult:
        if self._which is AttachedFilesMode.OFF:
            return build_unread_result(file, file_items.FILES_DISABLED_REASON)
        if room.files <= 0:
            return build_unread_result(file, file_items.TOO_MANY_FILES_REASON)
        room.files -= 1
        slack_id = str(file.get("id") or "")
        if slack_id not in known:
            known[slack_id] = self._reader.read_file(file, until)
        return known[slack_id]

    def _build_item_parts(
        self,
        run: Run,
        posted: MessageFiles,
        read: FileReadResult,
        room: _FileBudget,
        kept: list[transcripts.AttachedFile],
    ) -> list[Item]:
        """Return the item parts for one file; add a row to `kept` if the model gets its content."""
        content, why = read.content, read.omission_reason
        if content and self._which is AttachedFilesMode.TEXT and not content.is_text:
            why = file_items.TEXT_ONLY_MODEL_REASON
        elif content and not (room.text if content.is_text else room.bytes >= len(read.data)):
            why = (
                file_items.TOO_MUCH_TEXT_REASON
                if content.is_text
                else file_items.THREAD_FULL_REASON
            )
        if content is None or why:
            return [file_items.build_text_part(file_items.unread_file_line(read.name, why))]
        if content.is_text:
            room.text -= min(room.text, len(content.text), file_items.MAX_FILE_TEXT)
        else:
            room.bytes -= len(read.data)
        row = transcripts.AttachedFile(
            run_id=run.id,
            message=posted.key,
            slack_id=read.slack_id,
            person=posted.person,
            media=content.media_type,
            size=len(read.data),
            sha256=hashlib.sha256(read.data).hexdigest(),
            data=_encode_file_content(content, read.data),
            created_at=self._clock.now(),
        )
        kept.append(row)
        label = file_items.file_label(read.name, len(read.data), content)
        reference = file_items.build_file_reference(row.id, read.name, content)
        return [file_items.build_text_part(label), reference]


def _encode_file_content(content: file_items.FileContent, data: bytes) -> str:
    """Return a file's content for storage: base64, or a text that is cut if it is too long."""
    return (
        file_items.cut_file_text(content.text)
        if content.is_text
        else base64.b64encode(data).decode()
    )


log = logging.getLogger("countersign.thread")
MAX_EARLIER_MESSAGES = 30
MAX_EARLIER_CHARS = 8_000
TRUNCATION_SUFFIX = " […]"
PAGE_SIZE = 200  # messages per page; Slack recommends no more
MAX_PAGES = 100
UNREAD_MESSAGES_TEXT = "(If there are more messages here, they could not be read.)"
MAX_MESSAGE_CHARS = 20_000  # of one message for the model


class _MessageEditedError(Exception):
    """Raised when a message was edited after it was read."""


class SlackThreadReader:
    """Takes a run's messages from its Slack thread into the transcript; used by the worker."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        directory: Directory,
        bot_user: str,
        client: WebClient,
        *,
        files: AttachedFilesMode = AttachedFilesMode.ON,
        stopping: threading.Event | None = None,
    ) -> None:
        """`client` only reads; `files`: which attached files the model is given.

        Once `stopping` is set no file is read any more.
        """
        self._store = store
        self._clock = clock
        self._directory = directory
        self._bot_user = bot_user
        self._client = client
        self._files = AttachedFileReader(store, clock, client, files, stopping or threading.Event())

    def add_messages_to_transcript(self, run: Run) -> None:
        """Turn the run's held messages into transcript items, in order, and store them.

        Raises moves.StaleFenceError if another worker has taken the run, PlannerError if the
        process stops.
        """
        known: dict[str, FileReadResult] = {}
        while waiting := self._list_held_messages(run):
            messages = self._build_message_items(waiting)
            earlier = self._read_earlier_messages(run, waiting)
            files = self._files.read_files_of_messages(run, [*messages, *earlier.files], known)
            try:
                self._insert_items(run, waiting, _order_items(messages, earlier, files), files)
                return
            except _MessageEditedError:  # its author edited a message while the rest was read
                continue

    def _list_held_messages(self, run: Run) -> list[Delivery]:
        with self._store.read() as tx:
            return inbox.list_messages_held_for_run(tx, run.id)

    def _build_message_items(self, waiting: list[Delivery]) -> list[MessageFiles]:
        """Return these messages with their transcript items and files."""
        messages = []
        for each in waiting:
            event = json.loads(each.body)["event"]
            text = extract_message_text(event, self._bot_user)
            if len(text) > MAX_MESSAGE_CHARS:
                more = len(text) - MAX_MESSAGE_CHARS
                text = f"{text[:MAX_MESSAGE_CHARS]}\n[… {more} more characters were left out]"
            name = self._get_display_name(each.user)
            item = prompt.build_request_item(each.user, name, text, each.received_at)
            key = transcripts.build_message_key(each.team, each.channel, event["ts"])
            messages.append(MessageFiles(key, each.user, name, event.get("files") or [], item))
        return messages

    def _insert_items(
        self,
        run: Run,
        waiting: list[Delivery],
        items: list[dict[str, Any]],
        files: FileTranscriptItems,
    ) -> None:
        """Store items and files; raise _MessageEditedError if a message was edited meanwhile."""
        with self._store.write(durable=False) as tx:  # if lost, the messages are read again
            current_run = runs.get_run_with_fence(tx, run.id, run.fence)
            for item in items:
                runs.append_transcript_item(tx, current_run, item, at=self._clock.now())
            self._files.insert_files(tx, files)
            if not all(inbox.mark_message_in_transcript(tx, each) for each in waiting):
                raise _MessageEditedError

    def _get_display_name(self, user: str) -> str:
        """Return the person's name on one line, hidden characters shown; else the user id."""
        try:
            person = self._directory.find_person(user)
        except LookupFailedError:
            person = None
        return show_hidden_characters(" ".join(person.name.split())) if person else user

    def _read_earlier_messages(self, run: Run, waiting: list[Delivery]) -> _EarlierMessages:
        """Return the earlier messages of the thread that the transcript does not have.

        The thread is that of the first of the messages in `waiting`, even if the request goes on
        elsewhere.
        """
        first = waiting[0]
        new_timestamps = [json.loads(each.body)["event"]["ts"] for each in waiting]
        thread, until = first.thread_ts, new_timestamps[0]
        if not thread or thread >= until:
            # the request is the thread's first message, or was written before it
            return _EarlierMessages()
        with self._store.read() as tx:
            since = inbox.get_newest_transcript_message_ts(tx, run, first)
        messages, left_out, problem = self._read_thread(
            first.channel, thread, since, until, new_timestamps
        )
        authors = [each.get("user", "") for each in messages]
        lines = [
            (author, self._get_display_name(author), extract_message_text(each, ""))
            for author, each in zip(authors, messages, strict=True)
        ]
        posted = [
            MessageFiles(
                transcripts.build_message_key(first.team, first.channel, each["ts"]),
                author,
                name,
                each.get("files") or [],
            )
            for each, (author, name, _) in zip(messages, lines, strict=True)
        ]
        if problem is not None:  # the request goes on without them
            log.warning("run %s: the thread could not be read: %s", run.id, problem)
            lines.append(("", "Countersign", UNREAD_MESSAGES_TEXT))
        if not lines:
            return _EarlierMessages()
        # the newest messages matter most
        item = _build_bounded_item(lines, prompt.build_earlier_messages_item, left_out)
        return _EarlierMessages([item], posted[: -MAX_EARLIER_MESSAGES - 1 : -1])

    def _read_thread(
        self, channel: str, thread: str, since: str, until: str, ours: Sequence[str]
    ) -> tuple[list[dict[str, Any]], int, Exception | None]:
        """Return people's messages between two timestamps: the thread's first and the newest.

        Also returns how many messages between them are left out, and the error that ended the
        reading early, or None. Messages in `ours` (those being taken in) and messages of bots do
        not count.
        """
        beginning: list[dict[str, Any]] = []
        newest: deque[dict[str, Any]] = deque(maxlen=MAX_EARLIER_MESSAGES - 1)
        count = 0
        last, problem = since, None  # each page repeats the thread's first message
        try:
            pages = self._client.conversations_replies(
                channel=channel, ts=thread, oldest=since or "0", latest=until, limit=PAGE_SIZE
            )
            for message in chain.from_iterable(
                page["messages"] for page in islice(pages, MAX_PAGES)
            ):
                ts = message["ts"]
                if not last < ts < until:
                    continue
                last = ts
                if ts in ours or message.get("bot_id"):
                    continue
                count += 1
                (beginning if ts == thread else newest).append(message)
        except Exception as error:  # noqa: BLE001 - whatever Slack does, the request goes on
            problem = error
        messages = [*beginning, *newest]
        return messages, count - len(messages), problem


@dataclass(frozen=True, slots=True)
class _EarlierMessages:
    """The items about earlier messages, and their files, the newest first."""

    items: Sequence[dict[str, Any]] = ()
    files: Sequence[MessageFiles] = ()


def _order_items(
    said: list[MessageFiles], before: _EarlierMessages, heard: FileTranscriptItems
) -> list[dict[str, Any]]:
    """Return all items in the model's reading order: files before the message they belong to."""
    items = [*before.items]
    for posted in reversed(before.files):
        items += heard.list_items_of_message(posted)
    for each in said:
        items += [*heard.list_items_of_message(each), *filter(None, [each.item])]
    return items


def _build_bounded_item(
    lines: list[tuple[str, str, str]], make: Callable[..., dict[str, Any]], left_out: int
) -> dict[str, Any]:
    """Return one item with the first message and the newest that fit, oldest first.

    The item also states how many messages were left out or cut; `left_out` is the number of those
    that are not in `lines` at all.
    """
    (author, name, text), *later = lines
    first = _truncate_text(text, MAX_EARLIER_CHARS // 4 if later else MAX_EARLIER_CHARS)
    beginning = author, name, first
    kept_lines: list[tuple[str, str, str]] = []
    room = MAX_EARLIER_CHARS - len(first)
    for author, name, text in reversed(later):
        if room <= 0:
            break
        kept_lines.append((author, name, _truncate_text(text, room)))
        room -= len(text)
    shown_lines = [beginning, *reversed(kept_lines)]
    cut = sum(text.endswith(TRUNCATION_SUFFIX) for _, _, text in shown_lines)
    return make(shown_lines, left_out=left_out + len(lines) - len(shown_lines) + cut)


def _truncate_text(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else text[:max_characters] + TRUNCATION_SUFFIX
