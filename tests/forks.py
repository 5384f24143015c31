"""`--forks 4`: the tests on so many processes, each forked once everything is collected.

Processes that start by themselves would each import and collect all of it: a fifth of the whole.
Whoever is free takes the next file, the last of the list first: those take longest.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

from tests.new_database import migrated

FORK = get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="on how many processes the tests run")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests on forked processes, if that is asked for."""
    count = session.config.option.forks
    if not count or session.testsfailed or session.config.option.collectonly:
        return None  # pytest runs them itself, or says why it does not
    migrated()  # made before the processes part, so that all use the same
    assert threading.active_count() == 1, "a process with threads cannot be forked safely"
    files = [list(each) for _, each in groupby(session.items, lambda item: item.path)]
    read, write = os.pipe()
    os.write(write, b"".join(number.to_bytes(2) for number in reversed(range(len(files)))))
    os.close(write)
    forks = [Fork(session, files, read, number) for number in range(count)]
    try:
        listen(session, {fork.reports: fork for fork in forks})
    finally:
        os.close(read)
        for fork in forks:
            fork.end()
    return True


def listen(session: pytest.Session, open_ones: dict[Connection, Fork]) -> None:
    """Hand what the processes report to pytest, until all have said that they are done."""
    while open_ones:
        for each in wait(list(open_ones)):
            assert isinstance(each, Connection)
            try:
                hook, values = each.recv()
            except EOFError:
                pytest.exit(f"a process of the tests died after {open_ones[each].last}", 1)
            if hook == "done":
                del open_ones[each]
            elif hook == "report":
                open_ones[each].last = values["nodeid"]
                report = session.config.hook.pytest_report_from_serializable(
                    config=session.config, data=values
                )
                session.config.hook.pytest_runtest_logreport(report=report)
            else:
                session.config.hook.pytest_warning_recorded.call_historic(kwargs=values)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)


class Fork:
    """One process: takes files from the queue, runs their tests, sends what came of them."""

    def __init__(
        self, session: pytest.Session, files: list[list[pytest.Item]], queue: int, number: int
    ) -> None:
        self.session, self.files, self.queue, self.number = session, files, queue, number
        self.last = "its start"  # the test it reported last
        self.reports, self._sending = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=self._run)
        self._process.start()
        self._sending.close()

    def end(self) -> None:
        """Wait for its end; at once, if it has not said that it is done."""
        self._process.join(5)
        self._process.kill()
        self._process.join()

    def _run(self) -> None:
        config = self.session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its file is the one of the process before
        capture.start_global_capturing()
        folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]  # not public
        folders._basetemp = folders.mktemp(f"fork{self.number}", numbered=False)
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(self)
        items = self._items()
        item = next(items, None)
        while item:
            following = next(items, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        self._sending.send(("done", {}))

    def _items(self) -> Iterator[pytest.Item]:
        while number := os.read(self.queue, 2):
            yield from self.files[int.from_bytes(number)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send what came of a test."""
        config = self.session.config
        values = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._sending.send(("report", values))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        """Send a warning, its class by name."""
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        told = warnings.WarningMessage(
            UserWarning(text), UserWarning, warning_message.filename, warning_message.lineno
        )
        values = {"warning_message": told, "when": when, "nodeid": nodeid, "location": None}
        self._sending.send(("warning", values))
