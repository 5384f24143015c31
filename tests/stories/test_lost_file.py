"""The file is removed or replaced, or its disk is full, while the bot runs: nothing counts then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette")

from bot.demo.model_server import Turn
from tests.proof.crash.troubles import fill
from tests.proof.crash.world import can_mount, mount, unmount
from tests.records import new_record
from tests.storage.test_open_file import (
    emptied,
    moved_folder,
    removed,
    renamed,
    replaced_by_another,
    without_index,
    without_log,
)
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import press, waiting

pytestmark = pytest.mark.file


def ready(harness: Harness) -> tuple[int, str]:
    """What `/readyz` says."""
    web = harness.app.endpoints.web
    assert web is not None
    try:
        with urlopen(f"{web.url}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Where the record is: in a folder of its own, which is all that happens to it."""
    path = tmp_path / "record" / "countersign.db"
    path.parent.mkdir()
    return path


@pytest.fixture
def fakes() -> FakeTools:
    """The bot's tools."""
    return FakeTools()


@pytest.fixture
def made(
    own_harness: Callable[..., Harness],
    fakes: FakeTools,
    record: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Harness:
    """A bot with the record there, in a Slack that waits half a second."""
    monkeypatch.setattr("bot.http.http_side.DATABASE_CHECK_CACHE_SECONDS", 0.0)
    where = {"DATABASE_URL": new_record(record), "COUNTERSIGN_HTTP": "127.0.0.1:0"}
    harness = own_harness(fakes.tools, **where)
    harness.slack.world.ack_seconds = 0.5
    harness.slack.wait(lambda: ready(harness)[0] == 200)
    return harness


@pytest.mark.parametrize(
    "lose",
    [removed, renamed, moved_folder, replaced_by_another, emptied, without_log, without_index],
)
def test_no_click_counts_once_the_file_is_lost(
    made: Harness, fakes: FakeTools, record: Path, lose: Callable[[Path], None]
) -> None:
    """The click is not acknowledged, nothing runs, and `/readyz` says what to do."""
    card = made.card(SUPPORT, waiting(made, ("note", {"text": "unseen"})))
    made.settle()
    lose(record)
    sent = press(made, "ana", SUPPORT, card, "approve")
    made.slack.wait(lambda: sent.outcome != "pending")
    assert not sent.ok
    assert fakes.did("note", "unseen") == 0
    status, text = ready(made)
    assert status == 503
    assert "nothing is stored and nothing runs until" in text


@pytest.mark.parametrize("lose", [removed, replaced_by_another, without_log])
def test_no_approved_call_begins_once_the_file_is_lost(
    made: Harness,
    fakes: FakeTools,
    record: Path,
    lose: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is at work ends, and its result is kept in memory; the next call does not begin."""
    thread = waiting(made, ("slow", {"text": "one"}), ("note", {"text": "two"}))
    card = made.card(SUPPORT, thread)
    press(made, "ana", SUPPORT, card, "approve_all")
    assert fakes.entered.wait(20)
    lose(record)
    fakes.go_on.set()
    made.slack.wait(lambda: "its result (ToolSuccess) cannot be stored, and is kept" in caplog.text)
    assert fakes.did("slow", "one") == 1
    assert fakes.did("note", "two") == 0


def test_it_goes_on_once_the_file_is_put_back(
    made: Harness, fakes: FakeTools, record: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A result that was kept is stored then, the rest runs, and all is well again."""
    thread = waiting(made, ("slow", {"text": "one"}), ("note", {"text": "two"}))
    press(made, "ana", SUPPORT, made.card(SUPPORT, thread), "approve_all")
    assert fakes.entered.wait(20)
    renamed(record)
    fakes.go_on.set()
    made.slack.wait(lambda: "its result (ToolSuccess) cannot be stored, and is kept" in caplog.text)
    record.with_name("elsewhere.db").rename(record)
    made.planner.script(Turn(text="That is all."))
    made.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "two") == 1
    assert ready(made)[0] == 200


@pytest.fixture
def small_disk(record: Path) -> Iterator[Path]:
    """The record's folder is a small disk of its own."""
    if not can_mount(record.parent):
        pytest.skip("only root may mount a small disk")
    mount(record.parent)
    yield record.parent
    unmount(record.parent)


def test_a_full_disk_is_said(small_disk: Path, made: Harness) -> None:
    """A disk that is full, or nearly, is no disk to send work to; it goes on once there is room."""
    ballast = fill(small_disk)
    status, text = ready(made)
    assert status == 503
    assert "database: " in text
    with ballast.open("r+b") as file:  # room for a page or two, which is not enough for long
        file.truncate(ballast.stat().st_size - 20_000)
    assert "there is no free disk space beside it (No space left on device)" in ready(made)[1]
    ballast.unlink()
    assert ready(made)[0] == 200
