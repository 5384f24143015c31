"""Input and output of commands: results on the standard output, problems on the standard error."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from countersign.request import CountersignError
from countersign.request import escape_control_characters as escape_control_characters

DOTENV = Path(".env")  # settings file; variables of the environment override it


class UsageError(Exception):
    """Raised for options that make no sense; shown with the usage.

    The exit code is the `misuse_exit_code` of the command's entry, 2 unless it says otherwise.
    """


class CommandError(Exception):
    """Raised to end a command with a sentence for people, and an exit code."""

    def __init__(self, sentence: object, exit_code: int = 1) -> None:
        super().__init__(str(sentence))
        self.exit_code = exit_code


@contextmanager
def exit_on_crash(exit_code: int) -> Iterator[None]:
    """End the command with this exit code if an error that nobody expected ends the block."""
    try:
        yield
    except (CommandError, CountersignError):
        raise
    except Exception as error:
        if not isinstance(error, OSError):
            traceback.print_exc()
        raise CommandError(f"It failed: {error or type(error).__name__}.", exit_code) from error


def print_line(line: str) -> None:
    """Print a line of the result and flush, so that a pipe gets it at once.

    Raises OSError if it cannot be printed, also if the standard output is closed.
    """
    if sys.stdout is None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    print(line, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines of a result, each as soon as it is there."""
    for line in lines:
        print_line(line)


def drop_unwritten_output() -> None:
    """Write out what was printed; drop what cannot be, or the interpreter's end would fail."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_error(problem: object) -> int:
    """Print a problem to the standard error and return 1, the exit code of a failure."""
    print_beside_result(problem)
    return 1


def print_beside_result(text: object) -> None:
    """Print a line to the standard error; drop it if nobody can read that (a full disk)."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop_unwritten_output()


def parse_assignments(words: Iterable[str]) -> dict[str, str]:
    """Return name=value words as a dict; raises UsageError for another word or a repeated name."""
    found: dict[str, str] = {}
    for each in words:
        name, is_one, value = each.partition("=")
        if not is_one or not name or name in found:
            raise UsageError(f"{each!r} is not name=value, or its name is given twice")
        found[name] = value
    return found


def print_missing_package(
    what: str, error: ModuleNotFoundError, needs: Collection[str], install: str
) -> int:
    """Print how to install what `what` needs; re-raise `error` if none of `needs` is missing."""
    if error.name not in needs:
        raise error
    return print_error(f"The {what} needs {error.name}: pip install '{install}'")
