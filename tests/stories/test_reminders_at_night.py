"""Reminders wait for people's nights and notification pauses; deadlines do not move."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.stories.asked_people import question
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, later, showing, waiting
from tests.stories.test_away import status
from tests.stories.test_break_glass import AGAIN, ASKED, ran

ANA, CLEO, DAN = "<@UANA00001>", "<@UCLEO0001>", "<@UDAN00001>"
REMINDED, ESCALATED = "this is still waiting for a decision", "so now you can too"
UNANSWERED = "is still waiting for an answer"
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "20h"
reminders = ["10m"]
break_glass = ["UBEN00001"]

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


def set_local_hour(harness: Harness, who: str, at: int) -> None:
    """Set a person's time zone so that it is this hour, and some minutes, for them."""
    person, now = harness.person(who).person, harness.clock.now()
    offset = (at - now.hour + 12) % 24 - 12
    person.tz, person.tz_offset = "Etc/Somewhere", offset * 3600
    status(harness, who)


def replace_policy(harness: Harness, policy: str) -> None:
    """Put another policy in force."""
    (harness.folder / "policy.toml").write_text(policy, "utf-8")
    digest = harness.app.core.policy.digest
    for _ in range(2):
        harness.clock.advance(4)
        harness.settle()
    harness.slack.wait(lambda: harness.app.core.policy.digest != digest)


@pytest.fixture(autouse=True)
def _unknown_time_zones(harness: Harness) -> Iterator[None]:
    """Begin every story soon after a full hour; forget time zones and pauses after it."""
    now = harness.clock.now()
    full = now.replace(minute=1, second=0, microsecond=0) + timedelta(hours=1)
    later(harness, int((full - now).total_seconds()))
    yield
    for who in ("ana", "cleo", "dan"):
        harness.person(who).set_do_not_disturb()
        harness.person(who).person.tz = ""
        status(harness, who)


def test_a_reminder_names_only_people_who_are_awake(harness: Harness) -> None:
    """A person whose time zone is unknown counts as awake."""
    set_local_hour(harness, "ana", 23)
    thread = waiting(harness, ("put", {"text": "lamp"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert CLEO in line
    assert ANA not in line


def test_a_reminder_waits_for_the_first_morning_if_all_sleep(harness: Harness) -> None:
    """It is posted once, at eight, and names only people who are awake then."""
    set_local_hour(harness, "ana", 5)
    set_local_hour(harness, "cleo", 23)
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
def test_an_urgent_reminder_does_not_wait_for_the_morning(harness: Harness, tool: str) -> None:
    """Urgent by its rule, or because its deadline comes before the first morning."""
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 22)
    thread = waiting(harness, (tool, {"text": f"alarm for {tool}"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO in line


def test_an_escalation_is_sent_while_the_reminder_waits(harness: Harness) -> None:
    """Ana and Cleo sleep; Dan, who comes in by the escalation, is awake."""
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 22)
    set_local_hour(harness, "dan", 12)
    thread = waiting(harness, ("note", {"text": "night shift"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 1260)
    line = words(harness.said(SUPPORT, thread, ESCALATED))
    assert DAN in line
    assert ANA not in words(harness.said(SUPPORT, thread, REMINDED))


def test_a_questions_reminder_names_only_people_who_are_awake(harness: Harness) -> None:
    """A group was asked; the reminder comes halfway to the deadline."""
    set_local_hour(harness, "ana", 13)
    waiting_for = question(question="Which lamp?", to="@shop-leads")
    thread = waiting(harness, waiting_for)
    assert harness.card(SUPPORT, thread, "ana", "answer")
    later(harness, 36_060)
    line = words(harness.said(SUPPORT, thread, UNANSWERED))
    assert CLEO in line
    assert ANA not in line
    assert "S0LEADS" not in line


def test_a_questions_reminder_waits_for_the_first_morning(harness: Harness) -> None:
    """All who were asked sleep: it is posted once, at the first one's eight o'clock."""
    set_local_hour(harness, "ana", 13)
    set_local_hour(harness, "cleo", 17)
    thread = waiting(harness, question(question="Which quilt?", to="@shop-leads"))
    assert harness.card(SUPPORT, thread, "ana", "answer")
    later(harness, 36_060)
    assert not showing(harness, SUPPORT, thread, UNANSWERED)
    later(harness, 5 * 3600)
    line = words(harness.said(SUPPORT, thread, UNANSWERED))
    assert CLEO in line
    assert ANA not in line
    later(harness, 2 * 3600)
    assert len(showing(harness, SUPPORT, thread, UNANSWERED)) == 1


def test_a_question_asked_in_dms_reminds_only_people_awake(harness: Harness) -> None:
    """Ben and Dan have the question in their direct messages; Dan sleeps."""
    ben, dan = harness.person("ben"), harness.person("dan")
    harness.slack.set_group("nobody", ["ben", "dan"])
    arrived(harness)
    set_local_hour(harness, "dan", 13)
    asked = question(question="Which bulb?", to="@nobody")
    assert waiting(harness, asked, who="ana", channel=FINANCE)
    for each in (ben, dan):
        harness.slack.wait(lambda who=each: "Which bulb?" in str(who.messages(who.dm_channel)))
    later(harness, 36_060)
    harness.slack.wait(lambda: UNANSWERED in str(ben.everything(ben.dm_channel)))
    assert UNANSWERED not in str(dan.everything(dan.dm_channel))
    harness.slack.set_group("nobody", [])


def test_questions_remind_at_night_if_the_defaults_are_urgent(harness: Harness) -> None:
    """The reminder then names the whole group that was asked."""
    replace_policy(harness, POLICY.replace("[defaults]", "[defaults]\nurgent = true"))
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 13)
    thread = waiting(harness, question(question="Which alarm?", to="@shop-leads"))
    assert harness.card(SUPPORT, thread, "ana", "answer")
    later(harness, 36_060)
    assert "S0LEADS" in words(harness.said(SUPPORT, thread, UNANSWERED))
    replace_policy(harness, POLICY)


def test_a_review_after_break_glass_waits_for_the_first_morning(harness: Harness) -> None:
    """A call was run without approval at night; people are asked once to look at it."""
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 22)
    set_local_hour(harness, "dan", 23)
    thread, _ = ran(harness, "at night")
    later(harness, 1860)
    assert not showing(harness, SUPPORT, thread, ASKED)
    later(harness, 9 * 3600)
    line = words(harness.said(SUPPORT, thread, ASKED))
    assert "<@UDAN00001>" in line
    assert ANA not in line
    assert not showing(harness, SUPPORT, thread, AGAIN)


def test_a_review_after_break_glass_asks_people_awake_at_once(harness: Harness) -> None:
    """Dan comes in by the escalation and is awake."""
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 22)
    set_local_hour(harness, "dan", 12)
    thread, _ = ran(harness, "by day elsewhere")
    assert not showing(harness, SUPPORT, thread, ASKED)
    later(harness, 1860)
    line = words(harness.said(SUPPORT, thread, ASKED))
    assert DAN in line
    assert ANA not in line


def pause_notifications(harness: Harness, who: str, seconds: int) -> None:
    """Pause somebody's notifications for these seconds."""
    until = int(harness.clock.now().timestamp()) + seconds
    harness.person(who).set_do_not_disturb(until=until)


def count_pause_lookups(harness: Harness, since: int) -> int:
    """Count how often Slack was asked about do-not-disturb, since this many requests."""
    return sum(each.method == "dnd.teamInfo" for each in harness.slack.requests[since:])


def test_people_who_have_paused_notifications_are_not_reminded(harness: Harness) -> None:
    """Cleo's pause ends before the reminder, so she is named."""
    thread = waiting(harness, ("put", {"text": "bell"}))
    assert harness.card(SUPPORT, thread)
    pause_notifications(harness, "ana", 7200)
    pause_notifications(harness, "cleo", 600)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert CLEO in line
    assert ANA not in line


def test_a_reminder_waits_for_the_end_of_a_pause(harness: Harness) -> None:
    """Cleo sleeps, and Ana has paused until nine: she is reminded at nine, not at eight."""
    set_local_hour(harness, "ana", 5)
    set_local_hour(harness, "cleo", 20)
    pause_notifications(harness, "ana", 4 * 3600)
    thread = waiting(harness, ("put", {"text": "alarm clock"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 3 * 3600 + 600)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 3000)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO not in line


def test_daily_do_not_disturb_hours_delay_a_reminder(harness: Harness) -> None:
    """Hours set for the middle of the day count too, and the reminder comes when they end."""
    for who in ("ana", "cleo"):
        set_local_hour(harness, who, 12)
        harness.person(who).set_do_not_disturb(hours="12:00-13:00")
    thread = waiting(harness, ("put", {"text": "lunch"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 3000)
    assert ANA in words(harness.said(SUPPORT, thread, REMINDED))


def test_an_urgent_reminder_looks_up_no_pauses(harness: Harness) -> None:
    """People who have paused notifications are reminded all the same."""
    for who in ("ana", "cleo"):
        pause_notifications(harness, who, 7200)
    since = len(harness.slack.requests)
    thread = waiting(harness, ("wipe", {"text": "fire"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert ANA in words(harness.said(SUPPORT, thread, REMINDED))
    assert not count_pause_lookups(harness, since)


def test_nights_are_kept_if_looking_up_pauses_fails(harness: Harness) -> None:
    """Cleo, who has paused, is named; Ana, who sleeps, is not."""
    set_local_hour(harness, "ana", 23)
    thread = waiting(harness, ("put", {"text": "no answer"}))
    assert harness.card(SUPPORT, thread)
    pause_notifications(harness, "cleo", 7200)
    harness.slack.faults.fail("dnd.teamInfo", "fatal_error", times=20)
    since = len(harness.slack.requests)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    harness.slack.faults.clear()
    assert count_pause_lookups(harness, since)
    assert CLEO in line
    assert ANA not in line
