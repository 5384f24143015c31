"""Haystack adapter: the agent's run ends while people decide, and its messages are kept.

agent = Agent(chat_generator=…, tools=[create_tool_from_function(deploy)], hooks=hooks(deploy))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from countersign.adapters import build_missing_package_error, request_if_valid
from countersign.context import CallSuspension, asking, describe_refusal, suspend_undecided_calls

try:
    from haystack import component
    from haystack.components.agents import Agent
    from haystack.components.agents.state import State, replace_values
    from haystack.dataclasses import ChatMessage
    from haystack.hooks.human_in_the_loop import ConfirmationHook, ToolExecutionDecision
except ImportError as error:
    raise build_missing_package_error("haystack-ai") from error

WAITING = "waits_for_people"  # the agent's exit condition while people decide
_CONTEXT_KEY = "countersign"  # the key in the run's hook context


def hooks(*functions: Callable[..., Any]) -> dict[str, list[Any]]:
    """Return the Haystack hooks for an agent with tools made of these decorated functions."""
    by_name = {each.__name__: each for each in functions}
    return {"before_tool": [_ApprovalHook(by_name)], "after_run": [_RestoreCallsHook()]}


def run_agent(
    agent: Agent, messages: list[ChatMessage], *, run: str, **more: Any
) -> dict[str, Any]:
    """Run an agent, or continue a stopped run from its messages.

    `run`: a name for the work, the same each time. The result is that of `Agent.run`; its
    `exit_reason` is WAITING if people have not decided yet: keep its `messages` then. The model is
    not asked again for the calls it wanted before.
    """
    with asking(run=run), suspend_undecided_calls(CallSuspension(run)):
        if messages and messages[-1].tool_calls:
            replaying_model = _ReplyReplayingModel(messages[-1], agent.chat_generator)
            agent = agent.clone(
                chat_generator=replaying_model, system_prompt=None, user_prompt=None
            )
            messages = messages[:-1]
        result: dict[str, Any] = agent.run(messages=messages, **more)
        return result


class _PeopleDecisionStrategy:
    """A confirmation strategy that confirms the calls of one function as people have decided."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def run(
        self,
        *,
        tool_name: str,
        tool_description: str,
        tool_params: dict[str, Any],
        tool_call_id: str | None = None,
        confirmation_strategy_context: dict[str, Any] | None = None,
    ) -> ToolExecutionDecision:
        """Return people's decision; the function runs with the arguments that they approved."""
        request = request_if_valid(self._function, tool_params)
        why = None if request is None else describe_refusal(request)
        return ToolExecutionDecision(tool_name, why is None, tool_call_id, why, tool_params)


class _ApprovalHook(ConfirmationHook):
    """A hook that asks for all calls of a turn, and ends the run while one of them is undecided."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__({name: _PeopleDecisionStrategy(each) for name, each in functions.items()})
        self._functions = functions

    def run(self, state: State) -> None:
        *before, last = state.data["messages"]
        ours = [each for each in last.tool_calls if each.tool_name in self._functions]
        asked = [request_if_valid(self._functions[each.tool_name], each.arguments) for each in ours]
        if all(each is None or each.is_decided for each in asked):
            super().run(state)
            return
        state.data["hook_context"][_CONTEXT_KEY] = last
        state.set("messages", before, handler_override=replace_values)  # so that no call runs
        state.set("stop_run", WAITING)


class _RestoreCallsHook:
    """A hook that puts undecided calls back at the end of the messages for the caller to keep."""

    def run(self, state: State) -> None:
        last = state.data["hook_context"].pop(_CONTEXT_KEY, None)
        if last is not None:
            kept = [*state.data["messages"], last]
            state.set("messages", kept, handler_override=replace_values)


@component
class _ReplyReplayingModel:
    """A model that first repeats an earlier reply, and then passes requests to the real model."""

    def __init__(self, said: ChatMessage, then: Any) -> None:
        self._said: ChatMessage | None = said
        self._then = then

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        reply, self._said = self._said, None
        if reply is not None:
            return {"replies": [reply]}
        options = {
            "streaming_callback": streaming_callback,
            "generation_kwargs": generation_kwargs,
            "tools": tools,
        }
        options = {name: each for name, each in options.items() if each is not None}
        result: dict[str, Any] = self._then.run(messages=messages, **options)
        return result
