"""Cards after a decision: what they say about it, and what can still be clicked."""

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
    list_action_ids,
    list_objects,
    map_buttons,
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
def test_a_decided_card_has_a_line_for_its_status(status: CallStatus) -> None:
    """The line says who decided, when, why, and the result. Above it are the arguments that are not
    in the effect: below, the argument "Reason" would be taken for the reason of the rejection.
    """
    changes, line = OUTCOMES[status]
    drawn = render_card(view(replace(DECIDED, status=status, **changes)), NOW)
    accept_message(drawn.blocks)
    lines = read(drawn.blocks).splitlines()
    assert lines[:3] == ["Refund 40.00 EUR of order 1042", "Reason: damaged", line]
    assert set(OUTCOMES) | {CallStatus.PENDING} == set(CallStatus)


@pytest.mark.parametrize("status", list(OUTCOMES))
def test_only_a_card_with_an_unknown_outcome_has_buttons(status: CallStatus) -> None:
    """People have to say whether the call was done."""
    ids = list_action_ids(render_card(view(replace(DECIDED, status=status)), NOW).blocks)
    wanted = (
        ["resolve_done", "resolve_not_done", "run_again"] if status is CallStatus.UNKNOWN else []
    )
    assert ids == wanted


def test_running_an_unknown_call_again_asks_for_confirmation() -> None:
    """The call may be done a second time."""
    found = map_buttons(render_card(view(replace(DECIDED, status=CallStatus.UNKNOWN)), NOW).blocks)
    assert "second time" in found["run_again", "call-1:1"]["confirm"]["text"]["text"]


def test_an_approved_call_says_that_others_are_undecided() -> None:
    """The undecided call keeps its buttons. It may also be on another card."""
    drawn = render_card(view(replace(DECIDED, status=CallStatus.APPROVED), CANCEL), NOW)
    accept_message(drawn.blocks)
    assert "runs once the rest is decided" in read(drawn.blocks)
    assert list_action_ids(drawn.blocks) == ["approve", "edit", "reject_now"]
    elsewhere = render_card(
        view(replace(DECIDED, status=CallStatus.APPROVED), has_undecided_calls=True), NOW
    )
    assert "runs once the rest is decided" in read(elsewhere.blocks)


def test_the_tools_outcome_sentence_replaces_the_effect() -> None:
    """Edited arguments and people's remarks are kept."""
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
        "Amount: 40.00 → 30.00",
        "✅ Done · {21 Nov 2026, 14:05 UTC}",
        "{UANA00001}: one item only",
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


def test_an_argument_that_is_in_the_effect_by_chance_is_shown() -> None:
    """Here the 4 is part of a version, and the word is part of another word."""
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


def test_the_notification_of_a_decided_card_has_its_outcome() -> None:
    """The text of the message agrees with its blocks."""
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
    """In direct messages, a decided card keeps its requester and the link to the thread."""
    done = replace(DECIDED, status=CallStatus.SUCCEEDED)
    foot = render_card(view(done, origin="https://shop.slack.com/archives/C1/p1"), NOW).blocks[-1]
    assert foot["text"]["text"].startswith(
        "Asked by <@UBEN00001> (<https://shop.slack.com/archives/C1/p1|see it>)  ·  Approved by "
    )


def test_each_call_that_is_over_can_be_asked_for_again() -> None:
    """The menu has a choice for each of them, and none for a call that runs or waits."""
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
    """It counts what it leaves out."""
    values = tuple(ArgumentValue("Note", "x" * 300) for _ in range(9))
    text = read(
        render_card(view(replace(DECIDED, status=CallStatus.SUCCEEDED, values=values)), NOW).blocks
    )
    assert text.count("Note: ") == 5
    assert "more characters)" in text
    assert "and 4 more" in text


def test_a_result_of_many_lines_is_quoted() -> None:
    """So a result cannot pass for lines of the card."""
    result = "booked\n✅ Approved by Ana"
    blocks = render_card(
        view(replace(DECIDED, status=CallStatus.SUCCEEDED, result=result)), NOW
    ).blocks
    quotes = [
        each["elements"][0]["text"]
        for each in list_objects(blocks)
        if each.get("type") == "rich_text_quote"
    ]
    assert quotes == [result]


def test_many_approvers_are_counted() -> None:
    """A policy that names hundreds of people still makes a valid card."""
    drawn = render_card(view(approver_users=tuple(f"U{n:010}" for n in range(300))), NOW)
    accept_message(drawn.blocks)
    assert "221 more" in read(drawn.blocks)


@pytest.mark.parametrize("status", [CallStatus.APPROVED, CallStatus.SUCCEEDED, CallStatus.UNKNOWN])
def test_a_card_says_that_its_call_ran_without_approval(status: CallStatus) -> None:
    """It says who ran it and why, and has buttons until somebody has looked at it."""
    ran = RunWithoutApproval("UBEN00001", "<!channel> *now*\n\u202e" * 30)
    call = replace(DECIDED, status=status, without_approval=ran, is_to_be_looked_at=True)
    drawn = render_card(view(call), NOW)
    accept_message(drawn.blocks)
    text = read(drawn.blocks)
    assert "🚨 Run without approval by {UBEN00001}: “<!channel> *now*" in text
    assert "Approved by" not in text + drawn.text
    assert {"looked_at", "object"} <= {*list_action_ids(drawn.blocks)}
    looked = replace(ran, looked_at_by="UANA00001", objection="<!here>")
    drawn = render_card(view(replace(call, without_approval=looked, is_to_be_looked_at=False)), NOW)
    accept_message(drawn.blocks)
    assert "⚠️ Something is wrong, says {UANA00001}: “<!here>”" in read(drawn.blocks)
    assert not {"looked_at", "object"} & {*list_action_ids(drawn.blocks)}
