"""`python -m bot` and the command `countersign`."""

from __future__ import annotations

import sys

from bot.cli.ending import leave
from bot.cli.main import main as run_command


def main() -> int:
    """Run the command that was typed; returns the exit code."""
    return leave(run_command())


if __name__ == "__main__":
    sys.exit(main())
