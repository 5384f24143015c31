"""Sub-agents: tools whose calls are carried out by an agent with its own prompt and tools.

    class Errand(BaseModel):
        task: str = Field(title="Task", max_length=4000)

    @agent_tool(
        title="Refund desk",
        effect="Ask the refund desk: {task}",
        prompt="You look after refunds. Look an order up before you refund anything of it.",
        tools=("get_order", "refund_order"),
    )
    def refund_desk(args: Errand, context: ToolContext) -> str: ...

Such a call changes nothing by itself, so it is a read; each call that its agent proposes is gated,
shown and decided as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from bot.tools import Effect, Registry, Risk, Tool, tool

AT_ONCE = (
    "An agent of its own works on it, which sees nothing of this conversation, and begins at once, "
    "before any other call of the same turn is decided: what it has to wait for belongs in an "
    "earlier turn."
)


@dataclass(frozen=True, slots=True)
class Agent:
    """A sub-agent's prompt, and the names of the tools whose calls it may propose."""

    prompt: str
    tools: tuple[str, ...]


def agent_tool(
    *,
    title: str,
    effect: str,
    prompt: str,
    tools: Iterable[str],
    name: str | None = None,
    needs_approval: bool = False,
    risk: Risk | None = None,
    max_output: int = 20_000,
) -> Callable[[Callable[..., Any]], Tool[Any]]:
    """Return a decorator that makes a sub-agent Tool of a function.

    The function takes `(args, context)` and returns the task for the agent as text. `tools`: names
    of the tools the agent may use, other sub-agents among them. `needs_approval`: people approve
    before the agent begins, unless a rule of the policy allows this tool by name. Raises TypeError
    or ValueError for an invalid definition.
    """
    names = tuple(tools)
    if not prompt.strip() or not names:
        raise ValueError(f"sub-agent {title!r}: it needs a prompt, and tools")

    def wrap(function: Callable[..., Any]) -> Tool[Any]:
        made = tool(
            title=title,
            effect=effect,
            does=Effect.READ,
            name=name,
            needs_approval=needs_approval,
            risk=risk,
            max_output=max_output,
        )(function)
        described = f"{made.description}\n\n{AT_ONCE}"
        return replace(made, agent=Agent(prompt, names), description=described)

    return wrap


def check_sub_agent_tools(registry: Registry) -> None:
    """Raise ValueError if a sub-agent lists tools that are not registered."""
    for each in registry:
        missing = [] if each.agent is None else sorted(set(each.agent.tools) - set(registry.tools))
        if missing:
            names = ", ".join(missing)
            raise ValueError(f"the sub-agent {each.name} has tools that are not there: {names}")


def select_sub_agent_tools(agent: Agent, registry: Registry, *, sub_agents: bool) -> Registry:
    """Return the registered tools that an agent may use, with or without further `sub_agents`."""
    found = (registry.tools[name] for name in agent.tools if name in registry.tools)
    return Registry({each.name: each for each in found if sub_agents or each.agent is None})
