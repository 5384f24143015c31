"""A planner that is made when it is first needed, together with the library it takes.

That library takes as long to import as a third of a start, and nothing but a turn needs it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from bot.agent.turn import Compacted, ModelTurns, PlannerError, Proposal, Reply, Sink

log = logging.getLogger("countersign.planner")


class NoModel:
    """Stands where there is no model: no turn can be taken."""

    def __init__(self) -> None:
        """Say so, once."""
        log.warning("there is no model (OPENAI_API_KEY is unset): people ask with forms")

    def turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: Sink,
    ) -> Reply | Proposal:
        """Raises PlannerError."""
        raise PlannerError("There is no model here to go on with this.")

    seal = ""

    def compacted(self, items: Sequence[dict[str, Any]], instructions: str) -> None:
        """Nobody is there to do it."""

    def close(self) -> None:
        """There is nothing to close."""


class LatePlanner:
    """Takes turns with the planner that `make` returns; thread-safe."""

    def __init__(self, make: Callable[[], ModelTurns]) -> None:
        """`make` is called once, by whichever thread needs it first."""
        self._make = make
        self._made: ModelTurns | None = None
        self._closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the planner now, so that the first turn need not wait; what fails is logged."""
        try:
            self._planner()
        except PlannerError as error:
            log.warning("no model: %s", error)

    def turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: Sink,
    ) -> Reply | Proposal:
        """One model turn. Raises PlannerError; whatever `sink` raises passes through."""
        return self._planner().turn(transcript, tools, instructions, sink)

    @property
    def seal(self) -> str:
        """Where what `compacted` gives can be read again. Raises PlannerError."""
        return self._planner().seal

    def compacted(self, items: Sequence[dict[str, Any]], instructions: str) -> Compacted | None:
        """Have the model's server say these items in fewer. Raises PlannerError."""
        return self._planner().compacted(items, instructions)

    def close(self) -> None:
        """Close the planner where there is one; a turn under way fails, and none begins."""
        self._closed = True  # who is making one just now, which takes long, closes it
        made = self._made
        if made is not None:
            made.close()

    def _planner(self) -> ModelTurns:
        """Return the planner, made by now."""
        with self._lock:
            if self._closed:
                raise PlannerError("Countersign is stopping.")
            if self._made is None:
                try:
                    self._made = self._make()
                except Exception as error:  # a proxy without its package, say
                    text = f"The model's client cannot be made: {error}."
                    raise PlannerError(text) from error
                if self._closed:
                    self._made.close()
                    raise PlannerError("Countersign is stopping.")
            return self._made
