"""A module with a tool that has the name of another tool."""

from __future__ import annotations

from pydantic import BaseModel

from bot.tools import Effect, ToolContext, tool


class Nothing(BaseModel):
    """No arguments."""


@tool(name="post_message", title="A twin", effect="Do nothing", does=Effect.READ)
def twin(_args: Nothing, _context: ToolContext) -> str:
    """Do nothing."""
    return ""
