"""What comes with an extra only, and what to say where it is missing."""

from __future__ import annotations

from bot.cli.console import complain

SANDBOX, REPORT, MCP = "sandbox", "report", "mcp"
_NEEDS = {SANDBOX: "aiohttp", REPORT: "matplotlib", MCP: "mcp"}  # each extra brings it


def complain_of_missing(what: str, error: ModuleNotFoundError, extra: str = SANDBOX) -> int:
    """Say how to install what `what` needs; raises `error` where that is not it."""
    needed = _NEEDS[extra]
    if error.name != needed:
        raise error
    return complain(f"The {what} needs {needed}: pip install 'countersign-bot[{extra}]'")
