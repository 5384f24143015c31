"""Approve with a note, approve and remember: what the policy offers, for one person, this often,
until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.approvals import grants
from bot.policy.evaluate import parse
from bot.sandbox.openai.server import Turn
from storage.models import Grant
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, World, action_ids, ask, menu, open_modal, words

OFFERS = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = ["note", "wipe"]
verdict = "ask"
remember = [{}]

[[rule]]
tool = "login"
verdict = "ask"
remember = [{fields = ["account"], where = "everywhere", lasts = "2h", uses = 2}]

[[rule]]
tool = "put"
verdict = "once"
editable = []

[[rule]]
tool = "refund_order"
verdict = "ask"
editable = ["amount"]

[[rule]]
tool = "async_note"
verdict = "ask"
reasons = "always"
"""
C = CallStatus


@pytest.fixture
def made(own_world: Callable[..., World]) -> tuple[World, Kit]:
    """A world whose policy offers to remember."""
    kit = Kit()
    return own_world(kit.tools, OFFERS), kit


def approve(
    world: World, thread: str, *, note: str = "", offer: int | None = None, who: str = "ana"
) -> dict[str, Any]:
    """Open the dialog from the menu and approve there; returns the outcome."""
    card = world.card(SUPPORT, thread)
    menu(world, who, card, "review")
    view: dict[str, Any] = world.slack.wait(world.person(who).view)
    typed: dict[str, Any] = {"note": {"text": {"value": note}}} if note else {}
    if offer is not None:
        chosen = next(b for b in view["blocks"] if b.get("block_id") == "remember")["element"][
            "options"
        ][offer]
        typed["remember"] = {"offer": {"selected_option": chosen}}
    outcome: dict[str, Any] = world.person(who).submit(typed)
    return outcome


def login(password: str, account: str = "shop") -> tuple[str, dict[str, str]]:
    """A call with two fields."""
    return ("login", {"account": account, "password": password})


def done(
    world: World, call: tuple[str, dict[str, str]], who: str = "ben"
) -> tuple[str, list[CallStatus]]:
    """Ask for a call that needs nobody, wait for the end; the thread and how its calls stand."""
    thread = ask(world, call, who=who)
    world.said(SUPPORT, thread, "That is all.", who)
    world.settle()
    return thread, [call.status for call in world.calls_in(thread)]


def test_a_note(world: World, kit: Kit) -> None:
    """Words beside an approval are told to the thread and to the model, quoted."""
    thread = ask(world, ("note", {"text": "noted"}))
    assert approve(world, thread, note="checked with <@UCLEO0001>")["outcome"] == "closed"
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "noted") == 1
    assert '"checked with <@UCLEO0001>"' in world.outputs()[0]["output"]
    line = world.said(SUPPORT, thread, "approved:")
    assert "checked with" in words(line)
    assert "UCLEO0001" not in [
        e.get("user_id") for b in line["blocks"] for e in b.get("elements", [])
    ]


def test_words_that_are_needed(made: tuple[World, Kit]) -> None:
    """Where the policy wants words there is no bare Approve, and a click from an old card does not
    count without.
    """
    world, kit = made
    thread = ask(world, ("async_note", {"text": "why"}))
    card = world.card(SUPPORT, thread, having="review")
    assert "approve" not in action_ids(card)
    open_modal(world, "ana", SUPPORT, card, "review")
    assert world.person("ana").submit({})["outcome"] == "errors"
    assert world.calls_in(thread)[0].status is C.PENDING
    assert (
        world.person("ana").submit({"note": {"text": {"value": "because"}}})["outcome"] == "closed"
    )
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("async_note", "why") == 1


def test_remembered_in_the_thread(made: tuple[World, Kit]) -> None:
    """These very arguments run again unasked in this thread for this person.

    Other arguments, places, people ask.
    """
    world, kit = made
    thread = ask(world, ("note", {"text": "daily"}))
    assert approve(world, thread, offer=0)["outcome"] == "closed"
    world.said(SUPPORT, thread, "remembered until")
    world.said(SUPPORT, thread, "That is all.")
    world.planner.script(*_turns("daily", "Again."))
    world.person("ben").say(SUPPORT, "@bot once more", thread)
    world.said(SUPPORT, thread, "Again.")
    assert kit.did("note", "daily") == 2
    [*_, last] = world.calls_in(thread)
    assert (last.status, bool(last.grant_id)) == (C.SUCCEEDED, True)
    assert "remembered approval" in world.outputs()[-1]["output"]
    for who, text, tool in (
        ("ben", "daily", "note"),
        ("cleo", "daily", "note"),
        ("ben", "other", "note"),
    ):
        elsewhere = ask(world, (tool, {"text": text}), who=who)
        world.card(SUPPORT, elsewhere, "ana")
        world.settle()
        world.planner.clear()
        assert [call.status for call in world.calls_in(elsewhere)] == [C.PENDING]


def _turns(text: str, answer: str) -> list[Any]:
    return [Turn(calls=(("note", {"text": text}),)), Turn(text=answer)]


def test_remembered_everywhere(made: tuple[World, Kit]) -> None:
    """The same account, twice, for two hours, also after a restart: then it is asked again, as
    another account is.
    """
    world, kit = made
    thread = ask(world, login("first"))
    approve(world, thread, offer=0)
    world.said(SUPPORT, thread, "That is all.")
    assert done(world, login("second"))[1] == [C.SUCCEEDED]
    world.restart()
    assert done(world, login("third"))[1] == [C.SUCCEEDED]
    used_up = ask(world, login("fourth"))
    world.card(SUPPORT, used_up)
    approve(world, used_up, offer=0)
    world.said(SUPPORT, used_up, "That is all.")
    world.clock.advance(2 * 3600 + 1)
    for call in (login("fifth"), login("fifth", "bank")):
        world.card(SUPPORT, ask(world, call))
        world.planner.clear()
    assert [kit.did("login", text) for text in ("second", "third", "fourth", "fifth")] == [
        1,
        1,
        1,
        0,
    ]


def test_the_list_in_slack(made: tuple[World, Kit]) -> None:
    """/approvals grants lists them to who may end them, with what is pinned; /approvals revoke ends
    one.
    """
    world, _ = made
    thread = ask(world, login("first"))
    approve(world, thread, offer=0)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    [grant] = world.all(Grant)

    def says(who: str, line: str, part: str) -> None:
        world.person(who).command(SUPPORT, line)
        everything = world.person(who).everything
        world.slack.wait(
            lambda: any(m.get("is_ephemeral") and part in words(m) for m in everything(SUPPORT))
        )

    says("ben", "/approvals grants", f"{grant.id}")
    says("cleo", "/approvals grants", "Nothing is remembered for you")
    says("cleo", f"/approvals revoke {grant.id}", "no remembered approval of yours")
    says("ana", f"/approvals revoke {grant.id}", "Revoked: ")
    says("ben", "/approvals revoke", "Name one remembered approval")
    assert world.all(Grant)[0].revoked_by == "UANA00001"


def test_never_for_what_cannot_be_undone(made: tuple[World, Kit]) -> None:
    """A destructive tool offers nothing, whatever the rule says."""
    world, _ = made
    thread = ask(world, ("wipe", {"text": "all"}))
    menu(world, "ana", world.card(SUPPORT, thread), "review")
    view = world.slack.wait(world.person("ana").view)
    assert "remember" not in [block.get("block_id") for block in view["blocks"]]


def test_once(made: tuple[World, Kit]) -> None:
    """verdict = "once": asked the first time, these arguments then run unasked, for this person
    only.
    """
    world, kit = made
    thread = ask(world, ("put", {"text": "value"}))
    world.person("ana").click(SUPPORT, world.card(SUPPORT, thread)["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert done(world, ("put", {"text": "value"}))[1] == [C.SUCCEEDED]
    assert kit.did("put", "value") == 2
    other = ask(world, ("put", {"text": "value"}), who="cleo")
    world.card(SUPPORT, other)


def test_revoked_or_no_longer_offered(made: tuple[World, Kit]) -> None:
    """Who gave it, or asked for it, ends it.

    And what the policy no longer offers counts no more.
    """
    world, kit = made
    thread = ask(world, login("first"))
    approve(world, thread, offer=0)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    core = world.app.core
    [grant] = world.all(Grant)
    assert grant.id in grants.listed(core, "UBEN00001")
    assert grant.id in grants.listed(core, "UANA00001")
    assert grant.id not in grants.listed(core, "UCLEO0001")
    assert "no remembered approval of yours" in grants.revoke(core, grant.id, "UCLEO0001")
    offering = core.policy
    core.policy = parse(world.policy.replace("uses = 2", "uses = 1"))
    world.card(SUPPORT, ask(world, login("second")))
    world.planner.clear()
    core.policy = offering
    assert done(world, login("third"))[1] == [C.SUCCEEDED]
    assert "Revoked" in grants.revoke(core, grant.id, "UBEN00001")
    assert "revoked already" in grants.revoke(core, grant.id, "UANA00001")
    world.card(SUPPORT, ask(world, login("fourth")))
    assert [kit.did("login", text) for text in ("second", "third", "fourth")] == [0, 1, 0]


def test_used_up_between_proposal_and_start(made: tuple[World, Kit]) -> None:
    """Three at once on two uses left: two run, the third is asked, for the use is taken in the
    starting transaction.
    """
    world, kit = made
    thread = ask(world, login("first"))
    approve(world, thread, offer=0)
    world.said(SUPPORT, thread, "That is all.")
    many = ask(world, *(login(f"n{number}") for number in range(3)))
    card = world.card(SUPPORT, many)
    assert "no longer holds" in words(card)
    world.settle()
    assert sum(kit.did("login", f"n{number}") for number in range(3)) == 2


def test_which_fields_may_be_edited(made: tuple[World, Kit]) -> None:
    """The policy narrows what the tool leaves: one field has an input, the others are shown.

    None, then no Edit.
    """
    world, _ = made
    thread = ask(
        world, ("refund_order", {"order_id": 1042, "amount": "40.00", "reason": "damaged"})
    )
    view = open_modal(world, "ana", SUPPORT, world.card(SUPPORT, thread), "edit")
    inputs = [block["block_id"] for block in view["blocks"] if block["type"] == "input"]
    assert inputs == ["f:amount"]
    forged = {"f:amount": {"v": {"value": "30"}}, "f:order_id": {"v": {"value": "7"}}}
    with pytest.raises(ValueError, match="order_id"):
        world.person("ana").submit(forged)
    world.planner.clear()
    other = ask(world, ("put", {"text": "fixed"}))
    assert "edit" not in action_ids(world.card(SUPPORT, other))
