"""What a tool does while it runs, in words for people, told to whoever listens."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from bot.monitoring.live_events import EventKind, Live, StepEnd, StepEvent, ToolStep
from bot.tools import Effect, Tool
from bot.tools.runner import (
    LostToolAnswer,
    ToolOutcome,
    ToolStateChange,
    ToolSuccess,
    ToolTimeout,
    one_line,
    told,
)
from storage.masking import masked
from storage.models import Call, Run

log = logging.getLogger(__name__)
LENGTH = 100  # characters
SO_FAR = 60  # characters of how far it is
BETWEEN = 1.0  # seconds between two words of a tool on how far it is


def step_of(tool: Tool[Any], args: BaseModel, call: Call) -> ToolStep:
    """Return what a call of this tool does, on one line of at most 100 characters.

    Raises nothing: a sentence that fails is none.
    """
    doing = ""
    if tool.step is not None:
        try:
            said = tool.step(args)
            doing = masked(one_line(tool, args, said, LENGTH)) if isinstance(said, str) else ""
        except Exception as error:  # noqa: BLE001 # its traceback may quote secrets
            why = told(tool, args, error)
            log.error("%s runs, and its step sentence failed: %s", tool.name, why)
    return ToolStep(
        call_id=call.id,
        tool=tool.name,
        title=one_line(tool, args, tool.title, LENGTH),
        doing=doing.rstrip(" .…"),
        asked=call.asked_at is not None,
    )


class StepTeller:
    """Tells how one call goes on; used by the thread that waits for it, and by its tool."""

    def __init__(self, live: Live, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> None:
        """Its words are put together when somebody listens, once."""
        self._live, self._run = live, run
        self._of = tool, args, call
        self._step: ToolStep | None = None
        self._lock = threading.RLock()  # the tool may tell on threads of its own
        self._so_far, self._is_over, self._said_at = "", False, float("-inf")
        self.is_long = False  # somebody was told that it takes long

    def began(self) -> None:
        """The tool is about to be called."""
        self._tell(EventKind.STEP_BEGAN)

    def goes_on(self) -> None:
        """It takes long."""
        self.is_long = True
        self._tell(EventKind.STEP_GOES_ON)

    def says(self, words: str) -> None:
        """The tool says how far it is; any thread, told once a second at most."""
        now = time.monotonic()
        with self._lock:
            if self._is_over:
                return
            tool, args, _ = self._of
            self._so_far = masked(one_line(tool, args, words, SO_FAR))
            if now - self._said_at < BETWEEN:
                return  # the next beat tells it
            self._said_at = now
            self._tell(EventKind.STEP_TOLD)

    def ended(self, outcome: ToolOutcome) -> None:
        """It is over, and how is stored."""
        with self._lock:
            self._is_over = True
        self._tell(EventKind.STEP_ENDED, step_end(self._of[0], outcome))

    def _tell(self, kind: EventKind, end: StepEnd | None = None) -> None:
        self._live.tell(lambda: StepEvent(kind, self._run, self._words(), end))

    def _words(self) -> ToolStep:
        if self._step is None:
            self._step = step_of(*self._of)
        return replace(self._step, so_far=self._so_far) if self._so_far else self._step


def step_end(tool: Tool[Any], outcome: ToolOutcome) -> StepEnd:
    """Return how a tool ended."""
    match outcome:
        case ToolSuccess():
            return StepEnd.DONE if tool.agent is None else StepEnd.ENTRUSTED
        case ToolStateChange():
            return StepEnd.NOT_DONE
        case LostToolAnswer() | ToolTimeout() if tool.does is not Effect.READ:
            return StepEnd.UNKNOWN
        case _:
            return StepEnd.FAILED
