"""Who is away: a failed look-up or a crowd means nobody, and odd statuses mean nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.approvals.card_routing import (
    MAX_PEOPLE_CHECKED_FOR_ABSENCE,
    filter_people_still_away,
    list_away_people,
)
from bot.policy.authority import Authority
from bot.slack.lookups import build_person_from_slack_user
from tests.runs.fakes import ANA, CLEO, TEAM, FakeDirectory

AT = datetime(2026, 11, 2, 12, tzinfo=UTC)


def test_people_are_away_only_while_slack_says_so() -> None:
    """Nobody is if Slack cannot be asked, or if there are too many people to ask about."""
    directory = FakeDirectory()
    authority = Authority(directory, TEAM)
    directory.known[ANA] = replace(directory.known[ANA], status="palm_tree", status_until=AT)
    assert list_away_people(authority, {ANA, CLEO}) == ((ANA, AT.isoformat()),)
    assert (
        list_away_people(
            authority, {ANA, *(f"UCROWD{n}" for n in range(MAX_PEOPLE_CHECKED_FOR_ABSENCE))}
        )
        == ()
    )
    directory.down = True
    assert list_away_people(authority, {ANA, CLEO}) == ()


def test_an_absence_ends_at_its_stated_time() -> None:
    """One without an end goes on."""
    noted = {ANA: AT.isoformat(), CLEO: ""}
    assert filter_people_still_away(noted, AT - timedelta(seconds=1)) == [(ANA, AT), (CLEO, None)]
    assert filter_people_still_away(noted, AT) == [(CLEO, None)]


@pytest.mark.parametrize("until", [None, "", "tomorrow", -1e30, 10**30, True, 0])
def test_an_odd_end_of_a_status_is_read_as_none(until: object) -> None:
    """The person can still be looked up."""
    profile = {"status_emoji": ":palm_tree:", "status_expiration": until}
    found = build_person_from_slack_user(
        {"id": ANA, "team_id": TEAM, "name": "ana", "profile": profile}
    )
    assert (found.status, found.status_until) == ("palm_tree", None)
