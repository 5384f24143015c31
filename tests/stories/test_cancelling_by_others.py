"""People who try to stop somebody else's request are answered privately; it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.cards.sentences import NOTHING_TO_CANCEL_REPLY
from storage.states import CallStatus
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.steps import arrived, ask, menu, showing, statuses, told

# a stranger of another company, a guest, and three colleagues: Ana is an approver
PEOPLE = ("eve", "gus", "ana", "dan", "cleo")
ONLY = "Only <@UBEN00001>, who asked for this, can cancel it."
MEMBERS = "full members of this workspace only"


@pytest.fixture(autouse=True)
def _everybody_in_channel(harness: Harness) -> Iterator[None]:
    """Have all of them in the shared channel during these tests."""
    members = harness.slack.world.channel(PARTNERS).members
    missing = [who for who in PEOPLE if harness.slack.people[who].id not in members]
    for who in missing:
        harness.slack.join(who, PARTNERS)
    yield
    for who in missing:
        harness.slack.leave(who, PARTNERS)


@pytest.mark.parametrize(
    ("who", "words"),
    [
        *((who, "stop") for who in PEOPLE),
        *(("cleo", words) for words in ("Cancel it!", "please stop", "never mind", "abort")),
    ],
)
def test_stop_words_typed_by_others_stop_nothing(harness: Harness, who: str, words: str) -> None:
    """Typed without a mention of the bot; the answer says who can stop the request."""
    thread = ask(harness, ("note", {"text": f"{who} types {words}"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    harness.person(who).say(PARTNERS, words, thread)
    told(harness, who, PARTNERS, thread, ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_stop_by_others_with_a_mention_stops_nothing(harness: Harness, who: str) -> None:
    """Strangers and guests are told that the bot is for full members only."""
    thread = ask(harness, ("note", {"text": f"{who} mentions"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    harness.person(who).say(PARTNERS, "@bot stop", thread)
    told(harness, who, PARTNERS, thread, MEMBERS if who in ("eve", "gus") else ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_slacks_stop_button_stops_nothing_for_others(harness: Harness, who: str) -> None:
    """Slack shows this button beside a working agent."""
    thread = ask(harness, ("note", {"text": f"{who} presses"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    assert harness.person(who).stop_agent(PARTNERS, thread)
    told(harness, who, PARTNERS, thread, ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_cancel_in_the_cards_menu_stops_nothing_for_others(harness: Harness, who: str) -> None:
    """The stranger is told that the menu is for full members; the others, who can cancel."""
    thread = ask(harness, ("note", {"text": f"{who} cancels"}), channel=PARTNERS)
    card = harness.card(PARTNERS, thread)
    menu(harness, who, card, "cancel_run", PARTNERS)
    said = "Only full members of this workspace can use these" if who == "eve" else ONLY
    told(harness, who, PARTNERS, thread, said)
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_other_words_in_somebodys_thread_are_not_answered(harness: Harness) -> None:
    """Nor is “stop” once the request has ended."""
    thread = ask(harness, ("note", {"text": "people talk"}), channel=PARTNERS)
    card = harness.card(PARTNERS, thread)
    cleo = harness.person("cleo")
    for words in ("stop by my desk later", "we should not cancel the party"):
        cleo.say(PARTNERS, words, thread)
    arrived(harness)
    harness.person("ana").click(PARTNERS, card["ts"], "approve")
    harness.said(PARTNERS, thread, "That is all.")
    cleo.say(PARTNERS, "stop", thread)
    arrived(harness)
    assert ONLY not in str([m for m in cleo.everything(PARTNERS) if m["ts"] > thread])


def test_a_request_that_has_ended_is_not_cancelled(harness: Harness) -> None:
    """Its requester chose it in the menu of the card as it was before."""
    thread = ask(harness, ("note", {"text": "soon over"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    arrived(harness)
    menu(harness, "ben", card, "cancel_run")
    told(harness, "ben", SUPPORT, thread, NOTHING_TO_CANCEL_REPLY)
    assert statuses(harness, thread) == [CallStatus.SUCCEEDED]
    assert not showing(harness, SUPPORT, thread, "cancelled the request")
