"""One call's facts, and the shortest way to ask a condition about them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.policy.conditions.condition import Condition, ConditionError, Facts, Spent

DAY = 86_400
ARGS: dict[str, Any] = {
    "amount": Decimal("40.00"),
    "order": "A-100",
    "count": 3,
    "share": 0.1,
    "note": None,
    "urgent": True,
    "codes": [1, 2, 3],
    "names": ["ann", "bob"],
    "nothing": [],
    "address": {"city": "Ulm", "floor": 2},
    "due": datetime(2026, 3, 2, 9, 30, tzinfo=UTC),
    "secret": b"raw",
}


def facts(**changed: Any) -> Facts:
    """The facts of a refund of 40.00; `changed` replaces some."""
    known: dict[str, Any] = {
        "tool": "refund_order",
        "effect": "write",
        "requester": "U1",
        "args": ARGS,
        "channel": "C1",
        "now": datetime(2026, 3, 1, 12, 5, tzinfo=UTC),
        "groups": {"finance": frozenset({"U1", "U2"}), "gone": None},
        "spent": {
            Spent("refund_order", "amount", DAY): Decimal("459.99"),
            Spent("refund_order", "", DAY): Decimal(7),
            Spent("lost", "amount", DAY): None,
        },
    }
    return Facts(**{**known, **changed})


def holds(source: str, **changed: Any) -> bool:
    """What the condition says of these facts."""
    return Condition(source).holds(facts(**changed))


def untold(source: str, **changed: Any) -> str:
    """Why it could not be told.

    Fails if it could, or if it was refused already when it was read.
    """
    condition = Condition(source)
    with pytest.raises(ConditionError) as found:
        condition.holds(facts(**changed))
    return str(found.value)


def refused(source: str) -> str:
    """Why it was refused when it was read."""
    with pytest.raises(ConditionError) as found:
        Condition(source)
    return str(found.value)
