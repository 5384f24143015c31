"""A running app uses a new token at once, whichever process renewed or stored it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.workspaces.oauth_client import TokenRotation
from bot.workspaces.tokens import open_token_cipher
from tests.workspaces.hosting import ANA, ONE, SUPPORT, TWO, Hosting
from tests.workspaces.installing import Browser

HOURS = 10.5 * 3600  # less than two hours before they expire


@pytest.fixture
def hosting(make_hosting: Callable[..., Hosting]) -> Hosting:
    """Two workspaces whose tokens expire after twelve hours."""
    made = make_hosting(rotates=True)
    made.start()
    for team in made.teams:
        made.install(team)
    return made


def use_workspace(hosting: Hosting, team: str) -> None:
    """Have the bot post and read files, and check that it uses only the valid token."""
    one = hosting.workspace(team)
    begun = len(hosting.slack.requests)
    thread = str(one.person("ben").share(SUPPORT, f"@bot note: {team}", {"a.txt": b"42"}))
    one.approve(thread)
    one.said(thread, "That is all.")
    one.settle()
    made = [each for each in hosting.slack.requests[begun:] if each.team == team]
    assert {each.status for each in made} == {200}
    assert not [each for each in made if each.response and not each.response.get("ok")]
    seen = [str(each["input"]) for each in hosting.planner.requests]
    assert any("42" in each for each in seen)


@pytest.mark.parametrize("by_another", [False, True], ids=["here", "by another process"])
def test_a_renewed_token_is_used_at_once(hosting: Hosting, *, by_another: bool) -> None:
    """Twelve hours later the first token has expired, and nobody notices."""
    assert hosting.host is not None
    for team in (ONE, TWO):
        hosting.workspace(team).command("/approvals help")
    before = {team: hosting.row(team).token_revision for team in (ONE, TWO)}
    apps = {team: hosting.workspace(team).app for team in (ONE, TWO)}
    if by_another:
        host = hosting.host
        host._rotation.renew_due_tokens = lambda: None  # type: ignore[method-assign]  # this process is busy
        hosting.clock.advance(HOURS)
        cipher = open_token_cipher(host.settings, host.record)
        other = TokenRotation(host.record, cipher, host.oauth, hosting.clock, lambda row: None)
        other.renew_due_tokens()
        hosting.clock.advance(1)
    else:
        hosting.clock.advance(HOURS)
    hosting.wait(
        lambda: all(hosting.row(team).token_revision > before[team] for team in (ONE, TWO))
    )
    if by_another:
        hosting.wait(
            lambda: all(
                each.token_revision == hosting.row(each.workspace).token_revision
                for each in hosting.host.list_hosted()  # type: ignore[union-attr]  # it is there
            )
        )
    hosting.clock.advance(3 * 3600)  # the first ones have expired
    assert {team: hosting.workspace(team).app for team in (ONE, TWO)} == apps
    for team in (ONE, TWO):
        use_workspace(hosting, team)


def test_the_token_of_a_new_installation_is_used_at_once(hosting: Hosting) -> None:
    """The old token expires; the app is not restarted."""
    one = hosting.workspace(ONE)
    one.command("/approvals help")
    app = one.app
    hosting.clock.advance(60)
    hosting.install(ONE)
    hosting.clock.advance(6 * 3600)
    use_workspace(hosting, ONE)
    assert one.app is app


def test_additional_scopes_are_used_after_installing_again(
    make_hosting: Callable[..., Hosting],
) -> None:
    """Nobody has to restart the app for that."""
    hosting = make_hosting()
    hosting.start()
    with Browser(hosting) as ana:  # type: ignore[arg-type]  # of a site it wants the address
        url = ana.leave().replace("dnd%3Aread%2C", "")
        ana.open(ana.allow(url, **{"as": f"{ONE}/ana"}))
    one = hosting.workspace(ONE)
    hosting.wait(lambda: one.app)
    assert "dnd:read" not in hosting.row(ONE).scopes
    hosting.clock.advance(60)
    hosting.install(ONE)

    def is_asked() -> bool:
        if one.app is not None:  # otherwise it is about to start again
            one.app.directory.find_quiet_hours([ANA])
        return any(each.method == "dnd.teamInfo" for each in hosting.slack.requests)

    hosting.wait(is_asked)
    one.approve(one.ask("asked after that"))
    hosting.wait(lambda: hosting.fakes.did("note", "asked after that"))
