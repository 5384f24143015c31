"""Cards with hostile and huge input are valid and complete, and format no foreign text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.cards.card import list_directly_approvable_call_ids, render_card
from bot.cards.slack_text import count_slack_characters, show_hidden_characters
from bot.cards.views import ArgumentValue, CallView, CardView, VoteProgress
from storage.states import CallStatus
from tests.messages.cards_support import (
    CANCEL,
    NOW,
    REFUND,
    accept_message,
    list_action_ids,
    list_mrkdwn_texts,
    map_buttons,
    read,
    view,
)

NASTY = st.sampled_from(
    [
        "<!channel>",
        "<@UANA00001>",
        "<https://evil.example|Approve>",
        "*bold* `code` ~no~ _it_",
        ":tada:",
        "&amp;",
        "&<>" * 30,
        "\u202egnp.exe",
        "a\u200bb",
        "\u2028",
        "\x00\x1b[31m",
        "\ud800",
        "🏴‍☠️" * 9,
        "",
        " ",
        "\n",
        "```\nfence",
        "Amount: 1.00",
        "x" * 151,
        "long " * 700,
        "&" * 700,
        "line\n" * 45,
        "é\u0301" * 50,
    ]
)
TEXT = st.one_of(NASTY, st.text(max_size=40), st.lists(NASTY, max_size=3).map(" ".join))
SHORT = st.one_of(NASTY.map(lambda text: text[:200]), st.text(max_size=30))
VALUES = st.lists(
    st.builds(
        ArgumentValue, label=SHORT, text=TEXT, previous_text=st.one_of(st.none(), st.none(), TEXT)
    ),
    max_size=6,
).map(tuple)
PERSON = st.sampled_from(["", "UANA00001", "UCLEO0001"])
PEOPLE = st.lists(PERSON, max_size=3).map(tuple)
PROGRESS = st.builds(
    VoteProgress,
    approved=PEOPLE,
    rejected=PEOPLE,
    approvals_needed=st.integers(1, 50),
    stage=st.integers(1, 10),
    stages=st.integers(1, 10),
    rejections_to_end=st.integers(1, 50),
)


@st.composite
def draw_calls(draw: st.DrawFn, count: int) -> tuple[CallView, ...]:
    """Draw calls with anything in them that a tool, the model or a person could write."""
    strategy = st.builds(
        CallView,
        id=st.just(""),
        revision=st.integers(1, 9),
        title=SHORT,
        effect=TEXT,
        does=st.sampled_from(["read", "write", "destructive"]),
        status=st.one_of(st.just(CallStatus.PENDING), st.sampled_from(CallStatus)),
        values=VALUES,
        deadline=st.sampled_from([None, NOW + timedelta(hours=1), NOW - timedelta(hours=1)]),
        preview=TEXT,
        agent_reason=TEXT,
        edits=st.lists(st.tuples(PERSON, st.just(NOW)), max_size=3).map(tuple),
        decided_by=PEOPLE,
        progress=st.one_of(st.none(), PROGRESS),
        decided_at=st.sampled_from([None, NOW]),
        note=TEXT,
        result=TEXT,
        outcome=TEXT,
        remarks=st.lists(st.tuples(PERSON, TEXT), max_size=4).map(tuple),
        editable=st.booleans(),
    )
    return tuple(replace(draw(strategy), id=f"{n}{'i' * 21}") for n in range(count))


@st.composite
def draw_view(draw: st.DrawFn) -> CardView:
    """Draw a card of one to five such calls."""
    some = draw(st.integers(1, 5).flatmap(lambda n: draw_calls(n)))
    people = draw(st.sampled_from([(), ("UANA00001",), tuple(f"U{n:010}" for n in range(300))]))
    return view(*some, approver_users=people, parts=draw(st.sampled_from([1, 2])))


SLOW = settings(suppress_health_check=list(HealthCheck))


@SLOW
@given(draw_view())
def test_a_card_of_any_calls_is_valid(shown: CardView) -> None:
    """The notification is one short line without markup."""
    drawn = render_card(shown, NOW)
    accept_message(drawn.blocks)
    assert "\n" not in drawn.text
    assert len(drawn.text) <= 300
    left = re.sub(r"<@[UW][A-Z0-9]+>", "", drawn.text)
    assert not re.search(r"[<>]", left)


@SLOW
@given(draw_view())
def test_approve_is_offered_only_if_the_card_shows_the_whole_call(shown: CardView) -> None:
    """Otherwise there is a Review button."""
    blocks = render_card(shown, NOW).blocks
    text, found = read(blocks), map_buttons(blocks)
    approved = list_directly_approvable_call_ids(shown, NOW)
    for call in shown.calls:
        value = f"{call.id}:{call.revision}"
        assert (("approve", value) in found) == (call.id in approved)
        if ("approve", value) not in found:
            waits = call.status is CallStatus.PENDING and (
                call.deadline is None or call.deadline > NOW
            )
            assert (("review", value) in found) == waits
            assert not waits or "Not in full here: " in text
            continue
        seen = [part for v in call.values for part in (v.label, v.text, v.previous_text) if part]
        for part in [*seen, call.preview, call.agent_reason]:
            assert part.isspace() or _squeeze(show_hidden_characters(part)) in _squeeze(text)
    if any(verb == "review" for verb, _ in found):
        assert not any(verb == "approve_all" for verb, _ in found)


def _squeeze(text: str) -> str:
    """Remove white space, and the marks that we put around right-to-left words."""
    return re.sub(
        r"[\s\u2068\u2069]+",
        "",
        re.sub("⟨U\\+(2028|2029|0085|001[C-F]|000[B-D]|0020|00A0)⟩", "", text),
    )


@SLOW
@given(draw_view())
def test_formatted_texts_do_not_depend_on_foreign_text(shown: CardView) -> None:
    """Calls with harmless texts instead give the same mrkdwn."""
    tame = tuple(
        replace(
            call,
            title="t",
            effect="e",
            values=tuple(ArgumentValue("l", "v") for _ in call.values),
            preview="p" if call.preview.strip() else "",
            agent_reason="r",
            note="n",
            result="r",
            outcome="o",
            remarks=tuple((who, "r") for who, _ in call.remarks),
        )
        for call in shown.calls
    )
    allowed = set(list_mrkdwn_texts(render_card(replace(shown, calls=tame), NOW).blocks))
    assert set(list_mrkdwn_texts(render_card(shown, NOW).blocks)) <= allowed


def test_a_call_with_a_too_long_argument_has_review_instead() -> None:
    """The argument is named; Edit and Reject stay. The other call keeps Approve."""
    values = (
        ArgumentValue("To", "#general"),
        ArgumentValue("Text", "word " * 800),
        ArgumentValue("At", "noon"),
    )
    drawn = render_card(view(replace(REFUND, values=values), CANCEL), NOW)
    accept_message(drawn.blocks)
    text = read(drawn.blocks)
    assert "🔎 Not in full here: “Text”. Review shows all of it to those who may decide." in text
    assert re.search(r"(word ){50,}w?o?r?… \([0-9],[0-9]{3} more characters\)", text)
    found = map_buttons(drawn.blocks)
    rest = ["edit", "reject_now"]
    assert [verb for verb, value in found if value == "call-1:1"] == ["review", *rest]
    assert [verb for verb, value in found if value == "call-2:1"] == ["approve", *rest]
    assert found["review", "call-1:1"]["text"]["text"] == "Review…"
    assert "approve_all" not in list_action_ids(drawn.blocks)
    assert "reject_all" in list_action_ids(drawn.blocks)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"preview": "x" * 3_000}, "the preview"),
        ({"agent_reason": "x" * 3_000}, "why it is asked"),
        ({"effect": "x" * 3_000}, "the sentence at the top"),
        (
            {
                "effect": "x" * 3_000,
                "values": (ArgumentValue("T", "x" * 3_000),),
                "preview": "x" * 3_000,
            },
            "“T”, the sentence at the top and the preview",
        ),
        ({"values": (ArgumentValue("T", "\n" * 60 + "x"),)}, "“T”"),
        ({"values": (ArgumentValue("T", "x" * 3_000),) * 9}, "“T”, “T”, “T” and 6 more arguments"),
        ({"masked_pieces": ("Order", "the preview")}, "“Order” and the preview"),
    ],
)
def test_the_card_names_the_parts_that_only_review_shows(
    changes: dict[str, Any], said: str
) -> None:
    """They are too long or masked. The card shows the beginning of long ones."""
    drawn = render_card(view(replace(REFUND, **changes)), NOW)
    accept_message(drawn.blocks)
    text = read(drawn.blocks)
    assert f"Not in full here: {said}. Review" in text
    assert ("more characters)" in text) == ("masked_pieces" not in changes)
    assert "approve" not in list_action_ids(drawn.blocks)


def test_lengths_are_counted_after_escaping() -> None:
    """An ampersand counts as five characters."""
    assert "approve" in list_action_ids(
        render_card(view(replace(REFUND, values=(ArgumentValue("T", "a" * 2_800),))), NOW).blocks
    )
    assert "review" in list_action_ids(
        render_card(view(replace(REFUND, values=(ArgumentValue("T", "&" * 600),))), NOW).blocks
    )
    assert (
        render_card(view(replace(REFUND, effect="&" * 31)), NOW).blocks[0]["text"]["text"]
        == REFUND.title
    )
    assert count_slack_characters("&<>a") == 5 + 4 + 4 + 1


def test_a_long_effect_is_shown_in_full_below_the_title() -> None:
    """It is too long for a header."""
    effect = "Post in #general: " + "hello " * 30 + "end"
    drawn = render_card(view(replace(REFUND, effect=effect)), NOW)
    assert drawn.blocks[0]["text"]["text"] == "Refund an order"
    assert effect in read(drawn.blocks)
    assert "approve" in list_action_ids(drawn.blocks)


def test_small_calls_leave_their_space_to_large_ones() -> None:
    """A long call beside small ones is shown in full; five long ones are not."""
    long = tuple(ArgumentValue(f"Field {n}", "word " * 150) for n in range(4))
    small = [replace(REFUND, id=f"s{n}") for n in range(3)]
    drawn = render_card(view(*small, replace(CANCEL, values=long)), NOW)
    accept_message(drawn.blocks)
    assert "review" not in list_action_ids(drawn.blocks)
    five = [replace(CANCEL, id=f"f{n}", values=long) for n in range(5)]
    drawn = render_card(view(*five), NOW)
    accept_message(drawn.blocks)
    assert list_action_ids(drawn.blocks).count("review") == 5


@pytest.mark.parametrize("status", CallStatus)
@pytest.mark.parametrize("char", ["&", "🏴", "\u202e"])
def test_the_largest_possible_card_is_valid(status: CallStatus, char: str) -> None:
    """Five calls with texts as long as they can be, and more approvers than can be named."""
    long = char * 3_000
    value = ArgumentValue(char * 200, char * 280, char * 280)
    call = replace(
        CANCEL,
        status=status,
        effect=long,
        title=long,
        values=(value,) * 9,
        preview=long,
        agent_reason=char * 280,
        note=long,
        result=long,
        outcome=long,
        remarks=(("UANA00001", long),) * 9,
        edits=(("UANA00001", NOW),),
        decided_by=("UANA00001",),
        decided_at=NOW,
    )
    some = [replace(call, id=f"{n}{'i' * 21}") for n in range(5)]
    drawn = render_card(
        view(*some, approver_users=tuple(f"U{n:010}" for n in range(300)), parts=2), NOW
    )
    accept_message(drawn.blocks)
    assert len(drawn.text) <= 300
