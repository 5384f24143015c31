"""What a server says of its tools, what of it was accepted, and how the two differ.

What was accepted stands in a file beside the one that names the servers; only `countersign mcp
accept` writes it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Any

from bot.mcp.server_file import Server
from countersign.mcp_client.address import Address, CommandAddress, UrlAddress

# Where the servers of the file are, as the connection takes it.

PATIENCE = 30.0  # seconds in which a server has to be there, if calls have no more
_READ = 300.0  # seconds between two signs of life over HTTP


def address_of(server: Server) -> Address:
    """Return where a server is, with what its table says in confidence."""
    if server.url is not None:
        headers = {name: each.get_secret_value() for name, each in server.headers.items()}
        return UrlAddress(server.url, headers, server.timeout, _READ + server.answer_within)
    assert server.command is not None
    return CommandAddress(
        server.command,
        tuple(each.get_secret_value() for each in server.args),
        {name: each.get_secret_value() for name, each in server.env.items()},
    )


class LockError(ValueError):
    """The file of what was accepted cannot be read; says why."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server describes it: all that a call of it goes by."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]  # of its arguments
    # hints; None: not said
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None

    def lines(self) -> list[str]:
        """Return it as lines for people, the same for the same tool."""
        hints = {
            "only reads": self.read_only,
            "destroys": self.destructive,
            "may be repeated": self.idempotent,
        }
        said = [
            f"{name}: {'yes' if each else 'no'}" for name, each in hints.items() if each is not None
        ]
        return [
            *(f"title: {line}" for line in self.title.splitlines() or [""]),
            *(f"| {line}" for line in self.description.splitlines()),
            *(f"hint, {each}" for each in said),
            *json.dumps(self.schema, indent=2, sort_keys=True, ensure_ascii=False).splitlines(),
        ]


Definitions = Mapping[str, Definition]  # by the server's own name for each


class ChangeKind(StrEnum):
    """How a tool differs from what was accepted."""

    NEW = "new"  # it was not there
    CHANGED = "changed"  # it says something else of itself
    GONE = "gone"  # the server has it no longer


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One tool that differs from what was accepted."""

    kind: ChangeKind
    name: str
    lines: tuple[str, ...]  # what differs, as a diff has it


def changes(accepted: Definitions, found: Definitions) -> Iterator[ToolChange]:
    """Yield how what was found differs from what was accepted, by name."""
    for name in sorted({*accepted, *found}):
        before, after = accepted.get(name), found.get(name)
        if before == after:
            continue
        old, new = (each.lines() if each else [] for each in (before, after))
        kind = ChangeKind.NEW if before is None else ChangeKind.CHANGED
        if after is None:
            kind = ChangeKind.GONE
        differing = unified_diff(old, new, "accepted", "now", lineterm="", n=3)
        yield ToolChange(kind, name, tuple(differing))


def read_lock(path: Path) -> dict[str, dict[str, Definition]]:
    """Return what was accepted, by server and tool; nothing where there is no file.

    Raises LockError.
    """
    try:
        written = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise LockError(f"{path} cannot be read ({type(error).__name__})") from error
    try:
        return {
            server: {name: Definition(name=name, **each) for name, each in tools.items()}
            for server, tools in written["servers"].items()
        }
    except (TypeError, KeyError, AttributeError) as error:
        why = "is not what `countersign mcp accept` writes; accept the tools again"
        raise LockError(f"{path} {why}") from error


def write_lock(path: Path, accepted: Mapping[str, Definitions]) -> None:
    """Write what was accepted, whole or not at all."""
    servers = {
        server: {name: _written(each) for name, each in sorted(tools.items())}
        for server, tools in sorted(accepted.items())
    }
    text = json.dumps({"servers": servers}, indent=2, ensure_ascii=False) + "\n"
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_text(text, "utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _written(definition: Definition) -> dict[str, Any]:
    return {key: each for key, each in asdict(definition).items() if key != "name"}
