"""What is typed and printed: results go to the standard output, problems to the standard error."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Iterable
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


def assignments(words: Iterable[str]) -> dict[str, str]:
    """Return what was typed as name=value; raises UsageError for anything else, or a name twice."""
    found: dict[str, str] = {}
    for each in words:
        name, is_one, value = each.partition("=")
        if not is_one or not name or name in found:
            raise UsageError(f"{each!r} is not name=value, or its name stands twice")
        found[name] = value
    return found


def _acts(char: str) -> bool:
    return char not in "\n\t" + _JOINER and unicodedata.category(char) in _ACTING


def complain_of_missing(
    what: str, error: ModuleNotFoundError, needs: Collection[str], install: str
) -> int:
    """Say how to install what `what` needs; raises `error` where none of `needs` is missing."""
    if error.name not in needs:
        raise error
    return complain(f"The {what} needs {error.name}: pip install '{install}'")
