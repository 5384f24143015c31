"""What comes with the extra `sandbox` only, and what to say where it is missing."""

from __future__ import annotations

from bot.cli.console import complain


def complain_of_missing(command: str, error: ModuleNotFoundError) -> int:
    """Say how to install what `command` needs; raises `error` where that is not it."""
    if error.name != "aiohttp":
        raise error
    return complain(f"The {command} needs aiohttp: pip install 'countersign-bot[sandbox]'")
