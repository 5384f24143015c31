"""What the model does in the stories: each turn follows from the request alone.

So a turn that is repeated because its answer was lost comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.demo.model_server import Turn

ANSWER = "That is all there was to do."
ASIDE = "It will write that down."
Mind = Callable[[dict[str, Any]], Turn]
Proposed = tuple[str, dict[str, Any]]


def list_outputs(body: dict[str, Any]) -> list[str]:
    """The outputs of its calls that the model has received, oldest first."""
    items = body["input"]
    return [str(each["output"]) for each in items if each.get("type") == "function_call_output"]


def list_requests(body: dict[str, Any]) -> list[str]:
    """What people have said to the model, oldest first."""
    return [str(each["content"]) for each in body["input"] if each.get("role") == "user"]


def propose_calls(*calls: Proposed) -> Mind:
    """A mind that proposes these calls together, and reports once it has their outputs."""

    def mind(body: dict[str, Any]) -> Turn:
        return Turn(text=ANSWER) if list_outputs(body) else Turn(calls=calls)

    return mind


def propose_each_time(call: Proposed) -> Mind:
    """A mind that proposes this call for each thing that people say."""

    def mind(body: dict[str, Any]) -> Turn:
        return (
            Turn(text=ANSWER)
            if len(list_outputs(body)) >= len(list_requests(body))
            else Turn(calls=[call])
        )

    return mind


def propose_and_chat(call: Proposed, question: str) -> Mind:
    """A mind that proposes this call, and answers that question while people decide."""

    def mind(body: dict[str, Any]) -> Turn:
        if not list_outputs(body):
            return Turn(calls=[call])
        return Turn(text=ASIDE if list_outputs(body)[-1].startswith("WAITING") else ANSWER)

    return mind


def delegate_call(task: str, call: Proposed) -> Mind:
    """A mind that asks the note desk, which proposes this call."""

    def mind(body: dict[str, Any]) -> Turn:
        if list_outputs(body):
            return Turn(text=ANSWER)
        is_desk = "look after the notes" in f"{body.get('instructions')}{body['input']}"
        return Turn(calls=[call if is_desk else ("note_desk", {"text": task})])

    return mind


def delegate_twice(*calls: Proposed) -> Mind:
    """A mind that asks the head office, and that the note desk, which proposes these in turn."""

    def mind(body: dict[str, Any]) -> Turn:
        who, known = f"{body.get('instructions')}{body['input'][0]}", list_outputs(body)
        is_desk = "look after the notes" in who
        if is_desk and len(known) < len(calls):
            return Turn(calls=[calls[len(known)]])
        if "hand on what" in who or is_desk:
            return Turn(text="Seen to.") if known else Turn(calls=[("note_desk", {"text": "it"})])
        return Turn(text=ANSWER) if known else Turn(calls=[("head_office", {"text": "that"})])

    return mind
