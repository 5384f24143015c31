"""Cards where people see them: long, secret, hostile, elsewhere, failing, deleted.

They end up telling the truth.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from storage.models import Audit, Message
from tests.stories.kit import Kit
from tests.stories.world import (
    FINANCE,
    SUPPORT,
    World,
    action_ids,
    arrived,
    ask,
    elements,
    now_at,
    open_modal,
    told,
    typed,
    words,
)

CANCEL = ("cancel_order", {"order_id": 1044, "reason": "changed their mind"})


def leaves(value: Any) -> list[dict[str, Any]]:
    """Every object with a type in blocks."""
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    if isinstance(value, dict):
        return (
            [value, *leaves(list(value.values()))]
            if "type" in value
            else leaves(list(value.values()))
        )
    return []


def status(world: World, thread: str) -> list[str]:
    return [str(call.status) for call in world.calls_in(thread)]


def test_a_long_argument_is_reviewed_whole_and_approved_there(world: World, kit: Kit) -> None:
    """What does not fit the card is never cut: Review shows every character and approves (promise
    1).
    """
    text = "".join(f"{n:05d}" for n in range(3000))
    thread = ask(world, ("note", {"text": text}))
    card = world.card(SUPPORT, thread, having="review")
    assert "approve" not in action_ids(card)
    view = open_modal(world, "ana", SUPPORT, card, "review")
    shown = "".join(leaf["text"] for leaf in leaves(view["blocks"]) if leaf["type"] == "text")
    assert all(f"{n:05d}" in shown.replace("\n", "") for n in (0, 999, 1777, 2999))
    assert "".join(char for char in shown if char.isdigit()).find(text[:2000]) >= 0
    assert world.person("ana").submit()["outcome"] == "closed"
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", text) == 1


def test_secrets_are_masked_everywhere_but_covered(
    world: World, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither card, notification, thread, audit nor log has the secret.

    The digest tells two secrets apart (S15).
    """
    caplog.set_level(logging.INFO)
    secret, other = "hunter2-correct-horse", "hunter3-correct-horse"
    thread = ask(
        world,
        ("login", {"account": "shop", "password": secret}),
        ("login", {"account": "shop", "password": other}),
    )
    card = world.card(SUPPORT, thread)
    world.settle()
    modal = open_modal(world, "ana", SUPPORT, card, "edit")
    world.person("ana").close_view()
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    first, second = world.calls_in(thread)
    assert first.digest != second.digest
    assert (kit.did("login", secret), kit.did("login", other)) == (1, 1)
    places = {
        "card": words(card),
        "modal": json.dumps(modal),
        "thread": "".join(map(words, world.thread(SUPPORT, thread))),
        "notifications": json.dumps(
            [n for who in ("ana", "cleo") for n in world.person(who).notifications()]
        ),
        "audit": "".join(row.data for row in world.all(Audit)),
        "log": caplog.text,
        "outbox": "".join(row.body + row.error for row in world.all(Message)),
        "calls": first.note + first.preview + first.reason + second.note,
    }
    assert [place for place, text in places.items() if "correct-horse" in text] == []
    assert "••••••••" in places["card"]


def test_hostile_characters_are_shown_and_harmless(world: World, kit: Kit) -> None:
    """Mentions, links, Markdown, direction and zero-width characters do nothing but show (S04)."""
    text = "<!channel> <@UDAN00001> *bold* `x` <https://evil.example|Approve> &amp; \u202egnp.\u200bexe"
    before = len(world.person("dan").notifications())
    thread = ask(world, ("note", {"text": text}))
    card = world.card(SUPPORT, thread)
    world.settle()
    found = leaves(card["blocks"])
    users = {leaf["user_id"] for leaf in found if leaf["type"] == "user"}
    assert "UDAN00001" not in users
    assert not [leaf for leaf in found if leaf["type"] in ("broadcast", "link")]
    mrkdwn = "".join(leaf["text"] for leaf in found if leaf["type"] == "mrkdwn")
    assert "evil" not in mrkdwn
    assert "UDAN00001" not in mrkdwn
    literal = "".join(leaf["text"] for leaf in found if leaf["type"] == "text")
    assert text.replace("\u202e", "⟨U+202E⟩").replace("\u200b", "⟨U+200B⟩") in literal
    assert "&lt;!channel&gt; &lt;@UDAN00001&gt;" in card["text"]
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", text) == 1
    said = world.thread(SUPPORT, thread)[1:]
    active = "".join(m["text"] for m in said)
    active += "".join(
        leaf["text"] for leaf in leaves([m["blocks"] for m in said]) if leaf["type"] == "mrkdwn"
    )
    assert "\u202e" not in "".join(map(words, said))
    assert "<!channel>" not in active
    assert "<@UDAN" not in active
    assert len(world.person("dan").notifications()) == before


def test_a_destructive_call_asks_twice(world: World) -> None:
    """The Approve button of a destructive call carries a confirmation that says what, a write does
    not.
    """
    thread = ask(world, ("wipe", {"text": "the disk"}), ("note", {"text": "mild"}))
    card = world.card(SUPPORT, thread)
    destructive, mild = [e for e in elements(card) if e.get("action_id") == "approve"]
    assert "the disk" in json.dumps(destructive["confirm"], ensure_ascii=False)
    assert "confirm" not in mild
    [both] = [e for e in elements(card) if e.get("action_id") == "approve_all"]
    assert "the disk" in json.dumps(both["confirm"], ensure_ascii=False)


def test_a_card_in_another_channel(world: World) -> None:
    """post_to: the thread says where, the card links back, is decided there, and the answer comes
    in the thread.
    """
    thread = ask(world, CANCEL)
    card = world.card(FINANCE, None, "cleo")
    world.said(SUPPORT, thread, "I have asked in <#C0FINANCE>")
    permalink = next(
        c.response for c in reversed(world.slack.requests) if c.method == "chat.getPermalink"
    )
    assert permalink is not None
    assert permalink["permalink"] in words(card)
    assert "S0FINANCE" in words(card)
    assert any(n["ts"] == card["ts"] for n in world.person("cleo").notifications())
    world.person("cleo").click(FINANCE, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert "✅ <@UCLEO0001>" in words(world.said(SUPPORT, thread, "✅"))
    assert world.shop.order(1044).status == "cancelled"
    assert '"button"' not in words(now_at(world, FINANCE, card["ts"], "cleo"))


def test_copies_in_the_approvers_messages_die_together(world: World, kit: Kit) -> None:
    """Who cannot see the place is asked in DMs and the thread says so.

    One decision redraws all copies (S12).
    """
    ben = world.person("ben")
    thread = ask(world, ("note", {"text": "private"}), channel=ben.dm_channel)
    copies = {}
    for name in ("ana", "cleo"):
        place = world.person(name).dm_channel
        copies[name] = (place, world.card(place, None, name))
    world.said(ben.dm_channel, thread, "I have asked the approvers, in direct messages")
    place, card = copies["cleo"]
    world.person("cleo").click(place, card["ts"], "approve")
    world.said(ben.dm_channel, thread, "That is all.")
    world.settle()
    for name, (place, card) in copies.items():
        drawn = words(now_at(world, place, card["ts"], name))
        assert "UCLEO0001" in drawn
        assert '"button"' not in drawn
    place, card = copies["ana"]
    world.person("ana").click(place, card["ts"], "approve", seen=card)
    told(world, "ana", place, card["ts"], "<@UCLEO0001> already approved this")
    assert kit.did("note", "private") == 1


def test_the_update_after_a_decision_is_retried(world: World, kit: Kit) -> None:
    """Slack refuses the redrawing for a while: the click counted, a stale button says so, the card
    follows (S07).
    """
    thread = ask(world, ("note", {"text": "redraw"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.slack.faults.fail("chat.update", "internal_error", times=3)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: status(world, thread) == ["succeeded"])
    world.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)

    for _ in range(5):  # past each of the outbox's waits
        world.settle()
        world.clock.advance(60)
    world.slack.wait(lambda: '"button"' not in words(now_at(world, SUPPORT, card["ts"])))
    told(world, "cleo", SUPPORT, thread, "<@UANA00001> already approved this")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "redraw") == 1


def test_a_deleted_card_comes_back_and_is_decided(world: World, kit: Kit) -> None:
    """Somebody deleted the message: the next change posts it anew, with buttons that count (S08)."""
    thread = ask(world, ("note", {"text": "deleted"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ben", SUPPORT, card, "edit")
    world.slack.delete_message(SUPPORT, card["ts"])
    world.person("ben").submit(typed(text="deleted and back"))
    anew = world.card(SUPPORT, thread)
    assert anew["ts"] != card["ts"]
    world.person("ana").click(SUPPORT, anew["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "deleted and back") == 1


def test_a_click_on_a_card_deleted_under_the_finger_counts(world: World, kit: Kit) -> None:
    """The click that was on its way decides; the truth is posted in the thread again (S08)."""
    thread = ask(world, ("note", {"text": "vanished"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.slack.delete_message(SUPPORT, card["ts"])
    world.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", "vanished") == 1
    assert "Approved by <@UANA00001>" in words(world.said(SUPPORT, thread, "Done"))


@pytest.mark.parametrize("way", ["expired", "cut"])
@pytest.mark.parametrize("action", ["edit", "reject"])
def test_a_dialog_that_slack_will_not_open(world: World, kit: Kit, way: str, action: str) -> None:
    """The trigger expired or the line was cut: the person is told, nothing is stuck, the next click
    works (S02).
    """
    thread = ask(world, ("note", {"text": f"{way} {action}"}))
    card = world.card(SUPPORT, thread)
    if way == "expired":
        world.slack.faults.fail("views.open", "expired_trigger_id")
    else:
        world.slack.faults.drop("views.open")
    world.person("ana").click(SUPPORT, card["ts"], action)
    told(world, "ana", SUPPORT, thread, "Slack did not let me open the dialog in time")
    assert world.person("ana").view() is None
    open_modal(world, "ana", SUPPORT, card, action)
    world.person("ana").close_view()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", f"{way} {action}") == 1


def test_a_review_submitted_after_the_decision_tells_who_was_first(world: World, kit: Kit) -> None:
    """Who approves there too late is told so at the note, and nothing runs twice (S10)."""
    text = "late " * 1000
    thread = ask(world, ("note", {"text": text}))
    card = world.card(SUPPORT, thread, having="review")
    for name in ("ana", "cleo"):
        open_modal(world, name, SUPPORT, card, "review")
    world.person("ana").submit()
    world.said(SUPPORT, thread, "That is all.")
    outcome = world.person("cleo").submit()
    assert "Ana Ruiz already approved this" in outcome["errors"]["note"]
    world.person("cleo").close_view()
    assert kit.did("note", text) == 1


def test_a_card_that_cannot_be_posted_fails_closed(world: World, kit: Kit) -> None:
    """Slack will never take it: the call is cancelled, requester and model hear why, the run goes
    on (S05).
    """
    world.slack.faults.fail(
        "chat.postMessage", "restricted_action", match=lambda a: "card:" in json.dumps(a)
    )
    thread = ask(world, ("note", {"text": "unseen"}))
    ben = world.person("ben")

    def told_ben() -> bool:
        return any(
            "could not show" in words(m) for m in ben.messages(ben.dm_channel) if m["ts"] > thread
        )

    world.slack.wait(told_ben)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert status(world, thread) == ["cancelled"]
    assert "could not be shown to its approvers" in world.outputs()[-1]["output"]
    assert kit.did("note", "unseen") == 0


def test_one_copy_that_cannot_be_posted_does_not_cancel(world: World, kit: Kit) -> None:
    """As long as one approver can see a copy the call stays open and is decided there (S05, S12)."""
    ana, ben = world.person("ana"), world.person("ben")
    world.slack.faults.fail(
        "conversations.open", "user_disabled", match=lambda a: "UCLEO0001" in str(a.get("users"))
    )
    thread = ask(world, ("note", {"text": "one copy"}), channel=ben.dm_channel)
    card = world.card(ana.dm_channel, None)
    arrived(world)
    assert status(world, thread) == ["pending"]
    ana.click(ana.dm_channel, card["ts"], "approve")
    world.said(ben.dm_channel, thread, "That is all.")
    assert kit.did("note", "one copy") == 1
    world.settle()
    drawn = now_at(world, ana.dm_channel, card["ts"])
    assert "approve" not in action_ids(drawn)
    assert "Done" in words(drawn)
