"""Requests without the agent: a person fills in a form, people decide, and no model is asked."""

from __future__ import annotations

from typing import Any

import pytest

from storage.states import CallStatus, RunSource, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.forms import command, form, option, request, root
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, press, reject, showing, typed, vote


@pytest.fixture(autouse=True)
def _no_model(harness: Harness) -> Any:
    """No story here asks the model."""
    before = len(harness.planner.requests)
    yield
    assert len(harness.planner.requests) == before


def test_a_request_is_chosen_filled_in_approved_and_run(harness: Harness, fakes: FakeTools) -> None:
    """The card shows approvers the reason, and the run is recorded as asked by form."""
    command(harness, "/approvals request")
    picker = harness.slack.wait(harness.person("ben").view)
    assert "Write a note" in words(picker)
    harness.person("ben").click_view("pick", selected="tool:note")
    harness.slack.wait(lambda: "Text" in words(harness.person("ben").view() or {}))
    filled = typed(text="buy milk") | {"why": {"text": {"value": "we have none"}}}
    assert harness.person("ben").submit(filled)["outcome"] == "closed"
    thread = root(harness, "buy milk")
    card = harness.card(SUPPORT, thread)
    assert "we have none" in words(card)
    assert "The agent" not in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "noted buy milk")
    assert fakes.did("note", "buy milk") == 1
    run = harness.run_in(thread)
    assert (run.source, run.status, run.requester) == (
        RunSource.FORM,
        RunStatus.COMPLETED,
        "UBEN00001",
    )


def test_dialogs_of_a_form_request_mention_no_agent(harness: Harness) -> None:
    """Approvers who reject or approve with words write to people."""
    thread = request(harness, "a quiet house")
    card = harness.card(SUPPORT, thread)
    for action in ("reject", "review"):
        view = open_modal(harness, "ana", SUPPORT, card, action)
        assert "agent" not in words({"blocks": view["blocks"]})
        harness.person("ana").close_view()


def test_errors_in_a_form_are_shown_at_their_fields(harness: Harness) -> None:
    """Values are missing or would fail; nobody is asked."""
    form(harness, "luck")
    outcome = harness.person("ben").submit(typed(text="all in vain"))
    assert outcome == {"outcome": "errors", "errors": {"f:text": "there is no luck in all in vain"}}
    harness.person("ben").close_view()
    form(harness, "refund_order")
    late = {"f:reason": {"v": {"selected_option": option(harness, "late")}}}
    outcome = harness.person("ben").submit(typed(order_id="9999", amount="5") | late)
    assert outcome["errors"] == {"f:order_id": "There is no order 9999."}
    harness.person("ben").close_view()
    harness.settle()
    assert not [m for m in harness.person("ben").messages(SUPPORT) if "vain" in words(m)]


def test_a_read_runs_at_once_and_its_result_is_shown(harness: Harness, fakes: FakeTools) -> None:
    """Nobody is asked."""
    thread = request(harness, "the attic", tool="peek")
    harness.said(SUPPORT, thread, "saw the attic")
    assert fakes.did("peek", "the attic") == 1
    assert not [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_rows_that_were_found_are_shown_once_as_a_table(harness: Harness) -> None:
    """The thread has no other message about them."""
    thread = request(harness, "shelf nine", tool="books")
    harness.said(SUPPORT, thread, "Books on shelf nine")
    arrived(harness)
    assert len(harness.thread(SUPPORT, thread)) == 2


def test_a_form_request_is_rejected_edited_or_withdrawn(harness: Harness, fakes: FakeTools) -> None:
    """Its card works like any other."""
    thread = request(harness, "red paint")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "use blue")
    harness.said(SUPPORT, thread, "use blue")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    thread = request(harness, "green paint")
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="grey paint"))["outcome"] == "closed"
    arrived(harness)
    [call] = harness.calls_in(thread)
    assert call.revision == 2
    vote(harness, "cleo", harness.card(SUPPORT, thread, "cleo"))
    harness.said(SUPPORT, thread, "noted grey paint")
    thread = request(harness, "old paint")
    press(harness, "ben", SUPPORT, harness.card(SUPPORT, thread, "ben"), "cancel_run")
    harness.said(SUPPORT, thread, "cancelled the request")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.CANCELLED
    assert (fakes.did("note", "red paint"), fakes.did("note", "old paint")) == (0, 0)


def test_the_card_does_not_offer_to_send_the_plan_back(harness: Harness) -> None:
    """There is no agent to make another plan."""
    thread = request(harness, "a lamp")
    assert "send_back:" not in words(harness.card(SUPPORT, thread))


def test_the_requesters_words_in_the_thread_are_answered(harness: Harness) -> None:
    """They are told that no agent reads them. The card still waits, and no model is asked."""
    thread = request(harness, "a bench")
    harness.card(SUPPORT, thread)
    asked = len(harness.planner.requests)
    for text in ("make it two", "yes"):
        harness.person("ben").say(SUPPORT, text, thread)
    arrived(harness)
    seen = harness.person("ben").messages(SUPPORT, thread)
    assert sum("No agent works on this request" in words(m) for m in seen) == 2
    assert harness.calls_in(thread)[0].status is CallStatus.PENDING
    assert len(harness.planner.requests) == asked


def test_a_form_request_expires_and_says_so_once(harness: Harness, fakes: FakeTools) -> None:
    """It then ends without having run."""
    thread = request(harness, "a clock")
    harness.card(SUPPORT, thread)
    harness.clock.advance(3601)
    harness.said(SUPPORT, thread, "Nobody answered")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    assert fakes.did("note", "a clock") == 0
    assert len(showing(harness, SUPPORT, thread, "⏰ Nobody answered")) == 1


def test_the_thread_shows_a_failed_tools_own_words(harness: Harness) -> None:
    """No model puts them into others."""
    thread = request(harness, "a unicorn", tool="refuse")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "no a unicorn here")
    assert [call.status for call in harness.calls_in(thread)] == [CallStatus.FAILED]


def test_a_person_settles_an_unknown_outcome(harness: Harness) -> None:
    """The request then ends."""
    thread = request(harness, "a parcel", tool="lose")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    card = harness.card(SUPPORT, thread, having="resolve_done")
    press(harness, "ana", SUPPORT, card, "resolve_done")
    notice = harness.said(SUPPORT, thread, "✅ Done")
    assert "Do “a parcel”. " in notice["text"]
    assert "said so; I could not confirm it." in notice["text"]
    assert harness.run_in(thread).status is RunStatus.COMPLETED


def test_reactions_on_the_first_message_show_the_state(harness: Harness) -> None:
    """That message is the bot's."""
    thread = request(harness, "a bell")
    harness.card(SUPPORT, thread)

    def list_reactions() -> list[str]:
        [message] = [m for m in harness.person("ben").messages(SUPPORT) if m["ts"] == thread]
        return [each["name"] for each in message.get("reactions", [])]

    harness.slack.wait(lambda: list_reactions() == ["hourglass_flowing_sand"])
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: list_reactions() == ["white_check_mark"])


@pytest.mark.parametrize("stage", ["stored", "rooted", "waiting", "decided"])
def test_a_form_request_survives_a_restart(harness: Harness, fakes: FakeTools, stage: str) -> None:
    """It is asked once, runs once and is reported once, whatever stage it had reached."""
    text = f"a bridge, {stage}"
    form(harness, "note")
    if stage == "stored":
        harness.app.loop.pause()
    assert harness.person("ben").submit(typed(text=text))["outcome"] == "closed"
    if stage == "stored":
        harness.restart()
    thread = root(harness, text)
    if stage == "rooted":
        harness.restart()
    card = harness.card(SUPPORT, thread)
    if stage == "waiting":
        harness.restart()
    if stage == "decided":
        harness.app.loop.pause()
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
        harness.slack.wait(lambda: all(d.outcome != "pending" for d in harness.slack.deliveries))
        harness.restart()
    else:
        vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "✅ Done")
    arrived(harness)
    assert fakes.did("note", text) == 1
    roots = [m for m in harness.person("ben").messages(SUPPORT) if text in words(m)]
    assert len(roots) == 1
    assert len(showing(harness, SUPPORT, thread, "✅ Done")) == 1


def test_a_guest_gets_no_form(harness: Harness) -> None:
    """Only full members may ask."""
    command(harness, "/approvals request note", who="gus")
    gus = harness.person("gus")
    harness.slack.wait(
        lambda: [m for m in gus.everything(SUPPORT) if "I answer full members" in words(m)]
    )
    assert gus.view() is None


def test_show_tells_the_history_of_a_form_request(harness: Harness) -> None:
    """It names the form, the reason and the decision, and no agent."""
    thread = request(harness, "a kite", why="the wind is good")
    card = harness.card(SUPPORT, thread)
    assert "Why:" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "✅ Done")
    ben = harness.person("ben")
    run, seen = harness.run_in(thread), len(ben.everything(SUPPORT))
    command(harness, f"/approvals show {run.id}")
    told = harness.slack.wait(
        lambda: [m for m in ben.everything(SUPPORT)[seen:] if "a kite" in words(m)]
    )
    assert "Asked with a form" in words(told[0])
    assert "“Asked" not in words(told[0])
    assert "Why: “the wind is good”" in words(told[0])
    assert "agent" not in words(told[0])
    assert "UBEN00001" in words(told[0])
