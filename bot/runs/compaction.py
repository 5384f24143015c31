"""Asks the model about a thread of any length, shortening the older part before it gets too long.

Calls that people decided about go to the model word for word, from the record; only the rest is
summed up: by the model's server if it can, else by the model, in words; if both fail, it is left
out and people are informed. Compactions are big and rare, so that in between all requests to the
model begin with the same text. Each is stored before the turn, so that it is still there for the
next process if this one dies.
"""

from __future__ import annotations

import json
import logging
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from bot.agent import prompt, turn
from bot.cards import notices
from bot.clock import Clock
from bot.runs.sub_agent_runs import SilentAnswer
from bot.signals import Signals
from storage import outbox, runs, transcripts
from storage.record import Run, Store, Transaction, retry_until_stored

log = logging.getLogger("countersign.compaction")
COMPACT_AT_SHARE = 0.8  # of the context window: a thread of this size is compacted
TARGET_SHARE = 0.4  # of the window: the size a request is to have after that
MIN_GAIN_SHARE = 0.2  # of the window: compacting that gains less is not worth its cost
MIN_GAIN_SHARE_IF_REFUSED = 0.02  # the same, after the model has refused the request as too long
SUMMARY_SHARES = (0.5, 0.1)  # of the window: size of a summary request, and of its retry
DEFAULT_CHARS_PER_TOKEN = 4  # until the model says how many tokens it has read
MAX_THREADS_REMEMBERED = 1_000  # whose characters per token are known


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """A model request's tools and instructions; `select_items` picks the transcript's items."""

    select_items: Callable[[transcripts.Transcript, str], list[dict[str, Any]]]
    tools: Sequence[dict[str, Any]]
    instructions: str

    def count_characters(self) -> int:
        """Return the size of tools and instructions in characters."""
        return len(json.dumps(self.tools)) + len(self.instructions)


class CompactingPlanner:
    """Asks the model about threads of any length, compacting long ones; one instance per worker.

    Token counts are estimates.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        planner: turn.ModelPlanner,
        known: transcripts.TranscriptCache,
        window: int | None,
    ) -> None:
        """`window` is the number of tokens the model can read at once; None if not configured."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._planner = planner
        self._known = known
        self._window = window or 0
        self._lock = threading.Lock()
        self._per_token: OrderedDict[str, float] = OrderedDict()  # by thread

    def read_transcript(self, tx: Transaction, run: Run) -> transcripts.Transcript:
        """Return the whole transcript of the run's thread."""
        return self._known.read_transcript(tx, run)

    def take_turn(
        self, run: Run, thread: transcripts.Transcript, asked: ModelPrompt, sink: turn.AnswerSink
    ) -> turn.Reply | turn.Proposal:
        """Ask the model for its next answer or calls, after compacting a thread that is too long.

        Raises PlannerError and moves.StaleFenceError; whatever `sink` raises passes through.
        """
        if (
            self._window
            and self._estimate_tokens(run, thread, asked) >= COMPACT_AT_SHARE * self._window
        ):
            thread = (
                self._compact_thread(run, thread, asked, self._window, MIN_GAIN_SHARE) or thread
            )
        try:
            return self._take_turn_once(run, thread, asked, sink)
        except turn.ModelRequestTooLongError as error:
            window = self._learn_context_window(run, thread, asked, error.window)
            shorter = self._compact_thread(run, thread, asked, window, MIN_GAIN_SHARE_IF_REFUSED)
            if shorter is None:
                return _retry_without_files(error)
            sink.discard_text()
        try:
            return self._take_turn_once(run, shorter, asked, sink)
        except turn.ModelRequestTooLongError as error:
            return _retry_without_files(error)

    def _take_turn_once(
        self, run: Run, thread: transcripts.Transcript, asked: ModelPrompt, sink: turn.AnswerSink
    ) -> turn.Reply | turn.Proposal:
        items = asked.select_items(thread, self._find_compaction_server_id(thread))
        try:
            result = self._planner.take_turn(items, asked.tools, asked.instructions, sink)
        except turn.UnusableReasoningError as error:
            log.warning("run %s: the model is asked again without its reasoning: %s", run.id, error)
            sink.discard_text()
            items = prompt.remove_reasoning(asked.select_items(thread, ""))
            result = self._planner.take_turn(items, asked.tools, asked.instructions, sink)
        if self._window and result.input_tokens:
            size = (
                _count_sent_characters(thread, self._find_compaction_server_id(thread))
                + asked.count_characters()
            )
            self._remember_characters_per_token(run, size / result.input_tokens)
        return result

    def _find_compaction_server_id(self, thread: transcripts.Transcript) -> str:
        """Return the id of the one server that can read the thread's compactions; "" if any can."""
        return (
            self._planner.compaction_server_id
            if any(each.seal for each in thread.compactions)
            else ""
        )

    def _estimate_tokens(
        self, run: Run, thread: transcripts.Transcript, asked: ModelPrompt
    ) -> float:
        """Return an estimate of the request's size in tokens."""
        return (
            _count_sent_characters(thread, self._find_compaction_server_id(thread))
            + asked.count_characters()
        ) / self._get_characters_per_token(run)

    def _get_characters_per_token(self, run: Run) -> float:
        with self._lock:
            return self._per_token.get(_build_thread_key(run), DEFAULT_CHARS_PER_TOKEN)

    def _remember_characters_per_token(self, run: Run, rate: float) -> None:
        """Remember how many characters of this thread the model counts as one token."""
        with self._lock:
            self._per_token[_build_thread_key(run)] = min(max(rate, 0.5), 20.0)
            self._per_token.move_to_end(_build_thread_key(run))
            while len(self._per_token) > MAX_THREADS_REMEMBERED:
                self._per_token.popitem(last=False)

    def _learn_context_window(
        self, run: Run, thread: transcripts.Transcript, asked: ModelPrompt, window: int
    ) -> int:
        """Return how many tokens the model can read, from its refusal; `window`: 0 if unstated."""
        tokens = self._estimate_tokens(run, thread, asked)
        if window and tokens < window:  # the model counts more tokens than we estimate
            self._remember_characters_per_token(
                run, self._get_characters_per_token(run) * tokens / window
            )
        self._window = window or min(self._window or int(tokens), int(tokens))
        log.info("run %s: the model cannot read %d tokens at once", run.id, max(tokens, window))
        return self._window

    def _compact_thread(
        self,
        run: Run,
        thread: transcripts.Transcript,
        asked: ModelPrompt,
        window: int,
        share: float,
    ) -> transcripts.Transcript | None:
        """Compact a thread's older part; return the new transcript, None if that gains too little.

        `share`: the share of the window that the compaction has to gain.
        """
        rate = self._get_characters_per_token(run)
        room = int(TARGET_SHARE * window * rate) - asked.count_characters()
        least = int(share * window * rate)
        with self._store.read() as tx:
            on_record = transcripts.list_call_ids_kept_for_model(tx, run)
        seal, tokens = self._planner.compaction_server_id, 0

        def part(seal: str) -> TranscriptCut | None:
            whole = (
                e for e in reversed(thread.compactions) if e.is_summed_up and e.seal in ("", seal)
            )
            cut = cut_transcript(thread, next(whole, None), on_record, room)
            return cut if cut and cut.replaced_characters >= least else None

        compaction: transcripts.Compaction | None = None
        if seal and (cut := part(seal)):
            compaction, tokens = self._compact_by_server(cut, asked, seal, least)
        if compaction is None:
            cut = part("")
            if cut is None:
                return None
            compaction, summary_tokens = self._compact_by_summary(run, cut, int(window * rate))
            tokens += summary_tokens
        retry_until_stored(
            partial(self._store_compaction, run, compaction, tokens),
            self._signals.stopping,
            f"run {run.id}: the summary of its thread",
        )
        with self._store.read() as tx:
            return self._known.read_transcript(tx, run)

    def _compact_by_server(
        self, part: TranscriptCut, asked: ModelPrompt, seal: str, least: int
    ) -> tuple[transcripts.Compaction | None, int]:
        """Have the model's server compact part of a transcript; return the result and its tokens.

        The result is None if the server makes none, or one that gains too little.
        """
        older = prompt.replace_files_with_text(part.items_to_replace)
        compacted = self._planner.compact_items(older, asked.instructions)
        if compacted is None:
            return None, 0
        if len(json.dumps(older)) - len(json.dumps(compacted.items)) < least:
            return None, compacted.tokens
        items = tuple(compacted.items)
        return transcripts.Compaction(part.until_seq, part.kept_seqs, items, seal), compacted.tokens

    def _compact_by_summary(
        self, run: Run, part: TranscriptCut, window: int
    ) -> tuple[transcripts.Compaction, int]:
        """Have the model sum up part of a transcript, else omit it; return the compaction.

        Also returns the tokens used. `window`: how many characters the model can read.
        """
        reply, out = turn.Reply("", [], 0), 0
        for share in SUMMARY_SHARES:
            item, out = prompt.build_item_to_summarize(part.items_to_replace, int(window * share))
            try:
                model_answer = self._planner.take_turn(
                    [item], [], prompt.SUMMARY_INSTRUCTIONS, SilentAnswer()
                )
            except turn.ModelRequestTooLongError:
                continue
            except turn.PlannerError as error:
                if self._signals.stopping.is_set():
                    raise
                log.warning("run %s: its thread could not be summarized: %s", run.id, error)
            else:
                reply = model_answer if isinstance(model_answer, turn.Reply) else reply
            break
        whole = bool(reply.text.strip())
        replacement_item = prompt.build_omitted_items_note(len(part.items_to_replace))
        if whole:
            replacement_item = prompt.build_summary_item(
                reply.text, out, min(window // 10, part.replaced_characters // 2)
            )
        return transcripts.Compaction(
            part.until_seq, part.kept_seqs, (replacement_item,), is_summed_up=whole
        ), reply.tokens

    def _store_compaction(self, run: Run, made: transcripts.Compaction, tokens: int) -> None:
        """Store the compaction and count its tokens; StaleFenceError if the run was taken away."""
        at = self._clock.now()
        with self._store.write(durable=False) as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            runs.append_transcript_item(tx, held, made.build_item(), at=at)
            runs.add_tokens_to_run(tx, held, tokens)
            key = f"left_out:{run.id}:{made.until_seq}"
            if (
                not made.is_summed_up
                and not run.parent_call
                and outbox.find_message_by_key(tx, key) is None
            ):
                outbox.queue_notice(tx, run, key, {"text": notices.OLDEST_MESSAGES_OMITTED_NOTICE})
        how = "summed up" if made.is_summed_up else "left out"
        log.info("run %s: its thread is %s, but for the newest items", run.id, how)


def _retry_without_files(error: turn.ModelRequestTooLongError) -> turn.Reply | turn.Proposal:
    """Repeat a model request that was too long, without new files; raise `error` if it had none."""
    if error.without_files is None:
        raise error
    return error.without_files()


def _build_thread_key(run: Run) -> str:
    return f"{run.team} {run.channel} {run.thread_ts} {run.parent_call}"


def _count_sent_characters(thread: transcripts.Transcript, seal: str) -> int:
    """Return how many characters of a thread's JSON are sent to the server with the id `seal`."""
    found = thread.find_compaction(seal)
    if found is None:
        return sum(thread.sizes)
    sizes = zip(thread.seqs, thread.sizes, strict=True)
    left = sum(size for seq, size in sizes if seq > found.until_seq or seq in found.kept_seqs)
    return left + len(json.dumps(found.items))


# Cutting a transcript into an older part and the rest, and what stays of the older part. Pure.


@dataclass(frozen=True, slots=True)
class TranscriptCut:
    """A transcript cut into an older part and the rest.

    until_seq: `seq` of the newest item of the older part
    kept_seqs: the `seq`s of items of the older part that stay
    items_to_replace: items of an earlier compaction come first
    replaced_characters: characters of JSON of the items to be replaced
    """

    until_seq: int
    kept_seqs: frozenset[int]
    items_to_replace: tuple[dict[str, Any], ...]
    replaced_characters: int


@dataclass(slots=True)
class _ItemBlock:
    """Items that stay or go together, by index: a model turn with outputs, or a message to it."""

    begin: int
    end: int  # the index of its last item, which may be an output that came late
    is_kept: bool = False
    item_indexes: list[int] = field(default_factory=list)


def cut_transcript(
    transcript: transcripts.Transcript,
    base: transcripts.Compaction | None,
    on_record: frozenset[str],
    max_size: int,
) -> TranscriptCut | None:
    """Cut a transcript so that at most `max_size` characters stay; None if nothing can go.

    `base`: the compaction that replaces an older part already; `on_record`: the model's ids of the
    calls that stay word for word.
    """
    begin = bisect_right(transcript.seqs, base.until_seq) if base else 0
    blocks = list(_split_into_blocks(transcript, begin, on_record))
    kept_before = base.kept_seqs if base else frozenset()
    cut_index = _find_cut_index(
        transcript, begin, blocks, max_size - _count_characters_of_items(transcript, kept_before)
    )
    if cut_index is None:
        return None
    older = [
        (index, block.is_kept)
        for block in blocks
        for index in block.item_indexes
        if index < cut_index
    ]
    go = sorted(index for index, stays in older if not stays)
    if not go:
        return None
    kept = kept_before | {transcript.seqs[index] for index, stays in older if stays}
    gained = sum(transcript.sizes[index] for index in go)
    stood = base.items if base else ()
    return TranscriptCut(
        transcript.seqs[cut_index - 1],
        kept,
        (*stood, *(transcript.items[index] for index in go)),
        gained,
    )


def _split_into_blocks(
    transcript: transcripts.Transcript, begin: int, on_record: frozenset[str]
) -> Iterator[_ItemBlock]:
    """Yield the groups of items that stay or go together, from index `begin` on, in order."""
    blocks: list[_ItemBlock] = []
    of_call: dict[str, _ItemBlock] = {}
    speaking: _ItemBlock | None = None  # the model's turn, until another kind of item follows
    for index in range(begin, len(transcript.items)):
        item = transcript.items[index]
        match item.get("type", "message"):
            case "function_call_output" if item["call_id"] in of_call:
                block, speaking = of_call.pop(item["call_id"]), None
            case "function_call_output":  # its call was kept by an earlier compaction
                block, speaking = _ItemBlock(index, index, is_kept=True), None
                blocks.append(block)
            case "message" if item.get("role") != "assistant":
                block, speaking = _ItemBlock(index, index), None
                blocks.append(block)
            case _:
                if speaking is None:
                    speaking = _ItemBlock(index, index)
                    blocks.append(speaking)
                block = speaking
        if item.get("type") == "function_call":
            of_call[item["call_id"]] = block
            block.is_kept = block.is_kept or item["call_id"] in on_record
        block.end = index
        block.item_indexes.append(index)
    for block in of_call.values():
        block.is_kept = True  # a call without an output: it is pending or running
    for block in _find_newest_request_blocks(transcript, blocks):
        block.is_kept = True
    yield from blocks


def _find_newest_request_blocks(
    transcript: transcripts.Transcript, blocks: list[_ItemBlock]
) -> Iterator[_ItemBlock]:
    """Yield the blocks of the newest uninterrupted sequence of people's messages, newest first."""
    said = False
    for block in reversed(blocks):
        is_said = transcript.items[block.begin].get("role") == "user"
        if said and not is_said:
            return
        said = said or is_said
        if is_said:
            yield block


def _find_cut_index(
    transcript: transcripts.Transcript, begin: int, blocks: list[_ItemBlock], most: int
) -> int | None:
    """Return the index to cut at: the first that leaves at most `most` characters, else the last.

    A cut is possible only between blocks, and not between a call that goes and its output; None if
    nowhere.
    """
    sizes = transcript.sizes
    behind = list(accumulate(reversed(sizes[begin:])))[::-1]  # JSON characters from each index on
    stayed = reached = 0
    cut_index = None
    for before, block in pairwise(blocks):
        reached = max(reached, -1 if before.is_kept else before.end)
        stayed += sum(sizes[index] for index in before.item_indexes) if before.is_kept else 0
        if reached >= block.begin:
            continue
        cut_index = block.begin
        if stayed + behind[cut_index - begin] <= most:
            break
    return cut_index


def _count_characters_of_items(transcript: transcripts.Transcript, seqs: frozenset[int]) -> int:
    """Return the characters of JSON of the items with these `seqs`."""
    return sum(
        size for seq, size in zip(transcript.seqs, transcript.sizes, strict=True) if seq in seqs
    )
