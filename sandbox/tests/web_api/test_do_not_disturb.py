"""dnd.teamInfo: people who paused notifications or are in their do-not-disturb hours."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient

from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

ANA, BEN, BOT = "UANA00001", "UBEN00001", "UBOT00001"
NEVER = {"dnd_enabled": False, "next_dnd_start_ts": 1, "next_dnd_end_ts": 1}
DAY = 86_400


def get_team_info(client: WebClient, *users: str) -> Any:
    """The do-not-disturb data of these people."""
    return client.dnd_teamInfo(users=list(users))["users"]


def test_a_pause_is_shown_until_it_ends(sandbox: Sandbox, client: WebClient) -> None:
    """A pause is shown as hours that have begun; other people have none."""
    now = int(sandbox.world.now())
    sandbox.person("ana").set_do_not_disturb(until=now + 600)
    paused = {"dnd_enabled": True, "next_dnd_start_ts": now, "next_dnd_end_ts": now + 600}
    assert get_team_info(client, ANA, BEN, BOT) == {ANA: paused, BEN: NEVER, BOT: NEVER}
    sandbox.clock.advance(601)
    assert get_team_info(client, ANA) == {ANA: NEVER}
    sandbox.person("ana").set_do_not_disturb(until=now + 7200)
    sandbox.person("ana").set_do_not_disturb()
    assert get_team_info(client, ANA) == {ANA: NEVER}


@pytest.mark.parametrize(
    ("hours", "begins", "ends"),
    [("22:00-07:00", 22, 31), ("00:30-01:00", 0.5, 1), ("12:00-13:00", 12, 13)],
)
def test_hours_are_those_of_a_persons_zone(
    sandbox: Sandbox, client: WebClient, hours: str, begins: float, ends: float
) -> None:
    """The current hours are shown, else the next; in Berlin an hour earlier than in Greenwich."""
    sandbox.person("ana").set_do_not_disturb(hours=hours)
    for _ in range(8):
        now = sandbox.world.now()
        found = get_team_info(client, ANA)[ANA]
        start, end = found["next_dnd_start_ts"], found["next_dnd_end_ts"]
        assert found["dnd_enabled"]
        assert (start + 3600) % DAY == begins * 3600
        assert end - start == (ends - begins) * 3600
        assert now < end <= now + DAY + (ends - begins) * 3600
        sandbox.clock.advance(4 * 3600)


@pytest.mark.parametrize(
    ("users", "error"),
    [
        ("", "no_users_provided"),
        ("UNOBODY01", "user_not_visible"),
        ("UANA00001,UNOBODY01", "user_not_visible"),
        (",".join([ANA] * 51), "invalid_arguments"),
    ],
)
def test_wrong_lists_of_people_are_refused(client: WebClient, users: str, error: str) -> None:
    """No people, an unknown person among others, and more than fifty."""
    assert refused(client, "dnd.teamInfo", users=users) == error


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"until": 1}, "ends in the future"),
        ({"hours": "9-17"}, "write them as 22:00-07:00"),
        ({"hours": "24:00-07:00"}, "write them as 22:00-07:00"),
        ({"hours": "09:00-09:00"}, "must not end"),
    ],
)
def test_impossible_pauses_and_hours_are_refused(
    sandbox: Sandbox, given: dict[str, Any], why: str
) -> None:
    """A pause that ends in the past, and impossible hours."""
    with pytest.raises(ValueError, match=why):
        sandbox.person("ana").set_do_not_disturb(**given)
