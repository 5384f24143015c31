"""Slack counts what an app asks for in each workspace by itself; so does the bot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.config.connection_settings import Transport
from tests.workspaces.hosting import ONE, TWO, Hosting

LONG = 240  # seconds: by then, the pause would be over if time passed by itself


@pytest.mark.parametrize(
    "method", ["chat.postMessage", pytest.param("chat.update", marks=pytest.mark.long)]
)
def test_a_pause_is_for_one_workspace(make_hosting: Callable[..., Hosting], method: str) -> None:
    """Slack limits one: nothing more is asked there meanwhile, and the other loses no time.

    Both have the same ids, so the channel that is paused has its like in the other.
    """
    hosting = make_hosting(Transport.SOCKET)
    hosting.start()
    for team in (ONE, TWO):
        hosting.install(team)
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    if method == "chat.update":  # of the card, once it is decided
        waiting = one.ask("of one")
        one.card(waiting)
    with hosting.slack.faults.only(ONE):
        hosting.slack.faults.rate_limit(method, retry_after=LONG)
    before = len(hosting.slack.requests)

    def asked(team: str) -> list[int]:
        seen = hosting.slack.requests[before:]
        return [each.status for each in seen if (each.team, each.method) == (team, method)]

    if method == "chat.update":
        one.approve(waiting)
    else:
        waiting = one.ask("of one")
    hosting.wait(lambda: asked(ONE) == [429])
    thread = two.ask("of two")
    two.approve(thread)
    two.said(thread, "That is all.")
    two.settle()
    assert set(asked(TWO)) == {200}
    assert asked(ONE) == [429]
    hosting.clock.advance(LONG + 1)
    hosting.wait(lambda: asked(ONE)[1:2] == [200])
    assert hosting.fakes.did("note", "of two") == 1
