"""The roles in which the model works on a run: the requester's agent, or a sub-agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.agent import prompt
from bot.agent.turn import PlannerError
from bot.cards.answers import EMPTY_FOOTER, ModelAnswerFooter
from bot.runs.results import post_sub_agent_call_outcome
from bot.tools import Registry, Tool
from storage import call_outputs, calls, endings
from storage import sub_agents as children
from storage.record import Call, Run, Store, Transaction
from storage.states import CallStatus, RunSource

# What a sub-agent writes: no person reads it; its last answer goes to the agent that called it.


class SilentAnswer:
    """An Answer that is shown to nobody."""

    def write(self, text: str) -> None:
        """Ignore the text; a run that was stopped is noticed when the turn is stored."""

    def discard_text(self) -> None:
        """Do nothing: there is nothing to discard."""

    def store_whole_text(
        self, tx: Transaction, text: str, *, last: bool, record: ModelAnswerFooter = EMPTY_FOOTER
    ) -> None:
        """Do nothing: no message is posted."""

    def close_failed_answer(self) -> None:
        """Do nothing: there is nothing to close."""


SUB_AGENT_GONE_ERROR = "The sub-agent that was asked is no longer there."


@dataclass(frozen=True, slots=True)
class AgentRole:
    """The model's instructions in a run, and the tools whose calls it may propose."""

    instructions: str
    tools: Registry

    def build_function_schemas(self) -> list[dict[str, Any]]:
        """Return the tools as function schemas for the model."""
        return [build_function_schema(tool) for tool in self.tools]


class AgentRoleLoader:
    """Finds the instructions and tools of each run; one for all workers, on any thread."""

    def __init__(self, store: Store, tools: Registry, max_depth: int) -> None:
        """`max_depth` is how deep sub-agents may be nested."""
        self._store = store
        self._tools = tools
        self._max_depth = max_depth
        alone = {each.name: each for each in tools if each.agent is None}
        own = tools if max_depth else replace(tools, tools=alone)
        self._first = AgentRole(prompt.INSTRUCTIONS, own)

    def load_role(self, run: Run) -> AgentRole:
        """Return a run's role; raises PlannerError if its sub-agent no longer exists."""
        if run.source is not RunSource.RUN:
            return self._first
        with self._store.read() as tx:
            call = calls.find_call(tx, run.parent_call)
            depth = children.count_nesting_levels(tx, run)
        tool = self._tools.find_tool_of_call(call) if call else None
        if tool is None or tool.agent is None:
            raise PlannerError(SUB_AGENT_GONE_ERROR)
        allowed = self._tools.select_sub_agent_tools(tool.agent, sub_agents=depth < self._max_depth)
        return AgentRole(
            prompt.build_sub_agent_instructions(tool.title, tool.agent.prompt), allowed
        )

    def count_proposed_calls_of_request(self, run: Run) -> int:
        """Return how many calls the request has proposed, those of its sub-agents included."""
        if not run.parent_call:
            return run.calls
        with self._store.read() as tx:
            return children.get_root_run(tx, run).calls


def build_function_schema(tool: Tool[Any]) -> dict[str, Any]:
    """Return a tool as the function schema that a model is given."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema(),
        "strict": False,
    }


# The start and the end of a sub-agent's run: its call gets the answer, or why there is none.

SUMMARY_MAX_CHARS = 200  # of an answer, as people see it
DEFAULT_ANSWER_MAX_CHARS = 20_000  # if its tool, which sets the limit, no longer exists


def hand_call_to_sub_agent(
    tx: Transaction, run: Run, call: Call, task: str, *, at: datetime
) -> None:
    """Hand the call to a sub-agent, which works on the task in a run of its own.

    The call's status is then ENTRUSTED.
    """
    item = prompt.build_sub_agent_task_item(run.requester, task)
    children.hand_call_to_sub_agent(tx, run, call, item, at=at)


def store_sub_agent_answer(
    tx: Transaction, tools: Registry, child: Run, text: str, *, at: datetime
) -> None:
    """Store a sub-agent's answer as its call's result, and post the call's outcome."""
    call = calls.find_call(tx, child.parent_call)
    done = children.list_non_reading_sub_agent_calls(tx, child)
    tool = tools.find_tool_of_call(call) if call else None
    output = call_outputs.sub_agent_answer_output(
        text, done, tool.max_output if tool else DEFAULT_ANSWER_MAX_CHARS
    )
    line = " ".join(text.split()) or call_outputs.EMPTY_ANSWER_TEXT
    note = line if len(line) <= SUMMARY_MAX_CHARS else f"{line[: SUMMARY_MAX_CHARS - 1]}…"
    ended = children.end_call_of_sub_agent(
        tx, child, CallStatus.SUCCEEDED, at=at, actor="worker", output=output, note=note
    )
    post_sub_agent_call_outcome(tx, tools, ended)


def store_sub_agent_failure(
    tx: Transaction, tools: Registry, child: Run, why: str, *, at: datetime
) -> None:
    """Store that a sub-agent could not go on: its call FAILED, its own open calls cancelled.

    Also posts how its call ended.
    """
    endings.cancel_calls_of_failed_sub_agent(tx, child, at=at)
    output = call_outputs.sub_agent_failure_output(
        why, children.list_non_reading_sub_agent_calls(tx, child)
    )
    ended = children.end_call_of_sub_agent(
        tx, child, CallStatus.FAILED, at=at, actor="worker", output=output, note=why
    )
    post_sub_agent_call_outcome(tx, tools, ended)
