"""The log of a process for many workspaces: each line says which workspace it is about."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from bot.monitoring.logs import LogFormat, create_log_handler
from tests.workspaces.hosting import ONE, TWO, Hosting

SHARED_LOGGERS = (
    "countersign.workspaces",
    "countersign.http",
)  # about the process, or with the workspace in the text


@pytest.fixture
def lines() -> Iterator[Callable[[], list[str]]]:
    """A function that lists what this project has logged so far.

    Without the bots of other tests, which may still be at work in threads of their own.
    """
    written, root = io.StringIO(), logging.getLogger("countersign")
    handler, level = create_log_handler(LogFormat.TEXT, written), root.level
    others = {each.ident for each in threading.enumerate()} - {threading.get_ident()}
    handler.addFilter(lambda record: record.thread not in others)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: written.getvalue().splitlines()
    root.removeHandler(handler)
    root.setLevel(level)


def test_each_log_line_names_its_workspace(
    make_hosting: Callable[..., Hosting], lines: Callable[[], list[str]]
) -> None:
    """From the start of its app to its end, including work in the background."""
    hosting = make_hosting()
    hosting.start()
    for team in (ONE, TWO):
        hosting.install(team)
    two = hosting.workspace(TWO)
    two.start_app()
    two.settle()
    hosting.clock.advance(61)  # by now the look-ups are outdated
    with hosting.slack.faults.only(TWO):
        hosting.slack.faults.fail("*", "token_revoked", times=100)
        two.person("ana").open_home()
        hosting.wait(lambda: any("was not published" in each for each in lines()))
    two.stop_app()
    for part in ("is at work in", "look-up of", "was not published"):
        found = [each for each in lines() if part in each and TWO in each]
        assert found, part
    whose = [each for each in lines() if not any(f" {name} " in each for name in SHARED_LOGGERS)]
    assert [each for each in whose if f"[{ONE}] " not in each and f"[{TWO}] " not in each] == []
