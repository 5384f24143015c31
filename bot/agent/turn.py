"""What a turn of the model gives: a Reply or a Proposal. Plain types, without its library."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """The model proposes calls, perhaps after some words."""

    text: str
    calls: list[Proposed]
    items: list[dict[str, Any]]
    tokens: int


class PlannerError(Exception):
    """The model could not be had; the text is a sentence for people."""


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
        """One model turn. Raises PlannerError; whatever `sink` raises passes through."""
        ...

    def close(self) -> None:
        """Close what it holds; a turn under way fails."""
        ...
