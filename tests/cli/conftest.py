"""The local Slack that the checks of a policy share, and the settings of a bot on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config.settings import Settings
from bot.sandbox.server import Sandbox


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
