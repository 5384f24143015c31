"""Cards that Slack refuses, loses or does not update: in the end they are right again."""

from __future__ import annotations

import json

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.steps import arrived, ask, now_at, open_modal, press, told, typed


def list_statuses(harness: Harness, thread: str) -> list[str]:
    return [str(call.status) for call in harness.calls_in(thread)]


def test_the_update_after_a_decision_is_retried(harness: Harness, fakes: FakeTools) -> None:
    """The click counts although Slack refuses the update; a click on the old buttons is told so."""
    thread = ask(harness, ("note", {"text": "redraw"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.faults.fail("chat.update", "internal_error", times=3, match=having(card["ts"]))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: list_statuses(harness, thread) == ["succeeded"])
    harness.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)

    for _ in range(5):  # past each pause of the outbox
        harness.settle()
        harness.clock.advance(60)
    harness.slack.wait(lambda: '"button"' not in words(now_at(harness, SUPPORT, card["ts"])))
    told(harness, "cleo", SUPPORT, thread, "<@UANA00001> already approved this")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "redraw") == 1


def test_a_deleted_card_comes_back_and_is_decided(harness: Harness, fakes: FakeTools) -> None:
    """The next change posts the deleted message again, with buttons that count."""
    thread = ask(harness, ("note", {"text": "deleted"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.slack.delete_message(SUPPORT, card["ts"])
    harness.person("ben").submit(typed(text="deleted and back"))
    anew = harness.card(SUPPORT, thread)
    assert anew["ts"] != card["ts"]
    harness.person("ana").click(SUPPORT, anew["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "deleted and back") == 1


def test_a_click_on_a_card_deleted_meanwhile_counts(harness: Harness, fakes: FakeTools) -> None:
    """The outcome is then posted in the thread."""
    thread = ask(harness, ("note", {"text": "vanished"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.delete_message(SUPPORT, card["ts"])
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "vanished") == 1
    assert "Done" in words(harness.said(SUPPORT, thread, "Approved by "))


@pytest.mark.parametrize("way", ["expired", "cut"])
@pytest.mark.parametrize("action", ["edit", "reject"])
def test_a_person_is_told_if_slack_does_not_open_a_dialog(
    harness: Harness, fakes: FakeTools, way: str, action: str
) -> None:
    """Its trigger expired or the connection was cut; the next click works."""
    thread = ask(harness, ("note", {"text": f"{way} {action}"}))
    card = harness.card(SUPPORT, thread)
    if way == "expired":
        harness.slack.faults.fail("views.open", "expired_trigger_id", person="ana")
    else:
        harness.slack.faults.drop("views.open", person="ana")
    press(harness, "ana", SUPPORT, card, action)
    why = "in time" if way == "expired" else "Slack did not answer"
    told(harness, "ana", SUPPORT, thread, why)
    assert harness.person("ana").view() is None
    open_modal(harness, "ana", SUPPORT, card, action)
    harness.person("ana").close_view()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", f"{way} {action}") == 1


def test_a_call_is_cancelled_if_its_card_is_not_posted(harness: Harness, fakes: FakeTools) -> None:
    """The run goes on, and requester and model read why."""
    harness.slack.faults.fail(
        "chat.postMessage", "restricted_action", match=lambda a: "card:" in json.dumps(a)
    )
    thread = ask(harness, ("note", {"text": "unseen"}))
    harness.said(SUPPORT, thread, "I could not show this to its approvers")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert list_statuses(harness, thread) == ["cancelled"]
    assert "could not be shown to its approvers" in harness.outputs()[-1]["output"]
    assert fakes.did("note", "unseen") == 0


def test_a_call_stays_open_if_one_copy_cannot_be_posted(harness: Harness, fakes: FakeTools) -> None:
    """One approver who sees a copy is enough to decide it."""
    ana, ben = harness.person("ana"), harness.person("ben")
    harness.slack.faults.fail(
        "conversations.open", "user_disabled", match=lambda a: "UCLEO0001" in str(a.get("users"))
    )
    thread = ask(harness, ("note", {"text": "one copy"}), channel=ben.dm_channel)
    card = harness.card(ana.dm_channel, None)
    arrived(harness)
    assert list_statuses(harness, thread) == ["pending"]
    ana.click(ana.dm_channel, card["ts"], "approve")
    harness.said(ben.dm_channel, thread, "That is all.")
    assert fakes.did("note", "one copy") == 1
    harness.settle()
    drawn = now_at(harness, ana.dm_channel, card["ts"])
    assert "approve" not in action_ids(drawn)
    assert "Done" in words(drawn)
