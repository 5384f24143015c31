"""The tools of the bot that is struck: each effect is a line in a ledger that outlives the bot.

A line also has what the record says about the call then, read in a transaction of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bot.policy.gates import Allow, load_gate
from bot.tools import ChangedError, Effect, Preview, Tool, ToolContext, ToolError, agent_tool, tool
from storage import calls, runs
from storage.store import Store


class Words(BaseModel):
    text: str = Field(title="Text", max_length=500)


class Ledger:
    """What the tools did, one line of JSON each, written at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"
        self.store: Store | None = None  # the record to read for each line

    def note(self, tool: str, text: str, call: str) -> None:
        """Write one effect."""
        line = {"tool": tool, "text": text, "call": call, "record": self._record(call)}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{json.dumps(line)}\n".encode())
        finally:
            os.close(file)

    def lines(self) -> list[dict[str, Any]]:
        """All effects, of all lives."""
        text = self.path.read_text("utf-8") if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def _record(self, call_id: str) -> dict[str, Any]:
        assert self.store is not None
        with self.store.read() as tx:
            shown = calls.find_call_with_revision(tx, call_id)
            assert shown is not None
            votes = calls.list_votes_on_revision(tx, call_id, shown.call.revision)
            run = runs.find_run(tx, shown.call.run_id)
            editors = calls.list_editors(tx, call_id)
        assert run is not None
        call = shown.call
        given = [v for v in votes if v.digest == call.digest]
        agreed = {v.counted_person for v in given if v.verb in ("approve", "break_glass")}
        return {
            "status": call.status,
            "arguments": shown.arguments,
            "allowed": isinstance(load_gate(call.gate), Allow),
            "grant": call.grant_id,
            "agreed": sorted(agreed - {run.requester} - editors),
        }


def make_tools(ledger: Ledger, reached: Callable[[str], None], folder: Path) -> list[Tool[Any]]:
    """Return tools that ask, read, fail, lose their answer, may be repeated, or have a preview."""

    def act(name: str, args: Words, context: ToolContext) -> None:
        reached(f"effect of {name}: before")
        ledger.note(name, args.text, context.call_id)
        reached(f"effect of {name}: after")

    @tool(title="Write a note", effect="Write “{text}”", does=Effect.WRITE)
    def note(args: Words, context: ToolContext) -> str:
        act("note", args, context)
        return f"noted {args.text}"

    @tool(title="Set a value", effect="Set “{text}”", does=Effect.WRITE, idempotent=True)
    def put(args: Words, context: ToolContext) -> str:
        act("put", args, context)
        return f"put {args.text}"

    @tool(title="Look at something", effect="Look at “{text}”", does=Effect.READ)
    def peek(args: Words, context: ToolContext) -> str:
        act("peek", args, context)
        return f"saw {args.text}"

    @tool(title="Refuse", effect="Refuse “{text}”", does=Effect.WRITE)
    def refuse(args: Words, context: ToolContext) -> str:
        reached("effect of refuse: before")
        raise ToolError(f"there is no {args.text}")

    @tool(title="Lose the answer", effect="Send “{text}”", does=Effect.WRITE)
    def lose(args: Words, context: ToolContext) -> str:
        act("lose", args, context)
        raise ConnectionResetError("the line went dead")

    return [note, put, peek, refuse, lose, _shelf(folder, act), note_desk, head_office]


def _shelf(folder: Path, act: Callable[[str, Words, ToolContext], None]) -> Tool[Any]:
    def books() -> str:
        return (folder / "shelf").read_text("utf-8")

    def seen(args: Words, context: ToolContext) -> Preview:
        return Preview(f"{books()} books stand on {args.text}", expects=books())

    @tool(title="Empty a shelf", effect="Empty “{text}”", does=Effect.WRITE, preview=seen)
    def empty(args: Words, context: ToolContext) -> str:
        if context.expects and context.expects != books():
            raise ChangedError(f"There are {books()} books now, not {context.expects}.")
        act("empty", args, context)
        return f"emptied {args.text}"

    return empty


@agent_tool(
    title="Note desk",
    effect="{text}",
    prompt="You look after the notes of this company.",
    tools=("note", "peek", "lose", "ask_person"),
)
def note_desk(args: Words, context: ToolContext) -> str:
    """Writes notes."""
    return args.text


@agent_tool(
    title="Head office",
    effect="{text}",
    prompt="You hand on what others can do.",
    tools=("note_desk",),
)
def head_office(args: Words, context: ToolContext) -> str:
    """Has notes written by the note desk."""
    return args.text
