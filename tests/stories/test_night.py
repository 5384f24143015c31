"""Reminders keep a person's night and their pauses, and the deadline does not move for it."""

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


def hour(harness: Harness, who: str, at: int) -> None:
    """It is that hour, and some minutes, for a person from now on."""
    person, now = harness.person(who).person, harness.clock.now()
    offset = (at - now.hour + 12) % 24 - 12
    person.tz, person.tz_offset = "Etc/Somewhere", offset * 3600
    status(harness, who)


def take(harness: Harness, policy: str) -> None:
    """Another policy is in force."""
    (harness.folder / "policy.toml").write_text(policy, "utf-8")
    digest = harness.app.core.policy.digest
    for _ in range(2):
        harness.clock.advance(4)
        harness.settle()
    harness.slack.wait(lambda: harness.app.core.policy.digest != digest)


@pytest.fixture(autouse=True)
def _zones_unknown(harness: Harness) -> Iterator[None]:
    """Every story begins soon after a full hour, and leaves nobody in a time zone."""
    now = harness.clock.now()
    full = now.replace(minute=1, second=0, microsecond=0) + timedelta(hours=1)
    later(harness, int((full - now).total_seconds()))
    yield
    for who in ("ana", "cleo", "dan"):
        harness.person(who).set_do_not_disturb()
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


def test_a_question_reminds_those_who_are_awake(harness: Harness) -> None:
    """Of a group that was asked, whoever sleeps halfway to the deadline is not named."""
    hour(harness, "ana", 13)
    waiting_for = question(question="Which lamp?", to="@shop-leads")
    thread = waiting(harness, waiting_for)
    assert harness.card(SUPPORT, thread, "ana", "answer")
    later(harness, 36_060)
    line = words(harness.said(SUPPORT, thread, UNANSWERED))
    assert CLEO in line
    assert ANA not in line
    assert "S0LEADS" not in line


def test_a_question_waits_for_the_first_morning(harness: Harness) -> None:
    """Where all of those asked sleep, they are reminded at eight, once, and all of them."""
    hour(harness, "ana", 13)
    hour(harness, "cleo", 17)
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


def test_a_question_in_direct_messages_wakes_nobody(harness: Harness) -> None:
    """Of those who have it in their direct messages, only who is awake gets a line below it."""
    ben, dan = harness.person("ben"), harness.person("dan")
    harness.slack.set_group("nobody", ["ben", "dan"])
    arrived(harness)
    hour(harness, "dan", 13)
    asked = question(question="Which bulb?", to="@nobody")
    assert waiting(harness, asked, who="ana", channel=FINANCE)
    for each in (ben, dan):
        harness.slack.wait(lambda who=each: "Which bulb?" in str(who.messages(who.dm_channel)))
    later(harness, 36_060)
    harness.slack.wait(lambda: UNANSWERED in str(ben.everything(ben.dm_channel)))
    assert UNANSWERED not in str(dan.everything(dan.dm_channel))
    harness.slack.set_group("nobody", [])


def test_questions_are_urgent_where_the_defaults_say_so(harness: Harness) -> None:
    """The same question reminds at night under a policy whose defaults are urgent."""
    take(harness, POLICY.replace("[defaults]", "[defaults]\nurgent = true"))
    for who in ("ana", "cleo"):
        hour(harness, who, 13)
    thread = waiting(harness, question(question="Which alarm?", to="@shop-leads"))
    assert harness.card(SUPPORT, thread, "ana", "answer")
    later(harness, 36_060)
    assert "S0LEADS" in words(harness.said(SUPPORT, thread, UNANSWERED))
    take(harness, POLICY)


def test_a_request_to_look_waits_for_the_first_morning(harness: Harness) -> None:
    """What was run without approval at night is looked at by day; it is asked once till then."""
    for who in ("ana", "cleo"):
        hour(harness, who, 22)
    hour(harness, "dan", 23)
    thread, _ = ran(harness, "at night")
    later(harness, 1860)
    assert not showing(harness, SUPPORT, thread, ASKED)
    later(harness, 9 * 3600)
    line = words(harness.said(SUPPORT, thread, ASKED))
    assert "<@UDAN00001>" in line
    assert ANA not in line
    assert not showing(harness, SUPPORT, thread, AGAIN)


def test_a_request_to_look_reaches_who_is_awake(harness: Harness) -> None:
    """Whoever comes in by the escalation and is awake is asked then, and not in the morning."""
    for who in ("ana", "cleo"):
        hour(harness, who, 22)
    hour(harness, "dan", 12)
    thread, _ = ran(harness, "by day elsewhere")
    assert not showing(harness, SUPPORT, thread, ASKED)
    later(harness, 1860)
    line = words(harness.said(SUPPORT, thread, ASKED))
    assert DAN in line
    assert ANA not in line


def pause(harness: Harness, who: str, seconds: int) -> None:
    """Somebody pauses their notifications for that time."""
    until = int(harness.clock.now().timestamp()) + seconds
    harness.person(who).set_do_not_disturb(until=until)


def asked_about(harness: Harness, since: int) -> int:
    """How often Slack was asked who is not to be disturbed, since so many requests."""
    return sum(each.method == "dnd.teamInfo" for each in harness.slack.requests[since:])


def test_who_has_paused_notifications_is_not_reminded(harness: Harness) -> None:
    """Others are; whoever has paused for a shorter time than that is, too."""
    thread = waiting(harness, ("put", {"text": "bell"}))
    assert harness.card(SUPPORT, thread)
    pause(harness, "ana", 7200)
    pause(harness, "cleo", 600)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert CLEO in line
    assert ANA not in line


def test_ana_has_paused_until_nine(harness: Harness) -> None:
    """It is night for Cleo, and Ana is reminded at nine by her clock, not at eight."""
    hour(harness, "ana", 5)
    hour(harness, "cleo", 20)
    pause(harness, "ana", 4 * 3600)
    thread = waiting(harness, ("put", {"text": "alarm clock"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 3 * 3600 + 600)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 3000)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO not in line


def test_hours_of_every_day_are_kept(harness: Harness) -> None:
    """Do-not-disturb hours count by day, too, and end with the hour that was set."""
    for who in ("ana", "cleo"):
        hour(harness, who, 12)
        harness.person(who).set_do_not_disturb(hours="12:00-13:00")
    thread = waiting(harness, ("put", {"text": "lunch"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert not showing(harness, SUPPORT, thread, REMINDED)
    later(harness, 3000)
    assert ANA in words(harness.said(SUPPORT, thread, REMINDED))


def test_what_is_urgent_asks_about_no_pause(harness: Harness) -> None:
    """It reminds whoever has paused their notifications, and looks nobody up for that."""
    for who in ("ana", "cleo"):
        pause(harness, who, 7200)
    since = len(harness.slack.requests)
    thread = waiting(harness, ("wipe", {"text": "fire"}))
    assert harness.card(SUPPORT, thread)
    later(harness, 660)
    assert ANA in words(harness.said(SUPPORT, thread, REMINDED))
    assert not asked_about(harness, since)


def test_where_slack_does_not_say_the_night_is_kept(harness: Harness) -> None:
    """A look-up that fails names who has paused, and still not who sleeps."""
    hour(harness, "ana", 23)
    thread = waiting(harness, ("put", {"text": "no answer"}))
    assert harness.card(SUPPORT, thread)
    pause(harness, "cleo", 7200)
    harness.slack.faults.fail("dnd.teamInfo", "fatal_error", times=20)
    since = len(harness.slack.requests)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    harness.slack.faults.clear()
    assert asked_about(harness, since)
    assert CLEO in line
    assert ANA not in line
