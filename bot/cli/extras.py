"""What comes with an extra of the bot only, and what to say where it is missing."""

from __future__ import annotations

from countersign.cli import console

SANDBOX, REPORT = "sandbox", "report"
_NEEDS = {SANDBOX: ("aiohttp", "slack_sandbox"), REPORT: ("matplotlib",)}  # each extra brings them


def complain_of_missing(what: str, error: ModuleNotFoundError, extra: str = SANDBOX) -> int:
    """Say how to install what `what` needs; raises `error` where that is not it."""
    return console.complain_of_missing(what, error, _NEEDS[extra], f"countersign-bot[{extra}]")
