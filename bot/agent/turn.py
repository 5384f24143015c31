"""What a turn of the model gives: a Reply or a Proposal. Plain types, without its library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Proposed:
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
    calls: list[Proposed]
    items: list[dict[str, Any]]
    tokens: int
    read: int = 0  # tokens of what it was asked; 0 where nobody says


@dataclass(frozen=True, slots=True)
class Compacted:
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


class Sink(Protocol):
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
        sink: Sink,
    ) -> Reply | Proposal:
        """One model turn. Raises PlannerError, of it TooLongError for what does not fit; whatever
        `sink` raises passes through.
        """
        ...

    @property
    def seal(self) -> str:
        """Where what `compacted` gives can be read again; "" where there is no such thing."""
        ...

    def compacted(self, items: Sequence[dict[str, Any]], instructions: str) -> Compacted | None:
        """Have the model's server say these items in fewer; None where it cannot or does not."""
        ...

    def close(self) -> None:
        """Close what it holds; a turn under way fails."""
        ...
