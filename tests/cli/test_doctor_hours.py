"""`countersign doctor` on business hours, holidays and freezes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.checks.inspection import check_freezes_and_business_hours
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
        ("holidays = [2025-12-24]", "warn  business hours: no holidays are listed"),
        ("", "warn  business hours: no holidays are listed"),
    ],
)
def test_the_next_holidays_or_their_absence_are_reported(holidays: str, said: str) -> None:
    """A list of past holidays, or none at all, is a warning."""
    policy = parse(HOURS.format(holidays=holidays))
    [found] = check_freezes_and_business_hours(policy, datetime(2026, 12, 1, tzinfo=UTC))
    assert str(found).startswith(said)
    assert not list(
        check_freezes_and_business_hours(
            parse('[defaults]\napprovers = ["@shop-leads"]\n'), datetime(2026, 12, 1, tzinfo=UTC)
        )
    )


FROZEN = """
[freezes]
old = { from = 2026-11-01, to = 2026-11-02, zone = "UTC" }
now = { from = 2026-11-30, to = 2026-12-01, zone = "UTC" }
next = { from = 2026-12-24, to = 2026-12-26, zone = "UTC" }

[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "refund_order"
verdict = "deny"
reason = "no"
when = "in_freeze"
"""


def test_past_current_and_future_freezes_are_reported() -> None:
    """A past one is a warning; for the others the output has the times."""
    found = check_freezes_and_business_hours(parse(FROZEN), datetime(2026, 12, 1, tzinfo=UTC))
    assert [str(each).partition(". ")[0] for each in found] == [
        "warn  freeze old: ended 3 Nov 2026, 00:00 UTC",
        "ok    freeze now: is in force until 2 Dec 2026, 00:00 UTC",
        "ok    freeze next: from 24 Dec 2026, 00:00 UTC until 27 Dec 2026, 00:00 UTC",
    ]
