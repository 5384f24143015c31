"""A surface of another package: found, told what goes on, stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.states import RunStatus
from tests.added_package import add_package
from tests.pages import ROOT, blocks
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, reject

LAMP = next(
    each for each in blocks(ROOT / "docs" / "extending.md", "python") if "class Lamp" in each
)
GROUP = "countersign.surfaces"


def test_the_lamp_of_the_page_burns_while_people_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_harness: Callable[..., Harness]
) -> None:
    """The surface of docs/extending.md is started with the bot and hears what goes on.

    The bot ends before the folder is left: the lamp writes where it is.
    """
    monkeypatch.chdir(tmp_path)
    add_package(monkeypatch, tmp_path, "desk_lamp", LAMP, {GROUP: "lamp = desk_lamp:Lamp"})
    harness = own_harness(FakeTools().tools)
    lamp = tmp_path / "lamp.txt"
    thread = ask(harness, ("note", {"text": "by lamplight"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.wait(lambda: lamp.exists() and lamp.read_text() == "on")
    reject(harness, "ana", SUPPORT, card, "no")
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
    harness.slack.wait(lambda: lamp.read_text() == "off")


def test_one_that_does_not_stop_keeps_nobody(
    own_harness: Callable[..., Harness],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says which it was, and the others are stopped all the same."""
    code = (
        "class Lamp:\n"
        "    def __init__(self, host): ...\n"
        "    def start(self): ...\n"
        "    def stop(self): raise OSError('stuck')\n"
    )
    add_package(monkeypatch, tmp_path, "stuck_lamp", code, {GROUP: "lamp = stuck_lamp:Lamp"})
    harness = own_harness()
    harness.app.stop()
    assert "the surface lamp could not be stopped" in caplog.text
    monkeypatch.undo()
    harness.start()
