"""Reminders keep a person's night, and the deadline does not move for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import later, showing, waiting
from tests.stories.test_away import status

ANA, CLEO, DAN = "<@UANA00001>", "<@UCLEO0001>", "<@UDAN00001>"
REMINDED, ESCALATED = "this still waits for a decision", "now you may, too"
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "20h"
reminders = ["10m"]

[[rule]]
tool = "wipe"
verdict = "ask"
urgent = true

[[rule]]
tool = "refuse"
verdict = "ask"
deadline = "1h"

[[rule]]
tool = "note"
verdict = "ask"
escalation = [{after = "30m", approvers = ["UDAN00001"]}]
"""


def hour(harness: Harness, who: str, at: int) -> None:
    """It is that hour, and some minutes, for a person from now on."""
    person, now = harness.person(who).person, harness.clock.now()
    offset = (at - now.hour + 12) % 24 - 12
    person.tz, person.tz_offset = "Etc/Somewhere", offset * 3600
    status(harness, who)


@pytest.fixture(autouse=True)
def _zones_unknown(harness: Harness) -> Iterator[None]:
    """Every story begins soon after a full hour, and leaves nobody in a time zone."""
    now = harness.clock.now()
    full = now.replace(minute=1, second=0, microsecond=0) + timedelta(hours=1)
    later(harness, int((full - now).total_seconds()))
    yield
    for who in ("ana", "cleo", "dan"):
        harness.person(who).person.tz = ""
        status(harness, who)


def test_those_who_are_awake_are_reminded(harness: Harness) -> None:
    """Whoever sleeps is not named; a person of no known time zone is awake."""
    hour(harness, "ana", 23)
    thread = waiting(harness, ("put", {"text": "lamp"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert CLEO in line
    assert ANA not in line


def test_where_all_sleep_it_waits_for_the_first_morning(harness: Harness) -> None:
    """It is said once, at eight, to who is awake then."""
    hour(harness, "ana", 5)
    hour(harness, "cleo", 23)
    thread = waiting(harness, ("put", {"text": "quilt"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 2 * 3600 + 1800)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 1800)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO not in line
    later(harness, 10 * 3600)
    assert len(showing(harness, SUPPORT, thread, REMINDED)) == 1


@pytest.mark.parametrize("tool", ["wipe", "refuse"])
def test_what_is_urgent_does_not_wait(harness: Harness, tool: str) -> None:
    """As the rule says, or as the deadline falls before the first morning."""
    for who in ("ana", "cleo"):
        hour(harness, who, 22)
    thread = waiting(harness, (tool, {"text": f"alarm for {tool}"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO in line


def test_an_escalation_reaches_who_is_awake(harness: Harness) -> None:
    """A reminder that waits for the morning does not keep an escalation back."""
    for who in ("ana", "cleo"):
        hour(harness, who, 22)
    hour(harness, "dan", 12)
    thread = waiting(harness, ("note", {"text": "night shift"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 1260)
    line = words(harness.said(SUPPORT, thread, ESCALATED))
    assert DAN in line
    assert ANA not in words(harness.said(SUPPORT, thread, REMINDED))
