"""Entry point of `python -m countersign` and of the command `countersign`."""

from __future__ import annotations

import sys

from countersign.cli.commands import main as run_command
from countersign.cli.process import exit_if_stopping


def main() -> int:
    """Run the command that was typed; returns the exit code."""
    return exit_if_stopping(run_command())


if __name__ == "__main__":
    sys.exit(main())
