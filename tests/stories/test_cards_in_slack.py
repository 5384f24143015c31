"""What cards show in Slack: long, secret and hostile arguments, copies, and cards elsewhere."""

from __future__ import annotations

import json
import logging
import re

import pytest

from storage.models import Audit, Message
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, elements, leaves, words
from tests.stories.steps import ask, now_at, on_top, open_modal, told

CANCEL = ("cancel_order", {"order_id": 1044, "reason": "changed their mind"})


def list_statuses(harness: Harness, thread: str) -> list[str]:
    return [str(call.status) for call in harness.calls_in(thread)]


def test_a_long_argument_is_reviewed_whole_and_approved_there(
    harness: Harness, fakes: FakeTools
) -> None:
    """An argument that does not fit the card is never cut: Review shows every character and
    approves.
    """
    text = "".join(f"{n:05d}" for n in range(3000))
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread, having="review")
    assert "approve" not in action_ids(card)
    view = open_modal(harness, "ana", SUPPORT, card, "review")
    shown = "".join(leaf["text"] for leaf in leaves(view["blocks"]) if leaf["type"] == "text")
    assert all(f"{n:05d}" in shown.replace("\n", "") for n in (0, 999, 1777, 2999))
    assert "".join(char for char in shown if char.isdigit()).find(text[:2000]) >= 0
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", text) == 1


def test_secrets_are_masked_everywhere_and_part_of_the_digest(
    harness: Harness, fakes: FakeTools, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither card, dialog, notifications, thread, audit, log nor outbox contains them."""
    caplog.set_level(logging.INFO)
    secret, other = "hunter2-correct-horse", "hunter3-correct-horse"
    thread = ask(
        harness,
        ("login", {"account": "shop", "password": secret}),
        ("login", {"account": "shop", "password": other}),
    )
    card = harness.card(SUPPORT, thread)
    harness.settle()
    modal = open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").close_view()
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    first, second = harness.calls_in(thread)
    assert first.digest != second.digest
    assert (fakes.did("login", secret), fakes.did("login", other)) == (1, 1)
    places = {
        "card": words(card),
        "modal": json.dumps(modal),
        "thread": "".join(map(words, harness.thread(SUPPORT, thread))),
        "notifications": json.dumps(
            [n for who in ("ana", "cleo") for n in harness.person(who).notifications()]
        ),
        "audit": "".join(row.data + row.payload for row in harness.all(Audit)),
        "log": caplog.text,
        "outbox": "".join(row.body + row.error for row in harness.all(Message)),
        "calls": first.note + first.preview + first.reason + second.note,
    }
    assert [place for place, text in places.items() if "correct-horse" in text] == []
    assert "••••••••" in places["card"]


def test_hostile_characters_are_shown_and_harmless(harness: Harness, fakes: FakeTools) -> None:
    """Mentions, links, Markdown, direction and zero-width characters have no effect."""
    text = (
        "<!channel> <@UDAN00001> *bold* `x` <https://evil.example|Approve> "
        "&amp; \u202egnp.\u200bexe a\ufe0f\U000e0101\u2065\ufff5\U000e0180"
    )
    before = len(harness.person("dan").notifications())
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    found = leaves(card["blocks"])
    users = {leaf["user_id"] for leaf in found if leaf["type"] == "user"}
    assert "UDAN00001" not in users
    assert not [leaf for leaf in found if leaf["type"] in ("broadcast", "link")]
    mrkdwn = "".join(leaf["text"] for leaf in found if leaf["type"] == "mrkdwn")
    assert "evil" not in mrkdwn
    assert "UDAN00001" not in mrkdwn
    literal = "".join(leaf["text"] for leaf in found if leaf["type"] == "text")
    seen = text.replace("\u202e", "⟨U+202E⟩").replace("\u200b", "⟨U+200B⟩")
    assert seen.replace(text[-5:], "⟨U+FE0F⟩⟨U+E0101⟩⟨U+2065⟩⟨U+FFF5⟩⟨U+E0180⟩") in literal
    assert "&lt;!channel&gt; &lt;@UDAN00001&gt;" in card["text"]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", text) == 1
    said = harness.thread(SUPPORT, thread)[1:]
    active = "".join(m["text"] for m in said)
    active += "".join(
        leaf["text"] for leaf in leaves([m["blocks"] for m in said]) if leaf["type"] == "mrkdwn"
    )
    assert "\u202e" not in "".join(map(words, said))
    assert "<!channel>" not in active
    assert "<@UDAN" not in active
    assert len(harness.person("dan").notifications()) == before


def test_only_a_destructive_call_needs_a_confirmation(harness: Harness) -> None:
    """The confirmation says what would be done."""
    thread = ask(harness, ("wipe", {"text": "the disk"}), ("note", {"text": "mild"}))
    card = harness.card(SUPPORT, thread)
    destructive, mild = [e for e in elements(card) if e.get("action_id") == "approve"]
    assert "the disk" in json.dumps(destructive["confirm"], ensure_ascii=False)
    assert "confirm" not in mild
    [both] = [e for e in elements(card) if e.get("action_id") == "approve_all"]
    assert "the disk" in json.dumps(both["confirm"], ensure_ascii=False)


def test_a_card_in_another_channel_is_decided_there(harness: Harness) -> None:
    """With `post_to` the card links to its thread and the thread to the card's channel. The answer
    comes in the thread.
    """
    thread = ask(harness, CANCEL)
    card = harness.card(FINANCE, None, "cleo")
    harness.said(SUPPORT, thread, "I have asked in <#C0FINANCE>")
    permalink = next(
        c.response for c in reversed(harness.slack.requests) if c.method == "chat.getPermalink"
    )
    assert permalink is not None
    assert permalink["permalink"] in words(card)
    assert "S0FINANCE" in words(card)
    assert any(n["ts"] == card["ts"] for n in harness.person("cleo").notifications())
    harness.person("cleo").click(FINANCE, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    harness.said(SUPPORT, thread, "✅ Cancelled order 1044")
    assert harness.shop.get_order(1044).status == "cancelled"
    assert '"button"' not in words(now_at(harness, FINANCE, card["ts"], "cleo"))


def test_one_decision_updates_all_copies_of_a_card(harness: Harness, fakes: FakeTools) -> None:
    """Approvers who cannot see the thread are asked in direct messages, and the thread says so."""
    ben = harness.person("ben")
    thread = ask(harness, ("note", {"text": "private"}), channel=ben.dm_channel)
    copies = {}
    for name in ("ana", "cleo"):
        place = harness.person(name).dm_channel
        copies[name] = (place, harness.card(place, None, name))
    own = harness.said(ben.dm_channel, thread, "I have asked the approvers, in direct messages")
    assert "Write “private”" in words(own)
    assert "actions" not in [block["type"] for block in own["blocks"]]
    place, card = copies["cleo"]
    harness.person("cleo").click(place, card["ts"], "approve")
    harness.said(ben.dm_channel, thread, "That is all.")
    harness.settle()
    for name, (place, card) in copies.items():
        drawn = words(now_at(harness, place, card["ts"], name))
        assert "UCLEO0001" in drawn
        assert '"button"' not in drawn
    place, card = copies["ana"]
    harness.person("ana").click(place, card["ts"], "approve", seen=card)
    told(harness, "ana", place, card["ts"], "<@UCLEO0001> already approved this")
    assert fakes.did("note", "private") == 1
    drawn = words(now_at(harness, ben.dm_channel, own["ts"], "ben"))
    assert "Approved by <@UCLEO0001>" in drawn
    assert "I have asked" not in drawn


def test_a_review_submitted_after_the_decision_tells_who_was_first(
    harness: Harness, fakes: FakeTools
) -> None:
    """Nothing runs twice."""
    text = "late " * 1000
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread, having="review")
    for name in ("ana", "cleo"):
        open_modal(harness, name, SUPPORT, card, "review")
    harness.person("ana").submit()
    harness.said(SUPPORT, thread, "That is all.")
    harness.person("cleo").submit()
    assert "Ana Ruiz already approved this" in on_top(harness, "cleo")
    harness.person("cleo").close_view()
    assert fakes.did("note", text) == 1


def test_review_shows_who_asked_and_a_note_appears_once(harness: Harness, fakes: FakeTools) -> None:
    """It also shows the deadline, and no ids."""
    long = "long " * 1000
    thread = ask(harness, ("note", {"text": long}), ("note", {"text": "short"}))
    card = harness.card(SUPPORT, thread, having="review")
    view = open_modal(harness, "ana", SUPPORT, card, "review")
    shown = words(view)
    assert shown.count("Asked by <@UBEN00001>") == shown.count("Decide by") == 1
    assert not re.search(r"#[0-9a-f]{8}", shown)
    inputs = [each["label"]["text"] for each in view["blocks"] if each["type"] == "input"]
    assert "Note" not in inputs
    assert len(set(inputs)) == len(inputs)
    harness.person("ana").submit({"note": {"text": {"value": "I have read it"}}})
    harness.slack.wait(
        lambda: "runs once the rest is decided" in words(now_at(harness, SUPPORT, card["ts"]))
    )
    waiting = words(now_at(harness, SUPPORT, card["ts"]))
    assert waiting.count("I have read it") == 1
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    over = words({"blocks": now_at(harness, SUPPORT, card["ts"])["blocks"]})
    assert over.count("I have read it") == 1
    assert over.count("✅") == over.count("Approved by") == 2


def test_approvers_are_named_on_a_card_only_while_it_waits(harness: Harness) -> None:
    """So are the words of the request."""
    thread = ask(harness, ("note", {"text": "once"}))
    card = harness.card(SUPPORT, thread)
    assert all(each in words(card) for each in ("💬", "Approvers: ", "Asked by "))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    over = words(now_at(harness, SUPPORT, card["ts"]))
    assert "Asked by " in over
    assert not any(each in over for each in ("💬", "Approvers: "))
