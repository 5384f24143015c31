"""One turn of the model: what it is asked, what it answers, and how a dialect (a way of talking to
the model's server) writes and reads that. Plain types, without the model's library.

Whatever the server speaks, a transcript is kept in one form, the items of the Responses API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

# What a turn of the model gives: a Reply or a Proposal. Plain types, without its library.


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function call as the model wrote it; its arguments are unparsed and untrusted."""

    provider_id: str
    name: str
    arguments: str
    index: int  # its place in `items`


@dataclass(frozen=True, slots=True)
class Reply:
    """The model answered; the request is done. `cut`: why the answer is not whole, "" where it is.

    The reason as the Responses API names it: "max_output_tokens", "content_filter".
    """

    text: str
    items: list[dict[str, Any]]
    tokens: int
    cut: str = ""
    read: int = 0  # tokens of what it was asked; 0 where nobody says


@dataclass(frozen=True, slots=True)
class Proposal:
    """The model proposes calls, perhaps after some words."""

    text: str
    calls: list[FunctionCall]
    items: list[dict[str, Any]]
    tokens: int
    read: int = 0  # tokens of what it was asked; 0 where nobody says


@dataclass(frozen=True, slots=True)
class CompactedItems:
    """What the model's server made of items: others that stand for them, to be sent as they are."""

    items: list[dict[str, Any]]
    tokens: int


class PlannerError(Exception):
    """The model could not be had; the text is a sentence for people."""


class TooLongError(PlannerError):
    """The model cannot read as much at once. `window`: how many tokens it can, 0 if nobody says.

    `without_files`: takes the same turn without files that are new, where there are such.
    """

    def __init__(
        self,
        text: str,
        window: int = 0,
        without_files: Callable[[], Reply | Proposal] | None = None,
    ) -> None:
        super().__init__(text)
        self.window, self.without_files = window, without_files


class RequestRefusedError(PlannerError):
    """The model's server did not take what it was sent, and will not take it."""


class AnswerSink(Protocol):
    """Where the words go while they come."""

    def write(self, text: str) -> None:
        """More text; may raise to stop the turn."""
        ...

    def restart(self) -> None:
        """What was written so far is void; the turn is tried again."""
        ...


class ModelTurns(Protocol):
    """Whatever takes turns as the model does."""

    def turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: AnswerSink,
    ) -> Reply | Proposal:
        """One model turn. Raises PlannerError, of it TooLongError for what does not fit; whatever
        `sink` raises passes through.
        """
        ...

    @property
    def seal(self) -> str:
        """Where what `compacted` gives can be read again; "" where there is no such thing."""
        ...

    def compacted(
        self, items: Sequence[dict[str, Any]], instructions: str
    ) -> CompactedItems | None:
        """Have the model's server say these items in fewer; None where it cannot or does not."""
        ...

    def close(self) -> None:
        """Close what it holds; a turn under way fails."""
        ...


CHARACTERS_OF_A_TOKEN = 4  # or thereabouts


@dataclass(frozen=True, slots=True)
class ModelRequest:
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
        [ModelRequest], dict[str, Any]
    ]  # of one turn, without saying that it is streamed
    reading: Callable[
        [AnswerSink], AnswerReader
    ]  # of the stream of an answer, whose words go to the sink
    streamed: dict[str, Any]  # what a request has besides for its answer to be streamed
    whole: bool = False  # its reading takes an answer that is not streamed, too, as one event
    compacts: str = ""  # of the address where items are said in fewer; "" where nowhere


def reckon_usage(asked: ModelRequest, gathered: GatheredAnswer) -> None:
    """Reckon what a turn took where the server has not counted: limits are kept to all the same."""
    read, said = (
        len(json.dumps(each, ensure_ascii=False)) // CHARACTERS_OF_A_TOKEN
        for each in ([asked.instructions, asked.tools, asked.transcript], gathered.items)
    )
    gathered.tokens, gathered.written = read + said, said


def turn_result(gathered: GatheredAnswer) -> Reply | Proposal:
    """Return what an answer comes to: a reply, or a proposal where it calls anything."""
    text = "".join(gathered.text)
    calls = [
        FunctionCall(
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
