"""Rules that add to others: one more step, more people after a while, and who is told of it."""

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


def test_what_may_run_unasked_is_asked(harness: Harness, fakes: FakeTools) -> None:
    """The note of Cleo is written at once; the same of Ben waits for Dan, whom a rule adds."""
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


def test_one_more_step(harness: Harness, fakes: FakeTools) -> None:
    """Ana decides as ever, then Dan: the card counts both steps, and the call waits for both."""
    thread = ask(harness, ("put", {"text": "added step"}))
    card = harness.card(SUPPORT, thread)
    assert "Step 1 of 2" in words(card)
    vote(harness, "ana", card)
    harness.settle()
    assert (statuses(harness, thread), fakes.did("put", "added step")) == ([C.PENDING], 0)
    vote(harness, "dan", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "added step") == 1


def test_more_people_after_a_while(harness: Harness, fakes: FakeTools) -> None:
    """Where nobody answers, the added escalation lets Cleo decide, and not before."""
    thread = ask(harness, ("wipe", {"text": "added people"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "cleo", card)
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    later(harness, 1801)
    harness.said(SUPPORT, thread, "so now you can too")
    vote(harness, "cleo", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "added people") == 1


def test_what_is_denied_stays_denied(harness: Harness, fakes: FakeTools) -> None:
    """A rule that adds people opens nothing that a rule below it denies."""
    thread = ask(harness, ("async_note", {"text": "added in vain"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("async_note", "added in vain")) == ([C.REFUSED], 0)


def test_it_is_explained(harness: Harness) -> None:
    """The slash command names the rule that asks and the one that adds to it."""
    text = asked(harness, "/approvals explain put text=why")
    assert "by no rule: [defaults] apply. what Ben asks for adds to it." in text
    assert "• what Ben asks for adds to it" in text
    assert "Step 2 of 2: one of" in text
