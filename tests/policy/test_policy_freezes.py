"""Freezes and business hours in conditions, judged by the time of the call alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, PolicyError, parse

DEFAULTS = '[defaults]\napprovers = ["@shop-leads"]\n'
HOURS = '[hours]\nzone = "Europe/Berlin"\nopens = "09:00"\ncloses = "17:00"\n'
FREEZES = """
[freezes]
christmas = { from = 2026-12-24, to = 2026-12-26, zone = "Europe/Berlin" }
audit = { from = 2026-11-30T18:00:00, to = 2026-12-01T06:00:00, zone = "America/New_York" }
launch = { from = 2026-12-01T09:00:00+01:00, to = 2026-12-01T12:00:00Z }
"""


def parse_policy(when: str, tables: str = FREEZES) -> Policy:
    """A policy that denies calls under this condition."""
    rule = f'[[rule]]\nname = "r"\nverdict = "deny"\nreason = "no"\nwhen = \'{when}\'\n'
    return parse(DEFAULTS + tables + rule, "policy.toml")


def judge_at(when: str, at: datetime | None, tables: str = FREEZES) -> tuple[str, str]:
    """The verdict on a call at that time, and the reason."""
    facts = Facts(tool="deploy", effect="write", requester="UBEN00001", args={}, now=at)
    judged = parse_policy(when, tables).judge_call(facts)
    return judged.gate.verdict, "".join(each.why for each in judged.tried if each.rule == "r")


def parse_utc(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "on"),
    [
        ("2026-12-23T22:59:59", ""),
        ("2026-12-23T23:00:00", "christmas"),  # midnight in Berlin
        ("2026-12-26T22:59:59", "christmas"),  # the last day counts to its end
        ("2026-12-26T23:00:00", ""),
        ("2026-11-30T22:59:59", ""),
        ("2026-11-30T23:00:00", "audit"),  # 18:00 in New York
        ("2026-12-01T07:59:59", "audit"),
        ("2026-12-01T08:00:00", "audit, launch"),  # by their own offsets
        ("2026-12-01T11:00:00", "launch"),
        ("2026-12-01T12:00:00", ""),
    ],
)
def test_a_freeze_begins_and_ends_to_the_second(at: str, on: str) -> None:
    """Its own time zone counts; the reason names the freezes in force."""
    said, why = judge_at("in_freeze", parse_utc(at))
    assert said == ("deny" if on else "ask")
    assert why.endswith(f"(in force: {on})" if on else "(no freeze is in force)")
    said, _ = judge_at("freezes.audit && !freezes.christmas", parse_utc(at), FREEZES + UNUSED)
    assert said == ("deny" if "audit" in on else "ask")


UNUSED = '[[rule]]\nverdict = "allow"\ntool = "x"\nwhen = "in_freeze"\n'


@pytest.mark.parametrize(
    ("at", "is_open"),
    [
        ("2026-11-27T07:59:59", False),
        ("2026-11-27T08:00:00", True),  # Friday, 9:00 in Berlin
        ("2026-11-27T15:59:59", True),
        ("2026-11-27T16:00:00", False),
        ("2026-11-28T10:00:00", False),  # Saturday
        ("2026-12-25T10:00:00", False),
        ("2026-12-24T10:00:00", True),
    ],
)
def test_in_business_hours_follows_the_hours_table(at: str, is_open: bool) -> None:
    """The table's days, holidays and zone count."""
    tables = f'{HOURS}calendar = "DE"\n'
    assert judge_at("!in_business_hours", parse_utc(at), tables)[0] == (
        "ask" if is_open else "deny"
    )


@pytest.mark.parametrize("when", ["in_freeze", "freezes.audit || in_freeze", "in_business_hours"])
def test_a_deny_rule_applies_while_the_time_is_unknown(when: str) -> None:
    """Nothing is let through in doubt."""
    said, why = judge_at(when, None, FREEZES + UNUSED + HOURS * ("hours" in when))
    assert said == "deny"
    assert "what it stands for is not known" in why


@pytest.mark.parametrize(
    ("when", "tables", "said"),
    [
        (
            "freezes.chrismas",
            FREEZES,
            "names freezes.chrismas, which does not exist (did you mean christmas",
        ),
        ("in_freeze", "", "asks for in_freeze, and there is no [freezes]; add it"),
        ("in_business_hours", "", "asks for in_business_hours, and there is no [hours]; add it"),
        ("freezes.audit && freezes.launch", FREEZES, ":5: [freezes] christmas: is used nowhere"),
        ("freezes", FREEZES, "uses freezes as a whole; name one, as in freezes.christmas"),
        ('freezes[args.x] == ""', FREEZES, "needs a literal freeze"),
        ("in_freeze", FREEZES.replace("12-26", "12-23"), "ends before it begins"),
        ("in_freeze", FREEZES.replace("2026-12-26", "9999-12-31"), "goes beyond the calendar"),
        ("in_freeze", FREEZES.replace("2026-12-24", "0001-01-01"), "goes beyond the calendar"),
        ("in_freeze", FREEZES.replace(', zone = "Europe/Berlin"', ""), "has no time zone"),
        ("in_freeze", FREEZES.replace("Europe/Berlin", "Berlin"), "'Berlin' is not a time zone"),
        (
            "in_freeze",
            FREEZES.replace("from = 2026-12-24", "form = 2026-12-24"),
            "(did you mean from?)",
        ),
        ("in_freeze", FREEZES.replace("to = 2026-12-26", "to = 7"), "write a date (2026-12-24)"),
        ("in_freeze", FREEZES.replace("christmas =", "X-mas ="), "cannot be a name"),
    ],
)
def test_freezes_that_could_never_work_are_refused(when: str, tables: str, said: str) -> None:
    """They are refused when the file is read, with what to do."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(when, tables)
    assert said in str(refused.value)


def test_a_freeze_without_a_zone_uses_that_of_the_hours() -> None:
    """In JSON, dates are texts."""
    text = (
        '{"defaults": {"approvers": ["channel"]},'
        ' "hours": {"zone": "Europe/Berlin", "opens": "09:00", "closes": "17:00"},'
        ' "freezes": {"launch": {"from": "2026-12-01T09:00:00", "to": "2026-12-01"}},'
        ' "rule": [{"verdict": "deny", "reason": "no", "when": "in_freeze || !in_business_hours"}]}'
    )
    calendar = parse(text, "policy.json").calendar
    assert calendar is not None
    [freeze] = calendar.freezes
    assert (freeze.starts, freeze.ends) == (
        parse_utc("2026-12-01T08:00:00"),
        parse_utc("2026-12-01T23:00:00"),
    )


def test_other_freeze_dates_make_another_policy() -> None:
    """A policy without freezes keeps the digest it had before there were any."""
    later = FREEZES.replace("to = 2026-12-26", "to = 2026-12-27")
    assert parse_policy("in_freeze").digest != parse_policy("in_freeze", later).digest
    plain = parse_policy("true", "")
    assert "calendar" not in plain.model_dump_json(exclude={"calendar"})
    assert plain.digest == plain.model_copy(update={"calendar": None}).digest
