"""The look at the MCP servers: each is asked what tools it has now, and none is called."""

from __future__ import annotations

from collections.abc import Iterator

from bot.checks.check import Check, fail, ok, warn
from bot.config.settings import Settings
from bot.servers.definitions import ChangeKind, Definitions, LockError, changes, read_lock
from bot.servers.file import Server
from countersign.cli.console import harmless


def check_servers(settings: Settings) -> Iterator[Check]:
    """Whether each can be reached, and still says of its tools what was accepted."""
    file = settings.servers
    if file is None:
        return
    try:
        from bot.servers.looking import UnreachableError, look
    except ModuleNotFoundError:
        yield fail("servers", "mcp is missing", "pip install 'countersign-bot[mcp]'")
        return
    try:
        accepted = read_lock(file.lock)
    except LockError as error:
        yield fail("servers", str(error), "Accept the tools again: `countersign mcp accept`")
        return
    for server in file.servers:
        try:
            found = {name: each for name, each in look(server).items() if server.uses(name)}
        except UnreachableError as error:
            about, why = f"server {server.name}", harmless(str(error))
            yield warn(about, f"it cannot be reached ({why})", "Its calls fail until it can")
            continue
        yield from _compared(server, accepted.get(server.name, {}), found)


def _compared(server: Server, accepted: Definitions, found: Definitions) -> Iterator[Check]:
    about, remedy = f"server {server.name}", f"Look at it: `countersign mcp accept {server.name}`"
    names: dict[ChangeKind, list[str]] = {}
    for each in changes(accepted, found):
        names.setdefault(each.kind, []).append(each.name)
    off = [*names.get(ChangeKind.CHANGED, ()), *names.get(ChangeKind.GONE, ())]
    if off:
        some = harmless(", ".join(off))
        yield warn(about, f"not what was accepted, so switched off: {some}", remedy)
    if new := names.get(ChangeKind.NEW):
        yield warn(about, f"not accepted, so not used: {harmless(', '.join(new))}", remedy)
    hints = "its hints count" if server.trusted else "not trusted: all of it counts as destructive"
    yield ok(about, f"{len(accepted) - len(off)} accepted tools; {hints}")
