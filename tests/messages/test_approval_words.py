"""Questions of a model that ask for an approval, in many phrasings, and others that do not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bot.cards.phrases import find_approval_request_words

PHRASINGS = Path(__file__).with_name("phrasings")


def read_phrasings(name: str) -> list[str]:
    """Read the phrasings of one kind."""
    return (PHRASINGS / name).read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", read_phrasings("for_an_approval.txt"))
def test_a_question_that_asks_for_approval_is_found(text: str) -> None:
    """It is found in each language, in upper case, and beside other texts."""
    assert find_approval_request_words([text])
    assert find_approval_request_words(["fine", text.upper()])
    assert find_approval_request_words([f"The order is 1042. {text}"])


@pytest.mark.parametrize("text", read_phrasings("for_facts.txt"))
def test_a_question_for_facts_is_not_refused(text: str) -> None:
    """Some are about other approvals, permits, consent, or when something may be done."""
    assert find_approval_request_words([text, text.upper(), f"About order 1042. {text}"]) == ""


def test_there_are_many_phrasings_of_each_kind() -> None:
    """More than a hundred of each kind, none twice."""
    for name in ("for_an_approval.txt", "for_facts.txt"):
        found = read_phrasings(name)
        assert len(set(found)) == len(found) > 100


def test_a_text_made_to_keep_the_filter_busy_takes_no_time() -> None:
    """Each text repeats the beginning of a phrase."""
    began = time.monotonic()
    for each in ("do you ", "soll ich ", "may i ask ", "is the ", "?", "(", "please "):
        find_approval_request_words([each * (3000 // len(each))])
    assert time.monotonic() - began < 2
