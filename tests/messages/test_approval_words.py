"""Which questions ask for an approval, in over 200 phrasings; and 160 that ask for facts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bot.cards.phrases import find_approval_request_words

PHRASINGS = Path(__file__).with_name("phrasings")


def lines(name: str) -> list[str]:
    """The phrasings of one kind."""
    return (PHRASINGS / name).read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", lines("for_an_approval.txt"))
def test_words_of_approval_are_found(text: str) -> None:
    """In each of the languages, whatever the case, and beside other texts."""
    assert find_approval_request_words([text])
    assert find_approval_request_words(["fine", text.upper()])
    assert find_approval_request_words([f"The order is 1042. {text}"])


@pytest.mark.parametrize("text", lines("for_facts.txt"))
def test_a_question_for_facts_is_asked(text: str) -> None:
    """Also where it is about approvals of other days, permits, consent or what may be done when."""
    assert find_approval_request_words([text, text.upper(), f"About order 1042. {text}"]) == ""


def test_the_phrasings_are_many() -> None:
    """Some two hundred, each once."""
    for name in ("for_an_approval.txt", "for_facts.txt"):
        found = lines(name)
        assert len(set(found)) == len(found) > 100


def test_a_long_text_is_read_at_once() -> None:
    """What is written to keep the filter busy does not."""
    began = time.monotonic()
    for each in ("do you ", "soll ich ", "may i ask ", "is the ", "?", "(", "please "):
        find_approval_request_words([each * (3000 // len(each))])
    assert time.monotonic() - began < 2
