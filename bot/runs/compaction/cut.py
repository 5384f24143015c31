"""Where a long transcript is cut into an older part and the rest, and what of that stays. Pure.

Nothing that belongs together is parted: what the model said in one turn stays or goes as a whole,
with the outputs of its calls. It stays where one of the calls is on the record, or has no output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from storage.compactions import Compaction
from storage.transcripts import Transcript


@dataclass(frozen=True, slots=True)
class Cut:
    """A transcript in parts.

    until: `seq` of the newest item of the older part
    kept: `seq` of those of it that stay
    older: the items that something else is to stand for; what stood for others before is the first
    of them
    gained: characters of JSON that these have
    rest: characters of JSON of what is left
    """

    until: int
    kept: frozenset[int]
    older: tuple[dict[str, Any], ...]
    gained: int
    rest: int


@dataclass(slots=True)
class _Block:
    """What stays or goes as a whole: by index, items of one turn of the model, or one that was said
    to it.
    """

    begin: int
    end: int  # the index of its last item, an output that came late among them
    stays: bool = False
    members: list[int] = field(default_factory=list)


def cut(
    transcript: Transcript, base: Compaction | None, on_record: frozenset[str], most: int
) -> Cut | None:
    """Cut so that the rest has `most` characters, as far as it can be; None where nothing can go.

    `base`: what stands for an older part already; `on_record`: the model's ids of the calls that
    stay word for word.
    """
    begin = bisect_right(transcript.seqs, base.until) if base else 0
    blocks = list(_blocks(transcript, begin, on_record))
    kept_before = base.kept if base else frozenset()
    found = _place(transcript, begin, blocks, most - _size(transcript, kept_before))
    if found is None:
        return None
    older = [(index, block.stays) for block in blocks for index in block.members if index < found]
    go = sorted(index for index, stays in older if not stays)
    if not go:
        return None
    kept = kept_before | {transcript.seqs[index] for index, stays in older if stays}
    gained = sum(transcript.sizes[index] for index in go)
    stood = base.items if base else ()
    return Cut(
        transcript.seqs[found - 1],
        kept,
        (*stood, *(transcript.items[index] for index in go)),
        gained,
        _size(transcript, kept) + sum(transcript.sizes[found:]),
    )


def _blocks(transcript: Transcript, begin: int, on_record: frozenset[str]) -> Iterator[_Block]:
    """What the items from `begin` on consist of, in order."""
    blocks: list[_Block] = []
    of_call: dict[str, _Block] = {}
    speaking: _Block | None = None  # the model, and it has been told nothing since
    for index in range(begin, len(transcript.items)):
        item = transcript.items[index]
        match item.get("type", "message"):
            case "function_call_output" if item["call_id"] in of_call:
                block, speaking = of_call.pop(item["call_id"]), None
            case "function_call_output":  # by itself, it is that of a call which stays
                block, speaking = _Block(index, index, stays=True), None
                blocks.append(block)
            case "message" if item.get("role") != "assistant":
                block, speaking = _Block(index, index), None
                blocks.append(block)
            case _:
                if speaking is None:
                    speaking = _Block(index, index)
                    blocks.append(speaking)
                block = speaking
        if item.get("type") == "function_call":
            of_call[item["call_id"]] = block
            block.stays = block.stays or item["call_id"] in on_record
        block.end = index
        block.members.append(index)
    for block in of_call.values():
        block.stays = True  # its tool may be at work, or people decide
    for block in _newest_request(transcript, blocks):
        block.stays = True
    yield from blocks


def _newest_request(transcript: Transcript, blocks: list[_Block]) -> Iterator[_Block]:
    """What people said last, one after the other."""
    said = False
    for block in reversed(blocks):
        is_said = transcript.items[block.begin].get("role") == "user"
        if said and not is_said:
            return
        said = said or is_said
        if is_said:
            yield block


def _place(transcript: Transcript, begin: int, blocks: list[_Block], most: int) -> int | None:
    """The index at which the rest begins: the first at which that is small enough, else the last.

    Never within a block, nor between a call and an output of it that goes with it.
    """
    sizes = transcript.sizes
    behind = list(accumulate(reversed(sizes[begin:])))[::-1]  # characters from each index on
    stayed = reached = 0
    found = None
    for before, block in pairwise(blocks):
        reached = max(reached, -1 if before.stays else before.end)
        stayed += sum(sizes[index] for index in before.members) if before.stays else 0
        if reached >= block.begin:
            continue
        found = block.begin
        if stayed + behind[found - begin] <= most:
            break
    return found


def _size(transcript: Transcript, seqs: frozenset[int]) -> int:
    """The characters of JSON of these items."""
    return sum(
        size for seq, size in zip(transcript.seqs, transcript.sizes, strict=True) if seq in seqs
    )
