"""The entry of the command line: find the command, run it, turn what went wrong into a sentence."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from bot.cli.commands import COMMANDS, build_parser
from bot.cli.console import UsageError, complain
from bot.cli.ending import obey_signals
from bot.cli.loading import uncollected

INTERRUPTED = 130  # exit code of a command that Ctrl-C cut short
MISUSED = 2  # of no command at all
NOT_READ = 141  # of one whose output nobody reads to its end


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (sys.argv without the name, when None); returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((each for each in words if each in COMMANDS), "")
    broken = COMMANDS[name].broken if name else None
    return _open(name, words) if broken is None else _closed(name, words, broken)


def _closed(name: str, words: list[str], broken: int) -> int:
    """Run a command whose caller takes all but one exit code for a yes: whatever happens, that."""
    try:
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(each, _end_once)
        return _run(name, words)
    except SystemExit:
        raise  # it was typed wrongly
    except BaseException as error:  # noqa: BLE001 # an interruption, too
        with suppress(Exception):
            complain(f"{name} was cut short ({type(error).__name__}).")
        with suppress(Exception):  # what could not be written is not tried again at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return broken


def _open(name: str, words: list[str]) -> int:
    """Run any other command, or end with the usage."""
    serves = bool(name) and COMMANDS[name].serves
    # COUNTERSIGN_TOOLS may name modules that lie in the working directory
    sys.path.append(os.getcwd())
    if serves:
        obey_signals()
    try:
        return _run(name, words)
    except KeyboardInterrupt:  # wherever it finds a command that serves, it ends it well
        return 0 if serves else INTERRUPTED
    except BrokenPipeError:  # whoever reads has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
    except Exception as error:
        # only now: it knows the errors of every part, and imports them
        from bot.cli.complaints import complaint

        text = complaint(error)
        if text is None:
            raise
        return complain(text)


def _run(name: str, words: list[str]) -> int:
    """Run the command of that name as `words` say, or end with the usage."""
    with uncollected():
        loaded = {name: COMMANDS[name].load()} if name else {}
    parser = build_parser(loaded)
    own = parser.typed or parser  # whose usage is shown
    behind: list[str] | None = None
    if name and COMMANDS[name].takes_command and "--" in words:
        at = words.index("--")
        words, behind = words[:at], words[at + 1 :]
    try:
        arguments, more = parser.parse_known_args(words)
        if more:
            own.error(f"unrecognized arguments: {' '.join(more)}")
        if behind is not None:
            arguments.behind = behind
    except SystemExit as end:
        raise SystemExit(_misused(name) if end.code else 0) from None
    try:
        return loaded[name].run(arguments)
    except UsageError as error:
        own.print_usage(sys.stderr)
        own.exit(_misused(name), f"{own.prog}: error: {error}\n")


def _misused(name: str) -> int:
    """The exit code of a command that was typed in a way that makes no sense."""
    return COMMANDS[name].misused if name else MISUSED


def _end_once(_signal: int, _frame: object) -> NoReturn:
    """End on a signal as on Ctrl-C, and let no further one disturb how it ends."""
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
