"""`python -m bot` and the command `countersign`."""

from __future__ import annotations

import sys

from bot.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
