"""What the commands print, and where: results to the standard output, problems to the other."""

from __future__ import annotations

import sys
from pathlib import Path

DOTENV = Path(".env")  # where settings are read from, under the environment


class UsageError(Exception):
    """The options were typed in a way that makes no sense; shown with the usage, exit code 2."""


def say(line: str) -> None:
    """Print a line of the result at once, also into a pipe."""
    print(line, flush=True)


def complain(problem: object) -> int:
    """Print a problem to the standard error; returns the exit code of a failure, 1."""
    print(problem, file=sys.stderr)
    return 1
