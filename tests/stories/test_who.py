"""Who may decide: looked up for the click, never taken from the payload, refused where it is not
known.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from storage.models import Audit
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    PARTNERS,
    SUPPORT,
    Delivery,
    World,
    action_ids,
    arrived,
    ask,
    now_at,
    open_modal,
    reject,
    told,
    value_of,
    words,
)

POLICY = """
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


@pytest.fixture(scope="module")
def strict_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Kit]]:
    """A world whose policy names all kinds of people."""
    kit = Kit()
    world = World(tmp_path_factory.mktemp("who"), kit.tools, POLICY)
    yield world, kit
    world.close()


@pytest.fixture
def world(strict_shared: tuple[World, Kit]) -> Iterator[World]:
    """That world at rest, its people as they were."""
    world = strict_shared[0]
    yield world
    world.reset()
    world.slack.set_group("shop-leads", ["ana", "cleo"])
    arrived(world)
    world.clock.advance(61)


@pytest.fixture
def kit(strict_shared: tuple[World, Kit]) -> Kit:
    """Its tools, and what they did."""
    return strict_shared[1]


def pending(world: World, thread: str) -> bool:
    arrived(world)
    return [c.status for c in world.calls_in(thread)] == [CallStatus.PENDING]


def refusals(world: World, thread: str) -> list[tuple[str, str]]:
    """(who, why) of every refused decision, from the audit."""
    [call] = world.calls_in(thread)
    rows = world.all(Audit, Audit.call_id == call.id, Audit.event == "decision.refused")
    return [(row.actor, json.loads(row.data)["why"]) for row in rows]


def forged(world: World, click: Delivery, user: str, team: str = "T0SANDBOX") -> Any:
    """The payload of a click as if somebody else had made it."""
    payload = copy.deepcopy(click.payload)
    payload["user"] |= {"id": user, "team_id": team}
    payload["team"]["id"] = team
    return world.slack.forge(payload)


def test_the_wrong_person_is_told_privately_who_may(world: World, kit: Kit) -> None:
    """A click by a colleague who is no approver: a sentence only they see names who is.

    Audited, no decision (A01).
    """
    thread = ask(world, ("note", {"text": "not dan"}))
    card = world.card(SUPPORT, thread)
    world.person("dan").click(SUPPORT, card["ts"], "approve")
    sentence = told(world, "dan", SUPPORT, thread, "You cannot decide this one")
    assert "<@UANA00001>, <@UCLEO0001>" in sentence
    assert pending(world, thread)
    assert refusals(world, thread) == [("UDAN00001", "not_approver")]
    assert not [m for m in world.thread(SUPPORT, thread, "ana") if "cannot decide" in words(m)]
    outcome = reject(world, "dan", SUPPORT, card, "because")
    assert "You cannot decide this one" in outcome["errors"]["reason"]
    world.person("dan").close_view()
    assert pending(world, thread)
    assert kit.did("note", "not dan") == 0


def test_nobody_approves_their_own_request(world: World, kit: Kit) -> None:
    """An approver who asks needs another one; rejecting what they asked for is theirs (A02)."""
    thread = ask(world, ("note", {"text": "ana's"}), who="ana")
    card = world.card(SUPPORT, thread)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    told(world, "ana", SUPPORT, thread, "This is your own request")
    assert pending(world, thread)
    world.person("cleo").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "ana's") == 1
    thread = ask(world, ("note", {"text": "ana's other"}), who="ana")
    assert (
        reject(world, "ana", SUPPORT, world.card(SUPPORT, thread), "never mind")["outcome"]
        == "closed"
    )
    world.said(SUPPORT, thread, "That is all.")
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.REJECTED]


def test_self_approval_where_the_rule_says_so(world: World, kit: Kit) -> None:
    """With self_approval the requester decides, if the rule names them (A02)."""
    thread = ask(world, ("put", {"text": "ben's"}))
    world.person("ben").click(SUPPORT, world.card(SUPPORT, thread, "ben")["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("put", "ben's") == 1


def test_members_of_the_channel_but_not_who_asked(world: World, kit: Kit) -> None:
    """`channel` means who is in it now, without guests and the requester (A02, A04)."""
    kit.go_on.set()
    thread = ask(world, ("slow", {"text": "by the channel"}))
    card = world.card(SUPPORT, thread)
    for name, sentence in (("ben", "your own request"), ("gus", "You cannot decide this one")):
        world.person(name).click(SUPPORT, card["ts"], "approve")
        told(world, name, SUPPORT, thread, sentence)
    assert pending(world, thread)
    world.person("dan").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("slow", "by the channel") == 1


def test_guests_strangers_bots_and_the_deactivated_never_count(world: World, kit: Kit) -> None:
    """Named as approvers or not, they are refused; only the colleague among them is asked (A04)."""
    thread = ask(world, ("async_note", {"text": "strangers"}), channel=PARTNERS)
    dm = world.person("dan").dm_channel
    card = world.card(dm, None, "dan")
    click = world.person("dan").click(dm, card["ts"], "cancel_run")
    assert click.wait() == "acked"
    click.payload["actions"][0] |= {"action_id": "approve", "value": value_of(card, "approve")}
    strangers = ("UGUS00001", "UEVE00001", "UZOE00001", "UBOT00001", "USLACKBOT", "UNOBODY99")
    for user in strangers:
        assert forged(world, click, user).wait() == "acked"
    assert pending(world, thread)
    assert refusals(world, thread) == [(user, "stranger") for user in strangers]
    assert "Only <@UBEN00001>" in told(world, "dan", dm, card["ts"], "can cancel it")
    world.person("dan").click(dm, card["ts"], "approve")
    world.said(PARTNERS, thread, "That is all.")
    assert kit.did("async_note", "strangers") == 1


def test_the_same_id_in_another_workspace_is_nobody(world: World, kit: Kit) -> None:
    """A click that comes from another workspace is dropped unread, whatever user id it carries
    (A04).
    """
    thread = ask(world, ("note", {"text": "elsewhere"}), channel=PARTNERS)
    card = world.card(PARTNERS, thread)
    eve = world.person("eve").click(PARTNERS, card["ts"], "approve")
    assert eve.wait() == "acked"
    assert forged(world, eve, "UANA00001", "T0OTHERCO").wait() == "acked"
    assert pending(world, thread)
    assert {row.kind for row in world.all(Delivery, Delivery.thread_ts == thread)} == {"message"}
    assert refusals(world, thread) == []


def test_somebody_deactivated_meanwhile_is_refused_at_once(world: World, kit: Kit) -> None:
    """The account's change reaches the cache before the click is decided (A03, A04)."""
    world.slack.set_group("shop-leads", ["ana", "cleo", "dan"])
    thread = ask(world, ("note", {"text": "dan leaves"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "dan", SUPPORT, card, "reject")
    seen = now_at(world, SUPPORT, card["ts"])
    world.slack.deactivate("dan")
    arrived(world)
    try:
        world.person("dan").click(SUPPORT, card["ts"], "approve", seen=seen)
        told_in = world.slack.wait(lambda: refusals(world, thread))
        assert told_in == [("UDAN00001", "stranger")]
        assert pending(world, thread)
    finally:
        world.slack.people["dan"].deleted = False
        world.person("dan").close_view()


def test_membership_changes_count_at_once(world: World, kit: Kit) -> None:
    """Who joins the group may decide with the next click, who leaves may not (A03)."""
    thread = ask(world, ("note", {"text": "members"}))
    card = world.card(SUPPORT, thread)
    world.person("dan").click(SUPPORT, card["ts"], "approve")
    told(world, "dan", SUPPORT, thread, "You cannot decide this one")
    world.slack.set_group("shop-leads", ["dan", "cleo"])
    arrived(world)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    told(world, "ana", SUPPORT, thread, "You cannot decide this one")
    assert pending(world, thread)
    world.person("dan").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "members") == 1


def test_what_is_remembered_is_never_older_than_a_minute(world: World, kit: Kit) -> None:
    """Even if Slack sent no event, a membership that ended a minute ago does not count (A03)."""
    thread = ask(world, ("note", {"text": "minute"}))
    card = world.card(SUPPORT, thread)
    with world.slack.world.lock:
        world.slack.world.groups["shop-leads"].users = ["UCLEO0001"]
    world.clock.advance(61)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    told(world, "ana", SUPPORT, thread, "You cannot decide this one")
    assert pending(world, thread)
    assert kit.did("note", "minute") == 0


@pytest.mark.parametrize("method", ["usergroups.users.list", "usergroups.list", "users.info"])
def test_a_failed_look_up_refuses_and_says_so(world: World, kit: Kit, method: str) -> None:
    """Slack cannot say who they are: nothing is decided, the sentence is another one, and later it
    counts (A03).
    """
    thread = ask(world, ("note", {"text": method}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.clock.advance(61)
    world.slack.faults.fail(method, times=8)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    told(world, "ana", SUPPORT, thread, "I could not check with Slack")
    assert pending(world, thread)
    assert refusals(world, thread) == [("UANA00001", "lookup")]
    world.slack.faults.clear()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", method) == 1


def test_a_call_that_nobody_can_approve_is_refused(world: World, kit: Kit) -> None:
    """An empty group: no card, the requester is told, the model hears it and the run goes on (A01,
    S05).
    """
    thread = ask(world, ("wipe", {"text": "everything"}))
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert "wipe" in words(world.said(SUPPORT, thread, "none of its approvers can be reached"))
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.REFUSED]
    assert world.outputs()[-1]["output"].startswith("REFUSED")
    assert not [m for m in world.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_a_look_up_that_fails_before_the_card_refuses_the_call(world: World, kit: Kit) -> None:
    """Without knowing who may approve nobody is asked.

    The thread and the model hear why (A03, promise 8).
    """
    world.clock.advance(61)
    world.slack.faults.fail("usergroups.list", times=8)
    thread = ask(world, ("note", {"text": "whom"}))
    world.said(SUPPORT, thread, "Slack could not be asked who may approve this")
    world.said(SUPPORT, thread, "That is all.")
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.REFUSED]
    assert "Trying again later" in world.outputs()[-1]["output"]
