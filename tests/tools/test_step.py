"""The step of a tool: one line for people about what it is doing now."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.monitoring.live_events import (
    Event,
    EventKind,
    LiveEventBroadcaster,
    StepEvent,
    ToolStep,
    ToolStepOutcome,
)
from bot.tools import Effect
from bot.tools.runner import (
    CallProgressReporter,
    LostToolAnswer,
    StaleToolCall,
    ToolFailure,
    ToolOutcome,
    ToolSuccess,
    ToolTimeout,
    build_tool_step,
)
from storage.models import Call, Run
from tests.tools.harness import Nothing, make_tool

NOW = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
RUN = Run(
    team="T0", channel="C0", thread_ts="1.0", requester="UBEN00001", created_at=NOW, updated_at=NOW
)
SECRET = Nothing(token="tok-123")


def make_call(asked_at: datetime | None = None) -> Call:
    """Make a call about which people were asked at that time."""
    return Call(
        id="call-1",
        run_id=RUN.id,
        plan_id="plan-1",
        position=0,
        provider_id="p1",
        tool="attempt",
        asked_at=asked_at,
        created_at=NOW,
    )


def build_step(**options: Any) -> ToolStep:
    """Build the step of a tool that is made with these options."""
    return build_tool_step(make_tool("", **options), SECRET, make_call())


def test_a_step_is_the_sentence_of_the_tools_step_function() -> None:
    """The sentence is made from the arguments, put on one line, cut, and has no full stop."""
    found = build_step(step=lambda args: f"looking\nup  {len(args.token)} signs…")
    assert (found.doing, found.call_id, found.tool) == ("looking up 7 signs", "call-1", "attempt")
    assert len(build_step(step=lambda _args: "word " * 50).doing) <= 100


def test_secrets_are_masked_in_a_step() -> None:
    """So is anything that looks like a key."""
    found = build_step(secret={"token"}, step=lambda args: f"using {args.token}")
    assert found.doing == "using ••••••••"
    key = "xoxb-" + "1234567890-abcdef"
    assert key not in build_step(step=lambda _args: f"using {key}").doing


@pytest.mark.parametrize("bad", [lambda args: args.gone, lambda _args: None])
def test_a_step_function_that_fails_gives_no_sentence(bad: Callable[..., Any]) -> None:
    """The tool's title is shown instead."""
    found = build_step(step=bad)
    assert (found.doing, found.title) == ("", "Try")


def test_a_step_function_with_other_parameters_is_refused() -> None:
    """Registration refuses it and names the tool."""
    with pytest.raises(TypeError, match=r"tool attempt: the step takes \(args\)"):
        make_tool("", step=lambda: "nothing")


@pytest.mark.parametrize(
    ("outcome", "does", "end"),
    [
        (ToolSuccess("", ""), Effect.WRITE, ToolStepOutcome.DONE),
        (ToolFailure("no"), Effect.WRITE, ToolStepOutcome.FAILED),
        (ToolFailure("boom", certain=False), Effect.WRITE, ToolStepOutcome.FAILED),
        (StaleToolCall("other"), Effect.WRITE, ToolStepOutcome.NOT_DONE),
        (LostToolAnswer("dead"), Effect.WRITE, ToolStepOutcome.UNKNOWN),
        (ToolTimeout(Future(), "slow"), Effect.DESTRUCTIVE, ToolStepOutcome.UNKNOWN),
        (LostToolAnswer("dead"), Effect.READ, ToolStepOutcome.FAILED),
        (ToolTimeout(Future(), "slow"), Effect.READ, ToolStepOutcome.FAILED),
    ],
)
def test_each_outcome_of_a_tool_ends_its_step(
    outcome: ToolOutcome, does: Effect, end: ToolStepOutcome
) -> None:
    """A read whose answer is lost has failed; the outcome of a lost write is unknown."""
    live, heard = LiveEventBroadcaster(), list[Event]()
    reporter = CallProgressReporter(live, RUN, make_call(NOW), make_tool("", does), SECRET)
    reporter.report_start()
    live.listen(heard.append)
    reporter.report_long_running()
    reporter.report_end(outcome)
    kinds = [each.kind for each in heard]
    assert kinds == [EventKind.STEP_GOES_ON, EventKind.STEP_ENDED]
    last = heard[-1]
    assert isinstance(last, StepEvent)
    assert (last.end, last.step.asked) == (end, True)
