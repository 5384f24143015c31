"""Sub-agents for the stories, and helpers for stories about them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from bot.demo.model_server import Turn
from bot.tools import Tool, ToolContext, agent_tool
from storage.models import Run
from storage.states import RunSource
from tests.stories.harness import SUPPORT, Harness


class Errand(BaseModel):
    task: str = Field(title="Task", max_length=4000)


@agent_tool(
    title="Note desk",
    effect="{task}",
    prompt="You look after the notes of this company.",
    tools=("note", "peek", "ask_person", "slow"),
)
def note_desk(args: Errand, context: ToolContext) -> str:
    """Writes notes, and looks at them."""
    return args.task


@agent_tool(
    title="Head office",
    effect="{task}",
    prompt="You hand on what others can do.",
    tools=("note_desk", "note"),
)
def head_office(args: Errand, context: ToolContext) -> str:
    """Has notes written by the note desk."""
    return args.task


@agent_tool(
    title="Careful desk",
    effect="{task}",
    prompt="You write notes, once you may.",
    tools=("note",),
    needs_approval=True,
)
def careful_desk(args: Errand, context: ToolContext) -> str:
    """Writes notes, and people are asked before it begins."""
    return args.task


AGENTS: list[Tool[Any]] = [note_desk, head_office, careful_desk]


def errand(task: str, agent: str = "note_desk") -> tuple[str, dict[str, str]]:
    """Build a call that gives a sub-agent this task."""
    return (agent, {"task": task})


def writes(text: str) -> Turn:
    """Build a turn that proposes one note."""
    return Turn(calls=[("note", {"text": text})])


def asked_for(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """Ben asks, the agent asks the note desk, and that proposes a note; return thread and card."""
    harness.planner.script(Turn(calls=[errand(f"please write {text}")]), writes(text))
    thread = harness.person("ben").say(SUPPORT, f"@bot have {text} written")
    return thread, harness.card(SUPPORT, thread)


def child_of(harness: Harness, thread: str) -> Run:
    """Return the newest run of a sub-agent in this thread."""
    found = harness.all(Run, Run.thread_ts == thread, Run.source == RunSource.RUN)
    return max(found, key=lambda run: run.created_at)


def get_request_run(harness: Harness, thread: str) -> Run:
    """Return the run in which the requester's agent works."""
    [run] = harness.all(Run, Run.thread_ts == thread, Run.source == RunSource.MESSAGE)
    return run


def approve(harness: Harness, card: dict[str, Any], *turns: Turn) -> None:
    """Script these turns of the models, and have Ana approve."""
    harness.planner.script(*turns)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")


def get_last_output(harness: Harness) -> str:
    """Return the newest call output that a model was given."""
    return str(harness.outputs()[-1]["output"])
