"""Calls that need several approvals: how votes, vetoes, edits and deadlines count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from storage.models import Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, now_at, open_modal, reject, statuses, told, typed

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 2

[[rule]]
tool = "put"
verdict = "ask"
veto = 2

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@finance"]
quorum = 2
"""


def vote(harness: Harness, who: str, card: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Approve, and return the card as it is once the vote has been decided."""
    harness.person(who).click(SUPPORT, card["ts"], "approve", **how)
    arrived(harness)
    return now_at(harness, SUPPORT, card["ts"])


def test_a_call_runs_after_the_second_persons_approval(harness: Harness, fakes: FakeTools) -> None:
    """The card counts down; a second vote of one person does not count."""
    thread = ask(harness, ("note", {"text": "two"}))
    card = harness.card(SUPPORT, thread)
    assert "2 approvals needed" in words(card)
    drawn = vote(harness, "ana", card)
    assert "✅ <@UANA00001>  ·  1 more approval needed" in words(drawn)
    vote(harness, "ana", drawn)
    told(harness, "ana", SUPPORT, thread, "You already approved this")
    assert (statuses(harness, thread), fakes.did("note", "two")) == ([C.PENDING], 0)
    drawn = vote(harness, "cleo", drawn)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "two")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UANA00001>, <@UCLEO0001>" in harness.outputs()[0]["output"]
    [call] = harness.calls_in(thread)
    assert [each for each in harness.audit_of(call) if "vote" in each or "approved" in each] == [
        "call.vote.approve",
        "call.approved",
    ]


def test_two_approvals_at_the_same_time_both_count(harness: Harness, fakes: FakeTools) -> None:
    """Both clicks are on the card without votes, and the call runs once."""
    thread = ask(harness, ("note", {"text": "at once"}))
    card = harness.card(SUPPORT, thread)
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                lambda who: harness.person(who).click(SUPPORT, card["ts"], "approve", seen=card),
                ("ana", "dan"),
            )
        )
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert {row.person for row in harness.all(Vote, Vote.call_id == call.id)} == {
        "UANA00001",
        "UDAN00001",
    }
    assert fakes.did("note", "at once") == 1


def test_one_of_two_approvals_expires_at_the_deadline(harness: Harness, fakes: FakeTools) -> None:
    """The call ends as expired, not rejected, and a late vote is told so."""
    thread = ask(harness, ("note", {"text": "half"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.clock.advance(3601)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert (statuses(harness, thread), fakes.did("note", "half")) == ([C.EXPIRED], 0)
    assert harness.outputs()[0]["output"].startswith("EXPIRED")
    vote(harness, "cleo", card, seen=card)
    told(harness, "cleo", SUPPORT, thread, "Too late")
    assert statuses(harness, thread) == [C.EXPIRED]


def test_one_rejection_ends_a_call_whatever_its_quorum(harness: Harness, fakes: FakeTools) -> None:
    """Without `veto` one is enough, even after an approval."""
    thread = ask(harness, ("note", {"text": "no"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    assert reject(harness, "dan", SUPPORT, card, "not today")["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "no")) == ([C.REJECTED], 0)


def test_a_veto_of_two_needs_two_rejections(harness: Harness, fakes: FakeTools) -> None:
    """The first is shown on the card; after the second the model is given both reasons."""
    thread = ask(harness, ("put", {"text": "veto"}))
    card = harness.card(SUPPORT, thread)
    assert "2 rejections would end it" in words(card)
    reject(harness, "ana", SUPPORT, card, "too dear")
    arrived(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert statuses(harness, thread) == [C.PENDING]
    assert "🚫 <@UANA00001>" in words(drawn)
    assert "1 more rejection would end it" in words(drawn)
    vote(harness, "ana", drawn)
    told(harness, "ana", SUPPORT, thread, "You already rejected this")
    reject(harness, "dan", SUPPORT, drawn, "too late")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REJECTED]
    output = harness.outputs()[0]["output"]
    assert "<@UANA00001>, <@UDAN00001>" in output
    assert "too dear" in output
    assert "too late" in output


def test_one_rejection_can_be_outvoted(harness: Harness, fakes: FakeTools) -> None:
    """Under a veto of two: two others approve after one rejection."""
    thread = ask(harness, ("put", {"text": "outvoted"}))
    card = harness.card(SUPPORT, thread)
    reject(harness, "ana", SUPPORT, card, "hm")
    arrived(harness)
    for who in ("cleo", "dan"):
        vote(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("put", "outvoted")) == ([C.SUCCEEDED], 1)
    assert "Approved by <@UCLEO0001>, <@UDAN00001>" in harness.outputs()[0]["output"]


def test_an_edit_drops_earlier_votes(harness: Harness, fakes: FakeTools) -> None:
    """They were for other arguments: old buttons are out of date, and two new votes are needed."""
    thread = ask(harness, ("note", {"text": "before"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    open_modal(harness, "ben", SUPPORT, card, "edit")
    assert harness.person("ben").submit(typed(text="after"))["outcome"] == "closed"
    arrived(harness)
    vote(harness, "cleo", card, seen=card)
    told(harness, "cleo", SUPPORT, thread, "out of date")
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "2 approvals needed" in words(drawn)
    assert "✅" not in words(drawn)
    vote(harness, "cleo", drawn)
    assert (
        statuses(harness, thread),
        sum(fakes.did("note", text) for text in ("before", "after")),
    ) == ([C.PENDING], 0)
    vote(harness, "ana", drawn)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "before"), fakes.did("note", "after")) == (0, 1)


def test_an_editors_vote_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """The editor is one of the approvers, but two others are needed."""
    thread = ask(harness, ("note", {"text": "mine"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "dan", SUPPORT, card, "edit")
    harness.person("dan").submit(typed(text="dan's"))
    arrived(harness)
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You edited this")
    for who in ("ana", "cleo"):
        assert fakes.did("note", "dan's") == 0
        vote(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "dan's") == 1


def test_votes_survive_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """After the restart the second vote on the same card completes the quorum."""
    thread = ask(harness, ("note", {"text": "restart"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.restart()
    vote(harness, "ana", card)
    told(harness, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(harness, thread) == [C.PENDING]
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "restart")) == ([C.SUCCEEDED], 1)


def test_a_call_that_too_few_can_approve_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Two of a group with one member are needed; the thread and the model are told so."""
    thread = ask(harness, ("wipe", {"text": "unreachable"}))
    harness.said(SUPPORT, thread, "it needs 2 people to approve it, and only 1 can be reached")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REFUSED]
    assert harness.outputs()[0]["output"].startswith(
        "REFUSED: this needs an approval, and it needs 2 people"
    )
    assert not [
        message for message in harness.thread(SUPPORT, thread) if "approve" in action_ids(message)
    ]


def test_the_requesters_own_vote_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """Ana, an approver, asks: only Cleo and Dan are left, and both are needed."""
    thread = ask(harness, ("note", {"text": "ana's"}), who="ana")
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    told(harness, "ana", SUPPORT, thread, "your own request")
    for who in ("cleo", "dan"):
        assert statuses(harness, thread) == [C.PENDING]
        vote(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "ana's") == 1


def test_approve_all_votes_on_each_call(harness: Harness, fakes: FakeTools) -> None:
    """Ana, who had voted on one call before, is told so; each call still needs two people."""
    thread = ask(harness, ("note", {"text": "all 1"}), ("note", {"text": "all 2"}))
    card = vote(harness, "ana", harness.card(SUPPORT, thread))
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    arrived(harness)
    told(harness, "ana", SUPPORT, thread, "You already approved this")
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert words(drawn).count("1 more approval needed") == 2
    harness.person("cleo").click(SUPPORT, drawn["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    first, second = harness.calls_in(thread)
    assert [harness.audit_of(call).count("call.approved") for call in (first, second)] == [1, 1]
    assert (
        len({row.digest for row in harness.all(Vote) if row.call_id in (first.id, second.id)}) == 2
    )
