"""A local Slack for the checks of policies, the settings of a bot on it, and a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.settings import Settings
from countersign.cli.commands import main
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack
from tests.runs.harness import LoopHarness, approved


@pytest.fixture(scope="module")
def slack() -> Iterator[Sandbox]:
    """A local Slack for all tests of a module."""
    with build_local_slack() as server:
        yield server


@pytest.fixture
def settings(slack: Sandbox, tmp_path: Path) -> Settings:
    """The settings of a bot with the shop's tools."""
    (tmp_path / "policy.toml").touch()
    return Settings.load(
        {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "offline",
            "COUNTERSIGN_POLICY": str(tmp_path / "policy.toml"),
            "DATABASE_URL": f"sqlite:///{tmp_path / 'c.db'}",
            "COUNTERSIGN_SHOP": str(tmp_path / "shop.db"),
        }
    )


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of one call that was approved and run by a bot that has stopped."""
    path = tmp_path / "countersign.db"
    harness = approved(path)
    harness.work()
    harness.stop()
    (tmp_path / "policy.toml").write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "COUNTERSIGN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COUNTERSIGN_POLICY", "policy.toml")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return path


@pytest.fixture
def backup(record: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A backup of the record, to which one more request was added afterwards."""
    path = record.with_name("b.db")
    assert main(["backup", str(path)]) == 0
    harness = LoopHarness(record)
    harness.number = 10  # so that its messages differ from those of the first start
    harness.say("and then", thread="2.0")
    harness.loop.tick()
    harness.stop()
    capsys.readouterr()
    return path
