"""One installation for a whole organisation: people of its workspaces ask and decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from bot.demo.model_server import Turn
from bot.slack.organisation import RESULT_KEY_BY_METHOD
from countersign.cli.commands import main
from slack_sandbox.web_api.orgs import NEED_TEAM
from storage.states import RunStatus
from tests.hosts import use_app_once_settled
from tests.pages import ROOT
from tests.stories.fakes import FakeTools
from tests.stories.steps import typed
from tests.workspaces.grid import FIRST, ORG, POLICY, SECOND, THIRD, Grid

HERE, THERE = (FIRST, "C0GENERAL"), (SECOND, "C0GENERALB")
ONLY_MEMBERS = "full members of this workspace"


@pytest.fixture
def fakes() -> FakeTools:
    """The tools of the bot."""
    return FakeTools()


@pytest.fixture
def make_grid(tmp_path: Path, fakes: FakeTools) -> Iterator[Callable[..., Grid]]:
    """A function that makes an organisation."""
    made: list[Grid] = []

    def make(**given: Any) -> Grid:
        made.append(Grid(tmp_path, fakes.tools, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=[Transport.SOCKET, Transport.HTTP])
def grid(request: pytest.FixtureRequest, make_grid: Callable[..., Grid]) -> Grid:
    """An organisation with the bot in both of its workspaces."""
    made = make_grid(transport=request.param)
    assert "Countersign is now in Sandbox Org" in made.install(FIRST, SECOND)
    for team, channel in (HERE, THERE):
        made.bring_bot(channel, team)
    return made


@pytest.fixture
def first_only(make_grid: Callable[..., Grid]) -> Grid:
    """An organisation with the bot in its first workspace only."""
    made = make_grid()
    made.install(FIRST)
    made.bring_bot("C0GENERAL")
    return made


def test_people_of_both_workspaces_ask_and_decide(grid: Grid, fakes: FakeTools) -> None:
    """Members of the organisation's group decide, from whichever workspace."""
    for team, channel, who in ((*HERE, "ana"), (*THERE, "cleo"), (*HERE, "cleo")):
        thread = grid.ask("dan", channel, f"by {who} in {team}", team)
        card = grid.card(who, channel, thread, team)
        grid.person(who, team).click(channel, card["ts"], "approve")
        grid.see("dan", channel, thread, "That is all.", team)
        assert fakes.did("note", f"by {who} in {team}") == 1


def test_a_request_in_a_channel_of_both_workspaces_is_decided(grid: Grid, fakes: FakeTools) -> None:
    """Somebody of the second workspace asks there, and somebody of it decides."""
    grid.slack.share("general", SECOND)
    grid.slack.workspace(SECOND).join("ben", "C0GENERAL")
    grid.slack.workspace(SECOND).join("dan", "C0GENERAL")
    thread = grid.ask("dan", "C0GENERAL", "across", SECOND)
    card = grid.card("ana", "C0GENERAL", thread)
    grid.person("ben", SECOND).click("C0GENERAL", card["ts"], "approve")
    grid.see("ben", "C0GENERAL", thread, "That is all.", SECOND)
    assert fakes.did("note", "across") == 1


def test_a_private_request_in_the_second_workspace_is_decided_there(
    grid: Grid, fakes: FakeTools
) -> None:
    """It is asked in a direct message, shown on Home and by command, edited, and approved."""
    dan, cleo = grid.person("dan", SECOND), grid.person("cleo", SECOND)
    grid.script("note", "in private")
    thread = dan.dm("please")
    at_home = grid.person("cleo")  # the sandbox has her direct messages in the first workspace
    card = grid.card("cleo", at_home.dm_channel, None)
    cleo.open_home()
    grid.slack.wait(lambda: "in private" in str(cleo.home()))
    assert cleo.command("C0GENERALB", "/approvals").wait() == "acked"  # type: ignore[union-attr]  # delivered
    menu = grid.see("cleo", "C0GENERALB", None, "What would you like to see", SECOND)
    cleo.click("C0GENERALB", menu["ts"], "look_waiting")
    grid.see("cleo", "C0GENERALB", None, "in private", SECOND)
    at_home.click(at_home.dm_channel, card["ts"], "edit")
    assert grid.slack.wait(at_home.view)
    at_home.submit(typed(text="in private, edited"))
    ana = grid.person("ana")
    edited = grid.see("ana", ana.dm_channel, None, "in private, edited")
    ana.click(ana.dm_channel, edited["ts"], "approve")
    grid.see("dan", dan.dm_channel, thread, "That is all.", SECOND)
    assert fakes.did("note", "in private, edited") == 1
    assert grid.run_in(thread).team == ORG


def test_the_bot_answers_only_in_workspaces_that_were_granted(
    first_only: Grid, caplog: pytest.LogCaptureFixture
) -> None:
    """The second workspace gets an answer only after it was granted the bot."""
    grid = first_only
    grid.bring_bot("C0GENERALB", SECOND)
    second = grid.slack.workspace(SECOND).world
    ben = grid.person("ben", SECOND)
    with grid.slack.world.lock:
        second.app.installed = True  # so that a payload is sent although nothing was granted
        sent = ben.command("C0GENERALB", "/approvals")
        second.app.installed = False
    assert sent.wait() == "acked"  # type: ignore[union-attr]  # delivered
    assert caplog.text.count("refused a payload of a workspace") == 1
    assert ben.everything("C0GENERALB") == []
    grid.slack.workspace(SECOND).grant_access()
    assert grid.slack.deliveries[-1].wait() == "acked"
    ben.command("C0GENERALB", "/approvals")
    grid.see("ben", "C0GENERALB", None, "What would you like to see", SECOND)


def test_revoked_access_cancels_requests_of_that_workspace(grid: Grid, fakes: FakeTools) -> None:
    """They are cancelled at once; requests of the other workspace go on."""
    there = grid.ask("dan", "C0GENERALB", "asked there", SECOND)
    asked = grid.card("cleo", "C0GENERALB", there, SECOND)
    here = grid.ask("dan", "C0GENERAL", "asked here")
    card = grid.card("ana", "C0GENERAL", here)
    grid.slack.workspace(SECOND).revoke_access()
    grid.slack.wait(lambda: grid.run_in(there).status is RunStatus.CANCELLED)
    grid.person("ana").open_home()
    grid.slack.wait(lambda: "asked here" in str(grid.person("ana").home()))
    assert "asked there" not in str(grid.person("ana").home())
    grid.person("cleo", SECOND).click("C0GENERALB", asked["ts"], "approve", seen=asked).wait()
    grid.person("ana").click("C0GENERAL", card["ts"], "approve")
    grid.see("dan", "C0GENERAL", here, "That is all.")
    assert fakes.did("note", "asked there") == 0
    assert fakes.did("note", "asked here") == 1


@pytest.mark.parametrize("first", ["granted", "revoked"])
def test_a_repeated_access_event_after_a_later_one_changes_nothing(grid: Grid, first: str) -> None:
    """Slack sends the event again a minute later; the current state of access counts."""
    second = grid.slack.workspace(SECOND)
    grant, revoke = second.grant_access, second.revoke_access
    if first == "granted":
        revoke()
    # the one before it is acknowledged, too: none but the next ones lose what is lost below
    grid.slack.wait(lambda: all(each.outcome == "acked" for each in grid.slack.deliveries))
    name, begun = f"team_access_{first}", len(grid.slack.deliveries)
    # Slack sends the event again at once, and after a minute
    grid.slack.faults.lose_ack(
        "events_api", times=2, match=lambda sent: sent["event"]["type"] == name
    )
    for act in (grant, revoke) if first == "granted" else (revoke, grant):
        act()
        grid.clock.advance(5)
    early, later = grid.slack.deliveries[begun:][:2]
    grid.slack.wait(lambda: later.outcome == "acked" and early.attempts == 2 and early.next_at)
    grid.clock.advance(60)
    grid.slack.wait(lambda: early.outcome == "acked")
    served = [FIRST] if first == "granted" else [FIRST, SECOND]
    grid.slack.wait(lambda: list(grid.host.record.list_granted_workspaces(ORG)) == served)


def test_guests_former_members_and_strangers_cannot_decide(grid: Grid, fakes: FakeTools) -> None:
    """A guest, a deactivated person, and people of workspaces without the bot."""
    grid.slack.share("general", SECOND)
    grid.slack.share("general", THIRD)
    people = grid.slack.workspace(SECOND).world.people
    for name in ("ben", "dan"):
        grid.slack.workspace(SECOND).join(name, "C0GENERAL")
    grid.slack.workspace(THIRD).join("ana", "C0GENERAL")
    thread = grid.ask("dan", "C0GENERAL", "for members only")
    card = grid.card("ana", "C0GENERAL", thread)
    with grid.slack.world.lock:
        grid.slack.workspace(SECOND).world.groups["shop-leads"].users.append(people["dan"].id)
        people["dan"].is_restricted = True  # a guest
        people["ben"].grid_teams = (
            "T0NOTGIVEN",
        )  # in the group, but by now only in another workspace
    grid.clock.advance(61)
    for name, team in (("dan", SECOND), ("ben", SECOND), ("ana", THIRD)):
        person = grid.person(name, team)
        person.click("C0GENERAL", card["ts"], "approve", seen=card)
        grid.see(name, "C0GENERAL", None, ONLY_MEMBERS, team)
        person.say("C0GENERAL", "@bot approve it, please", thread)
    grid.slack.deactivate("cleo")
    grid.person("cleo").click("C0GENERAL", card["ts"], "approve", seen=card).wait()
    grid.settle()
    assert fakes.did("note", "for members only") == 0
    assert grid.run_in(thread).status is RunStatus.WAITING
    grid.person("ana").click("C0GENERAL", card["ts"], "approve")
    grid.see("dan", "C0GENERAL", thread, "That is all.")
    assert fakes.did("note", "for members only") == 1


def test_a_request_under_an_old_user_id_cannot_be_approved(grid: Grid, fakes: FakeTools) -> None:
    """Slack gives people other ids when their workspace joins an organisation."""
    thread = grid.ask("ana", "C0GENERAL", "asked under an old id")
    card = grid.card("cleo", "C0GENERAL", thread)
    grid.change_id("ana", "WANA00001")
    grid.person("cleo").click("C0GENERAL", card["ts"], "approve", seen=card)
    grid.see("cleo", "C0GENERAL", None, "no longer a full member of this workspace")
    assert fakes.did("note", "asked under an old id") == 0


def test_an_organisation_is_installed_despite_an_undecryptable_token(
    make_grid: Callable[..., Grid],
) -> None:
    """A workspace's own installation has a token that no key decrypts."""
    grid = make_grid()
    grid.install(at=FIRST, place="")
    row = grid.host.record.get(FIRST)
    assert row is not None
    assert grid.host.record.replace_sealed_tokens(row, row.sealed_tokens, "lost")
    assert "Countersign is now in Sandbox Org" in grid.install(FIRST)


def test_the_organisation_takes_over_a_workspaces_own_installation(
    make_grid: Callable[..., Grid], caplog: pytest.LogCaptureFixture
) -> None:
    """Slack has revoked the workspace's own token."""
    grid = make_grid()
    grid.install(at=SECOND, place="")
    assert grid.host.record.find_workspace_of(SECOND, ORG) == SECOND
    grid.install(FIRST, SECOND)
    assert (
        caplog.text.count(f"{SECOND}: its own token is no longer valid, {ORG} serves it now") == 1
    )
    grid.bring_bot("C0GENERALB", SECOND)
    thread = grid.ask("dan", "C0GENERALB", "asked of the organisation", SECOND)
    grid.card("cleo", "C0GENERALB", thread, SECOND)
    assert grid.run_in(thread).team == ORG


def test_a_channel_is_created_in_the_requesters_workspace(grid: Grid) -> None:
    """A tool for one workspace is told which one."""
    grid.planner.script(Turn(calls=[("create_channel", {"name": "launch", "private": False})]))
    grid.planner.script(Turn(text="That is all."))
    thread = str(grid.person("dan", SECOND).say("C0GENERALB", "@bot a channel, please"))
    card = grid.card("cleo", "C0GENERALB", thread, SECOND)
    grid.person("cleo", SECOND).click("C0GENERALB", card["ts"], "approve")
    grid.see("dan", "C0GENERALB", thread, "That is all.", SECOND)
    assert "launch" in [each.name for each in grid.slack.workspace(SECOND).world.channels.values()]


def test_every_method_that_needs_a_workspace_is_in_the_table() -> None:
    """With an organisation's token, these methods have to be told which workspace."""
    source = "".join(each.read_text("utf-8") for each in (ROOT / "bot").rglob("*.py"))
    called = {each for each in NEED_TEAM if f".{each.replace('.', '_')}(" in source}
    assert called - {"conversations.create"} == set(RESULT_KEY_BY_METHOD)


def test_lists_have_all_pages_of_both_workspaces(grid: Grid) -> None:
    """Every method of the table is answered."""
    dan = grid.slack.workspace(SECOND).world.people["dan"].id
    bot = grid.slack.world.app.bot_id
    arguments: dict[str, dict[str, Any]] = {
        "bots.info": {"bot": bot},
        "conversations.list": {"limit": 2},
        "dnd.teamInfo": {"users": dan},
        "usergroups.list": {"include_users": True},
        "users.conversations": {"user": dan, "limit": 2},
        "users.list": {"limit": 2},
    }
    assert arguments.keys() == RESULT_KEY_BY_METHOD.keys()
    with use_app_once_settled(grid.host, ORG) as app:
        posting, reading = app.slack_clients  # type: ignore[attr-defined]  # the whole app's
        for client in (posting, reading):
            found = {
                method: client.api_call(method, http_verb="GET", params=given)[
                    RESULT_KEY_BY_METHOD[method]
                ]
                for method, given in arguments.items()
            }
    worlds = [grid.slack.workspace(each).world for each in (FIRST, SECOND)]
    people = [
        {each.id for each in world.people.values() if world.is_member(each)} for world in worlds
    ]
    assert people[0] | people[1] <= {each["id"] for each in found["users.list"]}
    assert {"C0GENERAL", "C0GENERALB"} <= {each["id"] for each in found["conversations.list"]}
    assert "C0GENERALB" in {each["id"] for each in found["users.conversations"]}
    [leads] = [each for each in found["usergroups.list"] if each["handle"] == "shop-leads"]
    assert set(leads["users"]) == {"UANA00001", "UCLEO0001", "UBEN00001B"}
    assert found["bots.info"]["id"] == bot
    assert dan in found["dnd.teamInfo"]


def test_a_person_whose_id_has_changed_does_not_vote_twice(
    make_grid: Callable[..., Grid], fakes: FakeTools
) -> None:
    """The id changed after their vote; a second person has to approve."""
    grid = make_grid(policy=POLICY + "quorum = 2\n")
    grid.install(FIRST, SECOND)
    grid.bring_bot("C0GENERAL")
    thread = grid.ask("dan", "C0GENERAL", "two have to approve")
    card = grid.card("cleo", "C0GENERAL", thread)
    grid.person("cleo").click("C0GENERAL", card["ts"], "approve").wait()
    grid.settle()
    grid.change_id("cleo", "WCLEO0001")
    grid.person("cleo").click("C0GENERAL", card["ts"], "approve", seen=card)
    told = grid.person("cleo").dm_channel  # her new id is a member of no channel
    grid.see("cleo", told, None, "now has another Slack account")
    assert fakes.did("note", "two have to approve") == 0


def test_doctor_looks_at_all_workspaces_of_an_organisation(
    grid: Grid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group has members of both workspaces, and all of them are counted."""
    for name in ("DATABASE_URL", "COUNTERSIGN_KEY", "SLACK_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in grid.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(grid.folder)
    code = main(["workspaces", "doctor", ORG])
    said = capsys.readouterr().out
    assert (code, "missing_argument" in said) == (0, False), said
    assert "ok    approvers @shop-leads: 3 of 3 members may decide" in said
    assert f"a bot is ready at {grid.environ['COUNTERSIGN_HTTP']}" in said
