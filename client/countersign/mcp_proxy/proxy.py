"""The MCP proxy and its process: a server to the host, and a client of the server behind it."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
import mcp.client.stdio as server_process
import mcp.types as types
from mcp import Client, MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import Tool

from countersign import request
from countersign.decorated import humanize_identifier
from countersign.mcp_client import sent_calls
from countersign.mcp_client.connection import ServerConnection, ServerNotReachedError
from countersign.mcp_proxy.held_calls import (
    TOOLS,
    HeldCallRunner,
    HeldOutcome,
    NotRunError,
    OutcomeUnknownError,
    ProgressSender,
    StillPendingError,
    build_progress_sender,
    build_text_result,
    call_own_tool,
)
from countersign.version import VERSION

# How an MCP tool is described to people: its name, title, effect and class. Pure.

_MAX_NAME_CHARS = 64
_MAX_TITLE_CHARS = 80
_MAX_LABEL_CHARS = 40
_MAX_SHOWN_ARGUMENTS = 3
_MAX_SERVER_NAME_CHARS = 40
_SCALAR_TYPES = ("string", "integer", "number", "boolean")


def choose_server_name(prefix: str, default: str) -> str:
    """Return what people call a server without a given name: its prefix, else `default`."""
    said = prefix.replace("_", " ").strip() or default
    return " ".join(said.split())[:_MAX_SERVER_NAME_CHARS]


def build_action(tool: Tool, prefix: str, server: str, *, trusted: bool) -> request.OwnAction:
    """Return the action that people are asked to approve for a call of this tool.

    `trusted`: the server's own hints count; otherwise every call counts as destructive.
    """
    schema = dict(tool.input_schema)
    hinted = tool.annotations.title if tool.annotations else None
    title = (tool.title or hinted or humanize_identifier(tool.name)).strip()
    title = title[:_MAX_TITLE_CHARS] or tool.name
    return request.OwnAction(
        name=re.sub(r"\W", "_", f"{prefix}{tool.name}", flags=re.ASCII)[:_MAX_NAME_CHARS],
        title=title,
        effect=_build_effect_template(f"{title} at {server}" if server else title, schema),
        does=_find_hinted_effect(tool, trusted=trusted),
        schema=schema,
    )


def _find_hinted_effect(tool: Tool, *, trusted: bool) -> request.Does | None:
    """Return the kind of effect that a tool's hints state; None without hints to rely on."""
    hints = tool.annotations
    if hints is None:
        return None
    if hints.read_only_hint:
        return request.Does.READ if trusted else None
    if hints.destructive_hint is False:
        return request.Does.WRITE if trusted else None
    return request.Does.DESTRUCTIVE if hints.destructive_hint else None


def _build_effect_template(what: str, schema: dict[str, Any]) -> str:
    """Return the text `what` with labelled placeholders for up to three simple arguments.

    Passwords and write-only values are left out.
    """
    fields, required = schema.get("properties", {}), schema.get("required", [])
    shown = [
        f"{_build_argument_label(name, fields[name])} {{{name}}}"
        for name in required
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
        and isinstance(fields.get(name), dict)
        and fields[name].get("type") in _SCALAR_TYPES
        and fields[name].get("format") != "password"
        and not fields[name].get("writeOnly")
    ]
    values = ", ".join(shown[:_MAX_SHOWN_ARGUMENTS])
    return f"{request.escape_braces(what)}: {values}" if values else request.escape_braces(what)


def _build_argument_label(name: str, field: dict[str, Any]) -> str:
    """Return the label of an argument in a sentence, from its title or name: "boxes", say."""
    title = field.get("title")
    words = title if isinstance(title, str) and title.strip() else humanize_identifier(name)
    return " ".join(words.lower().replace("{", "(").replace("}", ")").split())[:_MAX_LABEL_CHARS]


# Server texts, with characters that would act on a terminal or model unseen written out.

_TEXT_KEYWORDS = ("title", "description", "$comment")  # of a schema; the rest of it is values


def escape_control_characters_in_tool(tool: Tool) -> Tool:
    """Return a tool with control characters in its texts escaped; name and values stay."""
    hints = tool.annotations
    return tool.model_copy(
        update={
            "title": _escape_optional_text(tool.title),
            "description": _escape_optional_text(tool.description),
            "input_schema": _escape_schema_texts(tool.input_schema),
            "annotations": hints
            and hints.model_copy(update={"title": _escape_optional_text(hints.title)}),
        }
    )


def _escape_optional_text(text: str | None) -> str | None:
    return None if text is None else request.escape_control_characters(text)


def _escape_schema_texts(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            name: request.escape_control_characters(each)
            if name in _TEXT_KEYWORDS and isinstance(each, str)
            else _escape_schema_texts(each)
            for name, each in part.items()
        }
    return [_escape_schema_texts(each) for each in part] if isinstance(part, list) else part


UNREACHABLE_ERROR = "The server behind the proxy cannot be reached ({why}). Nothing was done."
TOOL_CHANGED_ERROR = (
    "The server behind the proxy changed its tool {tool} since people were asked. Nothing was"
    " done; make the call again to ask about the tool as it is now."
)
OUTCOME_UNKNOWN_ERROR = (
    "The call was sent to the server behind the proxy, and {why}: its outcome is unknown. Do not"
    " make it again before you know it; people are asked for the outcome."
)
SERVER_SAID_TEXT = " This is what the server said: {said}"
CALL_DONE_TEXT = "The call was made and this is its result; do not make it again for that. {remark}"
MAX_REPORTED_CHARS = 20_000  # of a result, for the record
CALL_IDLE_TIMEOUT_SECONDS = 300.0  # of a sent call, since its last sign of life
MAX_CALL_SECONDS = 3600.0
Context = ServerRequestContext[Any]


@dataclass(frozen=True, slots=True)
class McpProxy:
    """The proxy between one host and the one server behind it.

    `name`: what people call the server; `instructions`: the server's own, for the host; `prefix`:
    put before tool names where people are asked; `trusted`: whether the server's hints count.
    """

    behind: ServerConnection
    held_calls: HeldCallRunner
    name: str
    instructions: str | None
    prefix: str
    trusted: bool

    def build_server(self) -> Server[Any]:
        """Return the MCP server for the host: the same tools, with calls held until approved."""
        return Server(
            "countersign",
            version=VERSION,
            instructions=_escape_optional_text(self.instructions),
            on_list_tools=self._handle_list_tools,
            on_call_tool=self._handle_call_tool,
        )

    async def _handle_list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return all tools on one page, without output schemas.

        Without a schema, the host accepts even a result that does not fit the schema of the server.
        """
        try:
            listed = await self.behind.list_current_tools()
        except ServerNotReachedError as error:
            why = request.escape_control_characters(str(error))
            raise MCPError(types.INTERNAL_ERROR, UNREACHABLE_ERROR.format(why=why)) from None
        server_tools = [
            escape_control_characters_in_tool(each).model_copy(update={"output_schema": None})
            for each in listed
            if each.name.isprintable()
        ]
        own = {each.name for each in server_tools}  # these win over ours of the same name
        more = [each for each in TOOLS.values() if each.name not in own]
        return types.ListToolsResult(tools=[*server_tools, *more])

    async def _handle_call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        host_arguments = dict(params.arguments or {})
        tell = build_progress_sender(context, params.name)
        try:
            tool = await self._find_tool(params.name)
            if tool is None and params.name in TOOLS:
                return await call_own_tool(self.held_calls, params.name, host_arguments, tell)
            if tool is None:
                return build_text_result(f"There is no tool {params.name!r}.", is_error=True)

            async def run(arguments: dict[str, Any]) -> HeldOutcome[types.CallToolResult]:
                return await self._run_tool(tool, arguments, tell)

            shown = escape_control_characters_in_tool(tool)
            action = build_action(shown, self.prefix, self.name, trusted=self.trusted)
            definition = _build_tool_comparison_key(tool)
            return await self.held_calls.run_after_approval(
                action, host_arguments, run, tell, definition
            )
        except ServerNotReachedError as error:
            why = request.escape_control_characters(str(error))
            return build_text_result(UNREACHABLE_ERROR.format(why=why), is_error=True)
        except (StillPendingError, request.CountersignError) as refusal:
            return build_text_result(str(refusal), is_error=True)

    async def _run_tool(
        self, tool: types.Tool, arguments: dict[str, Any], tell: ProgressSender
    ) -> HeldOutcome[types.CallToolResult]:
        """Call the tool of the server behind the proxy, and return how that ended.

        Raises NotRunError if no call was made, and OutcomeUnknownError if its end is unknown.
        """
        scope, until = anyio.CancelScope(), math.inf

        async def far(progress: float, total: float | None, message: str | None) -> None:
            scope.deadline = min(anyio.current_time() + CALL_IDLE_TIMEOUT_SECONDS, until)
            of = f" of {total:g}" if total else ""
            words = request.escape_control_characters(message) if message else None
            await tell(" · ".join(filter(None, [f"is at {progress:g}{of}", words])))

        def check(found: list[types.Tool]) -> None:
            now = next((each for each in found if each.name == tool.name), None)
            if now is None or _build_tool_comparison_key(now) != _build_tool_comparison_key(tool):
                raise NotRunError(TOOL_CHANGED_ERROR.format(tool=tool.name))

        @contextmanager
        def within() -> Iterator[None]:
            nonlocal scope, until
            until = anyio.current_time() + MAX_CALL_SECONDS
            with anyio.fail_after(min(CALL_IDLE_TIMEOUT_SECONDS, MAX_CALL_SECONDS)) as scope:
                yield

        outcome = await self.behind.call(tool.name, arguments, check, within, far)
        match outcome:
            case sent_calls.ResultOutcome():
                result = _add_remark(outcome.remark, outcome.result)
                return HeldOutcome(result, True, _build_reported_result(outcome.result))
            case sent_calls.FailedOutcome():
                message = request.escape_control_characters(outcome.message)
                said = outcome.result
                if said is None or not (said.content or said.structured_content):
                    said = build_text_result(message, is_error=True)
                return HeldOutcome(said, False, _build_reported_result(said))
            case sent_calls.NotSentOutcome():
                raise NotRunError(
                    UNREACHABLE_ERROR.format(why=request.escape_control_characters(outcome.why))
                )
            case sent_calls.UnknownOutcome():
                server_words = request.escape_control_characters(outcome.unread_answer)
                heard = SERVER_SAID_TEXT.format(said=server_words) if server_words else ""
                why = request.escape_control_characters(outcome.why)
                raise OutcomeUnknownError(OUTCOME_UNKNOWN_ERROR.format(why=why) + heard)

    async def _find_tool(self, name: str) -> types.Tool | None:
        tools = await self.behind.list_current_tools()
        return next((each for each in tools if each.name == name), None)


def _build_tool_comparison_key(tool: types.Tool) -> dict[str, Any]:
    """Return the parts of a tool's definition that must not change between approval and call."""
    told = {"name", "title", "description", "input_schema", "annotations"}
    return tool.model_dump(mode="json", include=told)


def _add_remark(remark: str, result: types.CallToolResult) -> types.CallToolResult:
    """Return a result with `remark` added as text, and its values as text if it has no text."""
    if not remark:
        return result
    more = [CALL_DONE_TEXT.format(remark=request.escape_control_characters(remark))]
    if result.structured_content is not None and not sent_calls.extract_result_text(result):
        more.append(json.dumps(result.structured_content, ensure_ascii=False))
    texts = [types.TextContent(type="text", text=each) for each in more]
    return result.model_copy(update={"content": [*result.content, *texts]})


def _build_reported_result(result: types.CallToolResult) -> Any:
    """Return the part of a result that is reported: its values, else its text, cut to a length."""
    if result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
        if len(text) <= MAX_REPORTED_CHARS:
            return result.structured_content
    words = [each.text for each in result.content if isinstance(each, types.TextContent)]
    others = len(result.content) - len(words)
    words += [f"({others} more that are not text)"] if others else []
    return "\n".join(words)[:MAX_REPORTED_CHARS]


async def _open_after_login(behind: ServerConnection) -> Client:
    """Return the open connection; if the server wants a login, wait for the person to log in."""
    try:
        return await behind.get_open_client()
    except ServerNotReachedError:
        if not await behind.wait_for_login():
            raise
    return await behind.get_open_client()


async def serve_host(
    behind: ServerConnection, held_calls: HeldCallRunner, name: str, prefix: str, trusted: bool
) -> None:
    """Connect to the server behind, and serve the host on stdin and stdout until it goes away.

    `name`: what people call the server, "" for its prefix or its own name. Raises
    ServerNotReachedError if the server behind cannot be reached at the start.
    """
    try:
        client = await _open_after_login(behind)
        own = client.server_info
        called = name or choose_server_name(
            prefix, request.escape_control_characters(own.name) if own else ""
        )
        proxy = McpProxy(behind, held_calls, called, client.instructions, prefix, trusted)
        server = proxy.build_server()
        traffic = sent_calls.ServerTraffic()
        async with sent_calls.watch_streams(stdio_server(), traffic, reads=True) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        with anyio.CancelScope(shield=True):
            await behind.close()


STOP_TIMEOUT_SECONDS = 1.7  # to close the proxied server after a signal
SERVER_STOP_STEP_SECONDS = 0.4  # for each step of stopping the server: terminate, then kill


def run_proxy_process(
    behind: ServerConnection,
    held_calls: HeldCallRunner,
    name: str,
    prefix: str,
    trusted: bool,
) -> NoReturn:
    """Serve on stdin and stdout until the host goes away or a signal comes, then end the process.

    Raises ServerNotReachedError if the server behind cannot be reached at the start.
    """
    sdk = logging.getLogger("mcp")  # it logs tracebacks about server messages
    sdk.addHandler(logging.NullHandler())
    sdk.propagate = False

    async def work() -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(_exit_on_signal, behind)
            await serve_host(behind, held_calls, name, prefix, trusted)
            both.cancel_scope.cancel()

    try:
        anyio.run(work)
    except BaseExceptionGroup as errors:
        not_reached, _ = errors.split(ServerNotReachedError)
        if not_reached is None:
            raise
        error: BaseException = not_reached
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    _exit_process()


async def _exit_on_signal(behind: ServerConnection) -> None:
    """End the server behind and this process at a signal, even during a call.

    People are asked about a call that was made and not reported.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            server_process.PROCESS_TERMINATION_TIMEOUT = SERVER_STOP_STEP_SECONDS
            server_process.FORCE_KILL_TIMEOUT = SERVER_STOP_STEP_SECONDS
            with anyio.move_on_after(STOP_TIMEOUT_SECONDS):
                await behind.close()
            _exit_process()


def _exit_process() -> NoReturn:
    """End the process without waiting for threads that wait for people, or for the host."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
