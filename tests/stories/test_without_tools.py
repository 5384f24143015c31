"""Single tools that the settings leave out: for the model, for forms and for the policy."""

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


def test_a_tool_that_is_left_out_is_not_there(own_harness: Callable[..., Harness]) -> None:
    """The model is not offered it, and a call of it asks nobody; a rule that denies it may stay.

    A name that is no tool's stops the start, and says which.
    """
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
