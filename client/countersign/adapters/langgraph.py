"""LangGraph adapter: an undecided call interrupts its graph, which the checkpointer keeps.

agent = create_agent(model, tools=[deploy], middleware=[ApprovalMiddleware()], checkpointer=saver)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from countersign.adapters import build_missing_package_error
from countersign.context import CallSuspension, describe_call_error, suspend_undecided_calls
from countersign.request import CountersignError, Request

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command, StateSnapshot, interrupt
except ImportError as error:
    raise build_missing_package_error("langchain") from error

INTERRUPT_KEY = "countersign"  # in the value of an interrupt
ERROR_STATUS = "error"


class ApprovalMiddleware(AgentMiddleware):
    """Middleware that makes decorated functions interrupt the graph instead of waiting.

    Other tools run as usual. The two methods also serve a `ToolNode` as `wrap_tool_call` and
    `awrap_tool_call`. A call that people do not approve has an answer with the status "error" and
    the reason.
    """

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run one tool call, or interrupt the graph; raises TypeError without a thread_id."""
        try:
            with suspend_undecided_calls(_build_suspension(request)):
                return handler(request)
        except CountersignError as error:
            return _build_error_message(request, error)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do as `wrap_tool_call` does, for async tools."""
        try:
            with suspend_undecided_calls(_build_suspension(request)):
                return await handler(request)
        except CountersignError as error:
            return _build_error_message(request, error)


def get_next_input(snapshot: StateSnapshot, first_input: Any = None) -> Any:
    """Return the input for the next invocation of the graph, according to its saved state.

    `snapshot`: `graph.get_state(thread)`. If the graph waits for people: a command to check again,
    which is harmless, since an undecided call interrupts again. If a process died at work: None, to
    go on. If nothing is left to do: `first_input`, the input to begin with.
    """
    interrupts = snapshot.interrupts
    ours = [
        each.id
        for each in interrupts
        if isinstance(each.value, dict) and INTERRUPT_KEY in each.value
    ]
    if ours:
        return Command(resume=dict.fromkeys(ours, True))
    return None if snapshot.next else first_input


def _build_suspension(request: Any) -> CallSuspension:
    thread = request.runtime.config.get("configurable", {}).get("thread_id")
    if not thread:
        raise TypeError(
            "Give the graph a checkpointer and a thread_id: its work is stored under that."
        )
    return CallSuspension(f"langgraph {thread}", request.tool_call["id"], _interrupt_graph)


def _interrupt_graph(request: Request) -> None:
    interrupt({INTERRUPT_KEY: request.id, "link": request.link})


def _build_error_message(request: Any, error: CountersignError) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(
        describe_call_error(error), name=call["name"], tool_call_id=call["id"], status=ERROR_STATUS
    )
