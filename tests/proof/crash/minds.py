"""What the model does in the stories: a turn that follows from the request alone.

So a turn that is asked for again, because its answer was lost, comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.demo.model_server import Turn

ANSWER = "That is all there was to do."
ASIDE = "It will write that down."
Mind = Callable[[dict[str, Any]], Turn]
Proposed = tuple[str, dict[str, Any]]


def told(body: dict[str, Any]) -> list[str]:
    """What the model was told of its calls, oldest first."""
    items = body["input"]
    return [str(each["output"]) for each in items if each.get("type") == "function_call_output"]


def asked(body: dict[str, Any]) -> list[str]:
    """What people have said to it, oldest first."""
    return [str(each["content"]) for each in body["input"] if each.get("role") == "user"]


def proposes(*calls: Proposed) -> Mind:
    """Proposes these calls together, and says that all is done once it was told of them."""

    def mind(body: dict[str, Any]) -> Turn:
        return Turn(text=ANSWER) if told(body) else Turn(calls=calls)

    return mind


def each_time(call: Proposed) -> Mind:
    """Proposes this call for each thing that people say."""

    def mind(body: dict[str, Any]) -> Turn:
        return Turn(text=ANSWER) if len(told(body)) >= len(asked(body)) else Turn(calls=[call])

    return mind


def chats_beside(call: Proposed, question: str) -> Mind:
    """Proposes this call, and answers that question while people decide on it."""

    def mind(body: dict[str, Any]) -> Turn:
        if not told(body):
            return Turn(calls=[call])
        return Turn(text=ASIDE if told(body)[-1].startswith("WAITING") else ANSWER)

    return mind


def hands_on(task: str, call: Proposed) -> Mind:
    """Asks the note desk, whose own mind proposes this call."""

    def mind(body: dict[str, Any]) -> Turn:
        if told(body):
            return Turn(text=ANSWER)
        is_desk = "look after the notes" in f"{body.get('instructions')}{body['input']}"
        return Turn(calls=[call if is_desk else ("note_desk", {"text": task})])

    return mind


def hands_on_twice(*calls: Proposed) -> Mind:
    """Asks the head office, and that the note desk, whose own mind proposes these in turn."""

    def mind(body: dict[str, Any]) -> Turn:
        who, known = f"{body.get('instructions')}{body['input'][0]}", told(body)
        is_desk = "look after the notes" in who
        if is_desk and len(known) < len(calls):
            return Turn(calls=[calls[len(known)]])
        if "hand on what" in who or is_desk:
            return Turn(text="Seen to.") if known else Turn(calls=[("note_desk", {"text": "it"})])
        return Turn(text=ANSWER) if known else Turn(calls=[("head_office", {"text": "that"})])

    return mind
