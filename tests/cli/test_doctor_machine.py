"""What `countersign doctor` finds without Slack: database, disk, model, modules with tools."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bot.cli.doctor.check import Check
from bot.cli.doctor.checks import check_database, check_model, check_tools
from bot.config.settings import Settings
from bot.sandbox.openai.server import Planner


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a bot beside a local planner."""
    (tmp_path / "policy.toml").touch()
    with Planner() as planner:
        yield {
            "SLACK_BOT_TOKEN": "xoxb-unused",
            "SLACK_APP_TOKEN": "xapp-unused",
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": planner.url,
            "COUNTERSIGN_POLICY": str(tmp_path / "policy.toml"),
            "DATABASE_URL": f"sqlite:///{tmp_path / 'c.db'}",
        }


def database(environ: dict[str, str]) -> Check:
    """The look at the database alone."""
    return next(check_database(Settings.load(environ)))


def test_only_a_sound_database_passes(environ: dict[str, str], tmp_path: Path) -> None:
    """A sound file passes and stays as it was.

    A damaged or foreign file, or one that is held, fails.
    """
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE t (a); CREATE INDEX i ON t (a)")
        made.execute("INSERT INTO t VALUES (1)")
        made.commit()
    before = path.read_bytes()
    assert database(environ).level == "ok"
    assert path.read_bytes() == before

    damaged = bytearray(before)
    damaged[-64:] = b"\xff" * 64
    path.write_bytes(damaged)
    assert database(environ).level == "fail"
    path.write_text("this is no database" * 100)
    assert database(environ).level == "fail"
    missing = environ | {"DATABASE_URL": "sqlite:////proc/countersign/c.db"}
    assert "cannot be written" in database(missing).text


def test_a_nearly_full_disk_is_told(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is nearly full is told before it is."""
    levels = []
    for free in (10, 100, 5000):
        monkeypatch.setattr(
            shutil,
            "disk_usage",
            lambda _, free=free: shutil._ntuple_diskusage(0, 0, free * 1_000_000),
        )
        levels.append(list(check_database(Settings.load(environ)))[-1].level)
    assert levels == ["fail", "warn", "ok"]


def test_a_missing_model_is_told(environ: dict[str, str]) -> None:
    """A model that the server does not have is told with the settings to look at."""
    (found,) = check_model(Settings.load(environ | {"OPENAI_MODEL": "no such/model"}))
    assert found.level == "fail"
    assert "OPENAI_MODEL" in found.remedy


def test_modules_with_tools_must_be_importable(environ: dict[str, str]) -> None:
    """Modules with tools of one's own must be importable where the bot runs."""
    found = list(check_tools(Settings.load(environ | {"COUNTERSIGN_TOOLS": "json,no_such_module"})))
    assert [each.level for each in found] == ["ok", "fail"]
