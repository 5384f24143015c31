"""The card that had a decision: what it says of it, and what can still be clicked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.cards.card import render_card
from bot.cards.views import ArgumentValue, RunWithoutApproval
from storage.states import CallStatus
from tests.messages.cards_support import (
    CANCEL,
    NOW,
    REFUND,
    accept_message,
    action_ids,
    buttons,
    inside,
    read,
    view,
)

DECIDED = replace(
    REFUND,
    decided_by=("UANA00001",),
    decided_at=NOW,
    values=(
        ArgumentValue("Order", "1042", is_in_effect=True),
        ArgumentValue("Amount", "40.00", is_in_effect=True),
        ArgumentValue("Reason", "damaged"),
    ),
)


OUTCOMES: dict[CallStatus, tuple[dict[str, Any], str]] = {
    CallStatus.APPROVED: (
        {},
        "✅ Approved by {UANA00001} · {21 Nov 2026, 14:00 UTC} — not started yet",
    ),
    CallStatus.REFUSED: ({"note": "outside office hours"}, "⛔ Refused: outside office hours"),
    CallStatus.REJECTED: (
        {"note": "Not needed"},
        "🚫 Rejected by {UANA00001} · {21 Nov 2026, 14:00 UTC} — Not needed",
    ),
    CallStatus.EXPIRED: ({}, "⏰ Expired: nobody answered by {21 Nov 2026, 15:00 UTC}"),
    CallStatus.CANCELLED: (
        {"note": "an earlier step failed", "decided_by": (), "decided_at": None},
        "⏹️ Cancelled — an earlier step failed",
    ),
    CallStatus.SUPERSEDED: ({}, "↪️ Replaced by a newer request"),
    CallStatus.INVALIDATED: ({"note": "the tool is gone"}, "⚠️ No longer valid: the tool is gone"),
    CallStatus.RUNNING: ({}, "⏳ Running…"),
    CallStatus.ENTRUSTED: ({}, "⏳ At work…"),
    CallStatus.ANSWERED: ({}, "💬 Answered"),
    CallStatus.SUCCEEDED: ({"result": "refund R-7 booked"}, "✅ Done: refund R-7 booked"),
    CallStatus.FAILED: ({"note": "no order 1042"}, "❌ Failed: no order 1042"),
    CallStatus.UNKNOWN: (
        {},
        "❓ Unknown: started, never confirmed. "
        "Check in the system itself whether it happened, then say so.",
    ),
}


@pytest.mark.parametrize("status", list(OUTCOMES))
def test_every_outcome_has_its_line(status: CallStatus) -> None:
    """After a decision the same message says who, when, why and what came of it.

    It keeps the arguments that the first line does not say.
    """
    changes, line = OUTCOMES[status]
    drawn = render_card(view(replace(DECIDED, status=status, **changes)), NOW)
    accept_message(drawn.blocks)
    lines = read(drawn.blocks).splitlines()
    assert lines[:3] == ["Refund 40.00 EUR of order 1042", line, "Reason: damaged"]
    assert set(OUTCOMES) | {CallStatus.PENDING} == set(CallStatus)


@pytest.mark.parametrize("status", list(OUTCOMES))
def test_only_an_unknown_outcome_has_buttons(status: CallStatus) -> None:
    """A decided card has no button that could be clicked again. An unknown one asks a person."""
    ids = action_ids(render_card(view(replace(DECIDED, status=status)), NOW).blocks)
    wanted = (
        ["resolve_done", "resolve_not_done", "run_again"] if status is CallStatus.UNKNOWN else []
    )
    assert ids == wanted


def test_running_an_unknown_call_again_asks_first() -> None:
    """Doing it twice takes a second thought."""
    found = buttons(render_card(view(replace(DECIDED, status=CallStatus.UNKNOWN)), NOW).blocks)
    assert "second time" in found["run_again", "call-1:1"]["confirm"]["text"]["text"]


def test_an_approved_call_says_that_it_waits_for_the_others() -> None:
    """Partly decided, the card shows what is settled and what is not.

    It keeps the open call's buttons.
    """
    drawn = render_card(view(replace(DECIDED, status=CallStatus.APPROVED), CANCEL), NOW)
    accept_message(drawn.blocks)
    assert "runs once the rest is decided" in read(drawn.blocks)
    assert action_ids(drawn.blocks) == ["approve", "edit", "reject_now"]
    elsewhere = render_card(
        view(replace(DECIDED, status=CallStatus.APPROVED), has_undecided_calls=True), NOW
    )
    assert "runs once the rest is decided" in read(elsewhere.blocks)


def test_a_tools_own_sentence_says_what_it_came_to() -> None:
    """It stands in the place of the effect; what an edit has changed stays, and who said what."""
    done = replace(
        DECIDED,
        status=CallStatus.SUCCEEDED,
        outcome="Refunded 30.00 EUR of order 1042, 59.90 left",
        values=(
            ArgumentValue("Order", "1042", is_in_effect=True),
            ArgumentValue("Amount", "30.00", "40.00"),
        ),
        edits=(("UDAN00001", NOW), ("UCLEO0001", NOW + timedelta(minutes=2))),
        finished_at=NOW + timedelta(minutes=5),
        remarks=(("UANA00001", "one item only"),),
    )
    drawn = render_card(view(done), NOW)
    accept_message(drawn.blocks)
    assert read(drawn.blocks).splitlines()[:4] == [
        "Refunded 30.00 EUR of order 1042, 59.90 left",
        "✅ Done · {21 Nov 2026, 14:05 UTC}",
        "{UANA00001}: one item only",
        "Amount: 40.00 → 30.00",
    ]
    foot = drawn.blocks[-1]["text"]["text"]
    assert [each.partition(", <!")[0] for each in foot.split("  ·  ")] == [
        "Asked by <@UBEN00001>",
        "Edited by <@UDAN00001>",
        "Edited by <@UCLEO0001>",
        "Approved by <@UANA00001>",
    ]
    assert [f"14:0{minute} UTC" in foot for minute in (0, 2, 5)] == [True, True, False]
    assert drawn.text == ("Refunded 30.00 EUR of order 1042, 59.90 left. Approved by <@UANA00001>.")


def test_what_the_title_says_by_chance_is_said_all_the_same() -> None:
    """The 4 of a version, or a word within another, is not the argument of that value."""
    values = (
        ArgumentValue("Version", "2.8.4", is_in_effect=True),
        ArgumentValue("Servers", "4"),
        ArgumentValue("Part", "check"),
    )
    decided: dict[str, Any] = {
        "status": CallStatus.REJECTED,
        "effect": "Deploy 2.8.4 to prod/check-in",
    }
    done = replace(DECIDED, **decided, values=values)
    lines = read(render_card(view(done), NOW).blocks).splitlines()
    assert "Servers: 4  ·  Part: check" in lines


def test_the_notification_of_a_decided_card_says_the_outcome() -> None:
    """The fallback text tells the truth as the blocks do."""
    done = replace(DECIDED, status=CallStatus.SUCCEEDED)
    assert (
        render_card(view(done), NOW).text
        == "Done: Refund 40.00 EUR of order 1042. Approved by <@UANA00001>."
    )
    expired = replace(REFUND, status=CallStatus.EXPIRED)
    assert (
        render_card(view(expired), NOW).text
        == "Nobody answered in time: Refund 40.00 EUR of order 1042."
    )


def test_a_decided_card_still_says_who_asked() -> None:
    """Among direct messages a settled card keeps its requester and the way to the thread."""
    done = replace(DECIDED, status=CallStatus.SUCCEEDED)
    foot = render_card(view(done, origin="https://shop.slack.com/archives/C1/p1"), NOW).blocks[-1]
    assert foot["text"]["text"].startswith(
        "Asked by <@UBEN00001> (<https://shop.slack.com/archives/C1/p1|see it>)  ·  Approved by "
    )


def test_what_is_over_can_be_asked_for_again() -> None:
    """A settled card has the choice to ask again, for each call that is over; none that waits."""
    over = [replace(DECIDED, status=each) for each in (CallStatus.SUCCEEDED, CallStatus.EXPIRED)]
    [menu] = [
        each["accessory"] for each in render_card(view(over[0]), NOW).blocks if "accessory" in each
    ]
    assert [each["text"]["text"] for each in menu["options"]] == ["Ask again…"]
    [menu] = [
        each["accessory"] for each in render_card(view(*over), NOW).blocks if "accessory" in each
    ]
    assert len(menu["options"]) == 2
    running = replace(DECIDED, status=CallStatus.RUNNING)
    assert "ask_again" not in str(render_card(view(running), NOW).blocks)
    assert "ask_again" not in str(render_card(view(REFUND), NOW).blocks)


def test_many_arguments_of_a_decided_card_are_counted() -> None:
    """What a settled card leaves out, it counts."""
    values = tuple(ArgumentValue("Note", "x" * 300) for _ in range(9))
    text = read(
        render_card(view(replace(DECIDED, status=CallStatus.SUCCEEDED, values=values)), NOW).blocks
    )
    assert text.count("Note: ") == 5
    assert "more characters)" in text
    assert "and 4 more" in text


def test_a_result_of_many_lines_is_quoted() -> None:
    """A tool's result cannot write lines of the card."""
    result = "booked\n✅ Approved by Ana"
    blocks = render_card(
        view(replace(DECIDED, status=CallStatus.SUCCEEDED, result=result)), NOW
    ).blocks
    quotes = [
        each["elements"][0]["text"]
        for each in inside(blocks)
        if each.get("type") == "rich_text_quote"
    ]
    assert quotes == [result]


def test_many_approvers_are_counted() -> None:
    """A policy that names hundreds of people still makes a valid card.

    It says how many it does not name.
    """
    drawn = render_card(view(approver_users=tuple(f"U{n:010}" for n in range(300))), NOW)
    accept_message(drawn.blocks)
    assert "221 more" in read(drawn.blocks)


@pytest.mark.parametrize("status", [CallStatus.APPROVED, CallStatus.SUCCEEDED, CallStatus.UNKNOWN])
def test_what_ran_without_approval_says_so(status: CallStatus) -> None:
    """Who ran it and why stand on the card, whatever they wrote, with buttons until one looked."""
    ran = RunWithoutApproval("UBEN00001", "<!channel> *now*\n\u202e" * 30)
    call = replace(DECIDED, status=status, without_approval=ran, is_to_be_looked_at=True)
    drawn = render_card(view(call), NOW)
    accept_message(drawn.blocks)
    text = read(drawn.blocks)
    assert "🚨 Run without approval by {UBEN00001}: “<!channel> *now*" in text
    assert "Approved by" not in text + drawn.text
    assert {"looked_at", "object"} <= {*action_ids(drawn.blocks)}
    looked = replace(ran, looked_at_by="UANA00001", objection="<!here>")
    drawn = render_card(view(replace(call, without_approval=looked, is_to_be_looked_at=False)), NOW)
    accept_message(drawn.blocks)
    assert "⚠️ Something is wrong, says {UANA00001}: “<!here>”" in read(drawn.blocks)
    assert not {"looked_at", "object"} & {*action_ids(drawn.blocks)}
