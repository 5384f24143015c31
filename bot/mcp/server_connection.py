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
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    Tool,
)

from bot.mcp.server_file import PATIENCE, Definition, Definitions, Server
from bot.mcp.server_questions import ElicitingCall
from bot.tools import BrokeOffError, ToolError
from bot.tools.elicitation import ElicitationPort
from countersign.mcp_client.connection import (
    Address,
    CommandAddress,
    NotReachedError,
    ServerConnection,
    UrlAddress,
)
from countersign.mcp_client.sent_calls import Failed, GaveResult, NotStarted, Unknown

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


# The address of a server.

_READ = 300.0  # seconds between two signs of life over HTTP


def server_address(server: Server) -> Address:
    """Return the address of a server, with the secrets from its table filled in."""
    if server.url is not None:
        headers = {name: each.get_secret_value() for name, each in server.headers.items()}
        return UrlAddress(server.url, headers, server.timeout, _READ + server.answer_within)
    assert server.command is not None
    return CommandAddress(
        server.command,
        tuple(each.get_secret_value() for each in server.args),
        {name: each.get_secret_value() for name, each in server.env.items()},
    )


# Looking up the tools a server offers now, on a connection of its own: for commands.


class UnreachableError(Exception):
    """Raised if a server cannot be reached; the text says why."""


def look_up_tools(server: Server) -> dict[str, Definition]:
    """Return the tools that a server has now, by the server's names; connects only for this.

    Raises UnreachableError.
    """
    return anyio.run(_look, server)


async def _look(server: Server) -> dict[str, Definition]:
    patience = max(server.timeout, PATIENCE)
    connection = ServerConnection(
        server_address(server),
        open_within=patience,
        elicit=_decline if server.answer_within else None,
    )
    try:
        return read_definitions(await connection.tools())
    except NotReachedError as error:
        raise UnreachableError(str(error)) from error
    finally:
        await connection.close()


async def _decline(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """Decline every question; some servers offer certain tools only to clients with elicitation."""
    del context, params
    await anyio.lowlevel.checkpoint()
    return ElicitResult(action="decline")


def read_definitions(tools: Iterable[Tool]) -> dict[str, Definition]:
    """Return the server's descriptions of its tools, by the server's names."""
    return {each.name: _definition(each) for each in tools}


def _definition(tool: Tool) -> Definition:
    hints = tool.annotations
    return Definition(
        name=tool.name,
        title=tool.title or (hints.title if hints else None) or "",
        description=tool.description or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
    )


# Converting the result of a server's tool: text, values, links; pictures by type and size.

_KB = 1_000
_FENCED = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.S)


def result_of(result: CallToolResult) -> Any:
    """Return a result's text (parsed if it is JSON), its structured values, or both as one text.

    Raises BrokeOffError with the server's words if the server reports a failure, as it does not say
    how much was done.
    """
    given = result.structured_content
    if result.is_error:
        text = "\n".join(_lines(result.content))
        raise BrokeOffError(text or "The server says that it failed, and not why.")
    text = "\n".join(_lines(each for each in result.content if not _mirrors(each, given)))
    if given is None:
        parsed = _parsed(text)
        return text if parsed is None else parsed
    if list(given) == ["result"] and result.content and _is_all_text(result):
        return text or given["result"] if isinstance(given["result"], str) else given["result"]
    if not text:
        return given
    return f"{text}\n{json.dumps(given, ensure_ascii=False)}"


def _mirrors(block: ContentBlock, given: dict[str, Any] | None) -> bool:
    """Return whether a text block only repeats the values, as servers do for text-only clients.

    The text may be JSON in any layout, also fenced, or the single value alone.
    """
    if given is None or block.type != "text":
        return False
    fenced = _FENCED.fullmatch(block.text)
    text = (fenced[1] if fenced else block.text).strip()
    alone = next(iter(given.values())) if len(given) == 1 else given
    if isinstance(alone, str) and alone.strip() == text:
        return True
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return said in (given, alone)  # in any order of keys


def _is_all_text(result: CallToolResult) -> bool:
    """Return whether all content is text, so that a single value beside it says the same."""
    return all(each.type == "text" for each in result.content)


def _parsed(text: str) -> Any:
    """Return the object or list if the text is JSON of one; None for any other text."""
    if not text.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _lines(blocks: Iterable[ContentBlock]) -> Iterator[str]:
    for each in blocks:
        match each.type:
            case "text":
                yield each.text
            case "image" | "audio":
                yield f"[{each.type}, {each.mime_type}, {_size(each.data)}]"
            case "resource_link":
                said = each.title or each.name
                yield f"{said}: {each.uri}" + (f" ({each.description})" if each.description else "")
            case "resource":
                held = each.resource
                text = getattr(held, "text", None)
                if text is not None:
                    yield f"{held.uri}:\n{text}"
                else:
                    kind = held.mime_type or "unknown kind"
                    yield f"[file {held.uri}, {kind}, {_size(getattr(held, 'blob', ''))}]"


def _size(data: str) -> str:
    """Return the size of base64 data in words, such as "12 kB"."""
    size = len(data) * 3 // 4
    return f"{size} bytes" if size < _KB else f"{size // _KB:,} kB"


_NOT_DONE = (INVALID_PARAMS, METHOD_NOT_FOUND)  # the server answers so before it does anything

_AMID: ContextVar[ElicitingCall | None] = ContextVar("amid", default=None)

log = logging.getLogger("countersign.servers")


class ServerFailedError(Exception):
    """Raised if the server reports that a call failed; part of it may have been done."""


class AcceptedTools:
    """The accepted tools of one server and the connection for calling them; used on one loop."""

    def __init__(self, server: Server, accepted: Definitions) -> None:
        """Prepare without connecting. `accepted`: the tools that may be called, as accepted."""
        self._server, self._accepted = server, accepted
        self._connection = ServerConnection(
            server_address(server),
            open_within=max(server.timeout, PATIENCE),
            changed=self._look,
            put_off=self._log,
            elicit=self._elicit if server.answer_within else None,
        )
        self._off: dict[str, str] = {}  # tools that are not what was accepted, and why
        self._looking: asyncio.Task[None] | None = None
        self._under_way: list[ElicitingCall] = []

    def is_on(self, name: str) -> bool:
        """Return whether a tool is still as it was accepted, as far as known; for any thread."""
        return name not in self._off

    async def check(self, name: str) -> None:
        """Check that a tool can be reached and is as it was accepted; else raise ToolError."""
        try:
            found = await self._connection.tools()
        except NotReachedError as error:
            raise self._down(str(error)) from error
        self._check(name, found)

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
        with self._during_call(line) as amid:
            outcome = await self._connection.call(
                name, arguments, lambda found: self._check(name, found), amid.timed, amid.progress
            )
        match outcome:
            case GaveResult():
                if outcome.remark:
                    log.warning("%s, %s: %s", server.name, name, outcome.remark)
                return outcome.result
            case Failed() if outcome.result is not None:
                return outcome.result
            case Failed() if outcome.code in _NOT_DONE:
                raise ToolError(f"{server.name} refuses it: {outcome.message}")
            case Failed():
                raise ServerFailedError(f"{server.name} says: {outcome.message}")
            case NotStarted():
                raise self._down(outcome.why)
            case Unknown() if outcome.timed_out:
                waited = f"{server.timeout:g} seconds"
                raise TimeoutError(f"{server.name} did not answer within {waited}.")
            case Unknown():
                said = f" It said: {outcome.heard}" if outcome.heard else ""
                raise ConnectionError(f"{server.name}: {outcome.why}.{said}")

    @contextmanager
    def _during_call(self, line: ElicitationPort) -> Iterator[ElicitingCall]:
        """Assign questions from the server to this call while the block runs."""
        amid = ElicitingCall(self._server, line)
        self._under_way.append(amid)
        before = _AMID.set(amid)
        try:
            yield amid
        finally:
            _AMID.reset(before)
            self._under_way.remove(amid)

    async def _elicit(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask people the server's question, through the call that it belongs to.

        Servers of the older protocol do not name the call over stdio: then it has to be the only
        one.
        """
        amid = _AMID.get()
        if amid is None and len(self._under_way) == 1:
            [amid] = self._under_way
        if amid is None or amid not in self._under_way:
            name = self._server.name
            log.warning(
                "a question of the server %s is about none of its calls, or one of several", name
            )
            return ElicitResult(action="cancel")
        return await amid.elicit(params)

    def _check(self, name: str, found: list[Tool]) -> None:
        """Raise ToolError if a tool is not as it was accepted."""
        self._compare(read_definitions(found))
        if why := self._off.get(name, ""):
            raise ToolError(why)

    def _down(self, why: str) -> ToolError:
        because = f" ({why})" if why else ""
        return ToolError(
            f"The server {self._server.name} cannot be reached now{because}. Nothing was done."
        )

    def _log(self, why: str) -> None:
        log.warning("the server %s cannot be reached: %s", self._server.name, why)

    def _look(self) -> None:
        """Compare the server's tools with the accepted ones soon, unless that is under way."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_now())

    async def _look_now(self) -> None:
        try:
            self._compare(read_definitions(await self._connection.tools()))
        except NotReachedError as error:
            log.warning("the server %s: %s", self._server.name, error)

    def _compare(self, found: Definitions) -> None:
        """Switch off the tools that differ from what was accepted, the others on; log once."""
        server, off = self._server.name, dict[str, str]()
        for name, accepted in self._accepted.items():
            now = found.get(name)
            if now == accepted:
                continue
            what = "has changed" if now else "no longer has"
            off[name] = (
                f"The server {server} {what} its tool {name} since that was accepted; it is"
                " switched off until its operator accepts it again."
            )
            if name not in self._off:
                log.warning("%s See `countersign mcp accept %s`.", off[name], server)
        self._off = off
