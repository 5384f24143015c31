"""A table of whom Slack notifies in each story, and how many messages the bot posts.

Slack notifies people mentioned in a message when it is posted; an edit notifies nobody.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.policy.business_hours import parse_start_time
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.forms import request
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    all_sent,
    arrived,
    ask,
    chat,
    later,
    open_modal,
    press,
    reject,
    statuses,
    typed,
    vote,
)

REFUND = ("refund_order", {"order_id": 1035, "amount": "20", "reason": "damaged"})
BEN, ANA, CLEO, LEADS = "UBEN00001", "UANA00001", "UCLEO0001", "S0LEADS"
MENTION = re.compile(r"<(?:@|!subteam\^)([A-Z0-9]+)|\"(?:user|usergroup)_id\": \"([A-Z0-9]+)\"")
POSTS = ("chat.postMessage", "chat.startStream", "chat.appendStream", "chat.stopStream")
QUORUM = '[defaults]\napprovers = ["@shop-leads"]\nquorum = 2\n'
EDITOR = '[defaults]\napprovers = ["@shop-leads"]\neditor_counts = true\n'
LATER = '[defaults]\napprovers = ["@shop-leads"]\nrun_at = "22:00 Europe/Berlin"\n'
Story = Callable[[Harness], str]


def build_note(number: int = 1) -> tuple[str, dict[str, str]]:
    return "note", {"text": f"note {number}"}


def approve_refund(harness: Harness) -> str:
    thread = ask(harness, REFUND)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    return thread


def approve_failing_call(harness: Harness) -> str:
    thread = ask(harness, ("refuse", {"text": "it fails"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    return thread


def edit_then_other_approves(harness: Harness) -> str:
    """Ana edits, and Cleo approves the edit."""
    thread = ask(harness, build_note())
    open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    harness.person("ana").submit(typed(text="final"))
    vote(harness, "cleo", harness.said(SUPPORT, thread, "→"))
    return thread


def edit_and_approve(harness: Harness) -> str:
    """Ana edits and approves in one dialog."""
    thread = ask(harness, build_note())
    view = open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    chosen = {"then": {"v": {"selected_options": box["options"]}}}
    harness.person("ana").submit(typed(text="final") | chosen)
    return thread


def approve_whole_plan(harness: Harness) -> str:
    thread = ask(harness, *map(build_note, range(3)))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve_all")
    return thread


def decide_plan_one_by_one(harness: Harness) -> str:
    """Cleo and Ana approve a call each, and Ana rejects the last one."""
    thread = ask(harness, *map(build_note, range(3)))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    card = harness.said(SUPPORT, thread, "runs once the rest is decided")
    press(harness, "ana", SUPPORT, card, "approve")
    arrived(harness)
    all_sent(harness)
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not this one")
    return thread


def reject_call(harness: Harness) -> str:
    thread = ask(harness, build_note())
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "paid twice")
    return thread


def let_call_expire(harness: Harness) -> str:
    thread = ask(harness, build_note())
    harness.card(SUPPORT, thread)
    harness.settle()
    later(harness, 3600)
    return thread


def approve_by_two(harness: Harness) -> str:
    thread = ask(harness, build_note())
    vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "cleo", harness.said(SUPPORT, thread, "1 more approval needed"))
    return thread


def approve_for_later(harness: Harness) -> str:
    """Ana approves; the call starts at ten in the evening."""
    thread = ask(harness, build_note())
    vote(harness, "ana", harness.card(SUPPORT, thread))
    now = harness.clock.now()
    later(harness, int((parse_start_time("22:00 Europe/Berlin").find_next(now) - now).seconds) + 1)
    return thread


def approve_two_plans(harness: Harness) -> str:
    """The second plan is proposed once the first has run, after its outcome was posted."""
    harness.planner.script(
        Turn(calls=[build_note(1)]),
        Turn(calls=[build_note(2)]),
        Turn(text="That is all."),
    )
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "ana", harness.said(SUPPORT, thread, "asks to write “note 2”"))
    return thread


def approve_in_finance(harness: Harness) -> str:
    """Cleo approves in another channel."""
    thread = ask(harness, ("cancel_order", {"order_id": 1054, "reason": "changed their mind"}))
    vote(harness, "cleo", harness.card(FINANCE, None, "cleo"), channel=FINANCE)
    return thread


def approve_form_request(harness: Harness) -> str:
    thread = request(harness, "with a form")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "✅ Done: Write “with a form”.")
    return thread


def ask_without_calls(harness: Harness) -> str:
    return chat(harness, "That is all.")


# policy ("" for the shared one), story, how often each is notified, messages in the thread
TABLE: dict[str, tuple[str, Story, dict[str, int], int]] = {
    "an answer": ("", ask_without_calls, {}, 1),
    "approved": ("", approve_refund, {BEN: 1, LEADS: 1}, 2),
    "failed": ("", approve_failing_call, {BEN: 1, LEADS: 1}, 2),
    "approved by two": (QUORUM, approve_by_two, {BEN: 1, LEADS: 1}, 2),
    "approved for later": (LATER, approve_for_later, {BEN: 2, LEADS: 1}, 3),
    "edited": ("", edit_then_other_approves, {BEN: 2, LEADS: 1}, 3),
    "edited and approved": (EDITOR, edit_and_approve, {BEN: 2, LEADS: 1}, 3),
    "a plan": ("", approve_whole_plan, {BEN: 1, LEADS: 1}, 2),
    "a plan, one by one": ("", decide_plan_one_by_one, {BEN: 2, LEADS: 1}, 3),
    "two plans": ("", approve_two_plans, {BEN: 2, LEADS: 2}, 4),
    "rejected": ("", reject_call, {BEN: 1, LEADS: 1}, 3),
    "expired": ("", let_call_expire, {BEN: 1, LEADS: 1}, 3),
    "elsewhere": ("", approve_in_finance, {BEN: 1, "S0FINANCE": 1}, 2),
    "a form": ("", approve_form_request, {BEN: 1, LEADS: 1}, 3),
}


def count_notifications(harness: Harness, seen: int) -> Counter[str]:
    """Count how often each person or group id was mentioned in posts to channels."""
    found: Counter[str] = Counter()
    for call in harness.slack.requests[seen:]:
        posted = call.method in POSTS and (call.response or {}).get("ok")
        if posted and not str(call.args.get("channel", "")).startswith("D"):
            said = json.dumps(call.args, ensure_ascii=False).replace('\\"', '"')
            found.update({user or named for user, named in MENTION.findall(said)})
    return found


@pytest.mark.parametrize("story", TABLE)
def test_stories_notify_as_the_table_says(harness: Harness, own_harness: Any, story: str) -> None:
    """Nobody is notified of what they did themselves."""
    policy, tell, wanted, posted = TABLE[story]
    if policy:
        harness = own_harness(FakeTools().tools, policy)
    seen = len(harness.slack.requests)
    thread = tell(harness)
    if story != "a form":
        harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert count_notifications(harness, seen) == Counter(wanted)
    mine = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    assert len([m for m in mine if not m.get("is_ephemeral")]) == posted


def test_a_form_request_notifies_only_the_approvers_at_first(harness: Harness) -> None:
    """The card names the requester without a mention."""
    seen = len(harness.slack.requests)
    thread = request(harness, "for nobody")
    card = harness.card(SUPPORT, thread)
    all_sent(harness)
    assert count_notifications(harness, seen) == Counter({LEADS: 1})
    assert "Asked by Ben Okafor" in words(card)


def test_an_unknown_outcome_notifies_requester_and_approver_at_once(harness: Harness) -> None:
    """They have to look, so they are notified before the model has answered."""
    seen = len(harness.slack.requests)
    thread = ask(harness, ("lose", {"text": "this"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.UNKNOWN])
    all_sent(harness)
    assert count_notifications(harness, seen) == Counter({BEN: 1, ANA: 1, LEADS: 1})


def test_a_card_names_the_requester(harness: Harness) -> None:
    """With the name that Slack's directory has."""
    thread = ask(harness, build_note())
    harness.slack.wait(lambda: harness.card(SUPPORT, thread))
    card = harness.card(SUPPORT, thread)
    assert "Ben Okafor" in words(card)
