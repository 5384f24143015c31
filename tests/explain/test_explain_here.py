"""What `countersign explain` says of here and now: the next days off."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.sandbox.server import Sandbox
from tests.explain.test_explain import BIG, folder, said, server, slack

__all__ = ["folder", "server", "slack"]


def test_the_next_days_off_are_said(
    slack: Sandbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holidays that business hours leave out are said by date and name, from that time on."""
    (folder / "policy.toml").write_text("""
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:00"
calendar = "DE-BY"
holidays = [2026-12-24]

[defaults]
approvers = ["@shop-leads"]
business_hours = true
""")
    text = said(capsys, f"{BIG} --as UBEN00001 --at 2026-12-20T12:00")
    assert (
        "09:00 to 17:00 in Europe/Berlin, but not 24 Dec 2026, 25 Dec 2026 (Christmas Day), "
        "1 Jan 2027 (New Year's Day) and so on, by the calendar DE-BY." in text
    )
