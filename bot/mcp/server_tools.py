"""The accepted tools of MCP servers as the agent's tools: gated, shown and edited like others."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_origin

from pydantic import BaseModel

from bot.mcp import server_file
from bot.tools import DEFAULT_RISK_BY_EFFECT, Effect, EffectSource, Preview, Tool, ToolContext
from bot.tools.described import SchemaError, build_argument_model
from bot.tools.registration import check_field_names

if TYPE_CHECKING:
    from bot.mcp.server_connection import AcceptedToolConnection

_MAX_TOOL_NAME_CHARS = 64
_MAX_TITLE_CHARS = 80
_MAX_NAMED_ARGUMENTS = 3  # in the sentence about a call
_EXTRA_TIMEOUT_SECONDS = 45.0  # to reach the server and compare its tools

log = logging.getLogger("countersign.servers")


def load_server_tools(file: server_file.ServerFile) -> list[Tool[Any]]:
    """Return the accepted tools of all servers, without connecting to any.

    Tools that cannot be used are left out and logged. Raises ValueError if the package `mcp` is
    missing or two tools get one name; AcceptedToolsFileError.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ValueError("MCP servers need mcp: pip install 'countersign-bot[mcp]'")
    accepted = server_file.read_accepted_tools(file.accepted_tools_path)
    tools: dict[str, Tool[Any]] = {}
    origins: dict[str, str] = {}  # by the agent's name for a tool: whose it is, and its name there
    for server in file.servers:
        for own_name, tool in _build_tools(server, accepted.get(server.name, {})):
            origin = f"{own_name} of the server {server.name}"
            if other := origins.get(tool.name):
                clash = f"{other} and {origin} would both be named {tool.name}"
                raise ValueError(f"{clash}; give one of the servers another prefix")
            tools[tool.name], origins[tool.name] = tool, origin
    return [*tools.values()]


def _build_tools(
    server: server_file.Server, found: server_file.Definitions
) -> Iterator[tuple[str, Tool[Any]]]:
    accepted = {name: each for name, each in found.items() if server.is_tool_selected(name)}
    if not accepted:
        log.warning("no tool of the server %s is accepted: `countersign mcp accept`", server.name)
        return
    line = _LazyConnection(server, accepted)
    for definition in accepted.values():
        try:
            yield definition.name, build_server_tool(server, definition, line)
        except (SchemaError, ValueError) as error:
            log.warning("the tool %s of %s is left out: %s", definition.name, server.name, error)


class _LazyConnection:
    """The connection to a server, made (and its library imported) at the first call."""

    def __init__(self, server: server_file.Server, accepted: server_file.Definitions) -> None:
        self._server_and_accepted = server, accepted
        self._connection: AcceptedToolConnection | None = None

    def get_connection(self) -> AcceptedToolConnection:
        """Return the connection to the server, made if needed; called on the tools' event loop."""
        if self._connection is None:
            from bot.mcp.server_connection import AcceptedToolConnection

            self._connection = AcceptedToolConnection(*self._server_and_accepted)
        return self._connection

    def is_enabled(self, name: str) -> bool:
        return self._connection is None or self._connection.is_enabled(name)


def build_server_tool(
    server: server_file.Server, definition: server_file.ToolDefinition, connection: _LazyConnection
) -> Tool[Any]:
    """Return one tool of a server as a tool of the agent.

    Raises SchemaError, and ValueError for names that cannot be used.
    """
    name = build_prefixed_tool_name(server, definition.name)
    model = build_argument_model(definition.schema, name)
    title = _format_title(definition)
    effect = _build_effect_template(f"{title} at {server.name}", model)
    check_field_names(name, model, effect)
    does = _get_effect(server, definition)

    async def function(args: BaseModel, context: ToolContext) -> Any:
        from bot.mcp.server_connection import convert_tool_result

        values = args.model_dump(mode="json")
        result = await connection.get_connection().call(definition.name, values, context.line)
        return convert_tool_result(result)

    async def preview(_args: BaseModel, _context: ToolContext) -> Preview:
        await connection.get_connection().check_tool(definition.name)
        return Preview("")

    return Tool(
        name=name,
        title=title,
        effect=effect,
        does=does,
        arguments=model,
        function=function,
        description=definition.description or title,
        idempotent=does is Effect.READ or (server.trusted and definition.idempotent is True),
        preview=preview,
        timeout=server.timeout + server.answer_within + _EXTRA_TIMEOUT_SECONDS,
        risk=DEFAULT_RISK_BY_EFFECT[does],
        effect_source=_get_effect_source(server, definition),
        is_available=lambda: connection.is_enabled(definition.name),
    )


def build_prefixed_tool_name(server: server_file.Server, name: str) -> str:
    """Return the agent's name for a server's tool: prefix_tool, in characters all models accept."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    whole = f"{server.tool_prefix}_{plain}"
    if plain == name and len(whole) <= _MAX_TOOL_NAME_CHARS:
        return whole
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]  # keeps shortened or converted names apart
    return f"{whole[: _MAX_TOOL_NAME_CHARS - 7]}_{mark}"


def _get_effect(server: server_file.Server, definition: server_file.ToolDefinition) -> Effect:
    """Return whether a tool reads, writes or destroys; hints of untrusted servers do not count."""
    if not server.trusted:
        return Effect.DESTRUCTIVE
    if definition.read_only:
        return Effect.READ
    return Effect.WRITE if definition.destructive is False else Effect.DESTRUCTIVE


def _get_effect_source(
    server: server_file.Server, definition: server_file.ToolDefinition
) -> EffectSource:
    """Return who states a tool's effect class: its author, an untrusted server, or nobody.

    The hint "destructive" is believed, whichever server gives it.
    """
    has_hints = definition.read_only or definition.destructive is not None
    if not has_hints:
        return EffectSource.BY_NOBODY
    is_known = server.trusted or (definition.destructive and not definition.read_only)
    return EffectSource.BY_AUTHOR if is_known else EffectSource.BY_STRANGER


def _format_title(definition: server_file.ToolDefinition) -> str:
    words = " ".join((definition.title or definition.name.replace("_", " ")).split())
    return (words[:1].upper() + words[1:])[:_MAX_TITLE_CHARS] or definition.name[:_MAX_TITLE_CHARS]


def _build_effect_template(what: str, model: type[BaseModel]) -> str:
    """Return the template of the sentence that says what a call does, with a few of its arguments.

    Only required arguments with plain values are named.
    """
    named = [
        f"{label.lower()} {{{name}{short}}}"
        for name, field in model.model_fields.items()
        for label in [" ".join((field.title or name.replace("_", " ")).split())]
        for short in [_find_value_format(field.annotation)]
        if field.is_required() and short is not None and not set("{}") & set(label)
    ]
    plain = what.replace("{", "{{").replace("}", "}}")
    return f"{plain}: {', '.join(named[:_MAX_NAMED_ARGUMENTS])}" if named else plain


def _find_value_format(annotation: Any) -> str | None:
    """Return the format for a value of this type in a sentence; None if it is left out."""
    if annotation is str:
        return ":.60"
    return "" if annotation is int or get_origin(annotation) is Literal else None
