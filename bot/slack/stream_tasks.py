"""The steps of one request as Slack draws them: tasks with a title and a state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from bot.cards.notices import step_title
from bot.live import StepEnd, ToolStep

MOST = 20  # tasks above one answer; a message holds 50 blocks


class TaskStatus(StrEnum):
    """How Slack draws a task."""

    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"
    PENDING = "pending"


ENDS = {
    StepEnd.DONE: TaskStatus.COMPLETE,
    StepEnd.FAILED: TaskStatus.ERROR,
    StepEnd.UNKNOWN: TaskStatus.ERROR,
    StepEnd.NOT_DONE: TaskStatus.PENDING,
}


class Tasks:
    """The steps of one request, and what of them its streams show; any thread."""

    def __init__(self) -> None:
        """No step yet."""
        self._chunks: dict[str, dict[str, Any]] = {}  # by call id, as they stand
        self._sent: dict[str, dict[str, Any]] = {}  # as some stream shows them
        self._here: set[str] = set()  # in the stream that is open
        self._beats: dict[str, int] = {}

    def put(self, step: ToolStep, status: TaskStatus) -> None:
        """A step stands so now."""
        if step.call_id in self._chunks or len(self._chunks) < MOST:
            title = step_title(step.doing, step.title)
            self._chunks[step.call_id] = {
                "type": "task_update",
                "id": step.call_id,
                "title": title,
                "status": status,
            }

    def drop(self, step: ToolStep) -> None:
        """A step is none: it has only asked for others, which are shown."""
        self._chunks.pop(step.call_id, None)

    def beats(self, step: ToolStep) -> int:
        """Count one more beat of a step that goes on."""
        self._beats[step.call_id] = self._beats.get(step.call_id, 0) + 1
        return self._beats[step.call_id]

    def unsent(self) -> list[dict[str, Any]]:
        """Return what the stream that is open does not show yet, in order."""
        return [each for key, each in list(self._chunks.items()) if self._sent.get(key) != each]

    def sent(self, chunks: list[dict[str, Any]]) -> None:
        """A stream shows these now."""
        self._sent |= {each["id"]: each for each in chunks}
        self._here |= {each["id"] for each in chunks}

    def begins(self, *, anew: bool) -> None:
        """Another stream begins; `anew`: in the place of the last, whose words are void."""
        if anew:
            self._sent = {key: each for key, each in self._sent.items() if key not in self._here}
        self._here.clear()


def content(text: str, tasks: list[dict[str, Any]], *, chunked: bool = False) -> dict[str, Any]:
    """Return words and tasks as the arguments that add them to a stream; {} for none of either.

    `chunked`: the stream has begun with chunks, so that words are one, too.
    """
    if not tasks and not chunked:
        return {"markdown_text": text} if text else {}
    words = [{"type": "markdown_text", "text": text}] if text else []
    chunks = [*tasks, *words]
    return {"chunks": chunks} if chunks else {}
