"""Who looks at a waiting call in a dialog: its card says so for two minutes, and what it costs."""

from __future__ import annotations

from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, cards_of, later, now_at, open_modal, vote, waiting

POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"
"""
LOOKS, LOOK = "is looking", "are looking"
ANA, CLEO = "<@UANA00001>", "<@UCLEO0001>"


def says(harness: Harness, ts: str, part: str, *, shown: bool = True) -> str:
    """Wait until the card says that, or does not; returns its words."""
    harness.slack.wait(lambda: (part in words(now_at(harness, SUPPORT, ts))) is shown)
    return words(now_at(harness, SUPPORT, ts))


def updates(harness: Harness, ts: str) -> int:
    """How often the bot has updated that message."""
    found = (each for each in harness.slack.requests if each.method == "chat.update")
    return sum(each.args.get("ts") == ts for each in found)


def test_the_card_says_who_looks(harness: Harness) -> None:
    """For two minutes, below its buttons; of two people both; it costs two updates an opening."""
    thread = waiting(harness, ("note", {"text": "spectacles"}), ("note", {"text": "their case"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    before = updates(harness, card["ts"])
    open_modal(harness, "ana", SUPPORT, card, "edit", 0)
    says(harness, card["ts"], f"👀 {ANA} {LOOKS} (since")
    now = now_at(harness, SUPPORT, card["ts"])
    ids = [[each["block_id"] for each in message["blocks"]] for message in (now, card)]
    assert ids[0][:-1] == ids[1]  # no button moves
    harness.clock.advance(30)
    open_modal(harness, "cleo", SUPPORT, card, "review", 1)
    says(harness, card["ts"], f"👀 {ANA} and {CLEO} {LOOK} (since")
    harness.slack.wait(lambda: updates(harness, card["ts"]) == before + 2)
    later(harness, 95)
    assert ANA not in says(harness, card["ts"], f"👀 {CLEO} {LOOKS}").partition("👀")[2]
    later(harness, 40)
    says(harness, card["ts"], LOOKS, shown=False)
    assert updates(harness, card["ts"]) <= before + 4
    for who in ("ana", "cleo"):
        harness.person(who).close_view(everything=True)


def test_it_ends_with_the_dialog(harness: Harness) -> None:
    """Closing the dialog ends it before the two minutes are over."""
    thread = waiting(harness, ("note", {"text": "blinds"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    says(harness, card["ts"], LOOKS)
    harness.person("ana").close_view()
    arrived(harness)
    harness.clock.advance(5)
    says(harness, card["ts"], LOOKS, shown=False)


def test_it_ends_with_the_decision(harness: Harness) -> None:
    """What Ana submits, or what somebody else decides, takes it off the card by the one redraw."""
    thread = ask(harness, ("note", {"text": "telescope"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    says(harness, card["ts"], LOOKS)
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    assert LOOKS not in says(harness, card["ts"], "✅")
    thread = ask(harness, ("note", {"text": "microscope"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    says(harness, card["ts"], LOOKS)
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert LOOKS not in says(harness, card["ts"], "✅")
    harness.settle()
    drawn = updates(harness, card["ts"])
    later(harness, 130)
    assert updates(harness, card["ts"]) == drawn
    harness.person("ana").close_view(everything=True)


def test_a_card_of_ones_own_says_nothing(harness: Harness) -> None:
    """In a direct message nobody else would read it."""
    waiting(harness, ("put", {"text": "mirror"}))
    ana = harness.person("ana")
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", "mirror"))
    open_modal(harness, "ana", ana.dm_channel, card, "review")
    later(harness, 10)
    assert LOOKS not in words(now_at(harness, ana.dm_channel, card["ts"]))
    ana.close_view(everything=True)


def test_a_refused_update_costs_nothing_else(harness: Harness) -> None:
    """Slack refuses the update: it is not tried again, and the decision is drawn as ever."""
    thread = ask(harness, ("note", {"text": "lens cap"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.faults.fail("chat.update", "msg_too_long")
    open_modal(harness, "ana", SUPPORT, card, "review")
    harness.slack.wait(lambda: not harness.slack.faults.waiting)
    later(harness, 10)
    assert LOOKS not in words(now_at(harness, SUPPORT, card["ts"]))
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    says(harness, card["ts"], "✅")
