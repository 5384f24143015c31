"""The local Slack that the checks of a policy share, the settings of a bot on it, and a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.settings import Settings
from bot.sandbox.server import Sandbox
from tests.runs.harness import approved


@pytest.fixture(scope="module")
def slack() -> Iterator[Sandbox]:
    """One local Slack for all."""
    with Sandbox() as server:
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
    """The record of one call that was approved and run; the bot has ended."""
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
