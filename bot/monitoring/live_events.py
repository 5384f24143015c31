"""What goes on in a request at this moment, told to whoever listens.

A surface shows it; nothing stands on it: what counts is in the rows, and a listener that begins
late, or fails, has missed no fact. Where nobody listens nothing is even put together.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.models import Run

log = logging.getLogger("countersign.live")


class EventKind(StrEnum):
    """What can be heard of a request; a closed set."""

    # RunEvent: how it stands
    WORKS = "works"  # the model is asked, or an answer put together
    WAITS = "waits"  # for people; stored before it is told, as is OVER
    OVER = "over"  # completed, failed or cancelled; may be told more than once
    # StepEvent: one tool, from its start to its end
    STEP_BEGAN = "step_began"
    STEP_GOES_ON = "step_goes_on"  # after a second, and then every few: it takes long
    STEP_TOLD = "step_told"  # the tool itself says how far it is
    STEP_ENDED = "step_ended"  # and how; stored before it is told
    # WordsEvent: one answer of the model while it comes
    WORDS = "words"  # more of it, unchecked and with whatever marks it has
    WORDS_VOID = "words_void"  # all that came of it does not count: it is asked for again, or fails
    WORDS_ENDED = "words_ended"  # the whole of it, as it was stored


class StepEnd(StrEnum):
    """How a tool ended."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # nobody knows whether it happened
    ENTRUSTED = "entrusted"  # to a sub-agent, whose own steps are heard; the call goes on
    NOT_DONE = "not_done"  # what was shown no longer holds: people are asked again


@dataclass(frozen=True, slots=True)
class ToolStep:
    """What one tool does for a request, in words for people: one line each, secrets masked."""

    call_id: str
    tool: str
    title: str  # "Look up an order"
    doing: str  # "looking up order 1042"; "" where the tool does not say
    asked: bool  # people were asked: a card shows it
    so_far: str = ""  # how far it is: "3 of 10 files"; "" where the tool has not said


@dataclass(frozen=True, slots=True)
class RunEvent:
    """How a request stands."""

    kind: EventKind
    run: Run  # as it was then; nobody changes it


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A tool begins, takes long, or has ended."""

    kind: EventKind
    run: Run
    step: ToolStep
    end: StepEnd | None = None  # of STEP_ENDED


@dataclass(frozen=True, slots=True)
class WordsEvent:
    """The model says something."""

    kind: EventKind
    run: Run
    text: str = ""


Event = RunEvent | StepEvent | WordsEvent
# Called on the thread that works on the request or its tool, which waits for it: it keeps what it
# hears for a thread of its own. Events of one request come in order.
Listener = Callable[[Event], None]


class Live:
    """Where listeners are told; any thread."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` from now on; returns what ends that."""
        with self._lock:
            self._listeners += (listener,)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return end

    def tell(self, make: Callable[[], Event]) -> None:
        """Tell all who listen what `make` returns; raises nothing."""
        listeners = self._listeners
        if not listeners:
            return
        try:
            event = make()
        except Exception:
            log.exception("what goes on could not be put into words")
            return
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                log.exception("run %s: a listener failed at %s", event.run.id, event.kind)
