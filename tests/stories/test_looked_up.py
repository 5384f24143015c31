"""A post whose answer was lost is looked for, over all pages, before anything is posted again."""

from __future__ import annotations

from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.slack import posting
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, ask, now_at
from tests.stories.test_outbox import with_card


def cards_in(harness: Harness, channel: str) -> list[dict[str, Any]]:
    """The messages of the channel in which something can be approved."""
    return [m for m in harness.person("ana").everything(channel) if "approve" in action_ids(m)]


def count_requests(harness: Harness, method: str) -> int:
    """Count the bot's calls of that method."""
    return len([each for each in harness.slack.requests if each.method == method])


def test_a_rate_limited_look_up_leads_to_no_second_card(harness: Harness, fakes: FakeTools) -> None:
    """The look-up is tried again, so there is one card, and it works."""
    harness.slack.faults.drop("chat.postMessage", "after", match=with_card)
    harness.slack.faults.rate_limit("conversations.replies", retry_after=40, times=2)
    before = count_requests(harness, "conversations.replies")
    thread = ask(harness, ("note", {"text": "looked up late"}))
    harness.slack.wait(lambda: count_requests(harness, "conversations.replies") > before)
    all_sent(harness)
    [card] = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert fakes.did("note", "looked up late") == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))


def test_a_card_is_found_beyond_the_first_page(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other messages were posted in the channel meanwhile."""
    monkeypatch.setattr(posting, "PAGE_SIZE", 3)
    shown = len(cards_in(harness, FINANCE))
    harness.slack.faults.drop("chat.postMessage", "after", match=with_card)
    harness.slack.faults.rate_limit("conversations.history", retry_after=40)
    before = count_requests(harness, "conversations.history")
    ask(harness, ("cancel_order", {"order_id": 1043, "reason": "far down"}))
    harness.slack.wait(lambda: count_requests(harness, "conversations.history") > before)
    for number in range(7):
        harness.person("ana").say(FINANCE, f"something else {number}")
    all_sent(harness)
    assert len(cards_in(harness, FINANCE)) == shown + 1


@pytest.mark.parametrize("limited", ["conversations.replies", "files.completeUploadExternal"])
def test_a_file_whose_answer_was_lost_is_posted_once(
    harness: Harness, fakes: FakeTools, limited: str
) -> None:
    """Its look-up or its upload is rate-limited."""
    fakes.shelf = 60  # more rows than a table shows
    if limited == "conversations.replies":
        harness.slack.faults.drop("files.completeUploadExternal", "after")
    harness.slack.faults.rate_limit(limited, retry_after=40)
    before = count_requests(harness, limited)
    harness.planner.script(Turn(calls=[("books", {"text": limited})]), Turn(text="There they are."))
    thread = harness.person("ben").say(SUPPORT, "@bot list them")
    harness.slack.wait(lambda: count_requests(harness, limited) > before)
    all_sent(harness)
    files = [m for m in harness.thread(SUPPORT, thread) if m.get("files")]
    assert len(files) == 1
