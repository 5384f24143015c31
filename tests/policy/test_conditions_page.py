"""What the documentation says about conditions is true."""

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


def test_every_condition_on_the_page_can_be_read() -> None:
    """Every name that a condition knows is explained there."""
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
def test_what_the_page_says_about_conditions_is_true(source: str, expected: bool | None) -> None:
    """These are its claims about numbers, types, order and time; None stands for an error."""
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
def test_comparing_an_unknown_fact_with_null_is_an_error(name: str) -> None:
    """A fact that is None is "not known", whichever it is."""
    facts = Facts(tool="x", effect="write", requester="U1", args={}, now=MONDAY)
    unknown = replace(facts, **{name: None})
    with pytest.raises(ValueError, match="is not known"):
        Condition(f"{name} == null").is_true_for(unknown)
