"""Whom Slack notifies in each story, and how much the bot posts: a table.

Slack notifies by a mention in a message when it is posted; changing a message notifies nobody.
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


def note(number: int = 1) -> tuple[str, dict[str, str]]:
    return "note", {"text": f"note {number}"}


def refunded(harness: Harness) -> str:
    thread = ask(harness, REFUND)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    return thread


def failed(harness: Harness) -> str:
    thread = ask(harness, ("refuse", {"text": "it fails"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    return thread


def edited(harness: Harness) -> str:
    """By Ana, whose edit Cleo approves."""
    thread = ask(harness, note())
    open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    harness.person("ana").submit(typed(text="final"))
    vote(harness, "cleo", harness.said(SUPPORT, thread, "→"))
    return thread


def edited_and_approved(harness: Harness) -> str:
    """By one person, at once."""
    thread = ask(harness, note())
    view = open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    chosen = {"then": {"v": {"selected_options": box["options"]}}}
    harness.person("ana").submit(typed(text="final") | chosen)
    return thread


def plan_at_once(harness: Harness) -> str:
    thread = ask(harness, *map(note, range(3)))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve_all")
    return thread


def plan_one_by_one(harness: Harness) -> str:
    """By two people, and the last of it is rejected."""
    thread = ask(harness, *map(note, range(3)))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "approve")
    card = harness.said(SUPPORT, thread, "runs once the rest is decided")
    press(harness, "ana", SUPPORT, card, "approve")
    arrived(harness)
    all_sent(harness)
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not this one")
    return thread


def rejected(harness: Harness) -> str:
    thread = ask(harness, note())
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "paid twice")
    return thread


def expired(harness: Harness) -> str:
    thread = ask(harness, note())
    harness.card(SUPPORT, thread)
    harness.settle()
    later(harness, 3600)
    return thread


def of_two(harness: Harness) -> str:
    thread = ask(harness, note())
    vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "cleo", harness.said(SUPPORT, thread, "1 more approval needed"))
    return thread


def approved_for_later(harness: Harness) -> str:
    """By Ana; it starts at ten in the evening."""
    thread = ask(harness, note())
    vote(harness, "ana", harness.card(SUPPORT, thread))
    now = harness.clock.now()
    later(harness, int((parse_start_time("22:00 Europe/Berlin").find_next(now) - now).seconds) + 1)
    return thread


def two_plans(harness: Harness) -> str:
    """The second is asked once the first has run, so that its outcome is told before."""
    harness.planner.script(Turn(calls=[note(1)]), Turn(calls=[note(2)]), Turn(text="That is all."))
    thread = str(harness.person("ben").say(SUPPORT, "@bot please"))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    vote(harness, "ana", harness.said(SUPPORT, thread, "asks to write “note 2”"))
    return thread


def cancelled_in_finance(harness: Harness) -> str:
    """Cleo decides about it in another channel."""
    thread = ask(harness, ("cancel_order", {"order_id": 1054, "reason": "changed their mind"}))
    vote(harness, "cleo", harness.card(FINANCE, None, "cleo"), channel=FINANCE)
    return thread


def of_a_form(harness: Harness) -> str:
    thread = request(harness, "with a form")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "✅ Done: Write “with a form”.")
    return thread


def only_answered(harness: Harness) -> str:
    return chat(harness, "That is all.")


# policy ("" for the stories' own), the story, whom it notifies how often, messages in the thread
TABLE: dict[str, tuple[str, Story, dict[str, int], int]] = {
    "an answer": ("", only_answered, {}, 1),
    "approved": ("", refunded, {BEN: 1, LEADS: 1}, 2),
    "failed": ("", failed, {BEN: 1, LEADS: 1}, 2),
    "approved by two": (QUORUM, of_two, {BEN: 1, LEADS: 1}, 2),
    "approved for later": (LATER, approved_for_later, {BEN: 2, LEADS: 1}, 3),
    "edited": ("", edited, {BEN: 2, LEADS: 1}, 3),
    "edited and approved": (EDITOR, edited_and_approved, {BEN: 2, LEADS: 1}, 3),
    "a plan": ("", plan_at_once, {BEN: 1, LEADS: 1}, 2),
    "a plan, one by one": ("", plan_one_by_one, {BEN: 2, LEADS: 1}, 3),
    "two plans": ("", two_plans, {BEN: 2, LEADS: 2}, 4),
    "rejected": ("", rejected, {BEN: 1, LEADS: 1}, 3),
    "expired": ("", expired, {BEN: 1, LEADS: 1}, 3),
    "elsewhere": ("", cancelled_in_finance, {BEN: 1, "S0FINANCE": 1}, 2),
    "a form": ("", of_a_form, {BEN: 1, LEADS: 1}, 3),
}


def count_notifications(harness: Harness, seen: int) -> Counter[str]:
    """How often each person and group was mentioned in posts to channels; by their id."""
    found: Counter[str] = Counter()
    for call in harness.slack.requests[seen:]:
        posted = call.method in POSTS and (call.response or {}).get("ok")
        if posted and not str(call.args.get("channel", "")).startswith("D"):
            said = json.dumps(call.args, ensure_ascii=False).replace('\\"', '"')
            found.update({user or named for user, named in MENTION.findall(said)})
    return found


@pytest.mark.parametrize("story", TABLE)
def test_who_is_notified(harness: Harness, own_harness: Any, story: str) -> None:
    """Each as often as the table says, and nobody of what they did themselves."""
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


def test_a_form_notifies_nobody_but_approvers_at_the_asking(harness: Harness) -> None:
    """Who asked is named in the message that begins the request, and in the card."""
    seen = len(harness.slack.requests)
    thread = request(harness, "for nobody")
    card = harness.card(SUPPORT, thread)
    all_sent(harness)
    assert count_notifications(harness, seen) == Counter({LEADS: 1})
    assert "Asked by Ben Okafor" in words(card)


def test_an_outcome_that_nobody_knows_is_told_at_once(harness: Harness) -> None:
    """To who asked and who approved, as they have to look; before the model has answered."""
    seen = len(harness.slack.requests)
    thread = ask(harness, ("lose", {"text": "this"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.UNKNOWN])
    all_sent(harness)
    assert count_notifications(harness, seen) == Counter({BEN: 1, ANA: 1, LEADS: 1})


def test_a_name_that_cannot_be_looked_up_stays_a_mention(harness: Harness) -> None:
    """Who asked has to be seen, whatever Slack's directory says just then."""
    thread = ask(harness, note())
    harness.slack.wait(lambda: harness.card(SUPPORT, thread))
    card = harness.card(SUPPORT, thread)
    assert "Ben Okafor" in words(card)
