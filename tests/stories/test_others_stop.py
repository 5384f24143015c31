"""Somebody else's wish to stop a request: answered privately, whoever it is, and nothing stops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.states import CallStatus
from tests.stories.harness import PARTNERS, Harness
from tests.stories.steps import arrived, ask, menu, statuses, told

# the stranger of another company, a guest, an approver, who decides for one, and a colleague
PEOPLE = ("eve", "gus", "ana", "dan", "cleo")
ONLY = "Only <@UBEN00001>, who asked for this, can cancel it."
MEMBERS = "full members of this workspace only"


@pytest.fixture(autouse=True)
def everybody(harness: Harness) -> Iterator[None]:
    """All of them are in the shared channel, for these tests alone."""
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
def test_words_that_stop_are_answered(harness: Harness, who: str, words: str) -> None:
    """Typed without a mention in somebody else's thread they say who can, and stop nothing."""
    thread = ask(harness, ("note", {"text": f"{who} types {words}"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    harness.person(who).say(PARTNERS, words, thread)
    told(harness, who, PARTNERS, thread, ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_a_mention_with_words_that_stop_is_answered(harness: Harness, who: str) -> None:
    """The same said to the bot: who is no colleague is told that only members are heard."""
    thread = ask(harness, ("note", {"text": f"{who} mentions"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    harness.person(who).say(PARTNERS, "@bot stop", thread)
    told(harness, who, PARTNERS, thread, MEMBERS if who in ("eve", "gus") else ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_slacks_own_stop_is_answered(harness: Harness, who: str) -> None:
    """Slack's button beside a working agent: pressed by somebody else, it stops nothing."""
    thread = ask(harness, ("note", {"text": f"{who} presses"}), channel=PARTNERS)
    harness.card(PARTNERS, thread)
    assert harness.person(who).stop_agent(PARTNERS, thread)
    told(harness, who, PARTNERS, thread, ONLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]


@pytest.mark.parametrize("who", PEOPLE)
def test_the_cards_cancel_is_answered(harness: Harness, who: str) -> None:
    """The same for the card's own menu."""
    thread = ask(harness, ("note", {"text": f"{who} cancels"}), channel=PARTNERS)
    card = harness.card(PARTNERS, thread)
    menu(harness, who, card, "cancel_run", PARTNERS)
    said = "Only full members of this workspace can use these" if who == "eve" else ONLY
    told(harness, who, PARTNERS, thread, said)
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_other_words_in_somebodys_thread_are_left_alone(harness: Harness) -> None:
    """People talk there: what is no wish to stop is not answered, nor after the request's end."""
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
