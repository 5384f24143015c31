"""Dialogs open for those who may use them, and for nobody else."""

from __future__ import annotations

import json

import pytest

from storage.models import Audit
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import ask, forget_people, menu, open_modal, press, told

TWO = (("note", {"text": "one"}), ("note", {"text": "two"}))
NO = "You cannot decide this one"


def refused(harness: Harness, thread: str) -> list[tuple[str, str, str]]:
    """(who, which dialog, why) of everybody who was turned away, from the audit."""
    ids = [call.id for call in harness.calls_in(thread)]
    rows = harness.all(Audit, Audit.call_id.in_(ids), Audit.event == "dialog.refused")
    found = [(row.actor, json.loads(row.data)) for row in rows]
    return [(who, data["dialog"], data["why"]) for who, data in found]


def opened(harness: Harness) -> int:
    """How many dialogs the bot has had opened."""
    return sum(each.method == "views.open" for each in harness.slack.requests)


@pytest.mark.parametrize(
    ("name", "channel", "why"),
    [
        ("gus", SUPPORT, "stranger"),
        ("eve", PARTNERS, "stranger"),
        ("dan", SUPPORT, "not_approver"),
    ],
)
def test_dialogs_open_for_nobody_else(harness: Harness, name: str, channel: str, why: str) -> None:
    """A guest, somebody of another company and a colleague who is no approver see no dialog.

    Each is told so, and it is written down.
    """
    thread = ask(harness, *TWO, channel=channel)
    card = harness.card(channel, thread)
    person, before = harness.person(name), opened(harness)
    expected: list[tuple[str, str, str]] = []
    for action in ("edit", "reject", "reject_all", "review", "send_back"):
        if action in action_ids(card):
            person.click(channel, card["ts"], action, seen=card)
        else:
            menu(harness, name, card, action, channel)
        expected.append((person.id, action, why))
        harness.slack.wait(lambda: refused(harness, thread) == expected)
    sentences = [NO] if why == "stranger" else ["You cannot edit this one", NO]
    for sentence in sentences:
        told(harness, name, channel, thread, sentence)
    assert opened(harness) == before


def test_who_asked_may_edit_and_send_back_only(harness: Harness, fakes: FakeTools) -> None:
    """The requester, who does not decide, sees the call where it is theirs to change."""
    thread = ask(harness, ("note", {"text": "mine"}))
    card = harness.card(SUPPORT, thread)
    menu(harness, "ben", card, "review")
    told(harness, "ben", SUPPORT, thread, NO)
    assert refused(harness, thread) == [("UBEN00001", "review", "not_approver")]
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").close_view()
    menu(harness, "ben", card, "send_back")
    assert harness.slack.wait(harness.person("ben").view)["callback_id"] == "send_back"


def test_an_approver_who_asked_may_look(harness: Harness, fakes: FakeTools) -> None:
    """Who may reject and not approve sees all of it, why not, and no Approve."""
    thread = ask(harness, ("note", {"text": "ana's own"}), who="ana")
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = harness.slack.wait(harness.person("ana").view)
    assert view["submit"] is None
    assert "This is your own request, so somebody else has to approve it." in json.dumps(view)
    [call] = harness.calls_in(thread)
    assert harness.audit_of(call)[-1] == "call.shown"


@pytest.mark.parametrize("user", ["UEVE00001", "UGUS00001", "UANA00001"])
def test_an_outsiders_submission_is_refused_in_words(harness: Harness, user: str) -> None:
    """A submitted rejection of the whole card by who is not of this workspace changes nothing.

    The dialog says so on top. An approver's id from another workspace is nobody here.
    """
    thread = ask(harness, *TWO)
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
    assert NO in answer.ack["view"]["blocks"][0]["text"]["text"]
    assert refused(harness, thread) == [(user, "reject", "stranger")]
    assert all(call.status == "pending" for call in harness.calls_in(thread))


def test_a_slow_look_up_opens_nothing(harness: Harness, fakes: FakeTools) -> None:
    """Where Slack does not say in time who clicked, they are asked to click again."""
    thread = ask(harness, ("note", {"text": "slowly"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    forget_people(harness)
    harness.slack.faults.fail("users.info", times=4)
    before = opened(harness)
    press(harness, "ana", SUPPORT, card, "reject")
    told(harness, "ana", SUPPORT, thread, "I could not check with Slack")
    assert opened(harness) == before
    assert refused(harness, thread) == [("UANA00001", "reject", "lookup")]
