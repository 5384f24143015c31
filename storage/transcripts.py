"""Transcripts of threads, their compactions, and the files that people attached to messages."""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import compress
from typing import Any

from pydantic_core import from_json
from sqlalchemy import bindparam, func, or_, select, update
from sqlmodel import Field, col

from storage import columns, trail
from storage.models import PURGED, Call, Item, Run, new_id
from storage.states import CallStatus
from storage.transaction import Transaction, fetch_rows, insert_row

# Files that people attached to messages for the model: kept once, and sent with every later
# turn.

TEXT_MEDIA_TYPE = "text/plain"  # only a part of such a file is kept, of limited length


class WithheldReason(StrEnum):
    """The reason why a file is no longer sent to the model; NO if it is sent."""

    NO = ""  # it is sent
    DELETED = "deleted"  # people deleted it in Slack
    REFUSED = "refused"  # the model's server refused it


class AttachedFile(columns.Row, table=True):
    """A file attached to a message, for the model."""

    __tablename__ = "attached"
    id: str = Field(default_factory=new_id, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    message: str = Field(index=True)  # key of the message's delivery; see `build_message_key`
    slack_id: str  # id of the file in Slack
    person: str  # the person who posted it
    media: str  # the media type sent to the model
    size: int  # in bytes, as fetched
    sha256: str  # of the bytes as fetched
    data: str = columns.text_column("")  # base64, or the text as sent; "" once withheld
    withheld: WithheldReason = columns.enum_column(WithheldReason, WithheldReason.NO, index=False)
    # when the model's server first accepted it
    read_at: datetime | None = columns.time_column(nullable=True)
    created_at: datetime = columns.time_column()


_NOT_WITHHELD_CONDITION = col(AttachedFile.withheld) == WithheldReason.NO
_SELECT_FILES_OF_MESSAGE = (
    select(AttachedFile)
    .where(col(AttachedFile.message) == bindparam("message_"), _NOT_WITHHELD_CONDITION)
    .order_by(col(AttachedFile.created_at), col(AttachedFile.id))
)
_SUM_FILE_SIZES_OF_THREAD = (
    select(func.coalesce(func.sum(col(AttachedFile.size)), 0))
    .join(Run, col(Run.id) == col(AttachedFile.run_id))
    .where(
        *columns.build_thread_conditions(Run),
        _NOT_WITHHELD_CONDITION,
        col(AttachedFile.media) != TEXT_MEDIA_TYPE,
    )
)


def build_message_key(team: str, channel: str, ts: str) -> str:
    """Return the delivery key of a message in Slack."""
    return f"msg:{team}:{channel}:{ts}"


def insert_attached_file(tx: Transaction, file: AttachedFile, *, at: datetime) -> None:
    """Store a file, and record in the audit that it is given to the model."""
    insert_row(tx, file)
    _record_file_event(tx, "file.given", file, at, file.person)


def sum_attached_file_bytes(tx: Transaction, run: Run) -> int:
    """Return the total bytes of pictures and PDFs that the run's thread sends to the model."""
    place = {"team_": run.team, "channel_": run.channel, "thread_ts_": run.thread_ts}
    return int(tx.scalar(_SUM_FILE_SIZES_OF_THREAD, place))


def list_files_by_id(tx: Transaction, ids: Iterable[str]) -> list[AttachedFile]:
    """Return the files with these ids, including withheld ones; unknown ids are left out."""
    each = (tx.find_row(AttachedFile, id=one) for one in ids)
    return [file for file in each if file is not None]


def list_files_of_message(tx: Transaction, message: str) -> list[AttachedFile]:
    """Return the files of a message that are given to the model."""
    return fetch_rows(tx, AttachedFile, _SELECT_FILES_OF_MESSAGE, message_=message)


def withhold_file(
    tx: Transaction, file: AttachedFile, why: WithheldReason, *, at: datetime, actor: str
) -> None:
    """Stop sending a file to the model and erase its contents; its row stays."""
    tx.overwrite_erased_data()
    held = {"id": file.id, "withheld": WithheldReason.NO}
    if tx.update_rows(AttachedFile, held, withheld=why, data=""):
        _record_file_event(tx, f"file.{why}", file, at, actor)


def mark_file_accepted(tx: Transaction, file: AttachedFile, at: datetime) -> None:
    """Record when the model's server first accepted the file; doing so again changes nothing."""
    tx.overwrite_erased_data()  # the row grows, so it may be written elsewhere in the file
    tx.update_rows(AttachedFile, {"id": file.id, "read_at": None}, read_at=at)


def change_channel_id_of_files(tx: Transaction, team: str, old: str, new: str) -> None:
    """Update the files' message keys when a channel gets a new id."""
    tx.overwrite_erased_data()
    before, after = build_message_key(team, old, ""), build_message_key(team, new, "")
    message = col(AttachedFile.message)
    moved = {"message": func.replace(message, before, after)}
    tx.execute(update(AttachedFile).where(message.startswith(before)).values(moved))


def _record_file_event(
    tx: Transaction, event: str, file: AttachedFile, at: datetime, actor: str
) -> None:
    data = {"file": file.slack_id, "media": file.media, "bytes": file.size}
    data["content"] = file.sha256  # a hash can reveal a short text, so a purge removes it
    trail.record_event(tx, event, at=at, actor=actor, run_id=file.run_id, data=data)


COMPACTION_TYPE = "compacted"
COMPACTION_PREFIX = f'{{"type": "{COMPACTION_TYPE}"'  # how the stored JSON of each begins
READ_EFFECT = "read"  # effect of a call that changes nothing
_SELECT_CALL_IDS_TO_KEEP = (
    select(col(Call.provider_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(
        *columns.build_thread_conditions(Run, "parent_call"),
        or_(
            col(Call.asked_at).is_not(None),
            col(Call.grant_id) != "",
            (col(Call.does) != READ_EFFECT) & (col(Call.status) != CallStatus.REFUSED),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The items that replace the older part of a thread when the model is asked.

    until: `seq` of the newest item of that part
    kept: `seq` of its items that are still sent to the model unchanged
    items: what replaces all its other items; sent before the kept ones
    seal: identifies the only server that can read `items`; "" if any model can
    whole: False if the other items are left out and not summed up
    """

    until_seq: int
    kept_seqs: frozenset[int]
    items: tuple[dict[str, Any], ...]
    seal: str = ""
    is_summed_up: bool = True

    def build_item(self) -> dict[str, Any]:
        """Return the compaction as an item for the thread's transcript."""
        return {
            "type": COMPACTION_TYPE,
            "until": self.until_seq,
            "kept": sorted(self.kept_seqs),
            "items": list(self.items),
            "seal": self.seal,
            "whole": self.is_summed_up,
        }


def parse_compaction(body: Mapping[str, Any]) -> Compaction:
    """Return the compaction stored in an item that `Compaction.build_item` made."""
    kept, items = frozenset(body["kept"]), tuple(body["items"])
    return Compaction(body["until"], kept, items, body["seal"], body["whole"])


def list_call_ids_kept_for_model(tx: Transaction, run: Run) -> frozenset[str]:
    """Return the model's call ids in the run's thread that must stay known to the model.

    These are calls that people were asked about, that ran on a grant, or that may have changed
    something.
    """
    given = {"team_": run.team, "channel_": run.channel, "thread_ts_": run.thread_ts}
    return frozenset(
        tx.scalars(_SELECT_CALL_IDS_TO_KEEP, {**given, "parent_call_": run.parent_call})
    )


ThreadKey = tuple[str, str, str, str]  # team, channel, thread, a sub-agent's call id or ""
# limits for all cached transcripts: characters of JSON, and items, each of which takes some four
# hundred bytes besides its text; three and a half megabytes in all
CACHE_MAX_CHARS = 1_000_000
CACHE_MAX_ITEMS = 6000
_SELECT_ITEMS_AFTER = (
    select(col(Item.seq), col(Item.body))
    .join(Run, col(Run.id) == col(Item.run_id))
    .where(*columns.build_thread_conditions(Run, "parent_call"))
    .where(col(Item.seq) > bindparam("after_"), col(Item.body) != PURGED)
)  # unordered: each run's rows come in order, and Python sorts them faster

_SELECT_UNPURGED_ITEM = select(col(Item.seq)).where(
    col(Item.seq) == bindparam("seq_"), col(Item.body) != PURGED
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """Every item of a thread, in order, as the model sends and sees it; not to be modified."""

    items: tuple[dict[str, Any], ...] = ()
    seqs: tuple[int, ...] = ()  # row numbers of the items
    sizes: tuple[int, ...] = ()  # characters of JSON, by item
    compactions: tuple[Compaction, ...] = ()  # summaries in place of older items, in order
    proposed_call_ids: frozenset[str] = frozenset()  # ids that the model gave its calls
    answered_call_ids: frozenset[str] = frozenset()  # those of them that have an output
    has_late_message: bool = False  # a message was written between a call and its output
    last_seq: int = 0  # `seq` of the newest entry
    size: int = 0  # characters of JSON

    def find_compaction(self, seal: str) -> Compaction | None:
        """Return the newest compaction that the model server known by `seal` can read; or None."""
        fitting = (each for each in reversed(self.compactions) if each.seal in ("", seal))
        return next(fitting, None)

    def list_items_for_model(self, seal: str) -> list[dict[str, Any]]:
        """Return the items for a model on the server known by `seal`, compacted if possible."""
        found = self.find_compaction(seal)
        if found is None:
            return list(self.items)
        begin = bisect_right(self.seqs, found.until_seq)
        older = zip(self.seqs[:begin], self.items[:begin], strict=True)
        kept = (item for seq, item in older if seq in found.kept_seqs)
        return [*found.items, *kept, *self.items[begin:]]


class TranscriptCache:
    """A cache of the transcripts that this process read last; safe on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transcripts: OrderedDict[ThreadKey, Transcript] = OrderedDict()
        self._char_count = self._item_count = 0

    def read_transcript(self, tx: Transaction, run: Run) -> Transcript:
        """Return the transcript of the run's thread; a sub-agent has its own.

        It is as of this transaction. If any process has purged the thread meanwhile, it is read
        again without the purged items.
        """
        thread = (run.team, run.channel, run.thread_ts, run.parent_call)
        with self._lock:
            cached = self._transcripts.get(thread, Transcript())
        if cached.seqs and tx.scalar(_SELECT_UNPURGED_ITEM, {"seq_": cached.seqs[0]}) is None:
            cached = Transcript()
        names = ("team_", "channel_", "thread_ts_", "parent_call_")
        thread_parameters = dict(zip(names, thread, strict=True))
        rows = tx.execute(_SELECT_ITEMS_AFTER, {**thread_parameters, "after_": cached.last_seq})
        current = _extend_transcript(cached, rows) if rows else cached
        self._cache_transcript(thread, current)
        return current

    def _cache_transcript(self, thread: ThreadKey, transcript: Transcript) -> None:
        with self._lock:
            before = self._transcripts.pop(thread, Transcript())
            if transcript.last_seq:
                self._transcripts[thread] = transcript
            self._char_count += transcript.size - before.size
            self._item_count += len(transcript.items) - len(before.items)
            while self._char_count > CACHE_MAX_CHARS or self._item_count > CACHE_MAX_ITEMS:
                gone = self._transcripts.popitem(last=False)[1]
                self._char_count -= gone.size
                self._item_count -= len(gone.items)


def _extend_transcript(cached: Transcript, rows: list[tuple[Any, ...]]) -> Transcript:
    seqs, bodies = zip(*sorted(rows), strict=True)
    items, sizes = _parse_items(bodies), tuple(map(len, bodies))
    proposed, answered = set(cached.proposed_call_ids), set(cached.answered_call_ids)
    late = cached.has_late_message
    compaction_items, waits = [], len(proposed) > len(answered)
    for each in items:
        match each.get("type"):
            case "function_call":
                proposed.add(each["call_id"])
                waits = len(proposed) > len(answered)
            case "function_call_output":
                answered.add(each["call_id"])
                waits = len(proposed) > len(answered)
            case kind if kind == COMPACTION_TYPE:
                compaction_items.append(each)
            case _ if waits and each.get("role") == "user":
                late = True
    last, size = seqs[-1], sum(sizes)
    if compaction_items:
        is_kept = [each.get("type") != COMPACTION_TYPE for each in items]
        items = list(compress(items, is_kept))
        seqs, sizes = tuple(compress(seqs, is_kept)), tuple(compress(sizes, is_kept))
    return Transcript(
        (*cached.items, *items),
        (*cached.seqs, *seqs),
        (*cached.sizes, *sizes),
        (*cached.compactions, *map(parse_compaction, compaction_items)),
        frozenset(proposed),
        frozenset(answered),
        late,
        last,
        cached.size + size,
    )


def _parse_items(bodies: Iterable[str]) -> list[dict[str, Any]]:
    """Return the items, parsed together by Pydantic's parser, which is several times as fast."""
    text = f"[{','.join(bodies)}]"
    try:
        found: list[dict[str, Any]] = from_json(text)
    except ValueError:  # a lone surrogate, which the standard library accepts
        found = json.loads(text)
    return found
