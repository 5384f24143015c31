"""The file of MCP servers, and the file of accepted tools: both read and checked, and compared.

COUNTERSIGN_SERVERS names the first; the second is beside it, and only `countersign mcp accept`
writes it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import unified_diff
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from bot import toml_file
from countersign.mcp_client import substitute_variables

_FIELD_HINTS = {
    "name": "write a-z, 0-9, _ and -, up to 40 characters, a letter first",
    "prefix": "write a-z, 0-9 and _, up to 20 characters, a letter first",
    "url": "write an address that begins with https:// or http://",
}


class Server(BaseModel):
    """One MCP server, as its [[server]] table has it, variables filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    command: Annotated[str, StringConstraints(min_length=1)] | None = None
    args: tuple[SecretStr, ...] = ()
    env: dict[str, SecretStr] = {}
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = None
    headers: dict[str, SecretStr] = {}
    # prefix of its tools' names: prefix_tool; unset: the server's name
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,19}$")] | None = None
    tools: tuple[str, ...] = ("*",)  # names or patterns of the tools to use
    trusted: bool = False  # whether its hints about what its tools do are believed
    timeout: float = Field(60.0, ge=1, le=3600)  # seconds for a call, or for its start
    # seconds that people have in each call to answer its questions; 0: it may not ask
    answer_within: float = Field(600.0, ge=0, le=3600)

    @property
    def tool_prefix(self) -> str:
        """Return the prefix of this server's tool names."""
        return self.prefix or self.name.replace("-", "_")[:20]

    def is_tool_selected(self, tool: str) -> bool:
        """Return whether the configuration selects a tool, given by the server's name for it."""
        return any(fnmatchcase(tool, each) for each in self.tools)

    @model_validator(mode="after")
    def _check_command_or_url(self) -> Server:
        if (self.command is None) == (self.url is None):
            raise ValueError('write either command = "…" or url = "…"')
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env go with a command, not with a url")
        if self.url is None and self.headers:
            raise ValueError("headers go with a url, not with a command")
        return self


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The parsed file of MCP servers, with its path."""

    path: Path
    servers: tuple[Server, ...]

    @property
    def accepted_tools_path(self) -> Path:
        """Return the path of the file of accepted tools, beside this one."""
        return self.path.with_suffix(".lock.json")


def read_server_file(path: Path, environ: Mapping[str, str]) -> ServerFile:
    """Return the servers in the file at `path`, with "$NAME" replaced by variables of `environ`.

    Raises TomlFileError.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = toml_file.unreadable_file_sentence(str(path), error)
        raise toml_file.TomlFileError("servers", str(path), [why]) from None
    return ServerFile(path, parse_servers(text, environ, str(path)))


def parse_servers(
    text: str, environ: Mapping[str, str], source: str = "servers"
) -> tuple[Server, ...]:
    """Return the servers that the TOML `text` names.

    Raises TomlFileError with all problems, a line each.
    """
    problems = toml_file.FileProblems(source, text)
    servers: list[Server] = []
    for index, entry in enumerate(toml_file.parse_tables_under_heading(text, "server", problems)):
        server = _parse_server(entry, index, environ, problems)
        if server is None:
            continue
        for other in servers:
            if server.name == other.name or server.tool_prefix == other.tool_prefix:
                sentence = f"the name or prefix {server.tool_prefix!r} is taken; give each its own"
                problems.add(("server", index, "name"), sentence)
        servers.append(server)
    if problems:
        raise toml_file.TomlFileError("servers", source, problems.list_sentences())
    return tuple(servers)


def _parse_server(
    entry: dict[str, Any], index: int, environ: Mapping[str, str], problems: toml_file.FileProblems
) -> Server | None:
    """Return the server that an entry describes; None if invalid, after adding to `problems`."""
    missing: set[tuple[str, str]] = set()
    filled = entry | {
        key: _substitute_nested_variables(entry[key], environ, key, missing)
        for key in entry.keys() & {"args", "env", "headers"}
    }
    for key, name in sorted(missing):
        problems.add(("server", index, key), f"the variable {name} is not set")
    return toml_file.validate_toml_table(Server, filled, ("server", index), problems, _FIELD_HINTS)


def _substitute_nested_variables(
    value: Any, environ: Mapping[str, str], key: str, missing: set[tuple[str, str]]
) -> Any:
    """Return the value with "$NAME" replaced in its texts; add unset variables to `missing`."""
    if isinstance(value, str):
        unset = set[str]()
        text = substitute_variables(value, environ, unset)
        missing.update((key, name) for name in unset)
        return text
    if isinstance(value, list):
        return [_substitute_nested_variables(each, environ, key, missing) for each in value]
    if isinstance(value, dict):
        return {
            name: _substitute_nested_variables(each, environ, key, missing)
            for name, each in value.items()
        }
    return value


MIN_OPEN_TIMEOUT_SECONDS = 30.0  # to start the server, if `timeout` is shorter


class AcceptedToolsFileError(ValueError):
    """Raised if the file of accepted tools cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as its server describes it: all that determines a call of it."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]  # of the arguments
    # hints; None: not given
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None

    def format_for_comparison(self) -> list[str]:
        """Return lines in which people see what changed; the same for equal definitions."""
        hints = {
            "only reads": self.read_only,
            "destroys": self.destructive,
            "may be repeated": self.idempotent,
        }
        words = {True: "yes", False: "no"}
        hint_lines = [f"{name}: {words[each]}" for name, each in hints.items() if each is not None]
        return [
            *(f"title: {line}" for line in self.title.splitlines() or [""]),
            *(f"| {line}" for line in self.description.splitlines()),
            *(f"hint, {each}" for each in hint_lines),
            *json.dumps(self.schema, indent=2, sort_keys=True, ensure_ascii=False).splitlines(),
        ]


Definitions = Mapping[str, ToolDefinition]  # by the server's name for the tool


class ToolChangeKind(StrEnum):
    """How a tool differs from what was accepted."""

    NEW = "new"  # not accepted before
    CHANGED = "changed"  # its definition has changed
    GONE = "gone"  # the server no longer has it


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One tool that differs from what was accepted."""

    kind: ToolChangeKind
    name: str
    lines: tuple[str, ...]  # the difference as lines of a diff


def list_tool_changes(accepted: Definitions, found: Definitions) -> Iterator[ToolChange]:
    """Yield the differences between the accepted tools and those found, in order of name."""
    for name in sorted({*accepted, *found}):
        before, after = accepted.get(name), found.get(name)
        if before == after:
            continue
        old, new = (each.format_for_comparison() if each else [] for each in (before, after))
        kind = ToolChangeKind.NEW if before is None else ToolChangeKind.CHANGED
        if after is None:
            kind = ToolChangeKind.GONE
        differing = unified_diff(old, new, "accepted", "now", lineterm="", n=3)
        yield ToolChange(kind, name, tuple(differing))


def read_accepted_tools(path: Path) -> dict[str, dict[str, ToolDefinition]]:
    """Return the accepted tools, by server and tool; {} if there is no file.

    Raises AcceptedToolsFileError.
    """
    try:
        written = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AcceptedToolsFileError(f"{path} cannot be read ({type(error).__name__})") from error
    try:
        return {
            server: {name: ToolDefinition(name=name, **each) for name, each in tools.items()}
            for server, tools in written["servers"].items()
        }
    except (TypeError, KeyError, AttributeError) as error:
        why = "is not what `countersign mcp accept` writes; accept the tools again"
        raise AcceptedToolsFileError(f"{path} {why}") from error


def write_accepted_tools(path: Path, accepted: Mapping[str, Definitions]) -> None:
    """Write the file of accepted tools atomically."""
    servers = {
        server: {name: _definition_to_json(each) for name, each in sorted(tools.items())}
        for server, tools in sorted(accepted.items())
    }
    text = json.dumps({"servers": servers}, indent=2, ensure_ascii=False) + "\n"
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_text(text, "utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _definition_to_json(definition: ToolDefinition) -> dict[str, Any]:
    return {key: each for key, each in asdict(definition).items() if key != "name"}
