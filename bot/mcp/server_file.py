"""Which MCP servers there are: the TOML file that COUNTERSIGN_SERVERS names, read and checked.

It reaches no server, and no message of it holds what a variable held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from bot.toml_file import COMPLAINTS, Problems, entries, unknown_key, unreadable
from countersign.mcp_client.variables import with_variables

_FORMS = {
    "name": "write a-z, 0-9, _ and -, up to 40 characters, a letter first",
    "prefix": "write a-z, 0-9 and _, up to 20 characters, a letter first",
    "url": "write an address that begins with https:// or http://",
}


class ServersError(ValueError):
    """The file cannot be used.

    `problems` has one line each: file, line, key, what is wrong, what to do.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n  ".join([f"the servers in {source} cannot be used:", *problems]))


class Server(BaseModel):
    """One MCP server, as its [[server]] table has it, variables filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    command: Annotated[str, StringConstraints(min_length=1)] | None = None
    args: tuple[SecretStr, ...] = ()
    env: dict[str, SecretStr] = {}
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = None
    headers: dict[str, SecretStr] = {}
    # what its tools are called by: prefix_tool; unset: the name
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,19}$")] | None = None
    tools: tuple[str, ...] = ("*",)  # those that are used, by name or pattern
    trusted: bool = False  # whether its hints count: what it says that its tools do to the world
    timeout: float = Field(60.0, ge=1, le=3600)  # seconds a call, or its start, may take
    # seconds that people have, in each call, to answer what it asks them; 0: it asks nobody
    answer_within: float = Field(600.0, ge=0, le=3600)

    @property
    def called(self) -> str:
        """What the names of its tools begin with."""
        return self.prefix or self.name.replace("-", "_")[:20]

    def uses(self, tool: str) -> bool:
        """Whether a tool of it, by the server's own name for it, is one of those that are used."""
        return any(fnmatchcase(tool, each) for each in self.tools)

    @model_validator(mode="after")
    def _one_way(self) -> Server:
        if (self.command is None) == (self.url is None):
            raise ValueError('write either command = "…" or url = "…"')
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env go with a command, not with a url")
        if self.url is None and self.headers:
            raise ValueError("headers go with a url, not with a command")
        return self


@dataclass(frozen=True, slots=True)
class ServerFile:
    """What the file says, and where it is."""

    path: Path
    servers: tuple[Server, ...]

    @property
    def lock(self) -> Path:
        """The file beside it with what was accepted."""
        return self.path.with_suffix(".lock.json")


def read_servers(path: Path, environ: Mapping[str, str]) -> ServerFile:
    """Return the servers in the file at `path`; "$NAME" in it stands for a variable of `environ`.

    Raises ServersError.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ServersError(str(path), [unreadable(str(path), error)]) from None
    return ServerFile(path, parse_servers(text, environ, str(path)))


def parse_servers(
    text: str, environ: Mapping[str, str], source: str = "servers"
) -> tuple[Server, ...]:
    """Return the servers that the TOML `text` names.

    Raises ServersError with all that is wrong, a line each.
    """
    problems = Problems(source, text)
    servers: list[Server] = []
    for index, entry in enumerate(entries(text, "server", problems)):
        server = _server(entry, index, environ, problems)
        if server is None:
            continue
        for taken in servers:
            if server.name == taken.name or server.called == taken.called:
                sentence = f"the name or prefix {server.called!r} is taken; give each its own"
                problems.add(("server", index, "name"), sentence)
        servers.append(server)
    if problems:
        raise ServersError(source, problems.sentences())
    return tuple(servers)


def _server(
    entry: dict[str, Any], index: int, environ: Mapping[str, str], problems: Problems
) -> Server | None:
    """Return the server that an entry means, or None with what is wrong added to `problems`."""
    missing: set[tuple[str, str]] = set()
    filled = {
        key: _filled(value, environ, key, missing) if key in ("args", "env", "headers") else value
        for key, value in entry.items()
    }
    for key, name in sorted(missing):
        problems.add(("server", index, key), f"the variable {name} is not set")
    try:
        return Server.model_validate(filled)
    except ValidationError as error:
        for each in error.errors(include_input=False, include_url=False):
            problems.add(("server", index, *each["loc"]), _sentence(each))
    return None


def _filled(value: Any, environ: Mapping[str, str], key: str, missing: set[tuple[str, str]]) -> Any:
    """The value with "$NAME" replaced in its texts."""
    if isinstance(value, str):
        unset = set[str]()
        text = with_variables(value, environ, unset)
        missing.update((key, name) for name in unset)
        return text
    if isinstance(value, list):
        return [_filled(each, environ, key, missing) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each, environ, key, missing) for name, each in value.items()}
    return value


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return unknown_key(error["loc"], Server)
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "string_pattern_mismatch":
        return _FORMS.get(str(error["loc"][0]), "write a plain name")
    return COMPLAINTS.get(error["type"], error["msg"])
