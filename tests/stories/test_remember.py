"""Approving with a note, and remembered approvals: what is offered, for whom, how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.policy.evaluation import parse
from storage.grants import Grant
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, leaves, words
from tests.stories.steps import all_sent, ask, menu, noted, open_modal, press, showing

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
tool = ["put", "top_up"]
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
def offering_bot(own_harness: Callable[..., Harness]) -> tuple[Harness, FakeTools]:
    """A bot whose policy offers to remember approvals, and its tools."""
    fakes = FakeTools()
    return own_harness(fakes.tools, OFFERS), fakes


def approve(
    harness: Harness, thread: str, *, note: str = "", offer: int | None = None, who: str = "ana"
) -> dict[str, Any]:
    """Open the dialog from the card's menu and approve there; return the outcome."""
    card = harness.card(SUPPORT, thread)
    menu(harness, who, card, "review")
    view: dict[str, Any] = harness.slack.wait(harness.person(who).view)
    typed: dict[str, Any] = {"note": {"text": {"value": note}}} if note else {}
    if offer is not None:
        chosen = next(b for b in view["blocks"] if b.get("block_id") == "remember")["element"][
            "options"
        ][offer]
        typed["remember"] = {"offer": {"selected_option": chosen}}
    outcome: dict[str, Any] = harness.person(who).submit(typed)
    return outcome


def login(password: str, account: str = "shop") -> tuple[str, dict[str, str]]:
    """A call with two arguments."""
    return ("login", {"account": account, "password": password})


def done(
    harness: Harness, call: tuple[str, dict[str, str]], who: str = "ben"
) -> tuple[str, list[CallStatus]]:
    """Ask for a call that nobody has to approve; return its thread and, at the end, statuses."""
    thread = ask(harness, call, who=who)
    harness.said(SUPPORT, thread, "That is all.", who)
    harness.settle()
    return thread, [call.status for call in harness.calls_in(thread)]


def test_a_note_with_an_approval_reaches_card_and_model(harness: Harness, fakes: FakeTools) -> None:
    """It is on the card once, as plain text, and the model is given it in quotes."""
    thread = ask(harness, ("note", {"text": "noted"}))
    assert approve(harness, thread, note="checked with <@UCLEO0001>")["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "noted") == 1
    assert '"checked with <@UCLEO0001>"' in harness.outputs()[0]["output"]
    all_sent(harness)
    assert words({"blocks": harness.thread(SUPPORT, thread)}).count("checked with") == 1
    [card] = showing(harness, SUPPORT, thread, "checked with")
    assert "UCLEO0001" not in [leaf.get("user_id") for leaf in leaves(card["blocks"])]


def test_a_rule_may_demand_a_note(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """The card has no plain Approve, and the dialog is not accepted without a note."""
    harness, fakes = offering_bot
    thread = ask(harness, ("async_note", {"text": "why"}))
    card = harness.card(SUPPORT, thread, having="review")
    assert "approve" not in action_ids(card)
    open_modal(harness, "ana", SUPPORT, card, "review")
    assert harness.person("ana").submit({})["outcome"] == "errors"
    assert harness.calls_in(thread)[0].status is C.PENDING
    assert (
        harness.person("ana").submit({"note": {"text": {"value": "because"}}})["outcome"]
        == "closed"
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "why") == 1


def test_an_approval_remembered_in_a_thread_holds_only_there(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """It holds for the same arguments and requester; other threads, people and texts are asked."""
    harness, fakes = offering_bot
    thread = ask(harness, ("note", {"text": "daily"}))
    assert approve(harness, thread, offer=0)["outcome"] == "closed"
    harness.said(SUPPORT, thread, "the next ten run without asking")
    harness.said(SUPPORT, thread, "That is all.")
    harness.planner.script(*_build_turns("daily", "Again."))
    harness.person("ben").say(SUPPORT, "@bot once more", thread)
    harness.said(SUPPORT, thread, "Nobody was asked: ")
    harness.said(SUPPORT, thread, "Again.")
    assert fakes.did("note", "daily") == 2
    [*_, last] = harness.calls_in(thread)
    assert (last.status, bool(last.grant_id)) == (C.SUCCEEDED, True)
    assert "remembered approval" in harness.outputs()[-1]["output"]
    [used] = noted(harness, last.run_id, "grant.used")
    assert (used["grant"], used["revision"], used["digest"]) == (last.grant_id, 1, last.digest)
    for who, text, tool in (
        ("ben", "daily", "note"),
        ("cleo", "daily", "note"),
        ("ben", "other", "note"),
    ):
        elsewhere = ask(harness, (tool, {"text": text}), who=who)
        harness.card(SUPPORT, elsewhere, "ana")
        harness.settle()
        harness.planner.clear_script()
        assert [call.status for call in harness.calls_in(elsewhere)] == [C.PENDING]


def test_approval_of_a_large_number_is_remembered(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """The record stores the float 1e17 as a whole number."""
    harness, fakes = offering_bot
    thread = ask(harness, ("top_up", {"amount": 1e17}))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
    harness.said(SUPPORT, thread, "That is all.")
    _, ended = done(harness, ("top_up", {"amount": 1e17}))
    assert ended == [C.SUCCEEDED]
    assert fakes.did("top_up", "1e+17") == 2


def _build_turns(text: str, answer: str) -> list[Any]:
    return [Turn(calls=(("note", {"text": text}),)), Turn(text=answer)]


def test_an_approval_remembered_everywhere_expires(offering_bot: tuple[Harness, FakeTools]) -> None:
    """After two uses or two hours the account is asked again; a restart does not end the grant."""
    harness, fakes = offering_bot
    thread = ask(harness, login("first"))
    approve(harness, thread, offer=0)
    harness.said(SUPPORT, thread, "That is all.")
    assert done(harness, login("second"))[1] == [C.SUCCEEDED]
    harness.restart()
    assert done(harness, login("third"))[1] == [C.SUCCEEDED]
    used_up = ask(harness, login("fourth"))
    harness.card(SUPPORT, used_up)
    approve(harness, used_up, offer=0)
    harness.said(SUPPORT, used_up, "That is all.")
    harness.clock.advance(2 * 3600 + 1)
    for call in (login("fifth"), login("fifth", "bank")):
        harness.card(SUPPORT, ask(harness, call))
        harness.planner.clear_script()
    assert [fakes.did("login", text) for text in ("second", "third", "fourth", "fifth")] == [
        1,
        1,
        1,
        0,
    ]


def test_grants_are_listed_and_revoked_in_slack(offering_bot: tuple[Harness, FakeTools]) -> None:
    """`/approvals grants` shows them to the people who may end one with `/approvals revoke`."""
    harness, _ = offering_bot
    thread = ask(harness, login("first"))
    approve(harness, thread, offer=0)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [grant] = harness.all(Grant)

    def says(who: str, line: str, part: str) -> None:
        harness.person(who).command(SUPPORT, line)
        everything = harness.person(who).everything
        harness.slack.wait(
            lambda: any(m.get("is_ephemeral") and part in words(m) for m in everything(SUPPORT))
        )

    says("ben", "/approvals grants", f"{grant.id}")
    says("cleo", "/approvals grants", "You have no saved approvals")
    says("cleo", f"/approvals revoke {grant.id}", "no saved approval with that id")
    says("ana", f"/approvals revoke {grant.id}", "Revoked: ")
    says("ben", "/approvals revoke", "Name one saved approval")
    assert harness.all(Grant)[0].revoked_by == "UANA00001"


def test_approvals_of_destructive_tools_cannot_be_remembered(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """Not even if the rule offers it."""
    harness, _ = offering_bot
    thread = ask(harness, ("wipe", {"text": "all"}))
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = harness.slack.wait(harness.person("ana").view)
    assert "remember" not in [block.get("block_id") for block in view["blocks"]]


def test_verdict_once_asks_once_per_person(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """After one approval the same arguments run without asking for this requester only."""
    harness, fakes = offering_bot
    thread = ask(harness, ("put", {"text": "value"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert done(harness, ("put", {"text": "value"}))[1] == [C.SUCCEEDED]
    assert fakes.did("put", "value") == 2
    other = ask(harness, ("put", {"text": "value"}), who="cleo")
    harness.card(SUPPORT, other)


def test_a_grant_ends_if_revoked_or_not_offered(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """The approver and the requester can revoke it.

    It does not count under a policy that no longer offers it.
    """
    harness, fakes = offering_bot
    thread = ask(harness, login("first"))
    approve(harness, thread, offer=0)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    core = harness.app.core
    listing = core.build_grant_manager()
    [grant] = harness.all(Grant)
    assert grant.id in listing.describe_grants("UBEN00001")
    assert grant.id in listing.describe_grants("UANA00001")
    assert grant.id not in listing.describe_grants("UCLEO0001")
    assert "no saved approval with that id" in listing.revoke_grant(grant.id, "UCLEO0001")
    offering = core.policy.policy
    core.policy.policy = parse(harness.policy.replace("uses = 2", "uses = 1"))
    harness.card(SUPPORT, ask(harness, login("second")))
    harness.planner.clear_script()
    core.policy.policy = offering
    assert done(harness, login("third"))[1] == [C.SUCCEEDED]
    assert "Revoked" in listing.revoke_grant(grant.id, "UBEN00001")
    assert "revoked already" in listing.revoke_grant(grant.id, "UANA00001")
    harness.card(SUPPORT, ask(harness, login("fourth")))
    assert [fakes.did("login", text) for text in ("second", "third", "fourth")] == [0, 1, 0]


def test_a_grant_is_used_only_as_often_as_allowed(
    offering_bot: tuple[Harness, FakeTools],
) -> None:
    """Of three calls at once on two uses left two run, since a use is taken at the start."""
    harness, fakes = offering_bot
    thread = ask(harness, login("first"))
    approve(harness, thread, offer=0)
    harness.said(SUPPORT, thread, "That is all.")
    many = ask(harness, *(login(f"n{number}") for number in range(3)))
    card = harness.card(SUPPORT, many)
    assert "no longer holds" in words(card)
    harness.settle()
    assert sum(fakes.did("login", f"n{number}") for number in range(3)) == 2


def test_a_rule_limits_which_fields_may_be_edited(offering_bot: tuple[Harness, FakeTools]) -> None:
    """Only one field has an input, forged ones are refused; a rule without any gives no Edit."""
    harness, _ = offering_bot
    thread = ask(
        harness, ("refund_order", {"order_id": 1042, "amount": "40.00", "reason": "damaged"})
    )
    view = open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    inputs = [block["block_id"] for block in view["blocks"] if block["type"] == "input"]
    assert inputs == ["f:amount"]
    forged = {"f:amount": {"v": {"value": "30"}}, "f:order_id": {"v": {"value": "7"}}}
    with pytest.raises(ValueError, match="order_id"):
        harness.person("ana").submit(forged)
    harness.planner.clear_script()
    other = ask(harness, ("put", {"text": "fixed"}))
    assert "edit" not in action_ids(harness.card(SUPPORT, other))
