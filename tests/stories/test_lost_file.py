"""The database's file is removed or replaced, or its disk is full, while the bot runs."""

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


def read_readiness(harness: Harness) -> tuple[int, str]:
    """The status and text of `/readyz`."""
    web = harness.app.endpoints.web
    assert web is not None
    try:
        with urlopen(f"{web.url}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The database's path, in a folder of its own."""
    path = tmp_path / "record" / "countersign.db"
    path.parent.mkdir()
    return path


@pytest.fixture
def fakes() -> FakeTools:
    """The bot's tools."""
    return FakeTools()


@pytest.fixture
def file_harness(
    own_harness: Callable[..., Harness],
    fakes: FakeTools,
    record: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Harness:
    """A bot with its database there, in a Slack that waits half a second for acknowledgements."""
    monkeypatch.setattr("bot.http.http_side.DATABASE_CHECK_CACHE_SECONDS", 0.0)
    where = {"DATABASE_URL": new_record(record), "COUNTERSIGN_HTTP": "127.0.0.1:0"}
    harness = own_harness(fakes.tools, **where)
    harness.slack.world.ack_seconds = 0.5
    harness.slack.wait(lambda: read_readiness(harness)[0] == 200)
    return harness


@pytest.mark.parametrize(
    "lose",
    [removed, renamed, moved_folder, replaced_by_another, emptied, without_log, without_index],
)
def test_no_click_counts_once_the_file_is_lost(
    file_harness: Harness, fakes: FakeTools, record: Path, lose: Callable[[Path], None]
) -> None:
    """It is not acknowledged, nothing runs, and `/readyz` says what to do."""
    card = file_harness.card(SUPPORT, waiting(file_harness, ("note", {"text": "unseen"})))
    file_harness.settle()
    lose(record)
    sent = press(file_harness, "ana", SUPPORT, card, "approve")
    file_harness.slack.wait(lambda: sent.outcome != "pending")
    assert not sent.ok
    assert fakes.did("note", "unseen") == 0
    status, text = read_readiness(file_harness)
    assert status == 503
    assert "nothing is stored and nothing runs until" in text


@pytest.mark.parametrize("lose", [removed, replaced_by_another, without_log])
def test_no_approved_call_begins_once_the_file_is_lost(
    file_harness: Harness,
    fakes: FakeTools,
    record: Path,
    lose: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A running call ends, and its result is kept in memory."""
    thread = waiting(file_harness, ("slow", {"text": "one"}), ("note", {"text": "two"}))
    card = file_harness.card(SUPPORT, thread)
    press(file_harness, "ana", SUPPORT, card, "approve_all")
    assert fakes.entered.wait(20)
    lose(record)
    fakes.go_on.set()
    file_harness.slack.wait(
        lambda: "its result (ToolSuccess) cannot be stored, and is kept" in caplog.text
    )
    assert fakes.did("slow", "one") == 1
    assert fakes.did("note", "two") == 0


def test_the_plan_goes_on_once_the_file_is_put_back(
    file_harness: Harness, fakes: FakeTools, record: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kept result is stored, and the rest runs."""
    thread = waiting(file_harness, ("slow", {"text": "one"}), ("note", {"text": "two"}))
    press(file_harness, "ana", SUPPORT, file_harness.card(SUPPORT, thread), "approve_all")
    assert fakes.entered.wait(20)
    renamed(record)
    fakes.go_on.set()
    file_harness.slack.wait(
        lambda: "its result (ToolSuccess) cannot be stored, and is kept" in caplog.text
    )
    record.with_name("elsewhere.db").rename(record)
    file_harness.planner.script(Turn(text="That is all."))
    file_harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "two") == 1
    assert read_readiness(file_harness)[0] == 200


@pytest.fixture
def small_disk(record: Path) -> Iterator[Path]:
    """The record's folder is a small disk of its own."""
    if not can_mount(record.parent):
        pytest.skip("only root may mount a small disk")
    mount(record.parent)
    yield record.parent
    unmount(record.parent)


def test_the_bot_is_unready_while_its_disk_is_full(small_disk: Path, file_harness: Harness) -> None:
    """Nearly full counts as full. Once there is room, the bot is ready again."""
    ballast = fill(small_disk)
    status, text = read_readiness(file_harness)
    assert status == 503
    assert "database: " in text
    with ballast.open("r+b") as file:  # make room for a page or two
        file.truncate(ballast.stat().st_size - 20_000)
    assert (
        "there is no free disk space beside it (No space left on device)"
        in read_readiness(file_harness)[1]
    )
    ballast.unlink()
    assert read_readiness(file_harness)[0] == 200
