"""What a way of talking to a model's server consists of: where it is asked, how a question is
written, how the answer is read. Plain types, without the model's library.

Whatever the server speaks, a transcript is kept in one form, the items of the Responses API.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.agent.turn import Proposal, Proposed, Reply, Sink

CHARACTERS_OF_A_TOKEN = 4  # or thereabouts


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What one turn asks the model, in the form in which it is kept."""

    model: str
    effort: str | None  # how long it is to think; None: its own default
    transcript: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    instructions: str


@dataclass(slots=True)
class GatheredAnswer:
    """What has come of an answer."""

    text: list[str] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0  # in and out
    written: int = 0  # out alone
    complete: bool = False
    cut: str = ""  # why it is complete and not whole


class AnswerReader(Protocol):
    """An answer that is being read, event by event."""

    def take(self, event: dict[str, Any]) -> None:
        """Take in what an event says; kinds that are not known carry nothing it needs.

        Raises CutStreamError for a failure that may pass, else PlannerError.
        """
        ...

    def gathered(self) -> GatheredAnswer:
        """Return what has come of it so far."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of talking to a model's server."""

    name: str  # for people
    path: str  # of its address, after /v1
    request_of: Callable[
        [Inquiry], dict[str, Any]
    ]  # of one turn, without saying that it is streamed
    reading: Callable[
        [Sink], AnswerReader
    ]  # of the stream of an answer, whose words go to the sink
    streamed: dict[str, Any]  # what a request has besides for its answer to be streamed
    whole: bool = False  # its reading takes an answer that is not streamed, too, as one event
    compacts: str = ""  # of the address where items are said in fewer; "" where nowhere


def reckon(asked: Inquiry, gathered: GatheredAnswer) -> None:
    """Reckon what a turn took where the server has not counted: limits are kept to all the same."""
    read, said = (
        len(json.dumps(each, ensure_ascii=False)) // CHARACTERS_OF_A_TOKEN
        for each in ([asked.instructions, asked.tools, asked.transcript], gathered.items)
    )
    gathered.tokens, gathered.written = read + said, said


def result_of(gathered: GatheredAnswer) -> Reply | Proposal:
    """Return what an answer comes to: a reply, or a proposal where it calls anything."""
    text = "".join(gathered.text)
    calls = [
        Proposed(
            str(item.get("call_id") or ""),
            str(item.get("name") or ""),
            str(item.get("arguments") or ""),
            index,
        )
        for index, item in enumerate(gathered.items)
        if item.get("type") == "function_call"
    ]
    read = gathered.tokens - gathered.written
    return (
        Proposal(text, calls, gathered.items, gathered.tokens, read)
        if calls
        else Reply(text, gathered.items, gathered.tokens, gathered.cut, read)
    )
