"""Tools that the setting `COUNTERSIGN_WITHOUT_TOOLS` leaves out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from bot.toolbox import ToolsError
from tests.stories.harness import POLICY, SUPPORT, Harness

DENIES = """

[[rule]]
name = "no new channels"
tool = "create_channel"
verdict = "deny"
reason = "The office creates channels."
"""


def test_a_left_out_tool_is_neither_offered_nor_run(
    own_harness: Callable[..., Harness],
) -> None:
    """A rule that denies it may stay. An unknown name stops the start with an error."""
    left_out = {"cancel_order", "create_channel"}
    policy = POLICY.read_text("utf-8") + DENIES
    harness = own_harness(policy=policy, COUNTERSIGN_WITHOUT_TOOLS=", ".join(left_out))
    harness.planner.script(
        Turn(calls=[("cancel_order", {"order_id": 1043, "reason": "unasked"})]),
        Turn(text="I cannot cancel orders."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot cancel order 1043")
    harness.said(SUPPORT, thread, "I cannot cancel orders.")
    harness.settle()
    first, second = harness.planner.requests
    offered = {each["name"] for each in first["tools"]}
    assert offered >= {"refund_order", "invite"}
    assert not offered & left_out
    assert "there is no tool named 'cancel_order'" in str(second["input"])
    harness.extra["COUNTERSIGN_WITHOUT_TOOLS"] = "invite, cancel_oder"
    with pytest.raises(ToolsError, match=r"COUNTERSIGN_WITHOUT_TOOLS: .* cancel_oder$"):
        harness.restart()
    harness.extra.clear()
    harness.start()
