"""OpenAI Agents adapter: an undecided call interrupts its run, which a `RunState` keeps.

agent = Agent(name="Release", tools=[as_tool(deploy)])
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from countersign.adapters import build_missing_package_error
from countersign.context import (
    CURRENT_CIRCUMSTANCES,
    CallSuspension,
    describe_call_error,
    describe_refusal,
    suspend_undecided_calls,
)
from countersign.decorated import request_approval
from countersign.request import CountersignError

try:
    from agents import FunctionTool, RunContextWrapper, RunState, function_tool
    from agents.tool import default_tool_error_function
    from agents.tool_context import ToolContext
except ImportError as error:
    raise build_missing_package_error("openai-agents") from error


def as_tool(function: Callable[..., Any]) -> FunctionTool:
    """Return a tool for a decorated function; each call of the tool interrupts the run.

    The framework's own approval runs nothing by itself: people must have approved the call.
    """
    made = function_tool(function, needs_approval=True, failure_error_function=_describe_tool_error)
    run_it = made.on_invoke_tool

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        with suspend_undecided_calls(_build_suspension(context.tool_call_id)):
            return await run_it(context, arguments)

    return replace(made, on_invoke_tool=invoke)


def enter_decisions(state: RunState[Any, Any], *functions: Callable[..., Any]) -> bool:
    """Ask about each call that interrupted a run, and enter people's decisions in its state.

    `functions`: the decorated functions among its tools. Returns True if a call is decided, so that
    the run can go on; one whose arguments do not fit is rejected. Raises NotAllowed, Unreachable,
    and TypeError outside of `asking(run=…)`.
    """
    by_name = {each.__name__: each for each in functions}
    is_any_decided = False
    for each in state.get_interruptions():
        if each.name not in by_name:
            continue
        with suspend_undecided_calls(_build_suspension(each.call_id)):
            try:
                request = request_approval(by_name[each.name], json.loads(each.arguments or "{}"))
            except (ValueError, TypeError) as error:  # pydantic.ValidationError is a ValueError
                why: str | None = f"It was not done. Its arguments do not fit: {error}"
            else:
                if not request.is_decided:
                    continue
                why = describe_refusal(request)
        is_any_decided = True
        if why is None:
            state.approve(each)
        else:
            state.reject(each, rejection_message=why)
    return is_any_decided


def _build_suspension(call_id: str | None) -> CallSuspension:
    run = CURRENT_CIRCUMSTANCES.get().run
    if not run:  # the run's state has no name, and some models number their calls from 0
        raise TypeError("Name the run, the same each time, with asking(run=…)")
    return CallSuspension(run, call_id or "")


def _describe_tool_error(context: RunContextWrapper[Any], error: Exception) -> str:
    if isinstance(error, CountersignError):
        return describe_call_error(error)
    return str(default_tool_error_function(context, error))
