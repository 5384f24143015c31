"""One person decides for another for a time: what they may decide, what not, and how it ends."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from bot.cards.delegation_dialog import DELEGATION_ALREADY_ENDED_REPLY
from storage.delegations import Delegation
from storage.models import Audit, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    all_sent,
    arrived,
    ask,
    cards_of,
    open_modal,
    press,
    reject,
    statuses,
    told,
    typed,
    vote,
)
from tests.stories.test_commands import asked

POLICY = """
[defaults]
approvers = ["UANA00001"]

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["UANA00001", "UDAN00001"]
quorum = 2

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "lose"
verdict = "ask"
approvers = ["UANA00001", "UDAN00001"]
reminders = ["10m"]

[[rule]]
tool = "async_note"
verdict = "ask"
approvers = ["UDAN00001"]
"""
DAY = 86_400
CLEO = "UCLEO0001"


def open_delegation_dialog(harness: Harness, who: str) -> dict[str, Any]:
    """Open the dialog from the command's answer; returns it."""
    person = harness.person(who)
    asked(harness, "/approvals delegate", who)
    mine = [m for m in person.everything(SUPPORT) if m.get("is_ephemeral")]
    answer = max(mine, key=lambda each: float(each["ts"]))
    person.click(SUPPORT, answer["ts"], "delegate", seen=answer)
    view: dict[str, Any] = harness.slack.wait(person.view)
    return view


def fill_delegation_dialog(
    harness: Harness, delegate: str, days: float, note: str = ""
) -> dict[str, Any]:
    """The state of the filled-in dialog: the delegate, and the end in days from now."""
    until = int(harness.clock.now().timestamp() + days * DAY)
    state: dict[str, Any] = {
        "delegate": {"person": {"selected_user": delegate}},
        "until": {"moment": {"selected_date_time": until}},
    }
    return {**state, "words": {"text": {"value": note}}} if note else state


def delegate(harness: Harness, who: str = "ana", to: str = CLEO, days: float = 2) -> Delegation:
    """Somebody delegates their approvals to another person; returns the row."""
    open_delegation_dialog(harness, who)
    outcome = harness.person(who).submit(fill_delegation_dialog(harness, to, days, "on holiday"))
    assert outcome["outcome"] == "closed"
    arrived(harness)
    row: Delegation = harness.all(Delegation)[-1]
    return row


@pytest.fixture(autouse=True)
def no_delegations_left(harness: Harness) -> Any:
    """All delegations have ended after a story."""
    yield
    harness.clock.advance(91 * DAY)


def ask_and_approve(harness: Harness, who: str, text: str, tool: str = "note") -> str:
    """Ben asks for this and somebody approves it; returns the thread."""
    thread = ask(harness, (tool, {"text": text}))
    vote(harness, who, harness.card(SUPPORT, thread))
    arrived(harness)
    return thread


def count_end_notices(harness: Harness) -> int:
    """Count the messages that tell Cleo that she no longer decides for Ana."""
    cleo = harness.person("cleo")
    said = "You no longer decide for <@UANA00001>"
    return sum(said in words(m) for m in cleo.everything(cleo.dm_channel))


def test_a_delegate_decides_for_an_approver(harness: Harness) -> None:
    """Thread, card, vote and audit name the person decided for, and the delegate is told at the
    beginning.
    """
    row = delegate(harness)
    told_cleo = json.dumps(harness.person("cleo").everything(harness.person("cleo").dm_channel))
    assert "on holiday" in told_cleo
    thread = ask_and_approve(harness, "cleo", "fence paint")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
    harness.said(SUPPORT, thread, "fence paint")
    card = json.dumps(harness.thread(SUPPORT, thread))
    assert ", for " in card
    [call] = harness.calls_in(thread)
    [given] = harness.all(Vote, Vote.call_id == call.id)
    assert (given.person, given.for_person) == (CLEO, "UANA00001")
    [fact] = harness.all(Audit, Audit.call_id == call.id, Audit.event == "call.approved")
    assert json.loads(fact.data)["for"] == "UANA00001"
    assert (row.giver, row.delegate) == ("UANA00001", CLEO)


def test_a_delegation_ends_by_itself(harness: Harness) -> None:
    """Before it and after its time the same person cannot decide."""
    thread = ask(harness, ("note", {"text": "east gate"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    delegate(harness, days=1)
    harness.clock.advance(2 * DAY)
    harness.said(SUPPORT, thread, "That is all.")  # the call has expired
    thread = ask(harness, ("note", {"text": "west gate"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_only_the_delegator_ends_a_delegation_early(harness: Harness) -> None:
    """A forged click of somebody else ends nothing. The delegate cannot decide afterwards."""
    row = delegate(harness)
    asked(harness, "/approvals delegate", "ana")
    mine = [m for m in harness.person("ana").everything(SUPPORT) if m.get("is_ephemeral")]
    answer = max(mine, key=lambda each: float(each["ts"]))
    assert "end_delegation" not in asked(harness, "/approvals delegate", "cleo")
    click = harness.person("ana").click(SUPPORT, answer["ts"], "end_delegation", seen=answer)
    arrived(harness)
    [ended] = harness.all(Delegation, Delegation.id == row.id)
    assert ended.revoked_by == "UANA00001"
    thread = ask(harness, ("note", {"text": "rake"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    again = delegate(harness)
    payload = copy.deepcopy(click.payload)
    payload["user"] |= {"id": "UDAN00001"}
    payload["actions"][0] |= {"value": again.id, "action_ts": "1.2"}
    harness.slack.forge(payload)
    arrived(harness)
    [kept] = harness.all(Delegation, Delegation.id == again.id)
    assert kept.revoked_at is None


@pytest.mark.parametrize("by", ["time", "click"])
def test_a_delegation_ends_only_once(harness: Harness, by: str) -> None:
    """A click on an old button is told so, and changes nothing of how it ended."""
    row, before = delegate(harness), count_end_notices(harness)
    asked(harness, "/approvals delegate", "ana")
    ana = harness.person("ana")
    answer = max(
        (m for m in ana.everything(SUPPORT) if m.get("is_ephemeral")),
        key=lambda each: float(each["ts"]),
    )
    if by == "click":
        ana.click(SUPPORT, answer["ts"], "end_delegation", seen=answer)
        arrived(harness)
    else:
        harness.clock.advance(3 * DAY)
    [ended] = harness.all(Delegation, Delegation.id == row.id)
    ana.click(SUPPORT, answer["ts"], "end_delegation", seen=answer)
    told(harness, "ana", SUPPORT, answer["ts"], DELEGATION_ALREADY_ENDED_REPLY)
    arrived(harness)
    [row] = harness.all(Delegation, Delegation.id == row.id)
    assert (row.revoked_at, row.revoked_by) == (ended.revoked_at, ended.revoked_by)
    assert count_end_notices(harness) == before + (by == "click")


def test_a_delegate_cannot_approve_their_own_request(harness: Harness) -> None:
    """Cleo asks for the call and decides for Ana."""
    delegate(harness)
    thread = ask(harness, ("note", {"text": "own seeds"}), who="cleo")
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_a_delegate_cannot_approve_the_delegators_request(harness: Harness) -> None:
    """Ana cannot approve her own request, so nobody can for her."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "her seeds"}), who="ana")
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_a_delegate_cannot_edit_or_approve_the_delegators_edit(harness: Harness) -> None:
    """Deciding for somebody does not include editing for them."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "blue door"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "edit")
    told(harness, "cleo", SUPPORT, thread, "You cannot edit this one")
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="green door"))["outcome"] == "closed"
    arrived(harness)
    # Ana cannot approve her own edit, so nobody can for her
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_delegate_and_delegator_count_as_one_approval(harness: Harness) -> None:
    """Two approvals are needed; the delegate votes first."""
    delegate(harness)
    thread = ask_and_approve(harness, "cleo", "tall hedge", "wipe")
    assert statuses(harness, thread) == [CallStatus.PENDING]
    card = harness.card(SUPPORT, thread)
    assert ", for <@UANA00001>" in words(card)
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "count as one")
    assert statuses(harness, thread) == [CallStatus.PENDING]
    vote(harness, "dan", harness.card(SUPPORT, thread))
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_a_delegate_changes_nothing_after_the_delegators_vote(harness: Harness) -> None:
    """Two approvals are needed; the delegate neither adds one nor takes the delegator's back."""
    delegate(harness)
    thread = ask_and_approve(harness, "ana", "low hedge", "wipe")
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    told(harness, "cleo", SUPPORT, thread, "count as one")
    reject(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "no")
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_the_delegator_can_reject_what_the_delegate_approved(harness: Harness) -> None:
    """The call still waits for a second approval."""
    delegate(harness)
    thread = ask_and_approve(harness, "cleo", "wide hedge", "wipe")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "keep it")
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.REJECTED]


def test_a_delegation_cannot_be_passed_on(harness: Harness) -> None:
    """Ana delegates to Cleo and Cleo to Dan: Cleo decides for Ana, and Dan does not."""
    delegate(harness)
    delegate(harness, "cleo", "UDAN00001")
    thread = ask(harness, ("note", {"text": "third hand"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "dan", SUPPORT, card, "approve")
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]
    vote(harness, "cleo", card)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_a_delegate_may_not_decide_more_than_the_delegator(harness: Harness) -> None:
    """Ana is no approver of this call."""
    delegate(harness)
    thread = ask(harness, ("async_note", {"text": "not hers"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")


def test_a_delegate_gets_cards_in_direct_messages(harness: Harness) -> None:
    """The rule posts its cards to the approvers."""
    delegate(harness)
    thread = ask(harness, ("put", {"text": "pond liner"}))
    dm = harness.person("cleo").dm_channel
    card = harness.card(dm, None, "cleo")
    assert "pond liner" in words(card)
    harness.person("cleo").click(dm, card["ts"], "approve", seen=card)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_a_delegate_of_somebody_else_gets_no_card(harness: Harness) -> None:
    """Cleo decides for Dan, who is no approver of this call."""
    delegate(harness, "dan")
    ask(harness, ("put", {"text": "hose reel"}))
    harness.slack.wait(lambda: cards_of(harness, "ana", "hose reel"))
    all_sent(harness)
    assert not cards_of(harness, "cleo", "hose reel")


def test_a_reminder_names_the_delegate_as_well(harness: Harness) -> None:
    """The approvers are named, too."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "old key"}))
    harness.card(SUPPORT, thread)
    harness.clock.advance(601)
    line = words(harness.said(SUPPORT, thread, "is still waiting for a decision"))
    for who in ("UANA00001", "UDAN00001", CLEO):
        assert who in line


def test_a_reminder_does_not_name_a_delegate_who_has_left(harness: Harness) -> None:
    """Those for whom they decided are named."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "new key"}))
    harness.card(SUPPORT, thread)
    cleo = harness.slack.people["cleo"]
    cleo.deleted = True
    try:
        harness.clock.advance(601)
        line = words(harness.said(SUPPORT, thread, "is still waiting for a decision"))
    finally:
        cleo.deleted = False
        harness.clock.advance(61)  # past the lifetime of a look-up
    assert "UANA00001" in line
    assert CLEO not in line
    assert "Cleo" not in line


@pytest.mark.parametrize(
    ("to", "days", "at"),
    [
        ("UANA00001", 2, "delegate"),  # herself
        ("UGUS00001", 2, "delegate"),  # a guest
        (CLEO, 91, "until"),
        (CLEO, -1, "until"),
    ],
)
def test_the_dialog_refuses_wrong_people_and_times(
    harness: Harness, to: str, days: float, at: str
) -> None:
    """It takes only a colleague, for ninety days at most; the error stands at its field."""
    open_delegation_dialog(harness, "ana")
    outcome = harness.person("ana").submit(fill_delegation_dialog(harness, to, days))
    assert list(outcome["errors"]) == [at]
    assert not [row for row in harness.all(Delegation) if row.until > harness.clock.now()]


def test_a_new_delegation_replaces_the_old_one(harness: Harness) -> None:
    """The dialog names the present delegate, who is then told that it has ended."""
    first = delegate(harness)
    before = count_end_notices(harness)
    assert f"<@{CLEO}> decides for you until" in json.dumps(open_delegation_dialog(harness, "ana"))
    harness.person("ana").submit(fill_delegation_dialog(harness, "UDAN00001", 3))
    arrived(harness)
    [old] = harness.all(Delegation, Delegation.id == first.id)
    assert old.revoked_by == "UANA00001"
    harness.slack.wait(lambda: count_end_notices(harness) == before + 1)


def test_a_delegation_survives_a_restart(own_harness: Any) -> None:
    """It is stored in the database."""
    harness: Harness = own_harness(FakeTools().tools, POLICY)
    delegate(harness)
    harness.restart()
    thread = ask_and_approve(harness, "cleo", "new spade")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
