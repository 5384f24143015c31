"""Sentences agree with the number in them: "1 call", "2 calls"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from bot.agent import outputs
from bot.tools import tables
from countersign.durations import format_count, format_duration, format_rough_duration

SENTENCES: list[Callable[[int], str]] = [
    outputs.too_many_calls_output,
    outputs.card_limit_output,
    outputs.too_many_waiting_output,
    lambda number: outputs.rate_limit_output("people were asked", number),
    tables.format_row_count,
    format_duration,
    lambda number: format_rough_duration(timedelta(minutes=number)),
]


def test_only_one_of_a_thing_is_singular() -> None:
    """Large numbers are grouped."""
    found = [format_count(number, "row") for number in (0, 1, 2, 1200)]
    assert found == ["0 rows", "1 row", "2 rows", "1,200 rows"]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences_agree_with_their_number(sentence: Callable[[int], str]) -> None:
    """The noun after the number, for one and for several."""
    for number, ending in ((1, "[a-rt-z]"), (2, "s")):
        assert re.search(rf"\b{number} [a-z]*{ending}\b", sentence(number)), sentence(number)
