"""BeeAI adapter: the agent's run ends while people decide, and its messages are kept.

agent = RequirementAgent(llm=…, tools=[tool(deploy)], requirements=[ApprovalRequirement(deploy)])
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from countersign.adapters import build_missing_package_error, request_if_valid
from countersign.context import (
    CallSuspension,
    asking,
    describe_call_error,
    describe_refusal,
    raise_undecided,
    suspend_undecided_calls,
)
from countersign.decorated import run_in_thread
from countersign.request import CountersignError, Request, Undecided

try:
    from beeai_framework.agents.requirement import RequirementAgent, RequirementAgentOutput
    from beeai_framework.agents.requirement.requirements import Requirement
    from beeai_framework.agents.requirement.requirements.requirement import run_with_context
    from beeai_framework.backend import (
        AssistantMessage,
        ChatModel,
        MessageToolResultContent,
        SystemMessage,
        ToolMessage,
        UserMessage,
    )
    from beeai_framework.context import RunContext
    from beeai_framework.emitter import EmitterOptions
    from beeai_framework.emitter.utils import create_internal_event_matcher
    from beeai_framework.errors import FrameworkError
    from beeai_framework.tools import AnyTool, StringToolOutput, ToolError
except ImportError as error:
    raise build_missing_package_error("beeai-framework") from error

NESTED_EVENT_OPTIONS = EmitterOptions(is_blocking=True, persistent=True, match_nested=True)
MESSAGE_CLASS_BY_ROLE = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that has stopped while people decide; `messages` is JSON for the caller to keep."""

    messages: list[dict[str, Any]]


async def run_agent(
    agent: RequirementAgent, task_or_messages: str | list[dict[str, Any]], *, run: str
) -> RequirementAgentOutput | KeptRun:
    """Run an agent, or continue a stopped run from its messages.

    `task_or_messages`: the task, or `KeptRun.messages`. `run`: a name for the work, the same each
    time. The model is not asked again for the calls it wanted before.
    """
    with asking(run=run), suspend_undecided_calls(CallSuspension(run)):
        if isinstance(task_or_messages, str):
            return await _run_keeping_messages(agent, task_or_messages)
        *before, last = (
            MESSAGE_CLASS_BY_ROLE[each["role"]](each["content"]) for each in task_or_messages
        )
        results = [await _run_waiting_call(agent, each) for each in last.get_tool_calls()]
        tool_messages = [each for each in results if each is not None]
        if len(tool_messages) < len(results):
            return KeptRun(task_or_messages)
        agent.memory.reset()
        await agent.memory.add_many([*before, last, *tool_messages])
        return await _run_keeping_messages(agent, [])


class ApprovalRequirement(Requirement[Any]):
    """A requirement that has people approve the calls of decorated functions before they run."""

    name = "countersign"

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self._functions = {each.__name__: each for each in functions}

    async def init(self, *, tools: list[AnyTool], ctx: RunContext) -> None:
        """Watch for the start of each tool that is one of the decorated functions."""
        await super().init(tools=tools, ctx=ctx)
        for each in tools:
            if each.name in self._functions:
                matcher = create_internal_event_matcher("start", each, parent_run_id=ctx.run_id)
                ctx.emitter.on(
                    matcher,
                    partial(self._request_approval, self._functions[each.name]),
                    NESTED_EVENT_OPTIONS,
                )

    async def _request_approval(self, function: Callable[..., Any], start: Any, _: Any) -> None:
        request: Request | None = await run_in_thread(
            partial(request_if_valid, function, start.input["input"])
        )
        if request is None:
            return
        if not request.is_decided:
            raise_undecided(request)
        why = describe_refusal(request)
        if why is not None:
            start.output = StringToolOutput(why)

    @run_with_context
    async def run(self, state: Any, context: RunContext) -> list[Any]:
        """Return no rules: every tool is allowed, since people decide on single calls."""
        return []


async def _run_keeping_messages(
    agent: RequirementAgent, said: Any
) -> RequirementAgentOutput | KeptRun:
    """Run the agent; if people have not decided, return its messages as a KeptRun."""
    captured: dict[str, Any] = {}
    running = agent.run(said)
    running.on("start", lambda start, _: captured.update(state=start.state))
    running.on(
        lambda event: event.name == "success" and isinstance(event.creator, ChatModel),
        lambda success, _: captured.update(said=success.value),
        NESTED_EVENT_OPTIONS,
    )
    try:
        return await running
    except FrameworkError as error:
        if not _is_undecided(error):
            raise
        messages = [*captured["state"].memory.messages, *captured["said"].output]
        for each in captured["said"].get_tool_calls():  # asks for this turn's other calls too
            await _run_waiting_call(agent, each)
        return KeptRun([each.to_plain() for each in messages])


def _is_undecided(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_undecided, error.exceptions))
    return isinstance(error, Undecided) or (error is not None and _is_undecided(error.__cause__))


async def _run_waiting_call(agent: RequirementAgent, call: Any) -> ToolMessage | None:
    """Run one call that waited and return its message; None if people have not decided yet."""
    tool = next(each for each in agent.meta.tools if each.name == call.tool_name)
    try:
        text = (await tool.run(json.loads(call.args))).get_text_content()
    except ToolError as error:
        cause = error.get_cause()
        if isinstance(cause, Undecided):
            return None
        text = (
            describe_call_error(cause) if isinstance(cause, CountersignError) else error.explain()
        )
    result = MessageToolResultContent(tool_name=tool.name, tool_call_id=call.id, result=text)
    return ToolMessage(result)
