"""Runs one tool: makes tools that end as a test wants, and reads what a tool did in Slack."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel

from bot.tools import Effect, Tool, ToolContext, tool
from bot.tools.runner import ToolOutcome, run_tool
from slack_sandbox.server import Sandbox
from tests.tools import context, validate


class Nothing(BaseModel):
    """No arguments but a secret that may be left out."""

    token: str | None = None


def make_tool(result: Any, does: Effect = Effect.WRITE, **options: Any) -> Tool[Any]:
    """Make a tool that returns `result`, raises it, or calls it."""

    @tool(title="Try", effect="Try", does=does, **options)
    def attempt(_args: Nothing, _context: ToolContext) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result() if callable(result) else result

    return attempt


def run_one(
    tool: Tool[Any], executor: ThreadPoolExecutor, args: Nothing | None = None, **options: Any
) -> ToolOutcome:
    def no_portal() -> BlockingPortal:
        raise AssertionError("a sync tool needs no portal")

    return run_tool(
        tool, args or Nothing(), context(), **{"portal": no_portal, "executor": executor, **options}
    )


def list_messages(slack: Sandbox, channel: str) -> list[dict[str, Any]]:
    return slack.person("ana").messages(channel)


def list_calls(slack: Sandbox, method: str) -> list[dict[str, Any]]:
    return [call.args for call in slack.requests if call.method == method]


def run_to_outcome(
    tool: Tool[Any], values: dict[str, Any], where: ToolContext | None = None
) -> ToolOutcome:
    def portal() -> Any:
        raise AssertionError("no Slack tool is async")

    with ThreadPoolExecutor(1) as pool:
        args = validate(tool, values)
        return run_tool(tool, args, where or context(), portal=portal, executor=pool)
