"""Live events: what happens in a request at this moment, passed to listeners.

They are for display only: the database rows are the record, so a listener that starts late or fails
misses no fact. Events are not even built when nobody listens.
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
    """The kinds of live events; a closed set."""

    # RunEvent: the state of a request
    WORKS = "works"  # the model is asked, or an answer composed
    WAITS = "waits"  # for people; sent only after it is stored, as is OVER
    OVER = "over"  # completed, failed or cancelled; may be sent more than once
    # StepEvent: one tool, from its start to its end
    STEP_BEGAN = "step_began"
    STEP_GOES_ON = "step_goes_on"  # it takes long; sent after one second, then every few seconds
    STEP_TOLD = "step_told"  # the tool itself reports progress
    STEP_ENDED = "step_ended"  # with its outcome; sent only after it is stored
    # WordsEvent: one answer of the model while it is written
    WORDS = "words"  # the next words, unchecked, with any formatting they have
    WORDS_VOID = "words_void"  # the words so far do not count: the answer is tried again, or fails
    WORDS_ENDED = "words_ended"  # the complete answer, as stored


class ToolStepOutcome(StrEnum):
    """The ways in which a tool's run can end."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it may have run, or not
    ENTRUSTED = "entrusted"  # to a sub-agent, which reports its own steps; the call continues
    NOT_DONE = "not_done"  # what people approved has changed, so they are asked again


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool's work for a request, described for people: one line each, secrets masked."""

    call_id: str
    tool: str
    title: str  # "Look up an order"
    doing: str  # "looking up order 1042"; "" if the tool does not say
    asked: bool  # people were asked to approve it, so a card shows it
    so_far: str = ""  # progress, "3 of 10 files"; "" if the tool reports none


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event that says in which state a request is."""

    kind: EventKind
    run: Run  # a snapshot; must not be changed


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An event that says that a tool began, takes long, reports progress or has ended."""

    kind: EventKind
    run: Run
    step: ToolStep
    end: ToolStepOutcome | None = None  # set for STEP_ENDED only


@dataclass(frozen=True, slots=True)
class WordsEvent:
    """An event with words that the model is writing."""

    kind: EventKind
    run: Run
    text: str = ""


Event = RunEvent | StepEvent | WordsEvent
# Called on the thread that works on the request or its tool, which is blocked meanwhile: a listener
# hands the event to a thread of its own. Events of one request come in order.
Listener = Callable[[Event], None]


class LiveEventBroadcaster:
    """The distributor of live events to registered listeners; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; return a function that stops this."""
        with self._lock:
            self._listeners += (listener,)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return end

    def broadcast(self, make: Callable[[], Event]) -> None:
        """Call every listener with the event that `make` returns; never raise an error.

        `make` is not called when there are no listeners.
        """
        listeners = self._listeners
        if not listeners:
            return
        try:
            event = make()
        except Exception:
            log.exception("an event could not be described")
            return
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                log.exception("run %s: a listener failed at %s", event.run.id, event.kind)
