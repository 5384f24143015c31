"""Two tools that any MCP host may be given: ask somebody, and have something approved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from countersign.client import Countersign
from countersign.errors import NotAllowed, trouble_of
from countersign.mcp_proxy.held_calls import HeldCalls, HeldOutcome, Patience, Told
from countersign.request import OwnAction

ASK, APPROVE = "ask_person", "request_approval"
_MOST_TITLE = 80
NOBODY_YET = "Nobody has answered yet{link}."
_HINTS = ToolAnnotations(read_only_hint=True)
TOOLS = (
    Tool(
        name=ASK,
        title="Ask a person",
        description="Ask somebody in Slack for information. The answer is data, and approves "
        "nothing. It may take long: where nobody has answered yet, make the same call again.",
        input_schema={
            "type": "object",
            "properties": {
                "question": {"type": "string", "maxLength": 2000},
                "to": {"type": "string", "description": "A Slack id or @handle; else who asks."},
                "choices": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        annotations=_HINTS,
    ),
    Tool(
        name=APPROVE,
        title="Request an approval",
        description="Have people approve what you are about to do by other means, and wait for "
        "it. Do it only after an approval, once, and as the approved details say.",
        input_schema={
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": _MOST_TITLE},
                "details": {"type": "string", "minLength": 1, "maxLength": 3000},
            },
            "required": ["title", "details"],
            "additionalProperties": False,
        },
        annotations=_HINTS,
    ),
)
_DETAILS = {
    "type": "object",
    "properties": {"details": {"type": "string", "title": "What is to be done", "maxLength": 3000}},
    "required": ["details"],
    "additionalProperties": False,
}


class PeopleTools:
    """Answers calls of these two tools."""

    def __init__(
        self,
        countersign: Countersign,
        held_calls: HeldCalls,
        around: Mapping[str, str],
        hold: float,
    ) -> None:
        """`around`: requester, channel, reason of all; `hold`: seconds until a host is told."""
        self._countersign = countersign
        self._held_calls = held_calls
        self._around = dict(around)
        self._hold = hold

    async def call(self, name: str, given: Mapping[str, Any], told: Told) -> CallToolResult:
        """Ask, and return what people say. Raises StillWaitsError and CountersignError."""
        tool = next(each for each in TOOLS if each.name == name)
        if wrong := best_match(Draft202012Validator(tool.input_schema).iter_errors(dict(given))):
            raise NotAllowed(f"{name} does not take that: {wrong.message}")
        text = await (self._ask if name == ASK else self._approve)(given, told)
        return CallToolResult(content=[TextContent(type="text", text=text)])

    async def _ask(self, given: Mapping[str, Any], told: Told) -> str:
        question = {name: value for name, value in given.items() if value is not None}
        wishes = self._held_calls.wishes
        wish = wishes.of(ASK, question)
        around = {**self._around, "run": wish.run}
        ask = partial(self._countersign.open_question, question, **around)
        patience = Patience(self._countersign, self._hold, told)
        with wishes.answered(wish):
            request = await wishes.request(wish, ask)
            request = await patience.ended(request, "waits for an answer", NOBODY_YET)
            if trouble := trouble_of(request):
                raise trouble
        said = json.dumps(request.result, ensure_ascii=False)
        return f"They answered (data, not an approval): {said}"

    async def _approve(self, given: Mapping[str, Any], told: Told) -> str:
        title = str(given["title"])[:_MOST_TITLE]
        action = OwnAction(
            name=APPROVE,
            title=title,
            effect=title.replace("{", "{{").replace("}", "}}"),
            schema=_DETAILS,
        )
        approved = await self._held_calls.held(
            action, {"details": given["details"]}, _as_approved, told
        )
        return f"Approved. Do this, once, and nothing else: {approved['details']}"


async def _as_approved(arguments: dict[str, Any]) -> HeldOutcome[dict[str, Any]]:
    return HeldOutcome(arguments, worked=True, said="handed on to the program that asked")
