"""Rules that add to the verdict of others: one more step, and more approvers after a while."""

from __future__ import annotations

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, later, now_at, statuses, told, vote
from tests.stories.test_commands import asked

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001"]
deadline = "1h"

[[rule]]
name = "notes"
tool = "note"
verdict = "allow"

[[rule]]
name = "what Ben asks for"
tool = ["note", "put"]
requester = "UBEN00001"
verdict = "add"
approvers = ["UDAN00001"]

[[rule]]
name = "nobody answers"
tool = "wipe"
verdict = "add"
escalation = [{after = "30m", approvers = ["UCLEO0001"]}]

[[rule]]
name = "closed"
tool = "async_note"
verdict = "add"
approvers = ["UDAN00001"]

[[rule]]
name = "really closed"
tool = "async_note"
verdict = "deny"
reason = "Notes are closed."
"""


def test_an_allowed_call_waits_for_an_added_approver(harness: Harness, fakes: FakeTools) -> None:
    """Cleo's note runs at once; Ben's waits for Dan, whom a rule adds for what Ben asks."""
    theirs = ask(harness, ("note", {"text": "added, cleo"}), who="cleo")
    harness.said(SUPPORT, theirs, "That is all.", "cleo")
    harness.settle()
    assert statuses(harness, theirs) == [C.SUCCEEDED]
    thread = ask(harness, ("note", {"text": "added, ben"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    assert fakes.did("note", "added, ben") == 0
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "added, ben") == 1


def test_an_added_step_has_to_be_approved_as_well(harness: Harness, fakes: FakeTools) -> None:
    """The card counts two steps: Ana's as always, then Dan's."""
    thread = ask(harness, ("put", {"text": "added step"}))
    card = harness.card(SUPPORT, thread)
    assert "Step 1 of 2" in words(card)
    vote(harness, "ana", card)
    harness.settle()
    assert (statuses(harness, thread), fakes.did("put", "added step")) == ([C.PENDING], 0)
    vote(harness, "dan", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "added step") == 1


def test_an_added_escalation_lets_more_people_decide(harness: Harness, fakes: FakeTools) -> None:
    """Cleo cannot decide until thirty minutes have passed without a decision."""
    thread = ask(harness, ("wipe", {"text": "added people"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "cleo", card)
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    later(harness, 1801)
    harness.said(SUPPORT, thread, "so now you can too")
    vote(harness, "cleo", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "added people") == 1


def test_a_denied_call_stays_denied_despite_an_addition(harness: Harness, fakes: FakeTools) -> None:
    """The rule that denies stands below the one that adds."""
    thread = ask(harness, ("async_note", {"text": "added in vain"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("async_note", "added in vain")) == ([C.REFUSED], 0)


def test_explain_names_the_rule_that_asks_and_the_one_that_adds(harness: Harness) -> None:
    """`/approvals explain` also shows the added step."""
    text = asked(harness, "/approvals explain put text=why")
    assert "by no rule: [defaults] apply. what Ben asks for adds to it." in text
    assert "• what Ben asks for adds to it" in text
    assert "Step 2 of 2: one of" in text
