"""Pydantic AI: a tool that waits for people ends the run with `DeferredToolRequests`.

agent = Agent(model, toolsets=[Deferring(FunctionToolset([deploy]))],
              output_type=[str, DeferredToolRequests])
"""

from __future__ import annotations

from typing import Any

from countersign.adapters import missing
from countersign.client import Countersign
from countersign.context import Suspension, as_told, refusal_of, suspending
from countersign.request import CountersignError, Request

try:
    from pydantic_ai import (
        ApprovalRequired,
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        ToolApproved,
        ToolDenied,
    )
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
except ImportError as error:
    raise missing("pydantic-ai-slim") from error

OURS = "countersign"  # in what is kept of a call


class Deferring(WrapperToolset[Any]):
    """Tools of which decorated functions defer their calls instead of waiting.

    A call is known by the conversation, which the messages name, and its own id.
    """

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one call, or defer it; what people do not approve has failed, with the reason."""
        run = f"pydantic-ai {ctx.conversation_id}"
        try:
            with suspending(Suspension(run, ctx.tool_call_id or "", _defer)):
                return await super().call_tool(name, tool_args, ctx, tool)
        except CountersignError as error:
            raise ToolFailed(as_told(error)) from error


def going_on(
    requests: DeferredToolRequests, client: Countersign | None = None
) -> DeferredToolResults | None:
    """Return what people have decided, for the next run; None where they decide still.

    `requests`: what the last run has ended with. `client`: by default one of the environment.
    Raises NotAllowed and Unreachable. What was approved runs as people approved it, perhaps edited.
    """
    client = client or Countersign()
    found = DeferredToolResults()
    for call in requests.approvals:
        request_id = requests.metadata.get(call.tool_call_id, {}).get(OURS)
        if request_id is None:  # somebody else's to decide
            continue
        request = client.look(request_id)
        if not request.is_decided:
            return None
        why = refusal_of(request)
        found.approvals[call.tool_call_id] = ToolApproved() if why is None else ToolDenied(why)
    return found


def _defer(request: Request) -> None:
    raise ApprovalRequired({OURS: request.id, "link": request.link})
