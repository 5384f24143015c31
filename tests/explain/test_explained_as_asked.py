"""What an explanation says of a call is what happens when the call is proposed."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from bot.approvals.call_checks import UsageLimits
from bot.explain.explanation import ExplanationSources, explain_call
from bot.policy.evaluation import parse
from bot.slack.command_answers import SlackMentionStyle
from storage.models import Run
from storage.states import CallStatus, MessageKind
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.runs.harness import LoopHarness
from tests.storage.builders import AT, TEAM, click

LATER = f'escalation = [{{after = "3m", approvers = ["{DAN}"]}}]'
NOT_BEFORE = "⚠ Nobody can approve this until others may decide as well."
CANNOT = "⚠ This can’t be approved: "


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ('approvers = ["@shop-leads"]', ""),
        ('approvers = ["@nobody"]', f"{CANNOT}none of its approvers can be reached."),
        (f'approvers = ["@nobody"]\n{LATER}', NOT_BEFORE),
        (
            f'approvers = ["@nobody"]\nquorum = 2\n{LATER}',
            f"{CANNOT}it needs 2 people to approve it, and only 1 can be reached.",
        ),
        (
            f'stages = [{{approvers = ["@nobody"]}}, {{approvers = ["{CLEO}"]}}]\n{LATER}',
            NOT_BEFORE,
        ),
        (f'approvers = ["@nobody"]\nsilent = ["{ANA}"]', ""),
        (f'approvers = ["@nobody", "{BEN}"]\nsilent = ["@finance"]\npost_to = "approvers"', ""),
        (f'approvers = ["{CLEO}"]\nsilent = ["{ANA}"]\npost_to = "approvers"', ""),
    ],
)
def test_an_explanation_agrees_with_the_proposed_call(
    tmp_path: Path, terms: str, said: str
) -> None:
    """Whether anybody is asked at all, and where the card is."""
    harness = LoopHarness(tmp_path / "db")
    harness.core.policy.policy = parse(f"[defaults]\n{terms}\n")
    lines = explain_note(harness)
    assert [each for each in lines if each.startswith("⚠")] == [said] * bool(said)
    [where] = [each for each in lines if each.startswith("Where: ")]
    harness.model.script = [[("note", "as shown")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    [call] = harness.all()[1]
    assert (call.status is CallStatus.REFUSED) is said.startswith(CANNOT)
    assert not said.startswith(CANNOT) or call.note in said
    shown = {each.channel for each in harness.all()[3] if each.kind is MessageKind.CARD}
    people = set(re.findall(r"<@(\w+)>", where))
    if "in the thread" in where and people:
        assert shown == {"C0SUPPORT"}
    else:
        assert shown == people
    harness.stop()


SOON = 'escalation = [{after = "3m", approvers = ["requester"]}]'


@pytest.mark.parametrize(
    ("terms", "said", "approves"),
    [
        ('approvers = ["channel"]', "Nobody approves their own request.", False),
        ('approvers = ["requester"]', "only where “the person who asked” is listed.", True),
        (f'approvers = ["{ANA}"]\n{SOON}', "only where “the person who asked” is listed.", True),
        ('approvers = ["channel"]\nself_approval = true', "may approve it, if listed.", True),
        (f'approvers = ["{ANA}"]\nself_approval = true', "may approve it, if listed.", False),
    ],
)
def test_an_explanation_says_whether_the_requester_may_approve(
    tmp_path: Path, terms: str, said: str, approves: bool
) -> None:
    """Also once an escalation is due."""
    harness = LoopHarness(tmp_path / "db")
    harness.core.policy.policy = parse(f"[defaults]\n{terms}\n")
    [line] = [each for each in explain_note(harness) if "rejection ends it." in each]
    assert said in line
    harness.model.script = [[("note", "as shown")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    [call] = harness.all()[1]
    harness.clock.at += timedelta(minutes=4)
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:1", BEN))
    harness.loop.tick()
    assert (harness.all()[1][0].status is CallStatus.APPROVED) is approves
    harness.stop()


def test_what_would_come_after_the_deadline_is_not_explained(tmp_path: Path) -> None:
    """A rule that adds has shortened it to half an hour."""
    harness = LoopHarness(tmp_path / "db")
    late = f'{{after = "40m", approvers = ["{DAN}"]}}, {{after = "20m", approvers = ["{CLEO}"]}}'
    times = f'reminders = ["10m", "30m"]\nescalation = [{late}]'
    added = '[[rule]]\nname = "soon"\nverdict = "add"\ndeadline = "30m"\n'
    harness.core.policy.policy = parse(
        f'[defaults]\napprovers = ["{ANA}"]\ndeadline = "1h"\n{times}\n{added}'
    )
    text = "\n".join(explain_note(harness))
    assert "no answer within 30 minutes is a no. Reminders after 10 minutes. " in text
    assert re.findall(r"After (.*?) without an answer", text) == ["20 minutes"]
    harness.stop()


def explain_note(harness: LoopHarness) -> list[str]:
    """The lines of the explanation of Ben's note."""
    core, tool = harness.core, harness.core.tools.get("note")
    assert tool is not None
    sources = core.build_policy_fact_sources()
    limits = UsageLimits(core.settings, harness.clock)
    place = {"team": TEAM, "channel": "C0SUPPORT", "thread_ts": ""}
    run = Run(requester=BEN, created_at=AT, updated_at=AT, **place)
    grounds = ExplanationSources(sources, core.authority, limits)
    args = tool.arguments(text="as shown")
    return explain_call(grounds, SlackMentionStyle(harness.directory), run, tool, args)
