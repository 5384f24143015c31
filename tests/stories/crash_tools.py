"""Tools for a bot in a process of its own: an effect is a line in a file.

The folder comes from the environment; while it has a pipe named `hang`, a tool waits for that
after its effect.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from bot.tools import Effect, ToolContext, tool


class Words(BaseModel):
    text: str


def _effect(name: str, text: str, context: ToolContext) -> str:
    folder = Path(os.environ["CRASH_FOLDER"])
    with (folder / "effects").open("a") as file:
        file.write(f"{name} {text} {context.call_id}\n")
    if (folder / "hang").exists():
        (folder / "hang").read_text()
    return f"{name} {text}"


@tool(title="Do something once", effect="Do “{text}”", does=Effect.WRITE)
def once(args: Words, context: ToolContext) -> str:
    return _effect("once", args.text, context)


@tool(title="Set something", effect="Set “{text}”", does=Effect.WRITE, idempotent=True)
def again(args: Words, context: ToolContext) -> str:
    return _effect("again", args.text, context)


@tool(title="Look at something", effect="Look at “{text}”", does=Effect.READ)
def look(args: Words, context: ToolContext) -> str:
    return _effect("look", args.text, context)
