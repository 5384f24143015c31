"""Surfaces added by another package: started, notified and stopped with the bot."""

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

LAMP_CODE = next(
    each for each in blocks(ROOT / "docs" / "extending.md", "python") if "class Lamp" in each
)
ENTRY_POINT_GROUP = "countersign.surfaces"


def test_the_documented_lamp_is_on_while_a_call_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_harness: Callable[..., Harness]
) -> None:
    """It is the surface in docs/extending.md, which writes into the current folder."""
    monkeypatch.chdir(tmp_path)
    add_package(
        monkeypatch, tmp_path, "desk_lamp", LAMP_CODE, {ENTRY_POINT_GROUP: "lamp = desk_lamp:Lamp"}
    )
    harness = own_harness(FakeTools().tools)
    lamp = tmp_path / "lamp.txt"
    thread = ask(harness, ("note", {"text": "by lamplight"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.wait(lambda: lamp.exists() and lamp.read_text() == "on")
    reject(harness, "ana", SUPPORT, card, "no")
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
    harness.slack.wait(lambda: lamp.read_text() == "off")


def test_a_surface_that_fails_to_stop_does_not_block_the_bot(
    own_harness: Callable[..., Harness],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says which one it was."""
    code = (
        "class Lamp:\n"
        "    def __init__(self, host): ...\n"
        "    def start(self): ...\n"
        "    def stop(self): raise OSError('stuck')\n"
    )
    add_package(
        monkeypatch, tmp_path, "stuck_lamp", code, {ENTRY_POINT_GROUP: "lamp = stuck_lamp:Lamp"}
    )
    harness = own_harness()
    harness.app.stop()
    assert "the surface lamp could not be stopped" in caplog.text
    monkeypatch.undo()
    harness.start()
