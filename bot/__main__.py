"""`python -m bot`: the command `countersign`."""

from __future__ import annotations

import sys

from countersign.cli.commands import main
from countersign.cli.process import exit_if_stopping

if __name__ == "__main__":
    sys.exit(exit_if_stopping(main()))
