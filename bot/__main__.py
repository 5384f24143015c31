"""`python -m bot`: the command `countersign`."""

from __future__ import annotations

import sys

from countersign.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
