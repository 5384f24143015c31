"""What the tests of the Slack tools look at: messages, calls, and how a call of a tool ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bot.sandbox.server import Sandbox
from bot.tools import Tool, ToolContext
from bot.tools.runner import ToolOutcome, run_tool
from tests.tools import context


def posted(slack: Sandbox, channel: str) -> list[dict[str, Any]]:
    return slack.person("ana").messages(channel)


def calls(slack: Sandbox, method: str) -> list[dict[str, Any]]:
    return [call.args for call in slack.requests if call.method == method]


def outcome(
    tool: Tool[Any], values: dict[str, Any], where: ToolContext | None = None
) -> ToolOutcome:
    def portal() -> Any:
        raise AssertionError("no Slack tool is async")

    with ThreadPoolExecutor(1) as pool:
        args = tool.arguments.model_validate(values)
        return run_tool(tool, args, where or context(), portal=portal, executor=pool)
