"""Pydantic AI adapter: an undecided call ends the run with `DeferredToolRequests`.

agent = Agent(model, toolsets=[ApprovalToolset(FunctionToolset([deploy]))],
              output_type=[str, DeferredToolRequests])
"""

from __future__ import annotations

from typing import Any

from countersign import context
from countersign.adapters import build_missing_package_error
from countersign.client import Countersign
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
    raise build_missing_package_error("pydantic-ai-slim") from error

METADATA_KEY = "countersign"  # in the metadata kept for a call


class ApprovalToolset(WrapperToolset[Any]):
    """A toolset whose decorated functions defer their calls instead of waiting.

    A call is identified by the conversation, which the messages name, and by its own id.
    """

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one call, or defer it; raises ToolFailed with the reason if people decline it."""
        run = f"pydantic-ai {ctx.conversation_id}"
        try:
            with context.suspend_undecided_calls(
                context.CallSuspension(run, ctx.tool_call_id or "", _defer_call)
            ):
                return await super().call_tool(name, tool_args, ctx, tool)
        except CountersignError as error:
            raise ToolFailed(context.describe_call_error(error)) from error


def get_decisions(
    requests: DeferredToolRequests, client: Countersign | None = None
) -> DeferredToolResults | None:
    """Return people's decisions for the next run; None if one is still undecided.

    `requests`: the output of the last run. `client`: by default one with the settings of the
    environment. Raises NotAllowed and Unreachable. An approved call runs with the approved
    arguments, perhaps edited.
    """
    client = client or Countersign()
    results = DeferredToolResults()
    for call in requests.approvals:
        request_id = requests.metadata.get(call.tool_call_id, {}).get(METADATA_KEY)
        if request_id is None:  # not asked for by Countersign: somebody else decides it
            continue
        request = client.get_request(request_id)
        if not request.is_decided:
            return None
        why = context.describe_refusal(request)
        results.approvals[call.tool_call_id] = ToolApproved() if why is None else ToolDenied(why)
    return results


def _defer_call(request: Request) -> None:
    raise ApprovalRequired({METADATA_KEY: request.id, "link": request.link})
