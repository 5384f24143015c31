"""Dialogs open only for people who may use them."""

from __future__ import annotations

import json

import pytest

from storage.models import Audit
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import ask, forget_people, menu, open_modal, press, told

TWO_NOTES = (("note", {"text": "one"}), ("note", {"text": "two"}))
REFUSAL = "You cannot decide this one"


def list_refusals(harness: Harness, thread: str) -> list[tuple[str, str, str]]:
    """The refused dialogs in the audit: (person, dialog, reason)."""
    ids = [call.id for call in harness.calls_in(thread)]
    rows = harness.all(Audit, Audit.call_id.in_(ids), Audit.event == "dialog.refused")
    found = [(row.actor, json.loads(row.data)) for row in rows]
    return [(who, data["dialog"], data["why"]) for who, data in found]


def count_opened_dialogs(harness: Harness) -> int:
    """Count the dialogs that the bot has opened."""
    return sum(each.method == "views.open" for each in harness.slack.requests)


@pytest.mark.parametrize(
    ("name", "channel", "why"),
    [
        ("gus", SUPPORT, "stranger"),
        ("eve", PARTNERS, "stranger"),
        ("dan", SUPPORT, "not_approver"),
    ],
)
def test_outsiders_and_other_colleagues_see_no_dialog(
    harness: Harness, name: str, channel: str, why: str
) -> None:
    """They are a guest, somebody of another company, and a colleague who is no approver. Each is
    told, and it is recorded.
    """
    thread = ask(harness, *TWO_NOTES, channel=channel)
    card = harness.card(channel, thread)
    person, before = harness.person(name), count_opened_dialogs(harness)
    expected: list[tuple[str, str, str]] = []
    for action in ("edit", "reject", "reject_all", "review", "send_back"):
        if action in action_ids(card):
            person.click(channel, card["ts"], action, seen=card)
        else:
            menu(harness, name, card, action, channel)
        expected.append((person.id, action, why))
        harness.slack.wait(lambda: list_refusals(harness, thread) == expected)
    sentences = [REFUSAL] if why == "stranger" else ["You cannot edit this one", REFUSAL]
    for sentence in sentences:
        told(harness, name, channel, thread, sentence)
    assert count_opened_dialogs(harness) == before


def test_a_requester_may_only_edit_and_send_back(harness: Harness, fakes: FakeTools) -> None:
    """Ben is no approver, so Review is refused."""
    thread = ask(harness, ("note", {"text": "mine"}))
    card = harness.card(SUPPORT, thread)
    menu(harness, "ben", card, "review")
    told(harness, "ben", SUPPORT, thread, REFUSAL)
    assert list_refusals(harness, thread) == [("UBEN00001", "review", "not_approver")]
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").close_view()
    menu(harness, "ben", card, "send_back")
    assert harness.slack.wait(harness.person("ben").view)["callback_id"] == "send_back"


def test_an_approver_may_review_their_own_request(harness: Harness, fakes: FakeTools) -> None:
    """The dialog shows the whole call and why she cannot approve it, and has no Approve button."""
    thread = ask(harness, ("note", {"text": "ana's own"}), who="ana")
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = harness.slack.wait(harness.person("ana").view)
    assert view["submit"] is None
    assert "This is your own request, so somebody else has to approve it." in json.dumps(view)
    [call] = harness.calls_in(thread)
    assert harness.audit_of(call)[-1] == "call.shown"


@pytest.mark.parametrize("user", ["UEVE00001", "UGUS00001", "UANA00001"])
def test_a_rejection_submitted_by_an_outsider_is_refused(harness: Harness, user: str) -> None:
    """The dialog says so on top. An approver's id from another workspace counts as an
    outsider's.
    """
    thread = ask(harness, *TWO_NOTES)
    card = harness.card(SUPPORT, thread)
    view = open_modal(harness, "ana", SUPPORT, card, "reject_all")
    options = next(b["element"]["options"] for b in view["blocks"] if b["block_id"] == "reason")
    team = "T0SANDBOX" if user == "UGUS00001" else "T0OTHERCO"
    state = {"values": {"reason": {"preset": {"selected_option": options[1]}}}}
    payload = {
        "type": "view_submission",
        "team": {"id": team},
        "user": {"id": user, "team_id": team},
        "view": {**view, "state": state},
    }
    answer = harness.slack.forge(payload, accepts=True)
    assert answer.wait() == "acked"
    assert answer.ack["response_action"] == "update"
    assert REFUSAL in answer.ack["view"]["blocks"][0]["text"]["text"]
    assert list_refusals(harness, thread) == [(user, "reject", "stranger")]
    assert all(call.status == "pending" for call in harness.calls_in(thread))


def test_no_dialog_opens_if_the_look_up_fails(harness: Harness, fakes: FakeTools) -> None:
    """The person is told; Slack did not say in time who they are."""
    thread = ask(harness, ("note", {"text": "slowly"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    forget_people(harness)
    harness.slack.faults.fail("users.info", times=4)
    before = count_opened_dialogs(harness)
    press(harness, "ana", SUPPORT, card, "reject")
    told(harness, "ana", SUPPORT, thread, "I could not check with Slack")
    assert count_opened_dialogs(harness) == before
    assert list_refusals(harness, thread) == [("UANA00001", "reject", "lookup")]
