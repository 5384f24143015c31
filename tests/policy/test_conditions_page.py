"""What the documentation says of conditions, tried."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.policy.condition import NAMESPACES, VARIABLE_NAMES, Condition
from bot.policy.condition_values import Facts

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")
MONDAY = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # noon in London, 13:00 in Berlin


def test_the_conditions_of_the_page() -> None:
    """Every condition shown can be read, and every name a condition knows is explained."""
    [block] = re.findall(r"^```cel\n(.*?)^```$", PAGE, re.S | re.M)
    sources = block.splitlines()
    assert len(sources) >= 8
    for source in sources:
        Condition(source)
    section = PAGE.partition("\n## Conditions\n")[2].partition("\n## ")[0]
    assert [name for name in VARIABLE_NAMES if f"`{name}" not in section] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("0.1 + 0.2 == 0.3", True),
        ("7 / 2 == 3.5", True),
        ('"100" > 5', None),
        ("args.note > 5", None),
        ("args.nope || true", None),
        ("true || args.nope", True),
        ("has(args.note) && args.note != null", False),
        ("args.amount", None),
        ("now.getDayOfWeek() == 1", True),
        ("now.getMonth() == 2", True),
    ],
)
def test_what_the_page_says_of_conditions(source: str, expected: bool | None) -> None:
    """The claims about numbers, kinds, order and time, tried; None stands for no answer."""
    facts = Facts(
        tool="x", effect="write", requester="U1", args={"note": None, "amount": 5}, now=MONDAY
    )
    condition = Condition(source)
    if expected is None:
        with pytest.raises(ValueError, match="could not be evaluated"):
            condition.is_true_for(facts)
    else:
        assert condition.is_true_for(facts) is expected


@pytest.mark.parametrize("name", sorted(VARIABLE_NAMES - {"args", *NAMESPACES}))
def test_a_fact_that_nobody_knows_is_no_value(name: str) -> None:
    """None, of whichever fact, is "not known": not even a comparison with null has an answer."""
    facts = Facts(tool="x", effect="write", requester="U1", args={}, now=MONDAY)
    unknown = replace(facts, **{name: None})
    with pytest.raises(ValueError, match="is not known"):
        Condition(f"{name} == null").is_true_for(unknown)
