"""The packages that come only with an extra of the bot, and the message if one is missing."""

from __future__ import annotations

from countersign.cli import console

SANDBOX, REPORT = "sandbox", "report"
_NEEDS = {SANDBOX: ("aiohttp", "slack_sandbox"), REPORT: ("matplotlib",)}  # each extra brings them


def complain_of_missing_extra(what: str, error: ModuleNotFoundError, extra: str = SANDBOX) -> int:
    """Print how to install what `what` needs; re-raise `error` if another module is missing."""
    return console.print_missing_package(what, error, _NEEDS[extra], f"countersign-bot[{extra}]")
