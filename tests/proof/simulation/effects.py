"""What the tools do, with any outcome; and errors that the product logs meanwhile."""

from __future__ import annotations

import logging

from bot.tools import ChangedError, ToolContext, ToolError
from tests.proof.simulation.fibers import Scheduler
from tests.proof.simulation.record import Record
from tests.proof.simulation.workspace import ALONE, Workspace
from tests.runs.fakes import Note


class Effects:
    """All tools: each checks the record when it starts and when its effect happens."""

    def __init__(
        self,
        scheduler: Scheduler,
        record: Record,
        workspace: Workspace = ALONE,
        *,
        strict: bool,
    ) -> None:
        """`strict`: no other process may take calls running here for lost."""
        self._scheduler, self._record, self._strict = scheduler, record, strict
        self._workspace = workspace
        self.calm = False

    def act(self, name: str, args: Note, context: ToolContext) -> str:
        """Do it after a while, with any outcome."""
        call, chance = context.call_id, self._scheduler.random.random()
        foreign = self._workspace.find_foreign(str(args.model_dump()))
        self._record.expect(not foreign, f"{name} is given {foreign!r}, which is the other's")
        if self._strict:
            self._record.check_tool_start(name, args.model_dump(), call)
        self._scheduler.pause(f"{name} begins")
        if chance < 0.08 and not self.calm:
            seconds = self._scheduler.random.choice((3, 20, 100))
            self._scheduler.rest(seconds, f"{name} takes long")
        if chance > 0.97:
            raise ToolError("no")
        if chance > 0.95:
            raise ChangedError("It would do something else by now.")
        if chance > 0.92:
            raise RuntimeError("boom")
        self._record.check_effect(call)
        self._scheduler.pause(f"{name} has done it")
        if chance > 0.88:
            raise ConnectionResetError("gone")
        if chance > 0.86:
            raise RuntimeError("boom")
        return f"did {call}"


class Complaints(logging.Handler):
    """The product's log records with an error of its own, with their origin."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep records with a traceback."""
        if record.exc_info and record.exc_info[0] is not None:
            text = logging.Formatter().formatException(record.exc_info)
            self.heard.append(f"{record.getMessage()}\n{text}")
