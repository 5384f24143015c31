"""Who is away: a look-up that fails or a crowd means nobody, and odd statuses mean nothing."""

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


def test_nobody_is_away_where_slack_is_silent() -> None:
    """Ana is away as long as Slack says so; where it says nothing, or of a crowd, nobody is."""
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


def test_it_is_over_at_its_time() -> None:
    """Who says until when is away before that moment, and not at it; who does not say, always."""
    noted = {ANA: AT.isoformat(), CLEO: ""}
    assert filter_people_still_away(noted, AT - timedelta(seconds=1)) == [(ANA, AT), (CLEO, None)]
    assert filter_people_still_away(noted, AT) == [(CLEO, None)]


@pytest.mark.parametrize("until", [None, "", "tomorrow", -1e30, 10**30, True, 0])
def test_an_odd_time_is_none(until: object) -> None:
    """Whatever stands in the place of the time at which a status ends, the person is read."""
    profile = {"status_emoji": ":palm_tree:", "status_expiration": until}
    found = build_person_from_slack_user(
        {"id": ANA, "team_id": TEAM, "name": "ana", "profile": profile}
    )
    assert (found.status, found.status_until) == ("palm_tree", None)
