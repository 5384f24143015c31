"""Payloads that name no workspace, an odd one, or another one than they are about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from bot.workspaces.removals import REMOVAL_EVENTS
from slack_sandbox.workspace.records import Delivery as Sent
from tests.stories.test_foreign_payloads import ACTS, FOREIGN, About, Row, table
from tests.web.requests import FORM, Sender, encode_form
from tests.workspaces.hosting import BEN, ONE, SUPPORT, TWO, Hosting, Workspace

Json = dict[str, Any]
DEEP: Any = {"id": {"id": ["T0SANDBOX"]}}
ODD: dict[str, Json] = {
    **FOREIGN,
    "nobody": {"team_id": None, "enterprise_id": None},
    "empty": {"team_id": "", "enterprise_id": ""},
    "lower case": {"team_id": "t0sandbox", "enterprise_id": None},
    "a part of it": {"team_id": "T0SANDBO", "enterprise_id": None},
    "a space": {"team_id": "T0SANDBOX ", "enterprise_id": None},
    "a path": {"team_id": "../T0SANDBOX", "enterprise_id": None},
    "a quote": {"team_id": "T0' OR '1'='1", "enterprise_id": None},
    "a zero byte": {"team_id": "T0SANDBOX\0", "enterprise_id": "\0"},
    "half a character": {"team_id": "T0\ud800", "enterprise_id": "\ud800"},
    "long": {"team_id": "T" * 100_000, "enterprise_id": None},
    "a number": {"team_id": 7, "enterprise_id": 7},
    "a list": {"team_id": ["T0SANDBOX"], "enterprise_id": ["T0SANDBOX"]},
    "an object": {"team_id": DEEP, "enterprise_id": DEEP},
    "a workspace as an organisation": {"team_id": None, "enterprise_id": "T0SANDBOX"},
}
FEW = ("a zero byte",)  # the other ones take long
PARAMETERS = [
    pytest.param(whose, id=name, marks=[] if name in FEW else [pytest.mark.long])
    for name, whose in ODD.items()
]


@pytest.fixture
def hosting(make_hosting: Callable[..., Hosting]) -> Hosting:
    """Two workspaces with the same ids in them, served over HTTP."""
    made = make_hosting()
    made.start()
    for team in made.teams:
        made.install(team)
    return made


def ask_and_wait(workspace: Workspace, text: str) -> About:
    """Make a request of Ben's that waits for Ana."""
    thread = workspace.ask(text)
    card = workspace.card(thread)
    workspace.settle()
    [call] = workspace.calls()
    return About(thread, card["ts"], call.run_id, call.plan_id, call.id, 1)


def send(hosting: Hosting, body: Json, kind: str) -> int:
    """Send a payload as Slack does; returns the status of the answer."""
    sender = Sender(
        hosting.url, hosting.slack.world.app.signing_secret, int(hosting.clock.now().timestamp())
    )
    if kind == "events_api":
        return sender.post(json.dumps(body).encode())
    if kind == "slash_commands":
        data = urlencode({name: _in_form(each) for name, each in body.items()}).encode()
    else:
        data = encode_form(body)
    return sender.post(data, sender.headers(data, FORM))


def _in_form(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return "" if value is None else json.dumps(value)


def list_lifecycle_events(whose: Json, bot: str) -> Iterator[Row]:
    """List the events about an installation's end and about an organisation's access."""
    for name in sorted(REMOVAL_EVENTS):
        event = {"type": name, "team_ids": [ONE, TWO], "tokens": {"bot": [bot]}}
        body = {"type": "event_callback", "event_id": f"Ev{name}", "event": event, **whose}
        yield Row(name, "events_api", body)
        yield Row(name, "events_api", {**body, "authorizations": [whose]})


@pytest.mark.parametrize("whose", PARAMETERS)
def test_payloads_of_unknown_workspaces_change_nothing(
    hosting: Hosting, whose: Json, caplog: pytest.LogCaptureFixture
) -> None:
    """Each one is acknowledged, and nothing is sent because of it."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    about = ask_and_wait(one, "asked at home")
    ask_and_wait(two, "asked next door")
    rows = [*table(about, whose), *list_lifecycle_events(whose, one.admin.world.app.bot_user)]
    before = one.dump(), two.dump(), len(hosting.slack.requests)
    wrong = [
        (row.name, status) for row in rows if (status := send(hosting, row.body, row.kind)) != 200
    ]
    one.settle()
    two.settle()
    assert not wrong
    assert (one.dump(), two.dump()) == before[:2]
    acts = hosting.slack.requests[before[2] :]
    assert not [each.method for each in acts if each.method.startswith(ACTS)]
    assert [str(hosting.row(team).state) for team in (ONE, TWO)] == ["active", "active"]
    assert "Traceback" not in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("socket_mode", [True, False], ids=["socket", "http"])
def test_a_payload_with_another_workspaces_ids_stays_in_its_own(
    hosting: Hosting, *, socket_mode: bool
) -> None:
    """It names one workspace, but every id in it is of a request in the other."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    about = ask_and_wait(one, "asked at home")
    two.ask("asked next door")
    two.settle()
    before, seen = one.dump(), len(hosting.slack.requests)
    own = {"app_uninstalled", "tokens_revoked"}
    whose = {"team_id": TWO, "enterprise_id": None}
    app = two.admin.world.app
    for row in table(about, whose):
        if row.body.get("event", {}).get("type") in own:
            continue
        if socket_mode:
            sent = Sent(row.kind, {"api_app_id": app.id, "token": "t", **row.body}, app)
            two.admin.world.send(sent)
            assert row.name.startswith(("close", "options")) or sent.wait() == "acked", row.name
        else:
            assert send(hosting, row.body, row.kind) < 500, row.name
        two.settle()
    one.settle()
    assert one.dump() == before
    assert {each.team for each in hosting.slack.requests[seen:]} <= {TWO}


def test_app_uninstalled_removes_only_the_workspace_it_names(hosting: Hosting) -> None:
    """The workspace in `authorizations` comes before the one in `team_id`."""
    hosting.clock.advance(60)
    at = int(hosting.clock.now().timestamp())
    said = {"type": "event_callback", "event": {"type": "app_uninstalled"}, "event_time": at}
    body = {**said, "team_id": ONE, "authorizations": [{"team_id": TWO}]}
    assert send(hosting, body, "events_api") == 200
    assert [str(hosting.row(team).state) for team in (ONE, TWO)] == ["active", "removed"]
    assert send(hosting, {**said, "team_id": TWO}, "events_api") == 200
    assert [str(hosting.row(team).state) for team in (ONE, TWO)] == ["active", "removed"]


def test_late_uninstall_events_do_not_remove_a_new_installation(hosting: Hosting) -> None:
    """The new installation is of the same second as the event."""
    one = hosting.workspace(ONE)
    one.admin.uninstall()
    hosting.wait(lambda: str(hosting.row(ONE).state) == "removed")
    hosting.install(ONE)
    at = int(hosting.row(ONE).installed_at.timestamp())
    said = {"type": "event_callback", "event": {"type": "app_uninstalled"}, "event_time": at}
    assert send(hosting, {**said, "team_id": ONE}, "events_api") == 200
    assert str(hosting.row(ONE).state) == "active"
    hosting.slack.faults.fail(
        "auth.test", "fatal_error"
    )  # nor if Slack cannot say whether the token is valid
    again = {**said, "team_id": ONE, "event_time": at + 1}
    assert send(hosting, again, "events_api") == 200
    assert str(hosting.row(ONE).state) == "active"
    one.card(one.ask("after all that"))


def test_slacks_url_verification_is_answered(hosting: Hosting) -> None:
    """It does not depend on any workspace; Slack sends nothing else before it."""
    at = int(hosting.clock.now().timestamp())
    sender = Sender(hosting.url, hosting.slack.world.app.signing_secret, at)
    asked = json.dumps({"type": "url_verification", "challenge": "say this"}).encode()
    assert sender.ask("POST", "/slack/events", asked, sender.headers(asked)) == (200, "say this")


def test_a_click_belongs_to_the_workspace_that_it_names(hosting: Hosting) -> None:
    """The bot has the same id in both workspaces."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    about = ask_and_wait(one, "asked at home")
    before = one.dump()
    click = one.person("ana").click(SUPPORT, about.card, "approve", seen=one.card(about.thread))
    hosting.slack.wait(lambda: click.outcome == "acked")
    one.settle()
    assert one.dump() != before
    after = one.dump()
    payload = {**click.payload, "team": {"id": TWO}, "user": {"id": BEN, "team_id": TWO}}
    assert send(hosting, payload, "interactive") == 200
    two.settle()
    assert one.dump() == after
