"""`countersign mcp accept`: show how MCP servers describe their tools, and accept that.

A tool is only used as it was accepted: if a server changes it afterwards, it is switched off until
somebody has looked at it here.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bot.config.environment import DotenvError, read_environment_variables
from bot.mcp import server_file
from bot.toml_file import TomlFileError
from bot.tools.described import SchemaError, build_argument_model
from countersign.cli import console
from countersign.durations import format_count

log = logging.getLogger("countersign.servers")
_LABEL_BY_CHANGE = {
    server_file.ToolChangeKind.NEW: "new",
    server_file.ToolChangeKind.CHANGED: "changed since it was accepted",
    server_file.ToolChangeKind.GONE: "no longer there",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the action, the server, and --yes."""
    parser.add_argument(
        "act", choices=["accept"], help="show what servers say about their tools, and accept it"
    )
    parser.add_argument("server", nargs="?", default="", help="name of the server (default: all)")
    parser.add_argument("--yes", action="store_true", help="accept without asking")


def run(arguments: argparse.Namespace) -> int:
    """Show how MCP servers' tools differ from the accepted ones; save them after a yes.

    Returns the exit code, 1 if not everything was accepted.
    """
    try:
        file = _read_server_file()
    except (DotenvError, TomlFileError) as error:
        raise console.CommandError(console.escape_control_characters(str(error)), 2) from None
    if file is None:
        raise console.CommandError("There are no servers: COUNTERSIGN_SERVERS is not set.", 2)
    chosen = [each for each in file.servers if arguments.server in ("", each.name)]
    if not chosen:
        server_names = ", ".join(each.name for each in file.servers) or "none"
        raise console.UsageError(
            f"there is no server {arguments.server!r}; there are: {server_names}"
        )
    try:
        from bot.mcp.server_connection import fetch_tool_definitions
        from countersign.mcp_client.connection import ServerNotReachedError
    except ModuleNotFoundError as error:
        needs = ("mcp", "mcp_types")
        return console.print_missing_package("command", error, needs, "countersign-bot[mcp]")
    try:
        server_file.read_accepted_tools(file.accepted_tools_path)
    except server_file.AcceptedToolsFileError as error:
        return console.print_error(f"{error}.")
    agree = _ask_yes_or_no if not arguments.yes else lambda _question: True
    done, log_handler = [], logging.StreamHandler()
    log.addHandler(log_handler)  # prints which tools are left out, and why
    for server in chosen:
        try:
            done.append(_accept_tools(file, server, fetch_tool_definitions(server), agree))
        except ServerNotReachedError as error:
            console.print_error(
                f"{server.name} cannot be reached: {console.escape_control_characters(str(error))}."
            )
            done.append(False)
    log.removeHandler(log_handler)
    return 0 if all(done) else 1


def _read_server_file() -> server_file.ServerFile | None:
    """Return the file of MCP servers, None if none is set; raises DotenvError, TomlFileError."""
    given = read_environment_variables(os.environ, console.DOTENV)
    name = given.get("COUNTERSIGN_SERVERS")
    return server_file.read_server_file(Path(name), given) if name else None


def _accept_tools(
    file: server_file.ServerFile,
    server: server_file.Server,
    found: dict[str, server_file.ToolDefinition],
    agree: Callable[[str], bool],
) -> bool:
    """Show how one server's tools have changed; save them after a yes, return False after a no."""
    accepted = server_file.read_accepted_tools(file.accepted_tools_path)
    usable = dict(_list_usable_tools(server, found))
    differing = list(server_file.list_tool_changes(accepted.get(server.name, {}), usable))
    if not differing:
        console.print_line(
            f"{server.name}: {format_count(len(usable), 'tool')}, all unchanged since they were"
            " accepted."
        )
        return True
    for change in differing:
        _print_change(server, change)
    if not agree(f"Accept this from {server.name}? (yes or no) "):
        console.print_line(f"Nothing from {server.name} was accepted.")
        return False
    server_file.write_accepted_tools(file.accepted_tools_path, {**accepted, server.name: usable})
    console.print_line(
        f"{server.name}: {format_count(len(usable), 'tool')} accepted, in "
        f"{file.accepted_tools_path}. Restart Countersign."
    )
    return True


def _list_usable_tools(
    server: server_file.Server, found: dict[str, server_file.ToolDefinition]
) -> Iterator[tuple[str, server_file.ToolDefinition]]:
    """Yield the server's selected tools that can be used, by name; print why others cannot."""
    for name, each in found.items():
        if not server.is_tool_selected(name):
            continue
        try:
            build_argument_model(each.schema, name)
        except SchemaError as error:
            console.print_line(_format_on_one_line(f"{server.name}: {name} is left out. {error}"))
            continue
        yield name, each


def _print_change(server: server_file.Server, change: server_file.ToolChange) -> None:
    console.print_line("")
    console.print_line(
        _format_on_one_line(f"{server.name}: {change.name} is {_LABEL_BY_CHANGE[change.kind]}")
    )
    for line in change.lines[2:]:  # skip diff's two lines with file names
        if not line.startswith("@@"):
            console.print_line(console.escape_control_characters(f"  {line}"))


def _format_on_one_line(text: str) -> str:
    """Return a server's text with line ends written out, so it cannot pass for a line of ours."""
    return console.escape_control_characters(text).replace("\n", "⟨U+000A⟩")


def _ask_yes_or_no(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("yes", "y")
    except EOFError:
        console.print_line("")
        return False
