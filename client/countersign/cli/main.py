"""The entry of the command line: find the command, run it, turn what went wrong into a sentence."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from countersign.cli.commands import (
    COMMANDS,
    CommandEntry,
    all_commands,
    build_parser,
    complaint,
)
from countersign.cli.console import UsageError, complain
from countersign.cli.process import obey_signals, uncollected

INTERRUPTED = 130  # exit code of a command that Ctrl-C cut short
MISUSED = 2  # of no command at all
NOT_READ = 141  # of one whose output nobody reads to its end


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """What was typed: all words, which command they name, and the commands there are."""

    words: list[str]
    name: str  # "" where no command is named
    commands: Mapping[str, CommandEntry]

    @property
    def entry(self) -> CommandEntry | None:
        """The command that is named."""
        return self.commands.get(self.name)

    @property
    def misused(self) -> int:
        """The exit code where it was typed in a way that makes no sense."""
        return self.entry.misused if self.entry else MISUSED


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (sys.argv without the name, when None); returns the exit code."""
    typed = _read(list(sys.argv[1:] if argv is None else argv))
    broken = typed.entry.broken if typed.entry else None
    return _open(typed) if broken is None else _closed(typed, broken)


def _read(words: list[str]) -> TypedCommand:
    first = next((each for each in words if not each.startswith("-")), "")
    if first in COMMANDS:  # what other distributions have brought is not even looked for
        return TypedCommand(words, first, COMMANDS)
    commands = all_commands()
    return TypedCommand(words, next((each for each in words if each in commands), ""), commands)


def _closed(typed: TypedCommand, broken: int) -> int:
    """Run a command whose caller takes all but one exit code for a yes: whatever happens, that."""
    try:
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                if signal.getsignal(each) is not signal.SIG_IGN:
                    signal.signal(each, _end_once)
        return _run(typed)
    except SystemExit:
        raise  # it was typed wrongly
    except BaseException as error:  # noqa: BLE001 # an interruption, too
        with suppress(Exception):
            complain(f"{typed.name} was cut short ({type(error).__name__}).")
        with suppress(Exception):  # what could not be written is not tried again at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return broken


def _open(typed: TypedCommand) -> int:
    """Run any other command, or end with the usage."""
    serves = typed.entry is not None and typed.entry.serves
    # COUNTERSIGN_TOOLS may name modules that lie in the working directory
    sys.path.append(os.getcwd())
    if serves:
        obey_signals()
    try:
        return _run(typed)
    except KeyboardInterrupt:  # wherever it finds a command that serves, it ends it well
        return 0 if serves else INTERRUPTED
    except BrokenPipeError:  # whoever reads has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
    except Exception as error:
        text = complaint(error)
        if text is None:
            raise
        return complain(text)


def _run(typed: TypedCommand) -> int:
    """Run the command as it was typed, or end with the usage."""
    entry, words = typed.entry, typed.words
    with uncollected():
        loaded = {typed.name: entry.load()} if entry else {}
    parser = build_parser(loaded, typed.commands)
    own = parser.typed or parser  # whose usage is shown
    behind: list[str] | None = None
    if entry and entry.takes_command and "--" in words:
        at = words.index("--")
        words, behind = words[:at], words[at + 1 :]
    try:
        arguments, more = parser.parse_known_args(words)
        if more:
            own.error(f"unrecognized arguments: {' '.join(more)}")
        if behind is not None:
            arguments.behind = behind
    except SystemExit as end:
        raise SystemExit(typed.misused if end.code else 0) from None
    try:
        return loaded[typed.name].run(arguments)
    except UsageError as error:
        own.print_usage(sys.stderr)
        own.exit(typed.misused, f"{own.prog}: error: {error}\n")


def _end_once(_signal: int, _frame: object) -> NoReturn:
    """End on a signal as on Ctrl-C, and let no further one disturb how it ends."""
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
