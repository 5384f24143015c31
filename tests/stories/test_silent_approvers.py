"""Silent approvers may decide, but are not notified."""

from __future__ import annotations

import json

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, ask_for, cards_of, later, menu, statuses, told, vote
from tests.stories.test_home import opened

C = CallStatus
DAN = "UDAN00001"
POLICY = f"""
[defaults]
approvers = ["@shop-leads"]
silent = ["{DAN}"]
reminders = ["10m"]

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["{DAN}"]
reminders = []

[[rule]]
tool = "slow"
verdict = "ask"
approvers = ["@nobody"]
silent = ["{DAN}"]
post_to = "approvers"

[[rule]]
tool = "async_note"
verdict = "ask"
any_order = true
stages = [{{approvers = ["@shop-leads"], silent = ["{DAN}"]}}, {{approvers = ["UANA00001"]}}]
"""


def dump_posts(harness: Harness, seen: int) -> str:
    """Dump all posts and updates of the bot since this many requests."""
    methods = ("chat.postMessage", "chat.update", "conversations.open")
    return json.dumps([c.args for c in harness.slack.requests[seen:] if c.method in methods])


def test_silent_approvers_decide_and_are_not_notified(harness: Harness, fakes: FakeTools) -> None:
    """Neither the card nor the reminder mentions Dan, whose vote counts."""
    seen = len(harness.slack.requests)
    thread = ask(harness, ("note", {"text": "silently"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 601)
    reminder = words(harness.said(SUPPORT, thread, "this is still waiting for a decision"))
    assert "S0LEADS" in reminder
    all_sent(harness)
    assert DAN not in dump_posts(harness, seen)
    vote(harness, "ben", card)
    assert DAN not in told(harness, "ben", SUPPORT, thread, "You cannot decide this one")
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "silently")) == ([C.SUCCEEDED], 1)


def test_a_silent_approver_gets_no_direct_message(harness: Harness) -> None:
    """The rule posts its card to the approvers' direct messages."""
    seen = len(harness.slack.requests)
    ask(harness, ("put", {"text": "to the leads"}))
    harness.slack.wait(lambda: cards_of(harness, "ana", "to the leads"))
    all_sent(harness)
    assert cards_of(harness, "dan", "to the leads") == []
    assert DAN not in dump_posts(harness, seen)


def test_silent_approvers_are_notified_if_nobody_else_can_approve(harness: Harness) -> None:
    """The other approvers are an empty group, so Dan gets the card."""
    ask(harness, ("slow", {"text": "nobody else"}))
    harness.slack.wait(lambda: cards_of(harness, "dan", "nobody else"))


def test_home_shows_silent_calls_below_the_others(harness: Harness) -> None:
    """Though the silent one was asked first."""
    for tool, text in (("note", "asked first"), ("wipe", "asked second")):
        harness.card(SUPPORT, ask_for(harness, text, tool)[0])
    shown = words({"blocks": opened(harness, "dan", "asked first", "asked second")})
    assert shown.index("asked second") < shown.index("asked first")


def test_review_names_silent_approvers(harness: Harness) -> None:
    """The card itself names only people who are notified."""
    thread = ask(harness, ("note", {"text": "who may"}))
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = json.dumps(harness.slack.wait(harness.person("ana").view))
    assert f"Approvers: @shop-leads, also <@{DAN}>, not notified" in view


def test_a_card_with_stages_in_any_order_leaves_out_silent_approvers(
    harness: Harness, fakes: FakeTools
) -> None:
    """It names the others as missing; Dan's vote counts for the leads."""
    thread = ask(harness, ("async_note", {"text": "both"}))
    card = harness.card(SUPPORT, thread)
    assert "2 approvals needed: 1 of <!subteam^S0LEADS>, 1 of <@UANA00001>" in words(card)
    vote(harness, "dan", card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "both") == 1
