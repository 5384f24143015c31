"""Approver groups that decide in any order: who is missing, and for which group a vote counts."""

from __future__ import annotations

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, cards_of, later, now_at, reject, statuses, told
from tests.stories.test_delegation import delegate
from tests.stories.test_home import opened
from tests.stories.test_stages import vote

C = CallStatus
POLICY = """
[defaults]
stages = [{approvers = ["@shop-leads"]}, {approvers = ["UDAN00001"]}]
any_order = true
reminders = ["20m"]

[[rule]]
tool = "put"
verdict = "ask"
stages = [{approvers = ["@shop-leads"]}, {approvers = ["UCLEO0001", "UDAN00001"]}]

[[rule]]
tool = "async_note"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "wipe"
verdict = "ask"
stages = [{approvers = ["UANA00001"]}, {approvers = ["UANA00001", "UCLEO0001"]}]
"""


def test_groups_approve_in_any_order(harness: Harness, fakes: FakeTools) -> None:
    """Dan of the second group comes first, and the card says who is still missing."""
    thread = ask(harness, ("note", {"text": "any order"}))
    card = harness.card(SUPPORT, thread)
    needed = "2 approvals needed: 1 of <!subteam^S0LEADS>, 1 of <@UDAN00001>"
    assert needed in words(card)
    drawn = vote(harness, "dan", card)
    assert "✅ <@UDAN00001>  ·  1 more approval needed: 1 of <!subteam^S0LEADS>" in words(drawn)
    assert statuses(harness, thread) == [C.PENDING]
    vote(harness, "ana", drawn)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "any order")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UDAN00001>, <@UANA00001>" in harness.outputs()[0]["output"]


def test_an_approval_for_a_full_group_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """Ana has approved for the leads, so Cleo is told that Dan is missing. She can still reject."""
    thread = ask(harness, ("note", {"text": "enough"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "cleo", card)
    sentence = told(harness, "cleo", SUPPORT, thread, "Your step has enough approvals")
    assert "Still missing: <@UDAN00001>." in sentence
    assert statuses(harness, thread) == [C.PENDING]
    reject(harness, "cleo", SUPPORT, card, "all the same, no")
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "enough")) == ([C.REJECTED], 0)


def test_somebody_in_both_groups_counts_only_once(harness: Harness, fakes: FakeTools) -> None:
    """Cleo votes first; Ana, who is in one group only, can still complete it."""
    thread = ask(harness, ("put", {"text": "both"}))
    card = vote(harness, "cleo", harness.card(SUPPORT, thread))
    vote(harness, "cleo", card)
    told(harness, "cleo", SUPPORT, thread, "You already approved this")
    assert (statuses(harness, thread), fakes.did("put", "both")) == ([C.PENDING], 0)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "both") == 1


def test_a_reminder_mentions_only_those_still_missing(harness: Harness, fakes: FakeTools) -> None:
    """Ana has approved, so it mentions Dan and not the leads."""
    thread = ask(harness, ("note", {"text": "remind the other"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    later(harness, 1201)
    line = words(harness.said(SUPPORT, thread, "this is still waiting for a decision"))
    assert "<@UDAN00001>" in line
    assert "S0LEADS" not in line


def test_a_call_is_refused_if_too_few_people_could_approve_it(harness: Harness) -> None:
    """Ana alone is the first group, and she cannot approve what she asks for herself."""
    thread = ask(harness, ("wipe", {"text": "two of one"}), who="ana")
    harness.said(SUPPORT, thread, "it needs 2 people to approve it, and only 1 can be", "ana")
    harness.said(SUPPORT, thread, "That is all.", "ana")
    assert statuses(harness, thread) == [C.REFUSED]


def test_home_lists_a_call_only_for_those_still_missing(harness: Harness) -> None:
    """Ana has approved for the leads: Dan sees it, Cleo does not."""
    thread = ask(harness, ("note", {"text": "on whose home"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    assert "on whose home" in words(now_at(harness, SUPPORT, card["ts"]))
    opened(harness, "dan", "on whose home")
    opened(harness, "cleo", without="on whose home")


def test_all_groups_get_a_direct_message_at_once(harness: Harness, fakes: FakeTools) -> None:
    """With post_to = "approvers" the people of every group have their card from the beginning."""
    thread = ask(harness, ("async_note", {"text": "to all at once"}))
    card = harness.slack.wait(lambda: cards_of(harness, "dan", "to all at once"))[0]
    harness.settle()
    assert [len(cards_of(harness, who, "to all at once")) for who in ("ana", "cleo")] == [1, 1]
    vote(harness, "dan", card, harness.person("dan").dm_channel)
    mine = cards_of(harness, "ana", "to all at once")[0]
    assert "1 more approval needed: 1 of <!subteam^S0LEADS>" in words(mine)
    vote(harness, "ana", mine, harness.person("ana").dm_channel)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "to all at once") == 1


def test_a_member_of_a_full_group_counts_as_a_delegate(harness: Harness, fakes: FakeTools) -> None:
    """Ana has approved for the leads; Cleo, a lead too, decides for Dan."""
    delegate(harness, who="dan", to="UCLEO0001")
    thread = ask(harness, ("note", {"text": "for dan, by cleo"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "for dan, by cleo")) == ([C.SUCCEEDED], 1)
