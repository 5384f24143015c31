"""The list of a server's tools: which of them can be read and called, page by page."""

from __future__ import annotations

import logging
from typing import Any

from jsonschema import Draft202012Validator
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, Tool, methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import ValidationError

from countersign.request import escape_control_characters

MAX_PAGES = 50  # per server
MAX_TOOLS = 1_000
log = logging.getLogger("countersign.servers")


class ToolListTooLongError(Exception):
    """Raised when a server's list of tools does not end, or is too long to be used."""


async def list_server_tools(client: Client) -> list[Tool]:
    """Return all tools that a server has now.

    A name that stands for two tools is left out: nobody knows which of them a call would reach.
    Raises ToolListTooLongError, and what the connection raises.
    """
    tools: list[Tool] = []
    cursor: str | None = None
    listed = set[str | None]()  # the cursors of the pages so far; some servers return one forever
    while cursor not in listed:  # it is None again after the last page
        if len(listed) == MAX_PAGES:
            raise ToolListTooLongError(f"its list of tools has more than {MAX_PAGES} pages")
        listed.add(cursor)
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if len(tools) > MAX_TOOLS:
            raise ToolListTooLongError(f"it has more than {MAX_TOOLS:,} tools")
        cursor = page.next_cursor
    return _leave_out_names_of_two(tools)


def _leave_out_names_of_two(tools: list[Tool]) -> list[Tool]:
    found: dict[str, Tool] = {}
    twice = {each.name for each in tools if found.setdefault(each.name, each) != each}
    return [each for name, each in found.items() if name not in twice]


# The SDK rejects a whole page for one unreadable tool, so those tools are taken out first.


def leave_out_unusable_tools(item: SessionMessage | Exception, told: set[str]) -> None:
    """Take the tools that cannot be read or called out of a message that lists a server's tools.

    What is wrong with them is logged, unless it is in `told`. A message that is no list of tools,
    or has other faults as well, keeps them. In the others' schemas, keywords that are null go.
    """
    if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse):
        return
    answer = item.message.result
    tools = answer.get("tools")
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        return
    if "content" in answer:  # a call's result rather than a tool list
        return
    for each in tools:
        if isinstance(each, dict) and "inputSchema" in each:
            each["inputSchema"] = _drop_null_keywords(each["inputSchema"])
    if not _find_fault(answer, tools) or _find_fault(answer, []):
        return
    faults = [_find_fault(answer, [each]) for each in tools]
    names = [each.get("name") if isinstance(each, dict) else None for each in tools]
    bad = [name for name, fault in zip(names, faults, strict=True) if fault]
    answer["tools"] = [each for name, each in zip(names, tools, strict=True) if name not in bad]
    for name, fault in zip(names, faults, strict=True):
        problem = escape_control_characters(" ".join(f"{str(name)[:100]!r}, {fault}".split()))
        if fault and problem not in told:
            told.add(problem)
            log.warning("a tool of an MCP server cannot be used and is left out: %s", problem)


_VALUE_KEYWORDS = ("const", "default", "enum", "examples")  # their values are any JSON
_NEVER_NULL = {*Draft202012Validator.VALIDATORS, "description", "title"} - {"const"}


def _drop_null_keywords(part: Any) -> Any:
    """Return a schema without keywords that are null, such as `required`; no schema has those.

    Some servers send them for what they leave out.
    """
    if isinstance(part, list):
        return [_drop_null_keywords(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: each if name in _VALUE_KEYWORDS else _drop_null_keywords(each)
        for name, each in part.items()
        if each is not None or name not in _NEVER_NULL
    }


def _find_fault(answer: dict[str, Any], tools: list[Any]) -> str:
    """Return why one of these tools cannot be read or called; "" if all can."""
    version = LATEST_MODERN_VERSION if "resultType" in answer else LATEST_HANDSHAKE_VERSION
    try:
        methods.parse_server_result("tools/list", version, {**answer, "tools": tools})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"[:200]
    is_task = any((each.get("execution") or {}).get("taskSupport") == "required" for each in tools)
    return "it runs only as a task, and tasks are not supported" if is_task else ""
