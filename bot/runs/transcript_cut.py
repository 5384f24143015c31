"""Cutting of a long transcript into an older part and the rest, and what stays of it. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from storage.transcripts import Compaction, Transcript


@dataclass(frozen=True, slots=True)
class TranscriptCut:
    """A transcript cut into an older part and the rest.

    until: `seq` of the newest item of the older part
    kept: the `seq`s of items of the older part that stay
    older: the items to be replaced; items of an earlier compaction come first
    gained: characters of JSON of the items to be replaced
    rest: characters of JSON of what is left
    """

    until_seq: int
    kept_seqs: frozenset[int]
    items_to_replace: tuple[dict[str, Any], ...]
    replaced_characters: int
    rest: int


@dataclass(slots=True)
class _ItemBlock:
    """Items that stay or go together, by index: a model turn with outputs, or a message to it."""

    begin: int
    end: int  # the index of its last item, an output that came late among them
    is_kept: bool = False
    item_indexes: list[int] = field(default_factory=list)


def cut_transcript(
    transcript: Transcript, base: Compaction | None, on_record: frozenset[str], most: int
) -> TranscriptCut | None:
    """Cut a transcript so that at most `most` characters stay, if possible; None if nothing can go.

    `base`: the compaction that replaces an older part already; `on_record`: the model's ids of the
    calls that stay word for word.
    """
    begin = bisect_right(transcript.seqs, base.until_seq) if base else 0
    blocks = list(_split_into_blocks(transcript, begin, on_record))
    kept_before = base.kept_seqs if base else frozenset()
    found = _find_cut_index(
        transcript, begin, blocks, most - _count_characters_of_items(transcript, kept_before)
    )
    if found is None:
        return None
    older = [
        (index, block.is_kept) for block in blocks for index in block.item_indexes if index < found
    ]
    go = sorted(index for index, stays in older if not stays)
    if not go:
        return None
    kept = kept_before | {transcript.seqs[index] for index, stays in older if stays}
    gained = sum(transcript.sizes[index] for index in go)
    stood = base.items if base else ()
    return TranscriptCut(
        transcript.seqs[found - 1],
        kept,
        (*stood, *(transcript.items[index] for index in go)),
        gained,
        _count_characters_of_items(transcript, kept) + sum(transcript.sizes[found:]),
    )


def _split_into_blocks(
    transcript: Transcript, begin: int, on_record: frozenset[str]
) -> Iterator[_ItemBlock]:
    """Yield the blocks that the items from index `begin` on consist of, in order."""
    blocks: list[_ItemBlock] = []
    of_call: dict[str, _ItemBlock] = {}
    speaking: _ItemBlock | None = None  # the model, and it has been told nothing since
    for index in range(begin, len(transcript.items)):
        item = transcript.items[index]
        match item.get("type", "message"):
            case "function_call_output" if item["call_id"] in of_call:
                block, speaking = of_call.pop(item["call_id"]), None
            case "function_call_output":  # by itself, it is that of a call which stays
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
        block.is_kept = True  # its tool may be at work, or people decide
    for block in _find_newest_request_blocks(transcript, blocks):
        block.is_kept = True
    yield from blocks


def _find_newest_request_blocks(
    transcript: Transcript, blocks: list[_ItemBlock]
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
    transcript: Transcript, begin: int, blocks: list[_ItemBlock], most: int
) -> int | None:
    """Return the first index at which the rest has at most `most` characters, else the last one.

    Never within a block, nor between a call and an output of it that goes with it; None if nowhere.
    """
    sizes = transcript.sizes
    behind = list(accumulate(reversed(sizes[begin:])))[::-1]  # characters from each index on
    stayed = reached = 0
    found = None
    for before, block in pairwise(blocks):
        reached = max(reached, -1 if before.is_kept else before.end)
        stayed += sum(sizes[index] for index in before.item_indexes) if before.is_kept else 0
        if reached >= block.begin:
            continue
        found = block.begin
        if stayed + behind[found - begin] <= most:
            break
    return found


def _count_characters_of_items(transcript: Transcript, seqs: frozenset[int]) -> int:
    """Return the characters of JSON of the items with these `seqs`."""
    return sum(
        size for seq, size in zip(transcript.seqs, transcript.sizes, strict=True) if seq in seqs
    )
