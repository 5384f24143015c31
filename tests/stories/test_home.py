"""The Home tab: what waits for me, my requests, saved approvals; empty, full, and kept up
to date.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.approvals.request_overview import MAX_CALLS_EXAMINED
from bot.cards.home_tab import MAX_REQUESTS, MAX_WAITING_CALLS
from bot.demo.model_server import Turn
from storage.grants import Grant
from storage.states import CallStatus
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, chat, menu, statuses, vote

POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["UDAN00001"]

[[rule]]
tool = "wipe"
verdict = "ask"
quorum = 2

[[rule]]
tool = "note"
verdict = "ask"
remember = [{}]
"""


def read_home(harness: Harness, who: str) -> str:
    """Everything on this person's Home, as JSON; "" if nothing was published."""
    view = harness.person(who).home()
    return json.dumps(view["blocks"], ensure_ascii=False) if view else ""


def wait(harness: Harness, who: str, *parts: str, without: str = "") -> list[dict[str, Any]]:
    """The blocks of this person's Home, once it shows all `parts` and not `without`."""

    def look() -> str | None:
        text = read_home(harness, who)
        fits = text and all(each in text for each in parts) and not (without and without in text)
        return text if fits else None

    blocks: list[dict[str, Any]] = json.loads(str(harness.slack.wait(look)))
    return blocks


def opened(harness: Harness, who: str, *parts: str, without: str = "") -> list[dict[str, Any]]:
    """Open the Home tab; returns its blocks once it shows that."""
    harness.person(who).open_home()
    return wait(harness, who, *parts, without=without)


def list_call_buttons(blocks: list[dict[str, Any]]) -> list[str]:
    """The action ids of the buttons below calls."""
    below = [b for b in blocks if b["type"] == "actions" and b["block_id"].startswith("a:")]
    return [each["action_id"] for block in below for each in block["elements"]]


def press_home_button(harness: Harness, who: str, action: str) -> dict[str, Any]:
    """Press the first button of that action in Home; returns the dialog, waited for."""
    harness.person(who).click_home(action)
    view: dict[str, Any] = harness.slack.wait(harness.person(who).view)
    return view


def save_approval(harness: Harness, text: str) -> str:
    """Ben asks for this, and Ana approves it and saves the approval; returns the thread."""
    thread = ask(harness, ("note", {"text": text}))
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = harness.slack.wait(harness.person("ana").view)
    [offer] = [b for b in view["blocks"] if b.get("block_id") == "remember"]
    chosen = offer["element"]["options"][0]
    harness.person("ana").submit({"remember": {"offer": {"selected_option": chosen}}})
    arrived(harness)
    return thread


@pytest.fixture
def new_harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that nobody has asked for anything yet."""
    return own_harness(FakeTools().tools, POLICY, COUNTERSIGN_MAX_PENDING="100")


def test_an_empty_home_says_how_to_begin(new_harness: Harness) -> None:
    """A guest is told who may ask."""
    [only] = opened(new_harness, "ana", "Nothing is waiting for you")
    assert "Mention <@" in only["text"]["text"]
    assert "help" in only["text"]["text"]
    [only] = opened(new_harness, "gus", "full members")
    assert "Nothing is waiting" not in str(only)


def test_home_lists_a_call_for_those_who_may_approve_it(harness: Harness) -> None:
    """It has requester and time, in bold, below one row of buttons. The requester finds it among
    their requests, and others do not see it.
    """
    ask(harness, ("note", {"text": "rose bed"}))
    harness.settle()
    blocks = opened(harness, "ana", "Waiting for you", "rose bed")
    assert [each["type"] for each in blocks[:3]] == ["actions", "header", "rich_text"]
    assert [each["action_id"] for each in blocks[0]["elements"]] == ["request", "delegate"]
    assert blocks[2]["elements"][0]["elements"][0]["style"] == {"bold": True}
    small = next(each for each in blocks if "Asked by" in str(each))["elements"][0]["text"]
    assert "Asked by <@UBEN00001> in <#C0SUPPORT>" in small
    assert "{ago}" in small
    opened(harness, "dan", "Nothing is waiting for you", without="rose bed")
    mine = opened(harness, "ben", "Your requests", "⏳ Waiting for a decision", "rose bed")
    assert "Waiting for you" not in str(mine)


def test_a_call_is_reviewed_and_approved_from_home(harness: Harness) -> None:
    """Home has no Approve button: Review opens the whole call, and its approval counts like the
    card's. The Homes of both people are then updated without being opened.
    """
    thread = ask(harness, ("note", {"text": "tulip bulbs"}))
    harness.settle()
    blocks = opened(harness, "ana", "tulip bulbs")
    opened(harness, "ben", "⏳ Waiting for a decision: ", "tulip bulbs")
    assert list_call_buttons(blocks) == ["review", "reject", "hand_over"]
    assert "tulip bulbs" in str(press_home_button(harness, "ana", "review"))
    assert harness.person("ana").submit()["outcome"] == "closed"
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "✅ Done: ", "tulip bulbs")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_a_call_is_rejected_from_home(harness: Harness) -> None:
    """It asks why, and the requester reads the reason."""
    thread = ask(harness, ("note", {"text": "plastic flamingo"}))
    harness.settle()
    opened(harness, "ana", "plastic flamingo")
    opened(harness, "ben", "plastic flamingo")
    press_home_button(harness, "ana", "reject")
    typed = {"reason": {"preset": {"selected_option": "other"}}}
    harness.person("ana").submit({**typed, "words": {"text": {"value": "no plastic in here"}}})
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "🚫 Rejected: ", "plastic flamingo")
    harness.said(SUPPORT, thread, "no plastic in here")
    assert statuses(harness, thread) == [CallStatus.REJECTED]


def test_a_button_of_an_outdated_home_opens_nothing(harness: Harness) -> None:
    """The person is told that somebody has decided meanwhile."""
    thread = ask(harness, ("note", {"text": "twin cherry"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "cleo", "twin cherry")
    harness.slack.faults.fail("views.publish", "internal_error", times=50)
    vote(harness, "ana", card)
    assert "twin cherry" in read_home(harness, "cleo")
    harness.person("cleo").click_home("review")
    harness.slack.wait(
        lambda: "already" in str(harness.person("cleo").everything(get_cleos_dm(harness)))
    )
    assert harness.person("cleo").view() is None


def test_the_review_button_of_a_destructive_call_is_not_green(harness: Harness) -> None:
    """Neither is Approve on its card."""
    ask(harness, ("note", {"text": "blue crocus"}), ("wipe", {"text": "grey lichen"}))
    harness.settle()
    blocks = opened(harness, "ana", "blue crocus", "grey lichen")
    titles = [
        b["elements"][0]["elements"][0]["text"] for b in blocks if b["block_id"].startswith("h:")
    ]
    reviews = [
        each
        for block in blocks
        for each in block.get("elements", [])
        if each.get("action_id") == "review"
    ]
    styles = dict(zip(titles, (each.get("style") for each in reviews), strict=True))
    assert styles == {"Write “blue crocus”": "primary", "Wipe “grey lichen”": None}


def test_home_says_that_a_question_waits_for_an_answer(harness: Harness) -> None:
    """It stands among the requests of the person who asked."""
    ask(harness, question(question="Which hedge is it?"))
    harness.settle()
    mine = opened(harness, "ben", "⏳ Waiting for an answer: ", "Which hedge is it?")
    assert "Waiting for a decision" not in str(mine)


def get_cleos_dm(harness: Harness) -> str:
    """Cleo's direct messages with the bot."""
    return str(harness.person("cleo").dm_channel)


def test_a_call_leaves_the_home_of_somebody_who_has_approved(harness: Harness) -> None:
    """It still needs the approval of somebody else."""
    thread = ask(harness, ("wipe", {"text": "old hedge"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "ana", "old hedge", "⚠️ *This cannot be undone*  ·  Asked by")
    opened(harness, "cleo", "old hedge")
    vote(harness, "ana", card)
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    assert "old hedge" in read_home(harness, "cleo")


def test_an_unknown_outcome_is_settled_from_home(harness: Harness) -> None:
    """People who could have approved the call can do so, but cannot run it again there."""
    thread = ask(harness, ("lose", {"text": "garden gate"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.UNKNOWN])
    blocks = opened(harness, "cleo", "garden gate", "started, never confirmed")
    assert list_call_buttons(blocks) == ["resolve_done", "resolve_not_done"]
    opened(harness, "ana", "garden gate", "Outcome unknown")  # although she has voted on it
    harness.person("cleo").click_home("resolve_done")
    wait(harness, "cleo", "Nothing is waiting for you", without="Waiting for you")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_an_expired_call_leaves_home_by_itself(harness: Harness) -> None:
    """The requester's Home says that it expired."""
    ask(harness, ("note", {"text": "late seedling"}))
    harness.settle()
    opened(harness, "ana", "late seedling")
    opened(harness, "ben", "late seedling")
    harness.clock.advance(7 * 86_400)
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "Expired: ", "late seedling")


def test_a_saved_approval_is_shown_and_revoked_on_home(harness: Harness) -> None:
    """Its giver and the requester see it; revoking ends it for both."""
    thread = save_approval(harness, "weekly compost")
    opened(harness, "dan", "Nothing is waiting for you", without="Saved approvals")
    opened(harness, "ben", "Saved approvals", "weekly compost", "given by <@UANA00001>")
    opened(harness, "ana", "Saved approvals", "weekly compost")
    harness.person("ana").click_home("revoke")
    wait(harness, "ana", "Nothing is waiting for you", without="Saved approvals")
    wait(harness, "ben", "weekly compost", without="Saved approvals")
    [grant] = harness.all(Grant, Grant.call_id == harness.calls_in(thread)[0].id)
    assert grant.revoked_by == "UANA00001"


def test_only_giver_and_requester_revoke_a_saved_approval(harness: Harness) -> None:
    """A forged click of somebody else changes nothing."""
    save_approval(harness, "fresh mulch")
    opened(harness, "ana", "Saved approvals", "fresh mulch")
    click = harness.person("ana").click_home("revoke")
    wait(harness, "ana", "Nothing is waiting for you", without="Saved approvals")
    thread = save_approval(harness, "more mulch")
    payload = copy.deepcopy(click.payload)
    payload["user"] |= {"id": "UDAN00001"}
    payload["actions"][0] |= {"value": f"{harness.calls_in(thread)[0].id}:0", "action_ts": "1.1"}
    harness.slack.forge(payload)
    arrived(harness)
    dan = harness.person("dan")
    harness.slack.wait(lambda: "revoked already" in str(dan.everything(dan.dm_channel)))
    opened(harness, "ben", "Saved approvals", "more mulch")
    harness.person("ben").click_home("revoke")
    wait(harness, "ben", "more mulch", without="Saved approvals")


def test_a_full_home_counts_the_rest_within_slacks_limit(new_harness: Harness) -> None:
    """It has at most 100 blocks. Only so many calls are examined, and it says that, too."""
    for number in range(0, MAX_CALLS_EXAMINED + 2, 4):
        some = [("note", {"text": f"plant {each}"}) for each in range(number, number + 4)]
        new_harness.planner.script(Turn(calls=some))
        new_harness.person("ben").say(SUPPORT, "@bot please")
        arrived(new_harness)
    blocks = opened(new_harness, "ana", "Waiting for you", "more that you may decide")
    assert len(blocks) <= 100
    assert list_call_buttons(blocks).count("review") == MAX_WAITING_CALLS
    assert f"and {MAX_CALLS_EXAMINED - MAX_WAITING_CALLS} more that you may decide" in str(blocks)
    assert "than I can list here" in str(blocks)
    mine = opened(new_harness, "ben", "Your requests", "and older ones.")
    assert sum(each["type"] == "rich_text" for each in mine) == MAX_REQUESTS


def test_a_home_that_slack_delays_delays_no_request(harness: Harness) -> None:
    """It is published later."""
    held = harness.slack.faults.hold("views.publish")
    harness.person("cleo").open_home()
    harness.slack.wait(held.arrived.is_set)
    thread = chat(harness, "the garden is fine")
    harness.said(SUPPORT, thread, "the garden is fine")
    held.release()
    wait(harness, "cleo", "Nothing is waiting for you")


def test_a_home_that_slack_refuses_is_published_again(new_harness: Harness) -> None:
    """Nobody has to open it again."""
    new_harness.slack.faults.fail("views.publish", "internal_error", times=2)
    opened(new_harness, "ana", "Nothing is waiting for you")
    assert not new_harness.slack.faults.waiting
