"""People who may decide and are not notified: not on the card, in no message, and last on Home."""

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


def posted(harness: Harness, seen: int) -> str:
    """All that the bot has posted or changed since, as Slack got it."""
    methods = ("chat.postMessage", "chat.update", "conversations.open")
    return json.dumps([c.args for c in harness.slack.requests[seen:] if c.method in methods])


def test_they_decide_and_are_not_notified(harness: Harness, fakes: FakeTools) -> None:
    """Neither the card nor the reminder names Dan, whose click counts all the same."""
    seen = len(harness.slack.requests)
    thread = ask(harness, ("note", {"text": "silently"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 601)
    reminder = words(harness.said(SUPPORT, thread, "this is still waiting for a decision"))
    assert "S0LEADS" in reminder
    all_sent(harness)
    assert DAN not in posted(harness, seen)
    vote(harness, "ben", card)
    assert DAN not in told(harness, "ben", SUPPORT, thread, "You cannot decide this one")
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "silently")) == ([C.SUCCEEDED], 1)


def test_they_get_no_direct_message(harness: Harness) -> None:
    """Where the card goes to the approvers, it goes to the others."""
    seen = len(harness.slack.requests)
    ask(harness, ("put", {"text": "to the leads"}))
    harness.slack.wait(lambda: cards_of(harness, "ana", "to the leads"))
    all_sent(harness)
    assert cards_of(harness, "dan", "to the leads") == []
    assert DAN not in posted(harness, seen)


def test_they_are_notified_where_nobody_else_could_approve(harness: Harness) -> None:
    """The others of the list are an empty group: it waits for Dan, who gets the card."""
    ask(harness, ("slow", {"text": "nobody else"}))
    harness.slack.wait(lambda: cards_of(harness, "dan", "nobody else"))


def test_home_shows_theirs_below_what_they_are_notified_of(harness: Harness) -> None:
    """Though it was asked first."""
    for tool, text in (("note", "asked first"), ("wipe", "asked second")):
        harness.card(SUPPORT, ask_for(harness, text, tool)[0])
    shown = words({"blocks": opened(harness, "dan", "asked first", "asked second")})
    assert shown.index("asked second") < shown.index("asked first")


def test_review_names_them(harness: Harness) -> None:
    """For those who open it: the card has room for those whom it asks."""
    thread = ask(harness, ("note", {"text": "who may"}))
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = json.dumps(harness.slack.wait(harness.person("ana").view))
    assert f"Approvers: @shop-leads, also <@{DAN}>, not notified" in view


def test_a_card_in_any_order_names_the_others(harness: Harness, fakes: FakeTools) -> None:
    """As those who are missing; Dan counts for the leads."""
    thread = ask(harness, ("async_note", {"text": "both"}))
    card = harness.card(SUPPORT, thread)
    assert "2 approvals needed: 1 of <!subteam^S0LEADS>, 1 of <@UANA00001>" in words(card)
    vote(harness, "dan", card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "both") == 1
