"""The Home tab: what waits for me, my requests, what is remembered; empty, full, kept right."""

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


def shown(harness: Harness, who: str) -> str:
    """All that the person's Home shows, as JSON; "" where nothing was published."""
    view = harness.person(who).home()
    return json.dumps(view["blocks"], ensure_ascii=False) if view else ""


def wait(harness: Harness, who: str, *parts: str, without: str = "") -> list[dict[str, Any]]:
    """The blocks of the person's Home, once it shows all these and not that."""

    def look() -> str | None:
        text = shown(harness, who)
        fits = text and all(each in text for each in parts) and not (without and without in text)
        return text if fits else None

    blocks: list[dict[str, Any]] = json.loads(str(harness.slack.wait(look)))
    return blocks


def opened(harness: Harness, who: str, *parts: str, without: str = "") -> list[dict[str, Any]]:
    """Open the Home tab; returns its blocks once it shows that."""
    harness.person(who).open_home()
    return wait(harness, who, *parts, without=without)


def offered(blocks: list[dict[str, Any]]) -> list[str]:
    """The action ids of the buttons below calls."""
    below = [b for b in blocks if b["type"] == "actions" and b["block_id"].startswith("a:")]
    return [each["action_id"] for block in below for each in block["elements"]]


def button(harness: Harness, who: str, action: str) -> dict[str, Any]:
    """Press the first button of that action in Home; returns the dialog, waited for."""
    harness.person(who).click_home(action)
    view: dict[str, Any] = harness.slack.wait(harness.person(who).view)
    return view


def remember(harness: Harness, text: str) -> str:
    """Ben asks for this, and Ana approves it and has it remembered; returns the thread."""
    thread = ask(harness, ("note", {"text": text}))
    menu(harness, "ana", harness.card(SUPPORT, thread), "review")
    view = harness.slack.wait(harness.person("ana").view)
    [offer] = [b for b in view["blocks"] if b.get("block_id") == "remember"]
    chosen = offer["element"]["options"][0]
    harness.person("ana").submit({"remember": {"offer": {"selected_option": chosen}}})
    arrived(harness)
    return thread


@pytest.fixture
def own(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that nobody has asked for anything yet."""
    return own_harness(FakeTools().tools, POLICY, COUNTERSIGN_MAX_PENDING="100")


def test_it_is_friendly_when_empty(own: Harness) -> None:
    """With nothing there, one sentence says how to begin; a guest is told who may ask."""
    [only] = opened(own, "ana", "Nothing is waiting for you")
    assert "Mention <@" in only["text"]["text"]
    assert "help" in only["text"]["text"]
    [only] = opened(own, "gus", "full members")
    assert "Nothing is waiting" not in str(only)


def test_each_sees_what_waits_for_them(harness: Harness) -> None:
    """Who may approve a call sees it, with who asked and until when; nobody else does.

    It comes first, in bold, below one row of tools. It stands among the requests of who asked.
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


def test_it_is_decided_from_there_and_seen_whole(harness: Harness) -> None:
    """Home has no Approve: its button opens Review, whose approval counts like the card's.

    Both tabs then show what came of it, though nobody opens them again.
    """
    thread = ask(harness, ("note", {"text": "tulip bulbs"}))
    harness.settle()
    blocks = opened(harness, "ana", "tulip bulbs")
    opened(harness, "ben", "⏳ Waiting for a decision: ", "tulip bulbs")
    assert offered(blocks) == ["review", "reject", "hand_over"]
    assert "tulip bulbs" in str(button(harness, "ana", "review"))
    assert harness.person("ana").submit()["outcome"] == "closed"
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "✅ Done: ", "tulip bulbs")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_it_is_rejected_from_there(harness: Harness) -> None:
    """Reject in Home asks why, and counts; the words are told to who asked."""
    thread = ask(harness, ("note", {"text": "plastic flamingo"}))
    harness.settle()
    opened(harness, "ana", "plastic flamingo")
    opened(harness, "ben", "plastic flamingo")
    button(harness, "ana", "reject")
    typed = {"reason": {"preset": {"selected_option": "other"}}}
    harness.person("ana").submit({**typed, "words": {"text": {"value": "no plastic in here"}}})
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "🚫 Rejected: ", "plastic flamingo")
    harness.said(SUPPORT, thread, "no plastic in here")
    assert statuses(harness, thread) == [CallStatus.REJECTED]


def test_an_old_home_decides_nothing(harness: Harness) -> None:
    """The button of a call that somebody has decided meanwhile opens nothing; it is told why."""
    thread = ask(harness, ("note", {"text": "twin cherry"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "cleo", "twin cherry")
    harness.slack.faults.fail("views.publish", "internal_error", times=50)
    vote(harness, "ana", card)
    assert "twin cherry" in shown(harness, "cleo")
    harness.person("cleo").click_home("review")
    harness.slack.wait(lambda: "already" in str(harness.person("cleo").everything(dm(harness))))
    assert harness.person("cleo").view() is None


def test_what_cannot_be_undone_invites_no_click(harness: Harness) -> None:
    """Review of such a call is not green in Home, as Approve is not on its card."""
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


def test_a_question_waits_for_an_answer(harness: Harness) -> None:
    """Among the requests of who asked, a question waits for an answer and not for a decision."""
    ask(harness, question(question="Which hedge is it?"))
    harness.settle()
    mine = opened(harness, "ben", "⏳ Waiting for an answer: ", "Which hedge is it?")
    assert "Waits for a decision" not in str(mine)


def dm(harness: Harness) -> str:
    """Cleo's direct messages with the bot."""
    return str(harness.person("cleo").dm_channel)


def test_who_has_voted_waits_for_others(harness: Harness) -> None:
    """A call that takes two is no longer among what waits for who has approved it."""
    thread = ask(harness, ("wipe", {"text": "old hedge"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "ana", "old hedge", "⚠️ *This cannot be undone*  ·  Asked by")
    opened(harness, "cleo", "old hedge")
    vote(harness, "ana", card)
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    assert "old hedge" in shown(harness, "cleo")


def test_what_nobody_knows_is_said_there(harness: Harness) -> None:
    """Who could have approved a call says in Home whether it happened; it cannot be run there."""
    thread = ask(harness, ("lose", {"text": "garden gate"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.UNKNOWN])
    blocks = opened(harness, "cleo", "garden gate", "started, never confirmed")
    assert offered(blocks) == ["resolve_done", "resolve_not_done"]
    opened(harness, "ana", "garden gate", "Outcome unknown")  # though she has voted on it
    harness.person("cleo").click_home("resolve_done")
    wait(harness, "cleo", "Nothing is waiting for you", without="Waiting for you")
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]


def test_what_fell_due_goes(harness: Harness) -> None:
    """A call whose deadline passes leaves Home by itself, and is told to who asked."""
    ask(harness, ("note", {"text": "late seedling"}))
    harness.settle()
    opened(harness, "ana", "late seedling")
    opened(harness, "ben", "late seedling")
    harness.clock.advance(7 * 86_400)
    wait(harness, "ana", "Nothing is waiting for you", without="Waiting for you")
    wait(harness, "ben", "Expired: ", "late seedling")


def test_remembered_approvals_stand_there(harness: Harness) -> None:
    """Who gave a remembered approval and whom it is for see it; Revoke ends it for both."""
    thread = remember(harness, "weekly compost")
    opened(harness, "dan", "Nothing is waiting for you", without="Saved approvals")
    opened(harness, "ben", "Saved approvals", "weekly compost", "given by <@UANA00001>")
    opened(harness, "ana", "Saved approvals", "weekly compost")
    harness.person("ana").click_home("revoke")
    wait(harness, "ana", "Nothing is waiting for you", without="Saved approvals")
    wait(harness, "ben", "weekly compost", without="Saved approvals")
    [grant] = harness.all(Grant, Grant.call_id == harness.calls_in(thread)[0].id)
    assert grant.revoked_by == "UANA00001"


def test_nobody_else_revokes(harness: Harness) -> None:
    """Only who gave a remembered approval or whom it is for ends it, whatever a click claims."""
    remember(harness, "fresh mulch")
    opened(harness, "ana", "Saved approvals", "fresh mulch")
    click = harness.person("ana").click_home("revoke")
    wait(harness, "ana", "Nothing is waiting for you", without="Saved approvals")
    thread = remember(harness, "more mulch")
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


def test_much_is_counted_within_slacks_limit(own: Harness) -> None:
    """However much waits, Home stays below 100 blocks and says how much more there is.

    Of the calls no more are judged than the bound, and that is said as well.
    """
    for number in range(0, MAX_CALLS_EXAMINED + 2, 4):
        some = [("note", {"text": f"plant {each}"}) for each in range(number, number + 4)]
        own.planner.script(Turn(calls=some))
        own.person("ben").say(SUPPORT, "@bot please")
        arrived(own)
    blocks = opened(own, "ana", "Waiting for you", "more that you may decide")
    assert len(blocks) <= 100
    assert offered(blocks).count("review") == MAX_WAITING_CALLS
    assert f"and {MAX_CALLS_EXAMINED - MAX_WAITING_CALLS} more that you may decide" in str(blocks)
    assert "than I can list here" in str(blocks)
    mine = opened(own, "ben", "Your requests", "and older ones.")
    assert sum(each["type"] == "rich_text" for each in mine) == MAX_REQUESTS


def test_a_slow_slack_holds_up_nobody(harness: Harness) -> None:
    """While Slack keeps the Home waiting, requests are answered; then it is there."""
    held = harness.slack.faults.hold("views.publish")
    harness.person("cleo").open_home()
    harness.slack.wait(held.arrived.is_set)
    thread = chat(harness, "the garden is fine")
    harness.said(SUPPORT, thread, "the garden is fine")
    held.release()
    wait(harness, "cleo", "Nothing is waiting for you")


def test_what_slack_refuses_is_tried_again(own: Harness) -> None:
    """A Home that Slack does not take for now is published a moment later, with no more to do."""
    own.slack.faults.fail("views.publish", "internal_error", times=2)
    opened(own, "ana", "Nothing is waiting for you")
    assert not own.slack.faults.waiting
