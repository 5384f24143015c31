"""A request to the stand-in, whichever API it is of, and its answer on the wire.

It opens no socket, and does not decide what is answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bot.sandbox.openai.chat_wire import chunks, failure, whole_chat
from bot.sandbox.openai.checks import REASONING_MODEL
from bot.sandbox.openai.wire import (
    Item,
    Turn,
    blank_response,
    events,
    final_response,
    output_items,
)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: the how-manyth, what is written, whether it has words."""

    number: int
    data: bytes
    is_delta: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as the Responses API has it, what may refuse it, and how it is answered."""

    body: dict[str, Any]
    check: Callable[[], None]
    chat: dict[str, Any] | None = None  # as it came, where it is one of Chat Completions

    def events(self, turn: Turn) -> Iterator[Event]:
        """The answer, streamed."""
        if self.chat is not None:
            # counted as if a message's beginning were told by itself, as the Responses API does
            for number, chunk in enumerate(chunks(turn, self.chat), start=3):
                said = any(each["delta"] for each in chunk.get("choices") or ())
                yield Event(number, f"data: {json.dumps(chunk)}\n\n".encode(), said)
            yield Event(number + 1, b"data: [DONE]\n\n", is_delta=False)
            return
        items, blank, final = self._response(turn)
        for number, event in enumerate(events(turn, items, blank, final)):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            yield Event(number, data, event["type"].endswith(".delta"))

    def whole(self, turn: Turn) -> tuple[Item, int]:
        """The answer in one piece, and its HTTP status."""
        if self.chat is None:
            return self._response(turn)[-1], 200
        return (failure(turn), 500) if turn.failed else (whole_chat(turn, self.chat), 200)

    def _response(self, turn: Turn) -> tuple[list[Item], Item, Item]:
        """The output items, and the response at its beginning and its end."""
        wanted = "reasoning.encrypted_content" in (self.body.get("include") or [])
        reasons = wanted and bool(REASONING_MODEL.match(self.body["model"]))
        items = output_items(turn, reasoning=reasons)
        blank = blank_response(self.body)
        return items, blank, final_response(blank, turn, items, self.body)
