"""What `countersign doctor` says of business hours: the next days off, or that nobody keeps any."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.checks.inspection import check_business_hours
from bot.policy.evaluation import parse

HOURS = """
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:00"
{holidays}

[defaults]
approvers = ["@shop-leads"]
business_hours = true
"""


@pytest.mark.parametrize(
    ("holidays", "said"),
    [
        ('calendar = "FR"', "ok    business hours: the next days off are 25 Dec 2026 (Christmas"),
        ("holidays = [2026-12-24]", "ok    business hours: the next days off are 24 Dec 2026"),
        ("holidays = [2025-12-24]", "warn  business hours: no holiday within a year"),
        ("", "warn  business hours: no holiday within a year"),
    ],
)
def test_holidays_that_nobody_keeps_up(holidays: str, said: str) -> None:
    """The next days off are said; a list that is over, or none at all, is told, with the remedy."""
    policy = parse(HOURS.format(holidays=holidays))
    [found] = check_business_hours(policy, datetime(2026, 12, 1, tzinfo=UTC))
    assert str(found).startswith(said)
    assert not list(
        check_business_hours(
            parse('[defaults]\napprovers = ["@shop-leads"]\n'), datetime(2026, 12, 1, tzinfo=UTC)
        )
    )
