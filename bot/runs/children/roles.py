"""Who takes the model turns of a run: the requester's agent, or a sub-agent with its own tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.agent import prompt, sub_agents
from bot.agent.turn import PlannerError
from bot.tools import Registry, Tool
from bot.tools.agents import tools_of
from storage import calls, children
from storage.models import Run
from storage.states import RunSource
from storage.store import Store

GONE = "The sub-agent that was asked is no longer there."


@dataclass(frozen=True, slots=True)
class Role:
    """What the model is told it is in a run, and the tools that it may propose calls of."""

    instructions: str
    tools: Registry

    def offered(self) -> list[dict[str, Any]]:
        """Return the tools as the model is given them."""
        return [function(tool) for tool in self.tools]


class Roles:
    """One for all workers; any thread."""

    def __init__(self, store: Store, tools: Registry, max_depth: int) -> None:
        """`max_depth`: how many sub-agents may stand one below the other."""
        self._store = store
        self._tools = tools
        self._max_depth = max_depth
        alone = {each.name: each for each in tools if each.agent is None}
        self._first = Role(prompt.INSTRUCTIONS, tools if max_depth else Registry(alone))

    def of(self, run: Run) -> Role:
        """Return the role of a run; raises PlannerError where its sub-agent is no longer there."""
        if run.source is not RunSource.RUN:
            return self._first
        with self._store.read() as tx:
            call, depth = calls.get(tx, run.parent_call), children.depth(tx, run)
        tool = self._tools.of(call) if call else None
        if tool is None or tool.agent is None:
            raise PlannerError(GONE)
        allowed = tools_of(tool.agent, self._tools, sub_agents=depth < self._max_depth)
        return Role(sub_agents.instructions(tool.title, tool.agent.prompt), allowed)


def function(tool: Tool[Any]) -> dict[str, Any]:
    """Return a tool as a model is given it."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema(),
        "strict": False,
    }
