"""What the commands print, and where: results to the standard output, problems to the other."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

DOTENV = Path(".env")  # where settings are read from, under the environment

_JOINER = "\u200d"  # between the parts of one emoji
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # what a terminal may act upon


class UsageError(Exception):
    """The options were typed in a way that makes no sense; shown with the usage, exit code 2."""


def say(line: str) -> None:
    """Print a line of the result at once, also into a pipe."""
    print(line, flush=True)


def complain(problem: object) -> int:
    """Print a problem to the standard error; returns the exit code of a failure, 1."""
    print(problem, file=sys.stderr)
    return 1


def harmless(text: str) -> str:
    """Return what others wrote so that no terminal acts upon it: controls are written out.

    Tabs, line ends and emoji stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(each):04X}⟩" if _acts(each) else each for each in text)


def _acts(char: str) -> bool:
    return char not in "\n\t" + _JOINER and unicodedata.category(char) in _ACTING
