"""Input and output of commands: results on the standard output, problems on the standard error."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path

DOTENV = Path(".env")  # where settings are read from, under the environment

_JOINER = "\u200d"  # between the parts of one emoji
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # what a terminal may act upon


class UsageError(Exception):
    """Raised for options that make no sense; shown with the usage.

    The exit code is the `misuse_exit_code` of the command's entry, 2 unless it says otherwise.
    """


def print_line(line: str) -> None:
    """Print a line of the result and flush, so that a pipe gets it at once."""
    print(line, flush=True)


def print_error(problem: object) -> int:
    """Print a problem to the standard error and return 1, the exit code of a failure."""
    print(problem, file=sys.stderr)
    return 1


def escape_control_characters(text: str) -> str:
    """Return text from others with control characters written out, harmless to a terminal.

    Tabs, line ends and emoji stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(each):04X}⟩" if _is_control_character(each) else each for each in text)


def parse_assignments(words: Iterable[str]) -> dict[str, str]:
    """Return name=value words as a dict; raises UsageError for another word or a repeated name."""
    found: dict[str, str] = {}
    for each in words:
        name, is_one, value = each.partition("=")
        if not is_one or not name or name in found:
            raise UsageError(f"{each!r} is not name=value, or its name stands twice")
        found[name] = value
    return found


def _is_control_character(char: str) -> bool:
    return char not in "\n\t" + _JOINER and unicodedata.category(char) in _ACTING


def print_missing_package(
    what: str, error: ModuleNotFoundError, needs: Collection[str], install: str
) -> int:
    """Print how to install what `what` needs; re-raise `error` if none of `needs` is missing."""
    if error.name not in needs:
        raise error
    return print_error(f"The {what} needs {error.name}: pip install '{install}'")
