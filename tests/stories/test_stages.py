"""Stages in order: whose turn it is, who is notified, and that nobody counts for two."""

from __future__ import annotations

from typing import Any

from storage.models import Message
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    arrived,
    ask,
    cards_of,
    later,
    now_at,
    open_modal,
    reject,
    showing,
    statuses,
    told,
    typed,
)

C = CallStatus
TURN = "your approval is needed next"
POLICY = """
[defaults]
stages = [{approvers = ["@shop-leads"]}, {approvers = ["UDAN00001"]}]

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "async_note"
verdict = "ask"
stages = [{approvers = ["@shop-leads"]}, {approvers = ["@shop-leads"]}]

[[rule]]
tool = "refuse"
verdict = "ask"
stages = [{approvers = ["UANA00001"]}, {approvers = ["@finance", "UDAN00001"]}]
reminders = ["10m"]
"""


def vote(
    harness: Harness, who: str, card: dict[str, Any], channel: str = SUPPORT
) -> dict[str, Any]:
    """Approve, and return the card as it is once the vote has been decided."""
    harness.person(who).click(channel, card["ts"], "approve")
    arrived(harness)
    return now_at(harness, channel, card["ts"], who)


def test_a_stage_can_approve_only_at_its_turn(harness: Harness, fakes: FakeTools) -> None:
    """The second stage is told whose turn it is, and later that its own has come."""
    thread = ask(harness, ("note", {"text": "in order"}))
    card = harness.card(SUPPORT, thread)
    assert "Step 1 of 2  ·  1 approval needed in this step" in words(card)
    vote(harness, "dan", card)
    sentence = told(harness, "dan", SUPPORT, thread, "It is not your turn")
    assert "<@UANA00001>, <@UCLEO0001>" in sentence
    assert not showing(harness, SUPPORT, thread, TURN)
    drawn = vote(harness, "ana", card)
    assert "Step 2 of 2  ·  ✅ <@UANA00001>  ·  1 more approval needed in this step" in words(drawn)
    line = words(harness.said(SUPPORT, thread, TURN))
    assert "✅ Ana Ruiz approved. ➡️ <@UDAN00001>: your approval is needed next" in line
    assert not showing(harness, SUPPORT, thread, "Ana Ruiz approved:")
    assert statuses(harness, thread) == [C.PENDING]
    vote(harness, "dan", drawn)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "in order")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UANA00001>, <@UDAN00001>" in harness.outputs()[0]["output"]


def test_a_later_stage_may_reject_before_its_turn(harness: Harness, fakes: FakeTools) -> None:
    """The rejection ends the call before the first stage has voted."""
    thread = ask(harness, ("note", {"text": "early no"}))
    reject(harness, "dan", SUPPORT, harness.card(SUPPORT, thread), "never")
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "early no")) == ([C.REJECTED], 0)


def test_a_person_of_an_earlier_stage_may_reject_but_not_approve(
    harness: Harness, fakes: FakeTools
) -> None:
    """The second stage is open; Cleo is in the first one, which Ana has completed."""
    thread = ask(harness, ("note", {"text": "again"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "cleo", card)
    told(harness, "cleo", SUPPORT, thread, "It is not your turn")
    assert statuses(harness, thread) == [C.PENDING]
    reject(harness, "cleo", SUPPORT, card, "on second thoughts")
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "again")) == ([C.REJECTED], 0)


def test_each_stage_gets_its_card_by_dm_at_its_turn(harness: Harness, fakes: FakeTools) -> None:
    """The rule has `post_to = "approvers"`."""
    thread = ask(harness, ("put", {"text": "privately"}))
    dms = {who: harness.person(who).dm_channel for who in ("ana", "cleo", "dan")}
    card = harness.slack.wait(lambda: cards_of(harness, "ana", "privately"))[0]
    harness.settle()
    assert [len(cards_of(harness, who, "privately")) for who in dms] == [1, 1, 0]
    vote(harness, "ana", card, dms["ana"])
    [theirs] = harness.slack.wait(lambda: cards_of(harness, "dan", "privately"))
    harness.said(SUPPORT, thread, "✅ Ana Ruiz approved: Set “privately” (1 more approval needed)")
    assert "Step 2 of 2" in words(theirs)
    vote(harness, "dan", theirs, dms["dan"])
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert (statuses(harness, thread), fakes.did("put", "privately")) == ([C.SUCCEEDED], 1)
    # no copy has buttons any more
    assert not any(cards_of(harness, who, "privately") for who in dms)


def test_one_person_counts_for_one_stage_only(harness: Harness, fakes: FakeTools) -> None:
    """Both stages name the same group, and two of its people are needed."""
    thread = ask(harness, ("async_note", {"text": "four eyes"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, TURN)
    vote(harness, "ana", card)
    told(harness, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(harness, thread) == [C.PENDING]
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("async_note", "four eyes") == 1


def test_a_call_with_too_few_people_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """One of the group's two people asks, so one is left for two stages; the thread says so."""
    thread = ask(harness, ("async_note", {"text": "alone"}), who="ana")
    harness.said(
        SUPPORT, thread, "it needs 2 people to approve it, and only 1 can be reached", "ana"
    )
    harness.said(SUPPORT, thread, "That is all.", "ana")
    assert (statuses(harness, thread), fakes.did("async_note", "alone")) == ([C.REFUSED], 0)


def test_an_edit_goes_back_to_the_first_stage(harness: Harness, fakes: FakeTools) -> None:
    """It comes at the second stage's turn: the first stage approved other arguments."""
    thread = ask(harness, ("note", {"text": "was"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").submit(typed(text="is"))
    arrived(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "Step 1 of 2" in words(drawn)
    vote(harness, "dan", drawn)
    told(harness, "dan", SUPPORT, thread, "It is not your turn")
    for who in ("cleo", "dan"):
        assert fakes.did("note", "is") == 0
        vote(harness, who, drawn)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "was"), fakes.did("note", "is")) == (0, 1)


def test_an_editor_is_not_told_that_their_approval_is_needed(harness: Harness) -> None:
    """Cleo of the second stage has edited it, so Dan alone is named, also by the reminder."""
    thread = ask(harness, ("refuse", {"text": "draft"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "cleo", SUPPORT, card, "edit")
    harness.person("cleo").submit(typed(text="edited"))
    arrived(harness)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    assert "➡️ <@UDAN00001>: your approval" in words(harness.said(SUPPORT, thread, TURN))
    later(harness, 600)
    harness.said(SUPPORT, thread, "⏰ <@UDAN00001>: this is still waiting for a decision")


def test_a_restart_does_not_notify_a_stage_twice(harness: Harness, fakes: FakeTools) -> None:
    """After a vote, a restart and ten minutes there is one line about its turn."""
    thread = ask(harness, ("note", {"text": "told once"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, TURN)
    harness.restart()
    harness.clock.advance(600)
    harness.settle()
    assert len(showing(harness, SUPPORT, thread, TURN)) == 1
    [call] = harness.calls_in(thread)
    assert len([row for row in harness.all(Message) if row.key.startswith(f"nudge:{call.id}")]) == 1
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "told once") == 1


def test_all_stages_share_one_deadline(harness: Harness, fakes: FakeTools) -> None:
    """The first stage's approval does not extend it."""
    thread = ask(harness, ("note", {"text": "late"}))
    card = harness.card(SUPPORT, thread)
    harness.clock.advance(3000)
    vote(harness, "ana", card)
    harness.clock.advance(700)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "late")) == ([C.EXPIRED], 0)


def test_approve_all_counts_at_the_voters_stage(harness: Harness, fakes: FakeTools) -> None:
    """One click on two calls at different stages counts for one; the voter is told why."""
    thread = ask(harness, ("note", {"text": "ahead"}), ("note", {"text": "behind"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    assert "Step 2 of 2" in words(card)
    assert "Step 1 of 2" in words(card)
    for who, button in (("dan", "approve_all"), ("cleo", "approve")):
        harness.person(who).click(SUPPORT, card["ts"], button)
        arrived(harness)
        assert statuses(harness, thread) == [C.APPROVED, C.PENDING]
    told(harness, "dan", SUPPORT, thread, "It is not your turn")
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "ahead"), fakes.did("note", "behind")) == (1, 1)
