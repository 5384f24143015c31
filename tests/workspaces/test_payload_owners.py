"""Which installation each of Slack's payloads is for, in a record with two workspaces and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bot.workspaces.dispatcher import find_installation, is_well_formed, write_installation_id
from storage.installations import InstallationRecord
from storage.states import InstallationState
from tests.workspaces.builders import AT, ORG, installed

Json = dict[str, Any]
ONE, TWO, GONE = "T0ONE", "T0TWO", "T0GONE"
GRANTED, UNGRANTED = "T0GRANTED", "T0UNGRANTED"  # workspaces of the organisation
BOTS = {ONE: "ONE", TWO: "TWO", GONE: "GONE", ORG: "ORG", "T0TWIN": "TWO"}  # two with one bot id
THREAD = ("C0PLACE", "1.000001")  # of a request in TWO


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstallationRecord]:
    """Two workspaces, one that removed the bot, and an organisation that granted one of its own."""
    folder = tmp_path_factory.mktemp("installations")
    opened = InstallationRecord(f"sqlite:///{folder / 'installations.db'}").open()
    for workspace, bot in BOTS.items():
        ids = {"bot_user": f"U0{bot}", "bot_id": f"B0{bot}", "is_org_wide": workspace == ORG}
        opened.insert_or_update_installation(installed(workspace, **ids))
    opened.grant_workspaces(ORG, [GRANTED])
    opened.set_state(GONE, InstallationState.REMOVED, AT)
    yield opened
    opened.close()


def event(*authorizations: Json, kind: str = "message", **more: Any) -> Json:
    """An event; names of the payload's own fields that begin with `in_` go into the event."""
    inner = {name[3:]: more.pop(name) for name in [*more] if name.startswith("in_")}
    body = {"type": "event_callback", "event": {"type": kind, **inner}, **more}
    return {**body, "authorizations": [*authorizations]} if authorizations else body


def shared(text: str | None = "hello", **more: Any) -> Json:
    """A message in a channel that ONE and others share, for which Slack names only ONE."""
    said = {} if text is None else {"in_text": text}
    return event(team(ONE), is_ext_shared_channel=True, in_channel=THREAD[0], **said, **more)


def team(team_id: str | None, enterprise: str | None = None) -> Json:
    """One authorization of an event."""
    return {"team_id": team_id, "enterprise_id": enterprise}


REPLY: Json = {"in_thread_ts": THREAD[1]}
ODD_CHANNEL = {
    "type": "message",
    "text": "",
    "thread_ts": THREAD[1],
    "channel": "c/\0",
    "team": TWO,
}
EVENTS = {
    "whom Slack names first": (event(team(TWO), team(ONE), team_id=ONE), TWO),
    "where it is read": (event(context_team_id=TWO, team_id=ONE), TWO),
    "where it comes from": (event(team_id=ONE), ONE),
    "the next that is installed": (event(team(GONE), team("T0NONE"), team_id=TWO), TWO),
    "one that removed the bot": (event(team(GONE), team_id=GONE), None),
    "an organisation's workspace": (event(team(GRANTED, ORG)), ORG),
    "without its organisation": (event(team_id=GRANTED), ORG),
    "authorized without it": (event(team(GRANTED)), ORG),
    "from another organisation": (event(team_id=GRANTED, enterprise_id="E0OTHER"), None),
    "of another organisation": (event(team(GRANTED, "E0OTHER")), None),
    "read in another organisation": (
        event(context_team_id=GRANTED, context_enterprise_id="E0OTHER", enterprise_id=ORG),
        None,
    ),
    "not granted": (event(team(UNGRANTED, ORG), team_id=UNGRANTED), None),
    "its end, not granted": (event(team(UNGRANTED, ORG), kind="app_uninstalled"), ORG),
    "a whole organisation": (event(team(None, ORG)), ORG),
    "its id as a team": (event(team(ORG, ORG)), ORG),
    "shared, nobody mentioned": (shared(), ONE),
    "shared, the other's bot": (shared("<@U0TWO> hello"), TWO),
    "shared, its own bot too": (shared("<@U0ONE> and <@U0TWO>"), ONE),
    "shared, a bot that is gone": (shared("<@U0GONE> hello"), ONE),
    "not shared": (event(team(ONE), in_text="<@U0TWO> hello"), ONE),
    "shared, no message": (shared(None, in_team=TWO, **REPLY), ONE),
    "shared, the other's thread": (shared(in_team=TWO, **REPLY), TWO),
    "shared, for the author's": (shared(in_user_team=TWO, **REPLY), TWO),
    "shared, for their source": (shared(in_source_team=TWO, **REPLY), TWO),
    "shared, for nobody's author": (shared(in_team=GONE, **REPLY), ONE),
    "shared, another thread": (shared(in_team=TWO, in_thread_ts="2.000001"), ONE),
    "shared, no thread": (shared(in_team=TWO), ONE),
    "shared, an odd thread": (shared(in_team=TWO, in_thread_ts=1), ONE),
    "shared, an odd channel": (shared(in_team=TWO, **REPLY) | {"event": ODD_CHANNEL}, ONE),
    "shared, an odd author": (shared(in_team=["x"], in_user_team=TWO, **REPLY), TWO),
}
CLICKS = {
    "whose dialog it is": ({"view": {"app_installed_team_id": TWO}, "team": {"id": ONE}}, TWO),
    "where it is clicked": ({"team": {"id": TWO}, "user": {"team_id": ONE}}, TWO),
    "who clicks": ({"team": None, "user": {"team_id": TWO}}, TWO),
    "whose card it is": ({"message": {"bot_id": "B0ONE"}, "team": {"id": TWO}}, ONE),
    "whose view it is": ({"view": {"bot_id": "B0ONE"}, "team": {"id": TWO}}, ONE),
    "one of two with this bot": (
        {"message": {"bot_id": "B0TWO"}, "team": {"id": "T0TWIN"}},
        "T0TWIN",
    ),
    "of a bot that is gone": ({"message": {"bot_id": "B0GONE"}, "team": {"id": TWO}}, TWO),
    "of an organisation": ({"team": None, "enterprise": {"id": ORG}}, ORG),
    "in a workspace not granted": ({"team": {"id": UNGRANTED}, "enterprise": {"id": ORG}}, ORG),
    "without its organisation": ({"team": {"id": GRANTED}}, ORG),
    "of another organisation": ({"team": {"id": GRANTED}, "enterprise": {"id": "E0OTHER"}}, None),
    "a dialog for all of it": ({"view": {"app_installed_team_id": ORG}, "team": None}, ORG),
    "of nobody": ({"team": {"id": "T0NONE"}}, None),
    "a command": ({"command": "/x", "team_id": TWO}, TWO),
    "a command, granted": ({"command": "/x", "team_id": GRANTED, "enterprise_id": ORG}, ORG),
    "a command from elsewhere": (
        {"command": "/x", "team_id": GRANTED, "enterprise_id": "E0OTHER"},
        None,
    ),
    "a command, not granted": ({"command": "/x", "team_id": UNGRANTED, "enterprise_id": ORG}, None),
}


def has_thread(workspace: str, *place: str) -> bool:
    """Say whose request the thread is about; only asked for ids that a record can be asked for."""
    assert all(isinstance(each, str) and each.isprintable() for each in (workspace, *place))
    return (workspace, *place) == (TWO, *THREAD)


@pytest.mark.parametrize(("payload", "owner"), EVENTS.values(), ids=EVENTS)
def test_an_event_is_for_one_installation(
    record: InstallationRecord, payload: Json, owner: str | None
) -> None:
    """In a shared channel that is whose bot is mentioned, or whose request the thread is about."""
    assert is_well_formed(payload)
    assert find_installation(payload, record, has_thread) == owner


@pytest.mark.parametrize(("payload", "owner"), CLICKS.values(), ids=CLICKS)
def test_a_click_is_for_one_installation(
    record: InstallationRecord, payload: Json, owner: str | None
) -> None:
    """That is whose bot posted the card or opened the dialog, else where the person is."""
    assert is_well_formed(payload)
    assert find_installation(payload, record, has_thread) == owner


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "event_callback", "event": "message"},
        {"authorizations": {"team_id": ONE}},
        {"authorizations": ["T0ONE"]},
        {"authorizations": 7},
        {"team": "T0ONE"},
        {"enterprise": {"id": "e0org"}},
        {"team": {"id": 7}},
        {"team_id": "T0ONE\n"},
        {"view": {"app_installed_team_id": "../T0ONE"}},
        {"message": {"bot_id": ["B0ONE"]}},
        {"context_team_id": "T" * 41},
        {"enterprise_id": 7},
        {"context_enterprise_id": 7},
        {"user": {"team_id": 7}},
    ],
)
def test_an_odd_payload_is_not_well_formed(payload: Json) -> None:
    """Its ids are never looked for in the record."""
    assert not is_well_formed(payload)


def test_an_app_reads_its_own_installation_wherever_a_payload_names_one() -> None:
    """Everything else stays as Slack sent it."""
    sent = event(team(GRANTED, ORG), team_id=GRANTED, context_team_id=ONE)
    write_installation_id(sent, ORG)
    assert sent == event(team(ORG, ORG), team_id=ORG, context_team_id=ORG)
    unauthorized = event(team_id=GRANTED)
    write_installation_id(unauthorized, ORG)
    assert (unauthorized["team_id"], unauthorized["authorizations"]) == (ORG, [])
    command: Json = {"command": "/x", "team_id": GRANTED}
    write_installation_id(command, ORG)
    assert command == {"command": "/x", "team_id": ORG}
    click: Json = {"team": {"id": GRANTED, "domain": "acme"}, "user": {"team_id": GRANTED}}
    write_installation_id(click, ORG)
    assert click == {"team": {"id": ORG, "domain": "acme"}, "user": {"team_id": GRANTED}}
    bare: Json = {"team": None}
    write_installation_id(bare, ORG)
    assert bare == {"team": {"id": ORG}}
