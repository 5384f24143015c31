"""A card shows for two minutes who has a dialog of its call open."""

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


def wait_for_text(harness: Harness, ts: str, part: str, *, shown: bool = True) -> str:
    """Wait until the card has this text, or has it no more; return the card's words."""
    harness.slack.wait(lambda: (part in words(now_at(harness, SUPPORT, ts))) is shown)
    return words(now_at(harness, SUPPORT, ts))


def count_updates(harness: Harness, ts: str) -> int:
    """Count how often the bot has updated this message."""
    found = (each for each in harness.slack.requests if each.method == "chat.update")
    return sum(each.args.get("ts") == ts for each in found)


def test_a_card_shows_who_has_a_dialog_open(harness: Harness) -> None:
    """Both of two people, below the buttons, for two minutes; each costs two updates at most."""
    thread = waiting(harness, ("note", {"text": "spectacles"}), ("note", {"text": "their case"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    before = count_updates(harness, card["ts"])
    open_modal(harness, "ana", SUPPORT, card, "edit", 0)
    wait_for_text(harness, card["ts"], f"👀 {ANA} {LOOKS} (since")
    now = now_at(harness, SUPPORT, card["ts"])
    ids = [[each["block_id"] for each in message["blocks"]] for message in (now, card)]
    assert ids[0][:-1] == ids[1]  # no button moves
    harness.clock.advance(30)
    open_modal(harness, "cleo", SUPPORT, card, "review", 1)
    wait_for_text(harness, card["ts"], f"👀 {ANA} and {CLEO} {LOOK} (since")
    harness.slack.wait(lambda: count_updates(harness, card["ts"]) == before + 2)
    later(harness, 95)
    assert ANA not in wait_for_text(harness, card["ts"], f"👀 {CLEO} {LOOKS}").partition("👀")[2]
    later(harness, 40)
    wait_for_text(harness, card["ts"], LOOKS, shown=False)
    assert count_updates(harness, card["ts"]) <= before + 4
    for who in ("ana", "cleo"):
        harness.person(who).close_view(everything=True)


def test_the_note_on_the_card_ends_when_the_dialog_is_closed(harness: Harness) -> None:
    """Before the two minutes are over."""
    thread = waiting(harness, ("note", {"text": "blinds"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    wait_for_text(harness, card["ts"], LOOKS)
    harness.person("ana").close_view()
    arrived(harness)
    harness.clock.advance(5)
    wait_for_text(harness, card["ts"], LOOKS, shown=False)


def test_the_note_on_the_card_ends_with_the_decision(harness: Harness) -> None:
    """The decision of the viewer or of somebody else; it needs no update of its own."""
    thread = ask(harness, ("note", {"text": "telescope"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    wait_for_text(harness, card["ts"], LOOKS)
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    assert LOOKS not in wait_for_text(harness, card["ts"], "✅")
    thread = ask(harness, ("note", {"text": "microscope"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "review")
    wait_for_text(harness, card["ts"], LOOKS)
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert LOOKS not in wait_for_text(harness, card["ts"], "✅")
    harness.settle()
    drawn = count_updates(harness, card["ts"])
    later(harness, 130)
    assert count_updates(harness, card["ts"]) == drawn
    harness.person("ana").close_view(everything=True)


def test_a_card_in_direct_messages_shows_no_viewer(harness: Harness) -> None:
    """Nobody else could read it there."""
    waiting(harness, ("put", {"text": "mirror"}))
    ana = harness.person("ana")
    [card] = harness.slack.wait(lambda: cards_of(harness, "ana", "mirror"))
    open_modal(harness, "ana", ana.dm_channel, card, "review")
    later(harness, 10)
    assert LOOKS not in words(now_at(harness, ana.dm_channel, card["ts"]))
    ana.close_view(everything=True)


def test_a_refused_update_about_a_viewer_is_not_tried_again(harness: Harness) -> None:
    """The decision is still shown on the card."""
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
    wait_for_text(harness, card["ts"], "✅")
