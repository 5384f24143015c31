"""Chat Completions: an answer, as items of the form in which transcripts are kept.

Streamed, a call comes in pieces, and servers differ in how they say which call a piece is of. An
answer that is not streamed is read as one chunk, which has a message in the place of the pieces.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bot.agent.dialect import Gathered
from bot.agent.troubles import raise_failed
from bot.agent.turn import Sink

# why an answer is not whole, as a chat names it and as the Responses API does
CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(slots=True)
class _Call:
    """A call that is being put together."""

    index: int | None
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    def take(self, piece: dict[str, Any]) -> None:
        function = _object(piece.get("function"))
        self.call_id = self.call_id or str(piece.get("id") or "")
        self.name = self.name or str(function.get("name") or "")
        more = function.get("arguments")
        self.arguments += more if isinstance(more, str) else json.dumps(more) if more else ""

    def item(self, *, whole: bool) -> dict[str, Any]:
        nothing = "{}" if whole else ""  # a call without arguments, or one that was cut off
        return {
            "type": "function_call",
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments or nothing,
        }


class ChatReading:
    """One answer, streamed or whole."""

    def __init__(self, sink: Sink) -> None:
        """Words go to `sink` as they come."""
        self._sink = sink
        self._gathered = Gathered()
        self._said: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[_Call] = []

    def take(self, event: dict[str, Any]) -> None:
        """Take in a chunk; raises as `raise_failed` does for a failure in the place of one."""
        if error := _object(event.get("error")):
            raise_failed(error)
        usage = _object(event.get("usage"))
        if isinstance(usage.get("total_tokens"), int):  # so far, or in the end
            self._gathered.tokens = usage["total_tokens"]
            self._gathered.written = min(self._gathered.tokens, usage.get("completion_tokens") or 0)
        for choice in event.get("choices") or ():
            self._take_choice(_object(choice))

    def gathered(self) -> Gathered:
        """Return what has come of it so far."""
        calls = (each.item(whole=not self._gathered.cut) for each in self._calls)
        self._gathered.items = [*self._message(), *calls]
        return self._gathered

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index"):  # only one was asked for
            return
        whole = _object(choice.get("message"))
        delta = _object(choice.get("delta")) or whole
        for kind, said in self._said.items():
            words = delta.get(kind)
            if isinstance(words, str) and words:
                said.append(words)
                self._gathered.text.append(words)
                self._sink.write(words)
        for piece in delta.get("tool_calls") or ():
            self._take_piece(_object(piece), whole=bool(whole))
        if reason := choice.get("finish_reason"):
            self._gathered.complete = True
            self._gathered.cut = CUT.get(reason, "")

    def _take_piece(self, piece: dict[str, Any], *, whole: bool) -> None:
        index = piece.get("index")
        found = next(
            (each for each in reversed(self._calls) if index is None or each.index == index), None
        )
        if found is None or whole or _begins(piece, found):
            found = _Call(index)
            self._calls.append(found)
        found.take(piece)

    def _message(self) -> list[dict[str, Any]]:
        said, refused = ("".join(each) for each in self._said.values())
        parts: list[dict[str, Any]] = []
        if said or not (refused or self._calls):  # that it said nothing is an answer, too
            parts.append({"type": "output_text", "text": said, "annotations": []})
        if refused:
            parts.append({"type": "refusal", "refusal": refused})
        return [{"type": "message", "role": "assistant", "content": parts}] if parts else []


def _begins(piece: dict[str, Any], before: _Call) -> bool:
    """Whether a piece begins another call than the one before at its place.

    Some servers give all calls one place, or none; others give every piece an id of its own, or
    say the name again with each.
    """
    if not _object(piece.get("function")).get("name") or not before.name:
        return False
    call_id = piece.get("id")
    return call_id != before.call_id if call_id else piece.get("index") is None


def _object(value: Any) -> dict[str, Any]:
    """The value, where it is a JSON object; else an empty one."""
    return value if isinstance(value, dict) else {}
