"""A pytest session that collects once, learns which tests reach which code, and tries changes.

Each change is planted in a fork of its own, which runs the tests that reach the changed function,
the quickest first, until one fails.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.proof.mutants.changes import Change
from tests.proof.mutants.planting import (
    find_functions_in,
    list_assigned_names,
    list_dependent_constants,
    list_used_names,
    plant,
)

PATIENCE = 8.0  # seconds beyond the time of the tests
CAUGHT, SURVIVED, NO_MUTANT, HUNG, UNTESTED = "caught", "survived", "no mutant", "hung", "untested"
PROFILE = "mutants"  # random values are not shrunk, nor stored
settings.register_profile(
    PROFILE, max_examples=15, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
Place = tuple[str, int]  # a file, and the line where a function begins


@dataclass
class CoverageMap:
    """Which tests reach a function, and how long each takes."""

    through: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class TrialResult:
    """The result of one change."""

    path: str
    line: int
    what: str
    end: str
    by: str = ""


class Session:
    """The plugin."""

    def __init__(self, root: Path, chosen: Sequence[Change], until: float, most: float) -> None:
        """Try the `chosen` changes in order until that moment of the monotonic clock, each with
        tests that take `most` seconds together.
        """
        self._root, self._chosen, self._until, self._most = root, chosen, until, most
        self._known_functions: list[FunctionType] = []
        self.tried: list[TrialResult] = []
        self.coverage = CoverageMap()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replaces pytest's own loop."""
        items = {item.nodeid: item for item in session.items}
        settings.load_profile(PROFILE)
        for path in {each.path for each in self._chosen}:
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        self._known_functions = find_functions_in(
            {str(self._root / each.path) for each in self._chosen}
        )
        gc.collect()
        gc.freeze()
        self._learn(list(items.values()))
        for change in self._chosen:
            if time.monotonic() > self._until:
                break
            self.tried.append(self._try(change, items))
            if self.tried[-1].end != CAUGHT:
                _print_line(json.dumps(vars(self.tried[-1])))
        return True

    def _learn(self, items: list[pytest.Item]) -> None:
        """Run all tests once in a fork, and note which functions of the modules they enter."""
        names = {str(self._root / each.path) for each in self._chosen}
        with tempfile.NamedTemporaryFile("r") as told:
            child = os.fork()
            if not child:
                _run_learning_child(items, names, told.name)
            os.waitpid(child, 0)
            for line in told:
                found = json.loads(line)
                self.coverage.seconds[found["test"]] = found["seconds"]
                for path, first in found["through"]:
                    self.coverage.through[path, first].append(found["test"])
        _even_out_seconds(self.coverage.seconds)
        _print_line(f"{len(items)} tests, {sum(self.coverage.seconds.values()):.0f} s")

    def _try(self, change: Change, items: dict[str, pytest.Item]) -> TrialResult:
        tests = list(self._tests_of(change))
        told = TrialResult(change.path, change.line, change.what, UNTESTED)
        if not tests:
            return told
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            _run_trial_child(
                change, self._known_functions, [items[each] for each in tests], writing
            )
        os.close(writing)
        patience = PATIENCE + 2 * sum(self.coverage.seconds[each] for each in tests)
        ready, _, _ = select.select([reading], [], [], patience)
        text = os.read(reading, 4096).decode() if ready else HUNG
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told.end, _, told.by = (text or CAUGHT).partition("\n")
        return told

    def _tests_of(self, change: Change) -> Iterator[str]:
        """The tests that reach the changed code, as many as there is time for: the quickest of
        them, file by file, since fixtures of a file are made once. For a constant, those
        that reach its users, or all.
        """
        path, seconds = str(self._root / change.path), self.coverage.seconds
        begins = _list_changed_first_lines(change)
        found = {test for first in begins for test in self.coverage.through.get((path, first), ())}
        if not begins:
            found = set(seconds)
        left, taken = self._most, defaultdict[str, list[str]](list)
        for test in sorted(found, key=lambda each: seconds[each]):
            left -= seconds[test]
            if left < 0 and taken:
                break
            taken[test.partition("::")[0]].append(test)
        for tests in taken.values():
            yield from tests


def _list_changed_first_lines(change: Change) -> set[int]:
    """The first lines of the functions to be reached: the innermost changed one, or the users of
    the constant.
    """
    top = change.tree.body[change.top]
    if isinstance(top, ast.Assign | ast.AnnAssign):
        made = set().union(
            *(
                list_assigned_names(each)
                for each in list_dependent_constants(change.tree, change.top)
            )
        )
        return {
            _get_first_line(each)
            for each in _list_functions(change.tree)
            if made & list_used_names(each)
        }
    around = [
        each
        for each in _list_functions(top)
        if each.lineno <= change.line <= (each.end_lineno or each.lineno)
    ]
    return {max(_get_first_line(each) for each in around)} if around else set()


def _list_functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]


def _get_first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _even_out_seconds(seconds: dict[str, float]) -> None:
    """The first test of each file makes what all use: give it the time of the others."""
    files = defaultdict[str, list[str]](list)
    for test in seconds:
        files[test.partition("::")[0]].append(test)
    for first, *others in files.values():
        if others:
            seconds[first] = min(seconds[first], median(seconds[each] for each in others))


def _print_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _run_test(items: Sequence[pytest.Item], number: int) -> bool:
    """Run one of the tests; return whether it passed or was skipped."""
    following = items[number + 1] if number + 1 < len(items) else None
    reports = runtestprotocol(items[number], nextitem=following, log=False)
    return not any(each.failed for each in reports)


def _run_learning_child(items: list[pytest.Item], names: set[str], told: str) -> None:
    through: set[Place] = set()
    known: dict[CodeType, bool] = {}

    def entered(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if known.setdefault(code, code.co_filename in names):
            through.add((code.co_filename, code.co_firstlineno))

    with open(told, "w") as file:
        for number, item in enumerate(items):
            through.clear()
            threading.settrace(entered)
            sys.settrace(entered)
            begun = time.monotonic()
            passed = _run_test(items, number)
            seconds = time.monotonic() - begun
            sys.settrace(None)
            if passed:
                found = {"test": item.nodeid, "seconds": seconds, "through": sorted(through)}
                file.write(json.dumps(found) + "\n")
                file.flush()
    os._exit(0)


def _run_trial_child(
    change: Change, functions: list[FunctionType], items: list[pytest.Item], told: int
) -> None:
    os.setpgid(0, 0)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        if not plant(change, functions):
            os.write(told, NO_MUTANT.encode())
            os._exit(0)
        for number, item in enumerate(items):
            if not _run_test(items, number):
                os.write(told, f"{CAUGHT}\n{item.nodeid}".encode())
                os._exit(0)
    except BaseException:  # noqa: BLE001  # whatever it is, the change was noticed
        os.write(told, CAUGHT.encode())
        os._exit(0)
    os.write(told, SURVIVED.encode())
    os._exit(0)
