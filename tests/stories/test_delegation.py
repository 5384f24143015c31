"""One person decides for another until a day: what they may, what they may not, and how it ends."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from storage.delegations import Delegation
from storage.models import Audit, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, open_modal, press, reject, statuses, told, typed, vote
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


def form(harness: Harness, who: str) -> dict[str, Any]:
    """Open the dialog from the command's answer; returns it."""
    person = harness.person(who)
    asked(harness, "/approvals delegate", who)
    mine = [m for m in person.everything(SUPPORT) if m.get("is_ephemeral")]
    answer = max(mine, key=lambda each: float(each["ts"]))
    person.click(SUPPORT, answer["ts"], "delegate", seen=answer)
    view: dict[str, Any] = harness.slack.wait(person.view)
    return view


def fill(harness: Harness, delegate: str, days: float, note: str = "") -> dict[str, Any]:
    """What is entered: who, and for how many days from now."""
    until = int(harness.clock.now().timestamp() + days * DAY)
    state: dict[str, Any] = {
        "delegate": {"person": {"selected_user": delegate}},
        "until": {"moment": {"selected_date_time": until}},
    }
    return {**state, "words": {"text": {"value": note}}} if note else state


def delegate(harness: Harness, who: str = "ana", to: str = CLEO, days: float = 2) -> Delegation:
    """Somebody has another decide for them; returns the row."""
    form(harness, who)
    outcome = harness.person(who).submit(fill(harness, to, days, "on holiday"))
    assert outcome["outcome"] == "closed"
    arrived(harness)
    row: Delegation = harness.all(Delegation)[-1]
    return row


@pytest.fixture(autouse=True)
def none_left(harness: Harness) -> Any:
    """Each story leaves no delegation behind."""
    yield
    harness.clock.advance(91 * DAY)


def approved(harness: Harness, who: str, text: str, tool: str = "note") -> str:
    """Ben asks for this and somebody approves it; returns the thread."""
    thread = ask(harness, (tool, {"text": text}))
    vote(harness, who, harness.card(SUPPORT, thread))
    arrived(harness)
    return thread


def told_of_end(harness: Harness) -> int:
    """How often Cleo was told that she decides for Ana no more."""
    cleo = harness.person("cleo")
    said = "You no longer decide for <@UANA00001>"
    return sum(said in words(m) for m in cleo.everything(cleo.dm_channel))


def test_one_decides_for_another(harness: Harness) -> None:
    """Who decides for an approver may approve as they may; the thread, the card, the vote and the
    audit say for whom. Both are told when it begins.
    """
    row = delegate(harness)
    told_cleo = json.dumps(harness.person("cleo").everything(harness.person("cleo").dm_channel))
    assert "on holiday" in told_cleo
    thread = approved(harness, "cleo", "fence paint")
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


def test_it_ends_by_itself(harness: Harness) -> None:
    """After its time the same person may decide nothing; nor could they before it was given."""
    thread = ask(harness, ("note", {"text": "east gate"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    delegate(harness, days=1)
    harness.clock.advance(2 * DAY)
    harness.said(SUPPORT, thread, "That is all.")  # the model was told that nobody answered
    thread = ask(harness, ("note", {"text": "west gate"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_the_giver_ends_it(harness: Harness) -> None:
    """Only the giver ends it, whatever a click claims; from then on it counts no more."""
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


def test_never_what_they_asked_for(harness: Harness) -> None:
    """Who asked for a call decides nothing about it by another's right, and is told so."""
    delegate(harness)
    thread = ask(harness, ("note", {"text": "own seeds"}), who="cleo")
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_never_what_the_giver_asked_for(harness: Harness) -> None:
    """What the giver may not approve, because it is their own request, nobody approves for them."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "her seeds"}), who="ana")
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_never_what_they_edited(harness: Harness) -> None:
    """To decide for somebody is not to edit for them: an approver's Edit stays closed."""
    delegate(harness)
    thread = ask(harness, ("note", {"text": "blue door"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "edit")
    told(harness, "cleo", SUPPORT, thread, "You cannot edit this one")
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="green door"))
    arrived(harness)
    # Ana's own edit is nobody's to approve for her
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    harness.settle()
    assert CallStatus.SUCCEEDED not in statuses(harness, thread)


def test_the_two_count_once(harness: Harness) -> None:
    """Where two have to approve, a giver and who decides for them are one: whoever is first."""
    delegate(harness)
    thread = approved(harness, "cleo", "tall hedge", "wipe")
    assert statuses(harness, thread) == [CallStatus.PENDING]
    card = harness.card(SUPPORT, thread)
    assert ", for <@UANA00001>" in words(card)
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "count as one")
    assert statuses(harness, thread) == [CallStatus.PENDING]
    vote(harness, "dan", harness.card(SUPPORT, thread))
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_the_giver_first(harness: Harness) -> None:
    """And where the giver was first, who decides for them adds nothing, nor takes it back."""
    delegate(harness)
    thread = approved(harness, "ana", "low hedge", "wipe")
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    told(harness, "cleo", SUPPORT, thread, "count as one")
    reject(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "no")
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_the_giver_may_still_say_no(harness: Harness) -> None:
    """A giver who disagrees with what was approved for them rejects it, while it waits."""
    delegate(harness)
    thread = approved(harness, "cleo", "wide hedge", "wipe")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "keep it")
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.REJECTED]


def test_it_goes_one_step_only(harness: Harness) -> None:
    """Who decides for somebody cannot have a third decide in turn."""
    delegate(harness)
    delegate(harness, "cleo", "UDAN00001")
    thread = ask(harness, ("note", {"text": "third hand"}))
    press(harness, "dan", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_never_wider_than_the_giver(harness: Harness) -> None:
    """What the giver may not decide, nobody decides for them."""
    delegate(harness)
    thread = ask(harness, ("async_note", {"text": "not hers"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")


def test_cards_come_to_them_too(harness: Harness) -> None:
    """A card that goes to its approvers in direct messages goes to who decides for them as well."""
    delegate(harness)
    thread = ask(harness, ("put", {"text": "pond liner"}))
    dm = harness.person("cleo").dm_channel
    card = harness.card(dm, None, "cleo")
    assert "pond liner" in words(card)
    harness.person("cleo").click(dm, card["ts"], "approve", seen=card)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_they_are_reminded_too(harness: Harness) -> None:
    """A reminder in the thread names who decides for an approver, beside them."""
    delegate(harness)
    thread = ask(harness, ("lose", {"text": "old key"}))
    harness.card(SUPPORT, thread)
    harness.clock.advance(601)
    line = words(harness.said(SUPPORT, thread, "is still waiting for a decision"))
    for who in ("UANA00001", "UDAN00001", CLEO):
        assert who in line


@pytest.mark.parametrize(
    ("to", "days", "at"),
    [
        ("UANA00001", 2, "delegate"),  # herself
        ("UGUS00001", 2, "delegate"),  # a guest
        (CLEO, 91, "until"),
        (CLEO, -1, "until"),
    ],
)
def test_what_the_dialog_refuses(harness: Harness, to: str, days: float, at: str) -> None:
    """Only a colleague, for ninety days at most; the error stands at its field."""
    form(harness, "ana")
    outcome = harness.person("ana").submit(fill(harness, to, days))
    assert list(outcome["errors"]) == [at]
    assert not [row for row in harness.all(Delegation) if row.until > harness.clock.now()]


def test_a_new_one_takes_the_place_of_the_old(harness: Harness) -> None:
    """One person decides for one giver at a time: the dialog says who it is now, and who it was
    hears that it has ended.
    """
    first = delegate(harness)
    before = told_of_end(harness)
    assert f"<@{CLEO}> decides for you until" in json.dumps(form(harness, "ana"))
    harness.person("ana").submit(fill(harness, "UDAN00001", 3))
    arrived(harness)
    [old] = harness.all(Delegation, Delegation.id == first.id)
    assert old.revoked_by == "UANA00001"
    harness.slack.wait(lambda: told_of_end(harness) == before + 1)


def test_it_holds_after_a_restart(own_harness: Any) -> None:
    """It is in the database: a bot that starts anew knows who decides for whom."""
    harness: Harness = own_harness(FakeTools().tools, POLICY)
    delegate(harness)
    harness.restart()
    thread = approved(harness, "cleo", "new spade")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
