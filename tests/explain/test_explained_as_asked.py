"""What an explanation says of a call is what happens when the call is proposed."""

from __future__ import annotations

import re
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
from tests.storage.builders import AT, TEAM

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
