"""LangGraph: a tool that waits for people interrupts its graph, whose checkpointer keeps it.

agent = create_agent(model, tools=[deploy], middleware=[Interrupting()], checkpointer=saver)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from countersign.adapters import missing
from countersign.context import Suspension, as_told, suspending
from countersign.request import CountersignError, Request

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command, StateSnapshot, interrupt
except ImportError as error:
    raise missing("langchain") from error

OURS = "countersign"  # in what an interrupt says
NOT_DONE = "error"  # the status of an answer


class Interrupting(AgentMiddleware):
    """Has decorated functions interrupt the graph instead of waiting; other tools run as ever.

    Its two methods also serve a `ToolNode` as `wrap_tool_call` and `awrap_tool_call`. What people
    do not approve is an answer of the tool with the status "error", and the reason.
    """

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run one tool call, or interrupt; raises TypeError for a graph without a thread."""
        try:
            with suspending(_suspension(request)):
                return handler(request)
        except CountersignError as error:
            return _answer(request, error)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do as `wrap_tool_call` does."""
        try:
            with suspending(_suspension(request)):
                return await handler(request)
        except CountersignError as error:
            return _answer(request, error)


def going_on(snapshot: StateSnapshot, wanted: Any = None) -> Any:
    """Return what the graph is to be invoked with: to look again, to go on, or with `wanted`.

    `snapshot`: `graph.get_state(thread)`. Where it waits for people, it is to look again, which is
    harmless: what nobody has decided yet interrupts it again. Where a process died over it, None
    has it go on. `wanted` is what to begin with, where nothing is left to do.
    """
    interrupts = snapshot.interrupts
    ours = [each.id for each in interrupts if isinstance(each.value, dict) and OURS in each.value]
    if ours:
        return Command(resume=dict.fromkeys(ours, True))
    return None if snapshot.next else wanted


def _suspension(request: Any) -> Suspension:
    thread = request.runtime.config.get("configurable", {}).get("thread_id")
    if not thread:
        raise TypeError("Give the graph a checkpointer, and a thread_id: its work is kept by it.")
    return Suspension(f"langgraph {thread}", request.tool_call["id"], _interrupt)


def _interrupt(request: Request) -> None:
    interrupt({OURS: request.id, "link": request.link})


def _answer(request: Any, error: CountersignError) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(as_told(error), name=call["name"], tool_call_id=call["id"], status=NOT_DONE)
