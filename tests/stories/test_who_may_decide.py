"""Who may decide: looked up in Slack for each click, never taken from the payload."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from slack_sandbox.workspace.records import Delivery as Sent
from storage.models import Audit
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import action_ids, button, words
from tests.stories.steps import arrived, ask, menu, now_at, open_modal, reject, told

REFUSED = "decision.refused"
POLICY = """
shared_channels = ["#partners"]

[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@nobody"]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["UBEN00001"]
self_approval = true

[[rule]]
tool = "async_note"
verdict = "ask"
approvers = ["UGUS00001", "UEVE00001", "UZOE00001", "UBOT00001", "UDAN00001"]

[[rule]]
tool = "slow"
verdict = "ask"
approvers = ["channel"]
"""


@pytest.fixture
def harness(world: tuple[Harness, FakeTools]) -> Iterator[Harness]:
    """The module's harness; restores the group of approvers at the end."""
    harness = world[0]
    yield harness
    harness.reset()
    harness.slack.set_group("shop-leads", ["ana", "cleo"])
    arrived(harness)
    harness.clock.advance(61)


def is_pending(harness: Harness, thread: str) -> bool:
    arrived(harness)
    return [c.status for c in harness.calls_in(thread)] == [CallStatus.PENDING]


def list_refusals(harness: Harness, thread: str, *, of_calls: bool = True) -> list[tuple[str, str]]:
    """Return who was refused and why, from the audit: about the calls, or the whole request."""
    run = harness.run_in(thread)
    rows = harness.all(Audit, Audit.run_id == run.id, Audit.event == REFUSED)
    return [
        (row.actor, json.loads(row.data)["why"]) for row in rows if bool(row.call_id) is of_calls
    ]


def forge_click(harness: Harness, click: Sent, user: str, team: str = "T0SANDBOX") -> Any:
    """Send the payload of this click as if somebody else had made it."""
    payload = copy.deepcopy(click.payload)
    payload["user"] |= {"id": user, "team_id": team}
    payload["team"]["id"] = team
    return harness.slack.forge(payload)


def test_people_who_may_not_decide_are_told_who_may(harness: Harness, fakes: FakeTools) -> None:
    """Privately; the click is in the audit, and decides nothing."""
    thread = ask(harness, ("note", {"text": "not dan"}))
    card = harness.card(SUPPORT, thread)
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    sentence = told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert "<@UANA00001>, <@UCLEO0001>" in sentence
    assert is_pending(harness, thread)
    assert list_refusals(harness, thread) == [("UDAN00001", "not_approver")]
    assert not [m for m in harness.thread(SUPPORT, thread, "ana") if "cannot decide" in words(m)]
    assert fakes.did("note", "not dan") == 0
    menu(harness, "dan", card, "cancel_run")
    told(harness, "dan", SUPPORT, thread, "can cancel it")
    assert list_refusals(harness, thread, of_calls=False) == [("UDAN00001", "not_requester")]


def test_an_approver_cannot_approve_their_own_request(harness: Harness, fakes: FakeTools) -> None:
    """They can reject it."""
    thread = ask(harness, ("note", {"text": "ana's"}), who="ana")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, "This is your own request")
    assert is_pending(harness, thread)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "ana's") == 1
    thread = ask(harness, ("note", {"text": "ana's other"}), who="ana")
    assert (
        reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "never mind")["outcome"]
        == "closed"
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.REJECTED]


def test_a_rule_can_let_the_requester_approve(harness: Harness, fakes: FakeTools) -> None:
    """It has `self_approval`, and the requester is among its approvers."""
    thread = ask(harness, ("put", {"text": "ben's"}))
    harness.person("ben").click(SUPPORT, harness.card(SUPPORT, thread, "ben")["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("put", "ben's") == 1


def test_channel_members_can_approve_except_guests_and_the_requester(
    harness: Harness, fakes: FakeTools
) -> None:
    """The rule's approvers are `channel`, the people who are in it now."""
    fakes.go_on.set()
    thread = ask(harness, ("slow", {"text": "by the channel"}))
    card = harness.card(SUPPORT, thread)
    for name, sentence in (("ben", "your own request"), ("gus", "You cannot decide this one")):
        harness.person(name).click(SUPPORT, card["ts"], "approve")
        told(harness, name, SUPPORT, thread, sentence)
    assert is_pending(harness, thread)
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("slow", "by the channel") == 1


def test_guests_strangers_bots_and_deactivated_people_never_count(
    harness: Harness, fakes: FakeTools
) -> None:
    """Whether named as approvers or not; only the colleague among the approvers gets the card."""
    thread = ask(harness, ("async_note", {"text": "strangers"}), channel=PARTNERS)
    dm = harness.person("dan").dm_channel
    card = harness.card(dm, None, "dan")
    click = menu(harness, "dan", card, "cancel_run", dm)
    assert click.wait() == "acked"
    click.payload["actions"] = [button(card, "approve", click.payload)]
    strangers = ("UGUS00001", "UEVE00001", "UZOE00001", "UBOT00001", "USLACKBOT", "UNOBODY99")
    for user in strangers:
        assert forge_click(harness, click, user).wait() == "acked"
    assert is_pending(harness, thread)
    # in the order of their look-ups
    assert sorted(list_refusals(harness, thread)) == sorted(
        (user, "stranger") for user in strangers
    )
    assert "Only <@UBEN00001>" in told(harness, "dan", dm, card["ts"], "can cancel it")
    harness.person("dan").click(dm, card["ts"], "approve")
    harness.said(PARTNERS, thread, "That is all.")
    assert fakes.did("async_note", "strangers") == 1


def test_a_click_from_another_workspace_decides_nothing(harness: Harness, fakes: FakeTools) -> None:
    """Whatever user id it carries; the person is told so, and it is in the audit."""
    thread = ask(harness, ("note", {"text": "elsewhere"}), channel=PARTNERS)
    card = harness.card(PARTNERS, thread)
    eve = harness.person("eve").click(PARTNERS, card["ts"], "approve")
    assert eve.wait() == "acked"
    told(harness, "eve", PARTNERS, thread, "Only full members of this workspace can use these")
    assert forge_click(harness, eve, "UANA00001", "T0OTHERCO").wait() == "acked"
    arrived(harness)
    assert is_pending(harness, thread)
    assert list_refusals(harness, thread) == [("UEVE00001", "stranger"), ("UANA00001", "stranger")]
    menu(harness, "eve", card, "cancel_run", PARTNERS)
    arrived(harness)
    assert list_refusals(harness, thread, of_calls=False) == [("UEVE00001", "stranger")]
    assert harness.run_in(thread).status is RunStatus.WAITING


def test_a_person_deactivated_meanwhile_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Slack's event about the account reaches the cache before the click is decided."""
    harness.slack.set_group("shop-leads", ["ana", "cleo", "dan"])
    thread = ask(harness, ("note", {"text": "dan leaves"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "dan", SUPPORT, card, "reject")
    seen = now_at(harness, SUPPORT, card["ts"])
    harness.slack.deactivate("dan")
    arrived(harness)
    try:
        harness.person("dan").click(SUPPORT, card["ts"], "approve", seen=seen)
        refused = harness.slack.wait(lambda: list_refusals(harness, thread))
        assert refused == [("UDAN00001", "stranger")]
        assert is_pending(harness, thread)
    finally:
        harness.slack.people["dan"].deleted = False
        harness.person("dan").close_view()


def test_changes_of_group_membership_count_at_once(harness: Harness, fakes: FakeTools) -> None:
    """A person who joins the group may decide with the next click; one who leaves may not."""
    thread = ask(harness, ("note", {"text": "members"}))
    card = harness.card(SUPPORT, thread)
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    harness.slack.set_group("shop-leads", ["dan", "cleo"])
    arrived(harness)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    assert is_pending(harness, thread)
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "members") == 1


def test_cached_membership_is_at_most_a_minute_old(harness: Harness, fakes: FakeTools) -> None:
    """Without an event from Slack a membership that ended 61 seconds ago does not count."""
    thread = ask(harness, ("note", {"text": "minute"}))
    card = harness.card(SUPPORT, thread)
    with harness.slack.world.lock:
        harness.slack.world.groups["shop-leads"].users = ["UCLEO0001"]
    harness.clock.advance(61)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    assert is_pending(harness, thread)
    assert fakes.did("note", "minute") == 0


@pytest.mark.parametrize("method", ["usergroups.list", "users.info"])
def test_a_click_is_refused_if_the_look_up_of_its_person_fails(
    harness: Harness, fakes: FakeTools, method: str
) -> None:
    """The person is told so, and a later click counts."""
    thread = ask(harness, ("note", {"text": method}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(61)
    harness.slack.faults.fail(method, times=8)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, "I could not check with Slack")
    assert is_pending(harness, thread)
    assert list_refusals(harness, thread) == [("UANA00001", "lookup")]
    harness.slack.faults.clear()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", method) == 1


def test_a_call_that_nobody_can_approve_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Its approvers are an empty group: no card; the thread and the model are told."""
    thread = ask(harness, ("wipe", {"text": "everything"}))
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert "“Wipe something”" in words(
        harness.said(SUPPORT, thread, "none of its approvers can be reached")
    )
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.REFUSED]
    assert harness.outputs()[-1]["output"].startswith("REFUSED")
    assert not [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_a_call_is_refused_if_its_approvers_cannot_be_looked_up(
    harness: Harness, fakes: FakeTools
) -> None:
    """The thread and the model are told why."""
    harness.clock.advance(61)
    harness.slack.faults.fail("usergroups.list", times=8)
    thread = ask(harness, ("note", {"text": "whom"}))
    harness.said(SUPPORT, thread, "Slack could not be asked who may approve this")
    harness.said(SUPPORT, thread, "That is all.")
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.REFUSED]
    assert "Trying again later" in harness.outputs()[-1]["output"]
