"""Slack's rate limits are for each workspace separately, and the bot waits separately."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.config.connection_settings import Transport
from tests.workspaces.hosting import ONE, TWO, Hosting

LONG = 240  # seconds: longer than the test waits


@pytest.mark.parametrize(
    "method", ["chat.postMessage", pytest.param("chat.update", marks=pytest.mark.long)]
)
def test_a_rate_limit_pauses_one_workspace_only(
    make_hosting: Callable[..., Hosting], method: str
) -> None:
    """Nothing is sent there during the pause, and the other workspace is not delayed.

    Both have the same ids, so the paused channel's id is in the other workspace as well.
    """
    hosting = make_hosting(Transport.SOCKET)
    hosting.start()
    for team in (ONE, TWO):
        hosting.install(team)
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    if method == "chat.update":  # the card is updated once it is decided
        waiting = one.ask("of one")
        one.card(waiting)
    with hosting.slack.faults.only(ONE):
        hosting.slack.faults.rate_limit(method, retry_after=LONG)
    before = len(hosting.slack.requests)

    def list_statuses(team: str) -> list[int]:
        seen = hosting.slack.requests[before:]
        return [each.status for each in seen if (each.team, each.method) == (team, method)]

    if method == "chat.update":
        one.approve(waiting)
    else:
        waiting = one.ask("of one")
    hosting.wait(lambda: list_statuses(ONE) == [429])
    thread = two.ask("of two")
    two.approve(thread)
    two.said(thread, "That is all.")
    two.settle()
    assert set(list_statuses(TWO)) == {200}
    assert list_statuses(ONE) == [429]
    hosting.clock.advance(LONG + 1)
    hosting.wait(lambda: list_statuses(ONE)[1:2] == [200])
    assert hosting.fakes.did("note", "of two") == 1
