"""What to say where the packages that a command needs were not installed."""

from __future__ import annotations

from collections.abc import Collection

from countersign.cli.console import complain


def complain_of_missing(
    what: str, error: ModuleNotFoundError, needs: Collection[str], install: str
) -> int:
    """Say how to install what `what` needs; raises `error` where none of `needs` is missing."""
    if error.name not in needs:
        raise error
    return complain(f"The {what} needs {error.name}: pip install '{install}'")
