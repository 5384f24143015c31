"""The card that waits for a decision: its words, its buttons and its blocks."""

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
    action_ids,
    buttons,
    inside,
    mrkdwn_texts,
    needs_schema,
    read,
    view,
)


def test_a_pending_card_reads_from_effect_to_buttons() -> None:
    """The effect stands first and big, then what changes, why, who and until when, the buttons."""
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


def test_a_request_is_quoted_once() -> None:
    """What changes comes before who asked, with their words, also below a plan of several calls."""
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


def test_the_notification_is_a_plain_sentence() -> None:
    """The lock screen says who asks for what, by which program, until when."""
    assert render_card(view(), NOW).text == (
        "<@UBEN00001> asks to refund 40.00 EUR of order 1042. Approve or reject within 1 hour."
    )
    assert render_card(view(REFUND, CANCEL), NOW).text.startswith(
        "<@UBEN00001> asks for 2 things: refund 40.00 EUR of order 1042; "
        "cancel order 1043 for good. Approve"
    )
    by = "<@UBEN00001> through “ci &lt;1&gt;” asks to refund 40.00"
    assert render_card(view(client="ci <1>"), NOW).text.startswith(by)


def test_short_arguments_stand_in_two_columns() -> None:
    """Two or more do, as plain text; what is long, edited or of several lines has its own line."""
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


def test_a_warning_stands_above_and_nothing_is_green() -> None:
    """What cannot be undone, or is asked again, is said before its arguments; no button invites."""
    again = replace(REFUND, note="the same was done already in this request")
    restored = replace(REFUND, note=RESTORED_RECORD_NOTE, edits=(("UANA00001", NOW),))
    why = "🔁 Why this is asked: the"
    for call, says in ((CANCEL, "⚠️ This cannot be undone."), (again, why), (restored, why)):
        blocks = render_card(view(call), NOW).blocks
        accept_message(blocks)
        lines = read(blocks).splitlines()
        assert lines[1].startswith(says)
        assert "style" not in buttons(blocks)["approve", f"{call.id}:1"]
        found = buttons(render_card(view(REFUND, replace(call, id="call-9")), NOW).blocks)
        assert "style" not in found["approve_all", "plan-1:3:0"]
        assert found["approve", "call-1:1"]["style"] == "primary"


def test_a_plan_has_a_head_and_a_foot() -> None:
    """How many stands above the calls; below, who asked, one deadline and the buttons for all."""
    soon = NOW + timedelta(hours=1, milliseconds=5)  # asked a moment later
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
    assert not {"approve_all", "reject_all"} & set(action_ids(last))
    assert all(
        each in read(last)
        for each in ("Withdraw (only the person", "Cancel the request (only the person")
    )


def test_the_buttons_carry_call_plan_and_run_with_their_revisions() -> None:
    """Each button says which revision of what it means."""
    found = buttons(render_card(view(REFUND, replace(CANCEL, revision=4)), NOW).blocks)
    assert set(found) == {
        *((verb, "call-1:1") for verb in ("approve", "edit", "reject_now")),
        *((verb, "call-2:4") for verb in ("approve", "edit", "reject_now")),
        ("approve_all", "plan-1:3:0"),
        ("reject_all", "plan-1:3:0"),
    }
    assert found["approve_all", "plan-1:3:0"]["text"]["text"] == "Approve all (2)"
    assert found["approve", "call-1:1"]["style"] == "primary"
    assert found["reject_now", "call-1:1"]["style"] == "danger"


def test_reject_is_never_louder_than_approve() -> None:
    """With a warning neither is coloured; of several calls, each by itself."""
    for calls in ([CANCEL], [REFUND, CANCEL]):
        found = buttons(render_card(view(*calls), NOW).blocks)
        assert has_warnings(CANCEL)
        for (action, about), button in found.items():
            loud = action in ("approve", "reject_now") and about.startswith("call-1")
            assert ("style" in button) == (loud and REFUND in calls), action


def test_nothing_is_coloured_where_the_outcome_is_unknown() -> None:
    """One has to look in the other system first; running it again is the last of the three."""
    unknown = replace(REFUND, status=CallStatus.UNKNOWN, note="the connection was lost")
    card = render_card(view(unknown), NOW).blocks
    found = buttons(card)
    assert [action for action, _ in found][:3] == ["resolve_done", "resolve_not_done", "run_again"]
    assert not any("style" in each for each in found.values())


def test_reject_is_one_step_where_no_reason_is_needed() -> None:
    """Else the button opens the dialog, which stands in the menu otherwise."""
    free = render_card(view(), NOW).blocks
    assert buttons(free)["reject_now", "call-1:1"]["text"]["text"] == "Reject"
    assert "Reject with a reason…" in read(free)
    bound = render_card(view(replace(REFUND, needs_rejection_reason=True)), NOW).blocks
    assert buttons(bound)["reject", "call-1:1"]["text"]["text"] == "Reject…"
    assert "Reject with a reason…" not in read(bound)


def test_only_arguments_that_are_set_are_shown() -> None:
    """But one that an edit has emptied is: that is what has changed."""
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


def test_only_what_cannot_be_undone_asks_for_confirmation() -> None:
    """A destructive call warns on the card and asks again on Approve.

    So does an Approve all that holds one.
    """
    found = buttons(render_card(view(REFUND, CANCEL), NOW).blocks)
    assert "confirm" not in found["approve", "call-1:1"]
    assert found["approve", "call-2:1"]["confirm"]["text"]["text"].startswith(
        "Cancel order 1043 for good"
    )
    assert (
        "Cancel order 1043 for good"
        in found["approve_all", "plan-1:3:0"]["confirm"]["text"]["text"]
    )
    harmless = buttons(render_card(view(REFUND, replace(REFUND, id="call-3")), NOW).blocks)
    assert "confirm" not in harmless["approve_all", "plan-1:3:0"]
    assert "cannot be undone" not in read(render_card(view(), NOW).blocks)
    assert "cannot be undone" in read(render_card(view(CANCEL), NOW).blocks)


def test_what_may_not_be_edited_has_no_edit_button() -> None:
    """Edit is only offered where it leads somewhere."""
    assert "edit" not in action_ids(render_card(view(replace(REFUND, editable=False)), NOW).blocks)


def test_an_edited_argument_shows_old_and_new() -> None:
    """After an edit the card shows what changed to what, and who changed it."""
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
        each["text"] for each in inside(drawn.blocks) if each.get("style") == {"strike": True}
    ]
    assert struck == ["45.00 EUR"]


def test_values_of_several_lines_stand_in_a_frame() -> None:
    """A value with line ends cannot pass for further lines of the card."""
    value = ArgumentValue("Text", "Hello\nAmount:  1.00 EUR")
    blocks = render_card(view(replace(REFUND, values=(value,))), NOW).blocks
    framed = [each for each in inside(blocks) if each.get("type") == "rich_text_preformatted"]
    assert [each["elements"][0]["text"] for each in framed] == ["Hello\nAmount:  1.00 EUR"]


def test_hidden_characters_are_shown() -> None:
    """Right-to-left and zero-width characters appear as what they are.

    That goes for a value, the effect and the reason.
    """
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
    """A card drawn at its deadline or later offers no decision, even before the sweep."""
    at = NOW + timedelta(hours=1)
    assert action_ids(render_card(view(), at).blocks) == []
    assert "the deadline has passed" in read(render_card(view(), at).blocks)
    assert "approve" in action_ids(render_card(view(), at - timedelta(microseconds=1)).blocks)


def test_a_part_says_so_and_decides_for_itself() -> None:
    """One message of several says that there are more.

    Its buttons are for what it shows.
    """
    drawn = render_card(view(REFUND, CANCEL, part=1, parts=2), NOW)
    accept_message(drawn.blocks)
    assert "Part 1 of 2" in read(drawn.blocks)
    found = buttons(drawn.blocks)
    assert found["approve_all", "plan-1:3:0"]["text"]["text"] == "Approve these (2)"
    assert found["reject_all", "plan-1:3:0"]["text"]["text"] == "Reject these"


def test_a_card_elsewhere_links_to_the_request() -> None:
    """Approvers in another channel can go and look."""
    link = "https://shop.slack.com/archives/C1/p1795269600000100"
    assert f"<{link}|see it>" in read(render_card(view(origin=link), NOW).blocks)
    assert "javascript" not in read(render_card(view(origin="javascript:alert(1)"), NOW).blocks)


def test_the_approving_channel_is_named() -> None:
    """Where a channel decides, the card names the channel; where nobody does, it says nobody."""
    drawn = render_card(
        view(approver_users=(), approver_groups=(), approver_channel="C0SUPPORT"), NOW
    )
    assert "Approvers: members of <#C0SUPPORT>" in read(drawn.blocks)
    assert "Approvers: nobody" in read(
        render_card(view(approver_users=(), approver_groups=()), NOW).blocks
    )


@pytest.mark.parametrize("count", [0, 6])
def test_a_card_takes_one_to_five_calls(count: int) -> None:
    """A caller that forgets to split is told, instead of a call being left out."""
    calls: tuple[CallView, ...] = tuple(replace(REFUND, id=f"c{n}") for n in range(count))
    with pytest.raises(ValueError, match="one to five"):
        render_card(replace(view(), calls=calls), NOW)


def test_block_ids_change_with_the_revision() -> None:
    """An edit makes new block ids, so that a click on the old card is not taken for a new one."""

    def ids(call: CallView) -> set[Any]:
        return {block.get("block_id") for block in render_card(view(call), NOW).blocks}

    assert ids(REFUND) == ids(REFUND)
    assert not ids(REFUND) & ids(replace(REFUND, revision=2))


@needs_schema
def test_the_schema_judge_notices_a_bad_block() -> None:
    """The published schema that judges the other tests can say no."""
    with pytest.raises(AssertionError):
        accept_message(
            [{"type": "header", "block_id": "x", "text": {"type": "mrkdwn", "text": "x"}}]
        )


def test_mrkdwn_holds_our_words_only() -> None:
    """What a card formats is the same whatever the call says."""
    tame = mrkdwn_texts(render_card(view(CANCEL), NOW).blocks)
    wild = replace(
        CANCEL,
        title="*t*",
        effect="`e`",
        values=(ArgumentValue("_l_", "<!here>"),),
        agent_reason="<@U1>",
    )
    assert mrkdwn_texts(render_card(view(wild), NOW).blocks) == tame


def test_plain_text_leaves_emoji_codes_alone() -> None:
    """A ":white_check_mark:" in a title or an effect stays what somebody typed."""
    call = replace(CANCEL, effect=":white_check_mark: approved")
    blocks = render_card(view(call), NOW).blocks
    texts = [each for each in inside(blocks) if each.get("type") == "plain_text"]
    assert texts
    assert all(each["emoji"] is False for each in texts)
