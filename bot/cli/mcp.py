"""`countersign mcp accept`: what the tools of MCP servers say of themselves, and a yes to it.

A tool is used as it was accepted and not otherwise: what a server changes afterwards is switched
off until somebody has looked at it here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bot.config.settings import DotenvError, read_variables
from bot.mcp.server_file import (
    ChangeKind,
    Definition,
    LockError,
    Server,
    ServerFile,
    ServersError,
    ToolChange,
    find_changes,
    read_lock,
    read_servers,
    write_lock,
)
from bot.tools.described import SchemaError, arguments_of
from countersign.cli.console import DOTENV, UsageError, complain, harmless, say

_SAID = {
    ChangeKind.NEW: "new",
    ChangeKind.CHANGED: "changed since it was accepted",
    ChangeKind.GONE: "no longer there",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the server, and whether to accept without a question."""
    parser.add_argument(
        "act", choices=["accept"], help="show what servers say of their tools, and accept it"
    )
    parser.add_argument("server", nargs="?", default="", help="its name; all, if left out")
    parser.add_argument("--yes", action="store_true", help="accept without asking")


def run(arguments: argparse.Namespace) -> int:
    """Show what differs from the accepted tools, ask, and save it.

    Returns the exit code, 1 if not everything was accepted.
    """
    try:
        file = _named()
    except (DotenvError, ServersError) as error:
        return complain(harmless(str(error)))
    if file is None:
        return complain("There are no servers: COUNTERSIGN_SERVERS names no file.")
    chosen = [each for each in file.servers if arguments.server in ("", each.name)]
    if not chosen:
        known = ", ".join(each.name for each in file.servers) or "none"
        raise UsageError(f"there is no server {arguments.server!r}; there are: {known}")
    try:
        from bot.mcp.server_connection import UnreachableError, look_up_tools
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        return complain("MCP servers need mcp: pip install 'countersign-bot[mcp]'")
    try:
        read_lock(file.lock)
    except LockError as error:
        return complain(f"{error}.")
    agree = _agreed if not arguments.yes else _unasked
    done = []
    for server in chosen:
        try:
            done.append(_accept(file, server, look_up_tools(server), agree))
        except UnreachableError as error:
            complain(f"{server.name} cannot be reached: {harmless(str(error))}.")
            done.append(False)
    return 0 if all(done) else 1


def _named() -> ServerFile | None:
    """Return the file of servers, None if no file is set. Raises DotenvError and ServersError."""
    given = read_variables(os.environ, DOTENV)
    name = given.get("COUNTERSIGN_SERVERS")
    return read_servers(Path(name), given) if name else None


def _accept(
    file: ServerFile,
    server: Server,
    found: dict[str, Definition],
    agree: Callable[[str], bool],
) -> bool:
    """Show what differs at one server, and save it after a yes; return False after a no."""
    accepted = read_lock(file.lock)
    usable = dict(_usable(server, found))
    differing = list(find_changes(accepted.get(server.name, {}), usable))
    if not differing:
        say(f"{server.name}: {_tools(len(usable))}, all as they were accepted.")
        return True
    for change in differing:
        _show(server, change)
    if not agree(f"Accept this of {server.name}? (yes or no) "):
        say(f"Nothing of {server.name} was accepted.")
        return False
    write_lock(file.lock, {**accepted, server.name: usable})
    say(f"{server.name}: {_tools(len(usable))} accepted, in {file.lock}. Restart Countersign.")
    return True


def _usable(server: Server, found: dict[str, Definition]) -> Iterator[tuple[str, Definition]]:
    """Yield the tools that are used and can be; print why any other of them cannot."""
    for name, each in found.items():
        if not server.uses(name):
            continue
        try:
            arguments_of(each.schema, name)
        except SchemaError as error:
            say(_on_one_line(f"{server.name}: {name} is left out. {error}"))
            continue
        yield name, each


def _show(server: Server, change: ToolChange) -> None:
    say("")
    say(_on_one_line(f"{server.name}: {change.name} is {_SAID[change.kind]}"))
    for line in change.lines[2:]:  # without the names of the two sides
        if not line.startswith("@@"):
            say(harmless(f"  {line}"))


def _on_one_line(text: str) -> str:
    """Return a server's text with line ends written out, so it cannot pass for a line of ours."""
    return harmless(text).replace("\n", "⟨U+000A⟩")


def _tools(number: int) -> str:
    return f"{number} tool{'' if number == 1 else 's'}"


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("yes", "y")
    except EOFError:
        say("")
        return False


def _unasked(_question: str) -> bool:
    return True
