"""Button values, menu choices and dialog metadata: they are read as written, others refused."""

from __future__ import annotations

import json
from string import ascii_letters, digits
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards.action_names import OVERFLOW_MENU_ACTION_ID, Action, BlockRole, DialogId
from bot.cards.button_codec import (
    HOME_PAGE_ACTIONS,
    LOOK_ACTIONS,
    CallTarget,
    CardTarget,
    Click,
    DelegationTarget,
    DialogSubject,
    FormContext,
    FormSource,
    FormTarget,
    HomeTabPart,
    HomeTabTarget,
    MalformedValue,
    ModelAnswerRating,
    NoTarget,
    PasskeyTarget,
    RunTarget,
    Target,
    add_thread_to_metadata,
    build_block_id,
    decode_click,
    decode_clicked_element,
    decode_dialog_subject,
    encode_button_value,
    encode_dialog_metadata,
    get_thread_from_metadata,
)
from storage.models import new_id

IDS = st.text(f"{ascii_letters}{digits}_-", min_size=1, max_size=64)
CALLS = st.builds(CallTarget, IDS, st.integers(0, 10**9 - 1))
CARDS = st.builds(CardTarget, IDS, st.integers(0, 10**9 - 1), st.integers(0, 10**18 - 1))
RUNS = st.builds(RunTarget, IDS)
RATINGS = st.builds(ModelAnswerRating, IDS, st.booleans())
PLACES = st.builds(FormContext, st.text("CDG019", max_size=40))
CHANNELS = st.text("CDG019", max_size=40)
SETTINGS = st.builds(FormContext, CHANNELS, st.text(), st.text(), CHANNELS)
NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1)
FORMS = st.builds(FormTarget, st.sampled_from(FormSource), NAMES.map(lambda name: name[:120]))
FILLED = st.builds(
    FormTarget, st.sampled_from(FormSource), NAMES.map(lambda name: name[:120]), SETTINGS, IDS
)
WHOLE_CARD = {Action.APPROVE_ALL, Action.REJECT_ALL}
EITHER = {Action.REVIEW, Action.REJECT, Action.HAND_OVER, Action.CANCEL_RUN}
CHOICES = {*EITHER, Action.ROWS, Action.SEND_BACK, Action.WITHDRAW, Action.ASK_AGAIN}
CHOICES |= {Action.BREAK_GLASS}
OTHERS = {Action.FEEDBACK: RATINGS, Action.REQUEST: PLACES, Action.PICK: FORMS}
DIALOG_TARGETS: dict[DialogId, st.SearchStrategy[Any]] = {
    DialogId.REJECT: CALLS | CARDS,
    DialogId.PICK: SETTINGS,
    DialogId.REQUEST: FILLED,
    DialogId.DELEGATE: st.just(NoTarget()),
    DialogId.RENAME_PASSKEY: st.builds(PasskeyTarget, IDS),
}


def draw_target(action: Action) -> st.SearchStrategy[Any]:
    """Draw a target that the action can have."""
    if action in WHOLE_CARD:
        return CARDS
    if action in {Action.CANCEL_RUN, Action.RETRY, Action.LOOK_SHOW}:
        return RUNS
    if action in LOOK_ACTIONS or action in (Action.DELEGATE, Action.OPEN_PAGE, Action.ADD_PASSKEY):
        return st.just(NoTarget())
    if action in HOME_PAGE_ACTIONS:
        channels = st.sampled_from(["", "C0SUPPORT"])
        return st.builds(HomeTabTarget, st.sampled_from(HomeTabPart), st.integers(0, 999), channels)
    if action is Action.END_DELEGATION:
        return st.builds(DelegationTarget, IDS)
    if action.endswith("_passkey"):
        return st.builds(PasskeyTarget, IDS)
    return OTHERS.get(action, CALLS)


CLICKS = st.sampled_from(Action).flatmap(
    lambda each: st.builds(Click, st.just(each), draw_target(each))
)
SUBJECTS = st.sampled_from(DialogId).flatmap(
    lambda each: st.builds(DialogSubject, st.just(each), DIALOG_TARGETS.get(each, CALLS))
)


@given(CLICKS)
def test_a_click_is_read_as_it_was_written(click: Click) -> None:
    """This holds for a button's value and for a menu's choice."""
    if click.action in CHOICES:
        assert decode_click(OVERFLOW_MENU_ACTION_ID, encode_button_value(click)) == click
    if click.action not in CHOICES - EITHER:
        assert decode_click(click.action, encode_button_value(click.target)) == click


@given(
    st.sampled_from([*Action, OVERFLOW_MENU_ACTION_ID, "yes_to_all", ""]),
    st.text(alphabet="a1:-_ ²٣\n", max_size=9),
)
def test_a_value_is_malformed_or_exactly_as_the_bot_writes_it(action_id: str, value: str) -> None:
    """There is only one way to write each value."""
    match decode_click(action_id, value):
        case Click(action, target) as click:
            assert (
                encode_button_value(click if action_id == OVERFLOW_MENU_ACTION_ID else target)
                == value
            )
            assert action_id in (OVERFLOW_MENU_ACTION_ID, action)
        case MalformedValue(why):
            assert why


@pytest.mark.parametrize(
    ("action_id", "value", "target"),
    [
        ("approve", "c-1:3", CallTarget("c-1", 3)),
        ("run_again", "c-1:3", CallTarget("c-1", 3)),
        ("approve_all", "p_1:2:7", CardTarget("p_1", 2, 7)),
        ("cancel_run", "r-1", RunTarget("r-1")),
        ("feedback", "bad:r-1", ModelAnswerRating("r-1", good=False)),
    ],
)
def test_values_on_old_cards_are_still_read(action_id: str, value: str, target: Target) -> None:
    """People still click on old cards, so the format must not change."""
    assert decode_click(action_id, value) == Click(Action(action_id), target)
    assert encode_button_value(target) == value


MALFORMED_VALUES = [
    *(("approve", each) for each in ("", ":", "c", "c:", ":1", "c:-1", "c:1e0", "c:01", "c:1:1")),
    *(
        ("approve", each)
        for each in ("c:²", "c:٣", "c:1\n", "c :1", "c:1000000000", "c" * 65 + ":1")
    ),
    *(
        ("approve_all", each)
        for each in ("p:1", "p:1:", "p:1:-1", "p:1:x", f"p:1:{10**18}", "p:1:1:1")
    ),
    *(("cancel_run", each) for each in ("", "r:1", "r 1")),
    *(("feedback", each) for each in ("", "good", "good:", "fine:r", "good:r:1")),
    *(
        (OVERFLOW_MENU_ACTION_ID, each)
        for each in ("review", "review:", "review:c", "send_back:c:01", "withdraw::1")
    ),
]


@pytest.mark.parametrize(("action_id", "value"), MALFORMED_VALUES)
def test_a_malformed_value_names_its_action_only(action_id: str, value: str) -> None:
    """The bot did not write these values, although some are close to its own."""
    found = decode_click(action_id, value)
    assert isinstance(found, MalformedValue)
    assert found.name == (
        value.partition(":")[0] if action_id == OVERFLOW_MENU_ACTION_ID else action_id
    )


@pytest.mark.parametrize(
    ("action_id", "value"),
    [
        ("yes_to_all", "c:1"),
        ("", "c:1"),
        ("send_back", "c:1"),
        ("withdraw", "c:1"),
        (OVERFLOW_MENU_ACTION_ID, "approve:c:1"),
        (OVERFLOW_MENU_ACTION_ID, "more:c:1"),
        (OVERFLOW_MENU_ACTION_ID, ""),
    ],
)
def test_an_unknown_action_is_malformed(action_id: str, value: str) -> None:
    """It may be a foreign id, a menu's choice as a button, or a button as a choice."""
    found = decode_click(action_id, value)
    assert isinstance(found, MalformedValue)
    assert found.name is None


def test_values_of_buttons_and_of_menus_are_read() -> None:
    """Slack puts them in different places; an element without a value is malformed."""
    assert decode_clicked_element({"action_id": "edit", "value": "c:1"}) == Click(
        Action.EDIT, CallTarget("c", 1)
    )
    chosen = {"action_id": OVERFLOW_MENU_ACTION_ID, "selected_option": {"value": "review:c:1"}}
    assert decode_clicked_element(chosen) == Click(Action.REVIEW, CallTarget("c", 1))
    for odd in (
        {},
        {"action_id": OVERFLOW_MENU_ACTION_ID, "selected_option": None},
        {"action_id": 7, "value": ["c:1"]},
    ):
        assert isinstance(decode_clicked_element(odd), MalformedValue)


@given(SUBJECTS, st.booleans())
def test_a_dialog_is_read_as_it_was_written(about: DialogSubject, placed: bool) -> None:
    """Its subject, and the thread of its request, are read from its submission."""
    view: dict[str, Any] = {
        "callback_id": about.dialog,
        "private_metadata": encode_dialog_metadata(about),
    }
    if placed:
        view = add_thread_to_metadata(view, "C0SUPPORT", "100.1")
    assert decode_dialog_subject(view) == about
    assert get_thread_from_metadata(view) == (("C0SUPPORT", "100.1") if placed else ("", ""))


@pytest.mark.parametrize(
    ("dialog", "metadata"),
    [
        *(("edit_call", each) for each in ("", "[]", "{", "{}", '{"call": "c"}', "[" * 9999)),
        ("review_call", '{"call": "c", "revision": "1"}'),
        ("review_call", '{"call": "c", "revision": true}'),
        ("review_call", '{"call": "c", "revision": 1.0}'),
        ("review_call", '{"call": "c", "revision": -1}'),
        ("review_call", '{"call": ["c"], "revision": 1}'),
        *(
            ("reject", json.dumps({"target": each}))
            for each in ("c:1", "plan:p:1", "call:c", 1, None)
        ),
        *(("send_back", json.dumps({"target": each})) for each in ("c", "call:c:1", "c:01")),
    ],
)
def test_metadata_that_the_bot_did_not_write_is_malformed(dialog: str, metadata: str) -> None:
    """Such a dialog has no subject and no thread."""
    view = {"callback_id": dialog, "private_metadata": metadata}
    found = decode_dialog_subject(view)
    assert isinstance(found, MalformedValue)
    assert found.name == dialog
    assert get_thread_from_metadata(view) == ("", "")


def test_a_dialog_with_a_foreign_callback_id_is_malformed() -> None:
    """Its metadata fits, but that does not matter."""
    found = decode_dialog_subject({"callback_id": "mine", "private_metadata": '{"target": "c:1"}'})
    assert isinstance(found, MalformedValue)
    assert found.name is None


def test_only_a_rejection_dialog_may_be_about_a_whole_card() -> None:
    """Any other dialog about a card is an error in the program."""
    with pytest.raises(ValueError, match="no edit_call dialog is about a CardTarget"):
        encode_dialog_metadata(DialogSubject(DialogId.EDIT, CardTarget("p", 1, 1)))


def test_every_new_id_can_be_part_of_a_value() -> None:
    """Storage makes the ids."""
    for _ in range(100):
        made = RunTarget(new_id())
        assert decode_click(Action.RETRY, encode_button_value(made)) == Click(Action.RETRY, made)


def test_a_block_id_has_the_blocks_role_and_target() -> None:
    """It changes with the target's revision, so Slack keeps no input of an older block."""
    call = CallTarget("c", 2)
    assert build_block_id(BlockRole.HEADLINE, call) == "h:c:2"
    assert build_block_id(BlockRole.VALUES, call, 1) == "v:c:2:1"
    assert build_block_id(BlockRole.PART, "p") == "part:p"
    assert len(set(BlockRole.__members__.values())) == len(BlockRole.__members__)
