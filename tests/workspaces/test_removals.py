"""Slack's events about uninstalling and access, and the deletion of data after them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from bot.workspaces import removals
from bot.workspaces.removals import empty_removed_workspaces
from storage.installations import InstallationRecord
from storage.states import InstallationState
from tests.workspaces.builders import AT, DAY, HOUR, MINUTE, ORG, TEAM, installed
from tests.workspaces.installing import Site

ACTIVE, PAUSED, REMOVED = InstallationState
SECOND = MINUTE / 60
UNINSTALLED = {"type": "app_uninstalled"}


def build_event(said: dict[str, Any], at: datetime = AT, **more: Any) -> dict[str, Any]:
    """Build a delivery of Slack's."""
    usual = {"type": "event_callback", "team_id": TEAM, "event_time": int(at.timestamp())}
    return {**usual, "event": said, "authorizations": [], **more}


def build_revocation(*bots: str, people: tuple[str, ...] = ()) -> dict[str, Any]:
    """Build the event that tokens of these bots and people are no longer valid."""
    return {"type": "tokens_revoked", "tokens": {"oauth": [*people], "bot": [*bots]}}


def apply_installation_event(
    record: InstallationRecord, said: dict[str, Any], now: datetime, *, void: bool = True
) -> str | None:
    """Apply an event to the record; `void`: whether Slack refuses the token when asked."""
    return removals.apply_installation_event(record, said, now, lambda _: void)


def read_state(record: InstallationRecord, workspace: str = TEAM) -> InstallationState:
    """Read the state of an installation."""
    row = record.get(workspace)
    assert row is not None
    return row.state


def test_slacks_two_events_of_an_uninstall_remove_it_once(site: Site) -> None:
    """The second event changes nothing, nor do both after the bot is installed again."""
    row = site.install()
    begun = len(site.slack.deliveries)
    site.clock.advance(60)
    site.slack.uninstall()
    events = [each.payload for each in site.slack.deliveries[begun:]]
    assert {each["event"]["type"] for each in events} == {"tokens_revoked", "app_uninstalled"}
    now = site.clock.now()
    changed = [apply_installation_event(site.record, each, now) for each in events]
    assert changed == [row.workspace, None]
    assert read_state(site.record, row.workspace) is REMOVED
    site.clock.advance(1)
    again = site.install()
    changed = [apply_installation_event(site.record, each, now, void=False) for each in events]
    assert changed == [None, None]
    assert (again.state, read_state(site.record, row.workspace)) == (ACTIVE, ACTIVE)


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (UNINSTALLED, REMOVED),
        (build_revocation("U0BOT"), REMOVED),
        (build_revocation("U0ANOTHER"), ACTIVE),
        (build_revocation(people=("U0BOT",)), ACTIVE),
        ({"type": "app_home_opened"}, ACTIVE),
    ],
)
def test_only_events_about_the_bots_own_token_remove_it(
    record: InstallationRecord, said: dict[str, Any], result: InstallationState
) -> None:
    """They remove it only in the workspace that they are about."""
    for workspace in (TEAM, "T0OTHER"):
        record.insert_or_update_installation(installed(workspace))
    changed = apply_installation_event(record, build_event(said), AT + HOUR)
    assert changed == (TEAM if result is REMOVED else None)
    assert (read_state(record), read_state(record, "T0OTHER")) == (result, ACTIVE)
    assert apply_installation_event(record, build_event(said, team_id="T0STRANGER"), AT) is None


def test_a_late_event_does_not_remove_a_new_installation(record: InstallationRecord) -> None:
    """It was sent before the bot was installed again. Where the times do not tell, it matters
    whether the token is valid.
    """
    record.insert_or_update_installation(installed(installed_at=AT + MINUTE))
    assert apply_installation_event(record, build_event(UNINSTALLED, AT), AT + HOUR) is None
    for moment in (AT + MINUTE - SECOND, AT + MINUTE, AT + MINUTE + SECOND):
        close = build_event(UNINSTALLED, moment)
        assert apply_installation_event(record, close, AT + HOUR, void=False) is None
    assert read_state(record) is ACTIVE
    assert apply_installation_event(record, close, AT + HOUR) == TEAM


def test_access_of_an_organisations_workspaces_comes_and_goes(record: InstallationRecord) -> None:
    """Only an event about the organisation itself removes its installation."""
    record.insert_or_update_installation(installed(ORG, is_org_wide=True, enterprise=ORG))
    record.insert_or_update_installation(installed("T2", enterprise=ORG))
    org = {"enterprise_id": ORG}
    granted = {"type": "team_access_granted", "team_ids": ["T1", "T2"]}
    assert apply_installation_event(record, build_event(granted, **org), AT) == ORG
    assert record.find_workspace_of("T1", ORG) == ORG
    taken = {"type": "team_access_revoked", "team_ids": ["T1"]}
    assert apply_installation_event(record, build_event(taken, **org), AT) == ORG
    assert record.find_workspace_of("T1", ORG) is None
    # one of its workspaces had installed the bot itself
    assert (
        apply_installation_event(record, build_event(UNINSTALLED, team_id="T2", **org), AT) == "T2"
    )
    assert read_state(record, ORG) is ACTIVE
    assert record.find_workspace_of("T2", ORG) == ORG
    said = build_event(UNINSTALLED, team_id=None, **org)
    assert apply_installation_event(record, said, AT) == ORG
    assert record.find_workspace_of("T2", ORG) is None
    assert (
        apply_installation_event(record, build_event(granted, enterprise_id="E0OTHER"), AT) is None
    )


def test_data_is_deleted_thirty_days_after_a_removal(
    record: InstallationRecord, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not earlier, and not if it was installed again. Failures are tried again."""
    for workspace in ("T1", "T2", "T3", "T4"):
        record.insert_or_update_installation(installed(workspace))
        (tmp_path / workspace).mkdir()
    for workspace in ("T1", "T2", "T3"):
        record.set_state(workspace, REMOVED, AT)
    record.insert_or_update_installation(installed("T2"))
    (tmp_path / "T3").rmdir()

    def delete(workspace: str) -> None:
        rmtree(tmp_path / workspace)

    empty_removed_workspaces(record, AT + 30 * DAY, 30, delete)
    assert (tmp_path / "T1").exists()
    later = AT + 30 * DAY + MINUTE
    empty_removed_workspaces(record, later, 30, delete)
    assert "workspace T3: its data could not be deleted" in caplog.text
    assert not (tmp_path / "T1").exists()
    assert (tmp_path / "T2").exists()
    assert [each.workspace for each in record.list()] == ["T2", "T3", "T4"]
    (tmp_path / "T3").mkdir()
    empty_removed_workspaces(record, later, 30, delete)
    empty_removed_workspaces(record, later, 0, delete)
    assert [each.workspace for each in record.list()] == ["T2", "T4"]
    assert not (tmp_path / "T3").exists()
