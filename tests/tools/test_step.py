"""What a tool says it is doing: one line for people, which never gets in the tool's way."""

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
from tests.tools.harness import Nothing, making

NOW = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
RUN = Run(
    team="T0", channel="C0", thread_ts="1.0", requester="UBEN00001", created_at=NOW, updated_at=NOW
)
SECRET = Nothing(token="tok-123")


def a_call(asked_at: datetime | None = None) -> Call:
    """A call, of which people were asked at that time."""
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


def step(**options: Any) -> ToolStep:
    """The step of a tool that is made with these options."""
    return build_tool_step(making("", **options), SECRET, a_call())


def test_a_tool_states_its_step() -> None:
    """The sentence is made from the arguments, on one line, bounded, without a full stop."""
    found = step(step=lambda args: f"looking\nup  {len(args.token)} signs…")
    assert (found.doing, found.call_id, found.tool) == ("looking up 7 signs", "call-1", "attempt")
    assert len(step(step=lambda _args: "word " * 50).doing) <= 100


def test_a_step_hides_secrets() -> None:
    """Secret arguments are masked in it, and so is what looks like a key."""
    found = step(secret={"token"}, step=lambda args: f"using {args.token}")
    assert found.doing == "using ••••••••"
    key = "xoxb-" + "1234567890-abcdef"
    assert key not in step(step=lambda _args: f"using {key}").doing


@pytest.mark.parametrize("bad", [lambda args: args.gone, lambda _args: None])
def test_a_step_sentence_that_fails_is_none(bad: Callable[..., Any]) -> None:
    """The tool's title stands in its place."""
    found = step(step=bad)
    assert (found.doing, found.title) == ("", "Try")


def test_a_step_that_cannot_be_said_is_no_tool() -> None:
    """The start refuses it, and names the tool."""
    with pytest.raises(TypeError, match=r"tool attempt: the step takes \(args\)"):
        making("", step=lambda: "nothing")


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
def test_each_end_is_told(outcome: ToolOutcome, does: Effect, end: ToolStepOutcome) -> None:
    """A read that got lost has failed; of anything else nobody knows what it did."""
    live, heard = LiveEventBroadcaster(), list[Event]()
    teller = CallProgressReporter(live, RUN, a_call(NOW), making("", does), SECRET)
    teller.report_start()
    live.listen(heard.append)
    teller.report_long_running()
    teller.report_end(outcome)
    kinds = [each.kind for each in heard]
    assert kinds == [EventKind.STEP_GOES_ON, EventKind.STEP_ENDED]
    last = heard[-1]
    assert isinstance(last, StepEvent)
    assert (last.end, last.step.asked) == (end, True)
