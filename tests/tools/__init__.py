"""Tests of the tool families and of the way tools are run."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from bot.tools import Tool, ToolContext, ToolError
from bot.tools.names import SlackIdResolver
from bot.tools.runner import outcome_sentence

Tools = dict[str, Tool[Any]]
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def context(call_id: str = "call-1", **changes: Any) -> ToolContext:
    """A call by Ben in #support; `changes` replace single facts."""
    facts: dict[str, Any] = {
        "call_id": call_id,
        "run_id": "run-1",
        "team": "T0SANDBOX",
        "requester": "UBEN00001",
        "channel": "C0SUPPORT",
        "thread_ts": "1.000100",
        "now": NOW,
    }
    return ToolContext(**{**facts, **changes})


NAMING: ContextVar[SlackIdResolver | None] = ContextVar("NAMING", default=None)


def validate(tool: Tool[Any], values: dict[str, Any], where: ToolContext | None = None) -> Any:
    """Validate proposed arguments, turning names into ids; a ToolError has words for the model."""
    naming = NAMING.get()
    names = naming and replace(naming, asker=(where or context()).requester)
    try:
        return tool.arguments.model_validate(values, context=names)
    except ValidationError as error:
        raise ToolError("; ".join(each["msg"] for each in error.errors())) from error


def use_tool(tool: Tool[Any], values: dict[str, Any], where: ToolContext | None = None) -> Any:
    """Validate the values as the model's JSON would be and call the tool's function."""
    return tool.function(validate(tool, values, where), where or context())


def preview(tool: Tool[Any], **values: Any) -> str:
    """Preview a call as the card would show it."""
    assert tool.preview is not None
    shown = tool.preview(validate(tool, values), context())
    assert isinstance(shown, str)
    return shown


def refund(orders: Tools, amount: str, key: str = "call-1", order_id: int = 1042) -> Any:
    """Refund `amount` EUR under the call id `key`."""
    values = {"order_id": order_id, "amount": amount, "reason": "damaged"}
    return use_tool(orders["refund_order"], values, context(key))


def run_and_summarise(tool: Tool[Any], values: dict[str, Any]) -> str:
    """The sentence that people read after the tool ran with these values."""
    args = validate(tool, values)
    return outcome_sentence(tool, args, tool.function(args, context()))
