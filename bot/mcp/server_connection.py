"""The connection to one MCP server: calls its accepted tools, and passes its questions to people.

Before each call, the server's tools are compared with what was accepted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ElicitRequestParams,
    ElicitResult,
    Tool,
)

from bot.mcp.server_file import MIN_OPEN_TIMEOUT_SECONDS, Definitions, Server, ToolDefinition
from bot.mcp.server_questions import RunningServerCall
from bot.tools import BrokeOffError, ElicitationPort, ToolError
from countersign.mcp_client import sent_calls
from countersign.mcp_client.connection import (
    Address,
    CommandAddress,
    ServerConnection,
    ServerNotReachedError,
    UrlAddress,
)

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


_READ_TIMEOUT_SECONDS = 300.0  # without data from a server over HTTP


def build_server_address(server: Server) -> Address:
    """Return the address of a server, with the secrets from its table filled in."""
    if server.url is not None:
        headers = {name: each.get_secret_value() for name, each in server.headers.items()}
        return UrlAddress(
            server.url, headers, server.timeout, _READ_TIMEOUT_SECONDS + server.answer_within
        )
    assert server.command is not None
    return CommandAddress(
        server.command,
        tuple(each.get_secret_value() for each in server.args),
        {name: each.get_secret_value() for name, each in server.env.items()},
    )


def fetch_tool_definitions(server: Server) -> dict[str, ToolDefinition]:
    """Connect to a server only to return the tools that it has now, by its own names for them.

    Raises ServerNotReachedError.
    """
    return anyio.run(_look_up_definitions_async, server)


async def _look_up_definitions_async(server: Server) -> dict[str, ToolDefinition]:
    patience = max(server.timeout, MIN_OPEN_TIMEOUT_SECONDS)
    connection = ServerConnection(
        build_server_address(server),
        open_within=patience,
        elicit=_decline_elicitation if server.answer_within else None,
    )
    try:
        return build_tool_definitions(await connection.list_current_tools())
    finally:
        await connection.close()


async def _decline_elicitation(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """Decline a server's question; some servers offer more tools to clients that take questions."""
    del context, params
    await anyio.lowlevel.checkpoint()
    return ElicitResult(action="decline")


def build_tool_definitions(tools: Iterable[Tool]) -> dict[str, ToolDefinition]:
    """Return the server's descriptions of its tools, by the server's names."""
    return {each.name: _build_definition(each) for each in tools}


def _build_definition(tool: Tool) -> ToolDefinition:
    hints = tool.annotations
    return ToolDefinition(
        name=tool.name,
        title=tool.title or (hints.title if hints else None) or "",
        description=tool.description or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
    )


# Converts a tool's result: text, values and links are kept; pictures become their type and size.

_KB = 1_000
_CODE_FENCE_PATTERN = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.S)


def convert_tool_result(result: CallToolResult) -> Any:
    """Return a result's text (parsed if it is JSON), its structured values, or both as one text.

    Raises BrokeOffError with the server's words if the server reports a failure, as it does not say
    how much was done.
    """
    values = result.structured_content
    if result.is_error:
        text = "\n".join(_format_content_blocks(result.content))
        raise BrokeOffError(text or "The server says that it failed, and not why.")
    blocks = (each for each in result.content if not _is_copy_of_values(each, values))
    text = "\n".join(_format_content_blocks(blocks))
    if values is None:
        parsed = _parse_json_container(text)
        return text if parsed is None else parsed
    is_all_text = all(each.type == "text" for each in result.content)
    # then the only value, `result`, repeats the text
    only_result = isinstance(values, dict) and list(values) == ["result"]
    if only_result and result.content and is_all_text:
        return text or values["result"] if isinstance(values["result"], str) else values["result"]
    if not text:
        return values
    return f"{text}\n{json.dumps(values, ensure_ascii=False)}"


def _is_copy_of_values(block: ContentBlock, values: Any) -> bool:
    """Return whether a text block only repeats the structured values of its result.

    Servers send such a text for clients that take only text. It may be JSON in any layout, also
    fenced, or the single value alone. The values are an object, or in the newest protocol any JSON.
    """
    if values is None or block.type != "text":
        return False
    fenced = _CODE_FENCE_PATTERN.fullmatch(block.text)
    text = (fenced[1] if fenced else block.text).strip()
    has_one_value = isinstance(values, dict) and len(values) == 1
    single_value = next(iter(values.values())) if has_one_value else values
    if isinstance(single_value, str) and single_value.strip() == text:
        return True
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return parsed in (values, single_value)  # the order of keys does not matter


def _parse_json_container(text: str) -> Any:
    """Return the object or list if the text is JSON of one; None for any other text."""
    if not text.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _format_content_blocks(blocks: Iterable[ContentBlock]) -> Iterator[str]:
    for each in blocks:
        match each.type:
            case "text":
                yield each.text
            case "image" | "audio":
                yield f"[{each.type}, {each.mime_type}, {_format_data_size(each.data)}]"
            case "resource_link":
                title = each.title or each.name
                yield f"{title}: {each.uri}" + (
                    f" ({each.description})" if each.description else ""
                )
            case "resource":
                resource = each.resource
                text = getattr(resource, "text", None)
                if text is not None:
                    yield f"{resource.uri}:\n{text}"
                else:
                    kind = resource.mime_type or "unknown kind"
                    size = _format_data_size(getattr(resource, "blob", ""))
                    yield f"[file {resource.uri}, {kind}, {size}]"


def _format_data_size(data: str) -> str:
    size = len(data) * 3 // 4
    return f"{size} bytes" if size < _KB else f"{size // _KB:,} kB"


# errors that a server returns before it executes anything
_NOT_EXECUTED_ERROR_CODES = (INVALID_PARAMS, METHOD_NOT_FOUND, HEADER_MISMATCH)

_CURRENT_CALL: ContextVar[RunningServerCall | None] = ContextVar("current_call", default=None)

log = logging.getLogger("countersign.servers")


class ServerFailedError(Exception):
    """Raised if the server reports that a call failed; part of it may have been done."""


class AcceptedToolConnection:
    """The connection for calling a server's tools that were accepted; used on one event loop."""

    def __init__(self, server: Server, accepted: Definitions) -> None:
        """Prepare without connecting. `accepted`: the tools that may be called, as accepted."""
        self._server, self._accepted = server, accepted
        self._connection = ServerConnection(
            build_server_address(server),
            open_within=max(server.timeout, MIN_OPEN_TIMEOUT_SECONDS),
            changed=self._start_tool_comparison,
            put_off=partial(log.warning, "the server %s cannot be reached: %s", server.name),
            elicit=self._handle_elicitation if server.answer_within else None,
        )
        self._disabled_tools: dict[str, str] = {}  # tool -> how it differs from what was accepted
        self._comparison: asyncio.Task[None] | None = None
        self._running_calls: list[RunningServerCall] = []

    def is_enabled(self, name: str) -> bool:
        """Return whether a tool is still as it was accepted, as far as known; for any thread."""
        return name not in self._disabled_tools

    async def check_tool(self, name: str) -> None:
        """Check that a tool can be reached and is as it was accepted; else raise ToolError."""
        try:
            found = await self._connection.list_current_tools()
        except ServerNotReachedError as error:
            raise self._build_unreachable_error(str(error)) from error
        self._require_unchanged(name, found)

    async def call(
        self, name: str, arguments: dict[str, Any], line: ElicitationPort
    ) -> CallToolResult:
        """Call a tool, if it is as it was accepted, and return its result.

        `line`: the port for showing progress to people and asking them the server's questions.
        Raises ToolError if it was certainly not done, ServerFailedError if the server failed at it,
        ConnectionError or TimeoutError if nobody knows. A call that is given up is cancelled at the
        server.
        """
        server = self._server
        with self._track_running_call(line) as running_call:
            outcome = await self._connection.call(
                name,
                arguments,
                lambda found: self._require_unchanged(name, found),
                running_call.limit_server_time,
                running_call.show_progress,
            )
        match outcome:
            case sent_calls.ResultOutcome():
                if outcome.remark:
                    log.warning("%s, %s: %s", server.name, name, outcome.remark)
                return outcome.result
            case sent_calls.FailedOutcome() if outcome.result is not None:
                return outcome.result
            case sent_calls.FailedOutcome() if outcome.code in _NOT_EXECUTED_ERROR_CODES:
                raise ToolError(f"{server.name} refuses it: {outcome.message}")
            case sent_calls.FailedOutcome():
                raise ServerFailedError(f"{server.name} says: {outcome.message}")
            case sent_calls.NotSentOutcome():
                raise self._build_unreachable_error(outcome.why)
            case sent_calls.UnknownOutcome() if outcome.timed_out:
                waited = f"{server.timeout:g} seconds"
                raise TimeoutError(f"{server.name} did not answer within {waited}.")
            case sent_calls.UnknownOutcome():
                said = f" It said: {outcome.unread_answer}" if outcome.unread_answer else ""
                raise ConnectionError(f"{server.name}: {outcome.why}.{said}")

    @contextmanager
    def _track_running_call(self, line: ElicitationPort) -> Iterator[RunningServerCall]:
        """Assign questions from the server to this call while the block runs."""
        running_call = RunningServerCall(self._server, line)
        self._running_calls.append(running_call)
        before = _CURRENT_CALL.set(running_call)
        try:
            yield running_call
        finally:
            _CURRENT_CALL.reset(before)
            self._running_calls.remove(running_call)

    async def _handle_elicitation(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask people the server's question, through the call that it belongs to.

        Over stdio, servers of the older protocol do not name the call: then it has to be the only
        one that is running.
        """
        running_call = _CURRENT_CALL.get()
        if running_call is None and len(self._running_calls) == 1:
            [running_call] = self._running_calls
        if running_call is None or running_call not in self._running_calls:
            message = "a question from the server %s belongs to no call, or to several"
            log.warning(message, self._server.name)
            return ElicitResult(action="cancel")
        return await running_call.answer_elicitation(params)

    def _require_unchanged(self, name: str, found: list[Tool]) -> None:
        self._disable_changed_tools(build_tool_definitions(found))
        if why := self._disabled_tools.get(name, ""):
            raise ToolError(why)

    def _build_unreachable_error(self, why: str) -> ToolError:
        name, because = self._server.name, f" ({why})" if why else ""
        return ToolError(f"The server {name} cannot be reached now{because}. Nothing was done.")

    def _start_tool_comparison(self) -> None:
        """Compare the server's tools with the accepted ones soon, unless that is under way."""
        if self._comparison is None or self._comparison.done():
            self._comparison = asyncio.get_running_loop().create_task(self._compare_tools())

    async def _compare_tools(self) -> None:
        try:
            found = await self._connection.list_current_tools()
            self._disable_changed_tools(build_tool_definitions(found))
        except ServerNotReachedError as error:
            log.warning("the server %s: %s", self._server.name, error)

    def _disable_changed_tools(self, definitions: Definitions) -> None:
        """Switch accepted tools off if the server changed or removed them, else on; log it once."""
        server, disabled = self._server.name, dict[str, str]()
        for name, accepted in self._accepted.items():
            current = definitions.get(name)
            if current == accepted:
                continue
            change = "has changed" if current else "no longer has"
            disabled[name] = (
                f"The server {server} {change} its tool {name} since that was accepted; it is"
                " switched off until its operator accepts it again."
            )
            if name not in self._disabled_tools:
                log.warning("%s See `countersign mcp accept %s`.", disabled[name], server)
        self._disabled_tools = disabled
