"""Cards that wait for a decision: words, buttons and blocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.cards.call_blocks import has_warnings
from bot.cards.call_pieces import RESTORED_RECORD_NOTE
from bot.cards.card import render_card
from bot.cards.views import ArgumentValue, CallView
from storage.states import CallStatus
from tests.messages.cards_support import (
    CANCEL,
    NOW,
    REFUND,
    accept_message,
    list_action_ids,
    list_mrkdwn_texts,
    list_objects,
    map_buttons,
    needs_schema,
    read,
    view,
)


def test_a_pending_card_reads_from_effect_to_buttons() -> None:
    """First the effect as a header, then arguments, reason, people, deadline, and buttons."""
    drawn = render_card(view(), NOW)
    accept_message(drawn.blocks)
    assert drawn.blocks[0]["type"] == "header"
    assert read(drawn.blocks).splitlines() == [
        "Refund 40.00 EUR of order 1042",
        "Order: 1042",
        "Amount: 40.00 EUR",
        "The agent says:",
        "The parcel arrived broken.",
        "Asked by <@UBEN00001>  ·  Approvers: <!subteam^S0LEADS>, <@UANA00001>  ·  "
        "⏳ Decide by <!date^1795273200^{date_short_pretty} at {time} ({ago})|"
        "21 Nov 2026, 15:00 UTC>",
        "ApproveEditRejectDetails, approve with a note…Reject with a reason…"
        "Send the plan back…Hand over…Cancel the request (only the person who asked)",
    ]


def test_the_requesters_words_are_quoted_once_below_the_arguments() -> None:
    """The same order holds for a plan of several calls, which has them once as well."""
    words = "Please refund 40 EUR and cancel 1043"
    told = {"requester_messages": (words,), "edited_messages": ("Only the refund",)}
    warned = replace(CANCEL, preview="40.00 EUR will be paid back")
    drawn = read(render_card(view(warned, **told), NOW).blocks)
    order = [
        "Cancel order 1043 for good",
        "cannot be undone",
        "edited the request",
        "Only the refund",
        "paid back",
        "The agent says",
        f"Asked by <@UBEN00001>\n“{words}”",
        "Approvers: ",
        "⏳ Decide by",
        "ApproveApprove this?",
    ]
    places = [drawn.find(each) for each in order]
    assert -1 not in places
    assert places == sorted(places)
    plan = read(render_card(view(REFUND, warned, replace(REFUND, id="3"), **told), NOW).blocks)
    for text in (drawn, plan):
        assert all(text.count(each) == 1 for each in (words, "Only the", "Asked by", "Decide by"))
    assert plan.index("paid back") < plan.index(words) < plan.index("Approve all (3)")


def test_the_notification_says_who_asks_for_what_until_when() -> None:
    """It is shown on lock screens; it also names the program that asks."""
    assert render_card(view(), NOW).text == (
        "<@UBEN00001> asks to refund 40.00 EUR of order 1042. Approve or reject within 1 hour."
    )
    assert render_card(view(REFUND, CANCEL), NOW).text.startswith(
        "<@UBEN00001> asks for 2 things: refund 40.00 EUR of order 1042; "
        "cancel order 1043 for good. Approve"
    )
    by = "<@UBEN00001> through “ci &lt;1&gt;” asks to refund 40.00"
    assert render_card(view(client="ci <1>"), NOW).text.startswith(by)


def test_two_or_more_short_arguments_are_put_in_two_columns() -> None:
    """Arguments that are long, edited or of several lines have lines of their own."""
    values = (
        ArgumentValue("Order", "1042"),
        ArgumentValue("Amount", "30.00", "40.00"),
        ArgumentValue("Note", "a\nb"),
        ArgumentValue("Reason", "damaged"),
        ArgumentValue("Why", "The parcel arrived broken, and so did everything in it."),
    )
    blocks = render_card(view(replace(REFUND, values=values)), NOW).blocks
    accept_message(blocks)
    [cells] = [each["fields"] for each in blocks if "fields" in each]
    assert [(each["type"], each["text"]) for each in cells] == [
        ("plain_text", "Order: 1042"),
        ("plain_text", "Reason: damaged"),
    ]
    text = read(blocks)
    assert "Amount:  40.00  →  30.00" in text
    assert "Why:  The parcel" in text
    many = tuple(ArgumentValue(f"Field {number}", "x") for number in range(25))
    blocks = render_card(view(replace(REFUND, values=many)), NOW).blocks
    accept_message(blocks)
    assert [len(each["fields"]) for each in blocks if "fields" in each] == [10, 10]
    assert all(f"Field {number}:" in read(blocks) for number in range(25))
    four = [replace(REFUND, id=f"call-{number}") for number in range(4)]
    assert not any("fields" in each for each in render_card(view(*four), NOW).blocks)


def test_a_warning_is_above_the_arguments_and_approve_is_not_green() -> None:
    """The call cannot be undone, or is asked about again; no button is coloured."""
    again = replace(REFUND, note="the same was done already in this request")
    restored = replace(REFUND, note=RESTORED_RECORD_NOTE, edits=(("UANA00001", NOW),))
    why = "🔁 Why this is asked: the"
    for call, says in ((CANCEL, "⚠️ This cannot be undone."), (again, why), (restored, why)):
        blocks = render_card(view(call), NOW).blocks
        accept_message(blocks)
        lines = read(blocks).splitlines()
        assert lines[1].startswith(says)
        assert "style" not in map_buttons(blocks)["approve", f"{call.id}:1"]
        found = map_buttons(render_card(view(REFUND, replace(call, id="call-9")), NOW).blocks)
        assert "style" not in found["approve_all", "plan-1:3:0"]
        assert found["approve", "call-1:1"]["style"] == "primary"


def test_a_plan_has_a_count_above_and_buttons_for_all_below() -> None:
    """Below are also the requester, and one deadline unless the calls' deadlines differ."""
    soon = NOW + timedelta(hours=1, milliseconds=5)  # asked for a moment later
    other = replace(REFUND, id="call-3", deadline=soon)
    blocks = render_card(view(REFUND, other, CANCEL), NOW).blocks
    accept_message(blocks)
    lines = read(blocks).splitlines()
    assert lines[0] == "3 things to decide"
    [asked] = [each for each in lines if each.startswith("Asked by <@UBEN00001>  ·  Approvers: ")]
    assert lines[lines.index(asked) + 1].startswith("Approve all (3)")
    assert lines.index(asked) > lines.index("Cancel order 1043 for good")
    assert read(blocks).count("⏳ Decide by") == 1
    late = replace(other, deadline=NOW + timedelta(hours=4))
    assert read(render_card(view(REFUND, late), NOW).blocks).count("⏳ Decide by") == 2
    done = replace(REFUND, status=CallStatus.APPROVED, decided_by=("UANA00001",), decided_at=NOW)
    lines = read(render_card(view(done, other, CANCEL), NOW).blocks).splitlines()
    assert lines[0] == "2 of 3 left to decide"
    assert any("runs once the rest is decided" in each for each in lines)
    last = render_card(view(done, CANCEL), NOW).blocks
    assert not {"approve_all", "reject_all"} & set(list_action_ids(last))
    assert all(
        each in read(last)
        for each in ("Withdraw (only the person", "Cancel the request (only the person")
    )


def test_the_buttons_carry_ids_with_their_revisions() -> None:
    """Each button names a call or the plan, with its revision."""
    found = map_buttons(render_card(view(REFUND, replace(CANCEL, revision=4)), NOW).blocks)
    assert set(found) == {
        *((verb, "call-1:1") for verb in ("approve", "edit", "reject_now")),
        *((verb, "call-2:4") for verb in ("approve", "edit", "reject_now")),
        ("approve_all", "plan-1:3:0"),
        ("reject_all", "plan-1:3:0"),
    }
    assert found["approve_all", "plan-1:3:0"]["text"]["text"] == "Approve all (2)"
    assert found["approve", "call-1:1"]["style"] == "primary"
    assert found["reject_now", "call-1:1"]["style"] == "danger"


def test_reject_is_coloured_only_where_approve_is() -> None:
    """With a warning neither is coloured. Each of several calls is treated by itself."""
    for calls in ([CANCEL], [REFUND, CANCEL]):
        found = map_buttons(render_card(view(*calls), NOW).blocks)
        assert has_warnings(CANCEL)
        for (action, about), button in found.items():
            loud = action in ("approve", "reject_now") and about.startswith("call-1")
            assert ("style" in button) == (loud and REFUND in calls), action


def test_no_button_is_coloured_if_the_outcome_is_unknown() -> None:
    """People have to look in the other system first; running again is the last button."""
    unknown = replace(REFUND, status=CallStatus.UNKNOWN, note="the connection was lost")
    card = render_card(view(unknown), NOW).blocks
    found = map_buttons(card)
    assert [action for action, _ in found][:3] == ["resolve_done", "resolve_not_done", "run_again"]
    assert not any("style" in each for each in found.values())


def test_reject_asks_for_a_reason_only_where_one_is_needed() -> None:
    """Where none is needed, the dialog for a reason is in the menu."""
    free = render_card(view(), NOW).blocks
    assert map_buttons(free)["reject_now", "call-1:1"]["text"]["text"] == "Reject"
    assert "Reject with a reason…" in read(free)
    bound = render_card(view(replace(REFUND, needs_rejection_reason=True)), NOW).blocks
    assert map_buttons(bound)["reject", "call-1:1"]["text"]["text"] == "Reject…"
    assert "Reject with a reason…" not in read(bound)


def test_arguments_that_are_not_set_are_left_out() -> None:
    """One that an edit has emptied is shown: it has changed."""
    values = (
        ArgumentValue("Order", "1042"),
        ArgumentValue("Note", "—"),
        ArgumentValue("Reason", "—", "damaged"),
    )
    text = read(render_card(view(replace(REFUND, values=values)), NOW).blocks)
    assert "Order:  1042" in text
    assert "Note" not in text
    assert "Reason:  damaged  →  —" in text
    decided = replace(REFUND, values=values, status=CallStatus.SUCCEEDED)
    assert "Note" not in read(render_card(view(decided), NOW).blocks)


def test_only_approving_a_destructive_call_asks_for_confirmation() -> None:
    """So does Approve all if one of the calls is destructive. The card warns of it."""
    found = map_buttons(render_card(view(REFUND, CANCEL), NOW).blocks)
    assert "confirm" not in found["approve", "call-1:1"]
    assert found["approve", "call-2:1"]["confirm"]["text"]["text"].startswith(
        "Cancel order 1043 for good"
    )
    assert (
        "Cancel order 1043 for good"
        in found["approve_all", "plan-1:3:0"]["confirm"]["text"]["text"]
    )
    harmless = map_buttons(render_card(view(REFUND, replace(REFUND, id="call-3")), NOW).blocks)
    assert "confirm" not in harmless["approve_all", "plan-1:3:0"]
    assert "cannot be undone" not in read(render_card(view(), NOW).blocks)
    assert "cannot be undone" in read(render_card(view(CANCEL), NOW).blocks)


def test_a_call_that_may_not_be_edited_has_no_edit_button() -> None:
    """The button would lead nowhere."""
    assert "edit" not in list_action_ids(
        render_card(view(replace(REFUND, editable=False)), NOW).blocks
    )


def test_an_edited_argument_shows_old_and_new() -> None:
    """The card also says who edited it."""
    values = (
        ArgumentValue("Amount", "40.00 EUR", "45.00 EUR"),
        ArgumentValue("Note", "a\nb", "a\nc"),
    )
    drawn = render_card(view(replace(REFUND, values=values, edits=(("UCLEO0001", NOW),))), NOW)
    accept_message(drawn.blocks)
    assert "Amount:  45.00 EUR  →  40.00 EUR" in read(drawn.blocks)
    assert "Note:  before\na\nc\nnow\na\nb" in read(drawn.blocks)
    assert "Edited by <@UCLEO0001>" in read(drawn.blocks)
    struck = [
        each["text"] for each in list_objects(drawn.blocks) if each.get("style") == {"strike": True}
    ]
    assert struck == ["45.00 EUR"]


def test_a_value_of_several_lines_is_preformatted() -> None:
    """So it cannot pass for further lines of the card."""
    value = ArgumentValue("Text", "Hello\nAmount:  1.00 EUR")
    blocks = render_card(view(replace(REFUND, values=(value,))), NOW).blocks
    framed = [each for each in list_objects(blocks) if each.get("type") == "rich_text_preformatted"]
    assert [each["elements"][0]["text"] for each in framed] == ["Hello\nAmount:  1.00 EUR"]


def test_hidden_characters_are_shown_as_codes() -> None:
    """This holds in a value, in the effect and in the reason."""
    call = replace(
        REFUND,
        effect="Pay \u202e001",
        values=(ArgumentValue("To", "a\u200bb"),),
        agent_reason="\u2066x",
    )
    text = read(render_card(view(call), NOW).blocks)
    assert "Pay ⟨U+202E⟩001" in text
    assert "a⟨U+200B⟩b" in text
    assert "⟨U+2066⟩x" in text


def test_after_the_deadline_nothing_can_be_clicked() -> None:
    """This holds from the deadline on, even before the loop has expired the call."""
    at = NOW + timedelta(hours=1)
    assert list_action_ids(render_card(view(), at).blocks) == []
    assert "the deadline has passed" in read(render_card(view(), at).blocks)
    assert "approve" in list_action_ids(render_card(view(), at - timedelta(microseconds=1)).blocks)


def test_a_part_of_a_plan_has_buttons_for_its_own_calls() -> None:
    """It says which part of how many it is."""
    drawn = render_card(view(REFUND, CANCEL, part=1, parts=2), NOW)
    accept_message(drawn.blocks)
    assert "Part 1 of 2" in read(drawn.blocks)
    found = map_buttons(drawn.blocks)
    assert found["approve_all", "plan-1:3:0"]["text"]["text"] == "Approve these (2)"
    assert found["reject_all", "plan-1:3:0"]["text"]["text"] == "Reject these"


def test_a_card_in_another_channel_links_to_the_request() -> None:
    """A `javascript:` link is left out."""
    link = "https://shop.slack.com/archives/C1/p1795269600000100"
    assert f"<{link}|see it>" in read(render_card(view(origin=link), NOW).blocks)
    assert "javascript" not in read(render_card(view(origin="javascript:alert(1)"), NOW).blocks)


def test_the_approving_channel_is_named() -> None:
    """Where nobody may approve, the card says nobody."""
    drawn = render_card(
        view(approver_users=(), approver_groups=(), approver_channel="C0SUPPORT"), NOW
    )
    assert "Approvers: members of <#C0SUPPORT>" in read(drawn.blocks)
    assert "Approvers: nobody" in read(
        render_card(view(approver_users=(), approver_groups=()), NOW).blocks
    )


@pytest.mark.parametrize("count", [0, 6])
def test_a_card_without_calls_or_with_six_is_refused(count: int) -> None:
    """A caller that forgets to split a plan gets an error; no call is left out."""
    calls: tuple[CallView, ...] = tuple(replace(REFUND, id=f"c{n}") for n in range(count))
    with pytest.raises(ValueError, match="one to five"):
        render_card(replace(view(), calls=calls), NOW)


def test_block_ids_change_with_the_revision_of_a_call() -> None:
    """So a click on the old card cannot pass for one on the new card."""

    def ids(call: CallView) -> set[Any]:
        return {block.get("block_id") for block in render_card(view(call), NOW).blocks}

    assert ids(REFUND) == ids(REFUND)
    assert not ids(REFUND) & ids(replace(REFUND, revision=2))


@needs_schema
def test_the_published_schema_refuses_an_invalid_block() -> None:
    """The other tests rely on it."""
    with pytest.raises(AssertionError):
        accept_message(
            [{"type": "header", "block_id": "x", "text": {"type": "mrkdwn", "text": "x"}}]
        )


def test_no_words_of_a_call_are_formatted() -> None:
    """The texts that Slack formats are the same whatever the call says."""
    tame = list_mrkdwn_texts(render_card(view(CANCEL), NOW).blocks)
    wild = replace(
        CANCEL,
        title="*t*",
        effect="`e`",
        values=(ArgumentValue("_l_", "<!here>"),),
        agent_reason="<@U1>",
    )
    assert list_mrkdwn_texts(render_card(view(wild), NOW).blocks) == tame


def test_emoji_codes_in_a_call_stay_text() -> None:
    """A ":white_check_mark:" in an effect stays what somebody typed."""
    call = replace(CANCEL, effect=":white_check_mark: approved")
    blocks = render_card(view(call), NOW).blocks
    texts = [each for each in list_objects(blocks) if each.get("type") == "plain_text"]
    assert texts
    assert all(each["emoji"] is False for each in texts)
