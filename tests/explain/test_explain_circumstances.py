"""`countersign explain` on circumstances: days off, a channel's mode, people away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from slack_sandbox.server import Sandbox
from storage import channel_modes
from storage.states import ChannelMode
from tests.explain.test_explain import BIG, folder, run_explain, server, slack
from tests.records import settings_of, store_of

__all__ = ["folder", "server", "slack"]


def test_the_next_days_off_are_listed(
    slack: Sandbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Business hours leave them out; each has its date and name."""
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
    text = run_explain(capsys, f"{BIG} --as UBEN00001 --at 2026-12-20T12:00")
    assert (
        "09:00 to 17:00 in Europe/Berlin, but not 24 Dec 2026, 25 Dec 2026 (Christmas Day), "
        "1 Jan 2027 (New Year's Day) and so on, by the calendar DE-BY." in text
    )


def test_the_mode_of_a_channel_is_explained(
    slack: Sandbox,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read from the record."""
    for name, value in settings_of(folder / "countersign.db").items():
        monkeypatch.setenv(name, value)
    store = store_of(folder / "countersign.db").open()
    with store.write() as tx:
        at = datetime(2026, 11, 2, 12, tzinfo=UTC)
        channel_modes.switch_mode(
            tx, "T0SANDBOX", "C0SUPPORT", ChannelMode.OBSERVE, "UBEN00001", at=at
        )
    store.close()
    text = run_explain(capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT")
    assert "But observe mode applies here, and it is refused" in text
    assert "Who decides" not in text
    assert "Yet" not in run_explain(capsys, f"{BIG} --as UBEN00001 --in C0FINANCE")


def test_approvers_who_are_away_are_marked(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their Slack status; they still count."""
    ana = slack.person("ana")
    ana.set_status(":palm_tree:")
    try:
        text = run_explain(capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT")
    finally:
        ana.set_status()
    assert "(now: Ana Ruiz (UANA00001) [away], Cleo Martin (UCLEO0001))" in text
    assert "2 different people" in text
