"""The command that a job runs once people have approved it, with the values as they approved them.

No shell sees a value: each is an argument, or a part of one, as it is; unless who wrote the command
said otherwise.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from countersign.cli.code_places import PLACE, read_as_code
from countersign.cli.console import UsageError

ALL = "COUNTERSIGN_ARGUMENTS"  # the environment variable in which the command finds all values


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A command with places for values: {name}."""

    words: tuple[str, ...]
    is_unsafe: bool = False  # who wrote it answers for what a value does in it

    def __str__(self) -> str:
        return shlex.join(self.words)

    def insist(self, names: Collection[str]) -> None:
        """Raise UsageError where it cannot be run with values of these names."""
        if not self.words:
            raise UsageError("behind -- stands the command that is to be run")
        for place in PLACE.findall(" ".join(self.words)):
            if place not in names:
                raise UsageError(f"{{{place}}} is none of the values that people approve")
        code = None if self.is_unsafe else next(read_as_code(self.words), None)
        if code is not None:
            raise UsageError(
                f"a shell or a program might read a value as code in {code!r};"
                """ hand it on as an argument: sh -c './deploy.sh "$1"' sh {env}"""
                " (or say --unsafe-template)"
            )
        first = self.words[0]
        if PLACE.search(first):
            raise UsageError("which command it is stands fixed, and is no value")
        if not shutil.which(first):
            raise UsageError(f"there is no command {first}")

    def filled(self, values: Mapping[str, Any]) -> list[str]:
        """The words with the values in their places; KeyError for one that is not there."""
        return [PLACE.sub(lambda found: _text(values[found.group(1)]), each) for each in self.words]


def run_command(words: Sequence[str], values: Mapping[str, Any]) -> int:
    """Run it to its end, and return its exit code; -15 where signal 15 ended it.

    Raises OSError and ValueError where it cannot be started.
    """
    environment = {**os.environ, ALL: json.dumps(values)}
    child = subprocess.Popen(words, env=environment)  # noqa: S603 # what people have approved
    with child, _passed_on_to(child):
        return child.wait()


@contextmanager
def _passed_on_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have SIGTERM end the command, and not the wait for it; Ctrl-C reaches both by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        signal.SIGTERM: lambda *_: child.send_signal(signal.SIGTERM),
        signal.SIGINT: lambda *_: None,
    }
    before = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
