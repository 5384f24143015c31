"""A bot whose model's server has no Responses API: it finds that out, and uses Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Callable

from bot.config.connection_settings import ModelApi
from bot.demo.model_server import Turn
from storage.states import CallStatus, RunStatus
from tests.model_stand_in.planner import ApiFeature
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words


def test_a_request_works_by_chat_completions(own_harness: Callable[..., Harness]) -> None:
    """It is asked, approved, run, answered, and continued after a restart. The Responses API then
    accepts the same transcript, where the server has it.
    """
    harness = own_harness(OPENAI_API=ModelApi.AUTO)
    harness.planner.without = {ApiFeature.RESPONSES}
    ben, ana = harness.person("ben"), harness.person("ana")
    thread = ben.say(SUPPORT, "@bot refund 40 EUR of order 1042, it arrived broken")
    card = harness.card(SUPPORT, thread)
    assert harness.shop.get_order(1042).refunded == 0
    ana.click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "feedback_buttons")
    harness.settle()
    assert harness.shop.get_order(1042).refunded == 40
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.SUCCEEDED
    assert harness.planner.refused == ["Invalid URL (POST /v1/responses)"]
    roles = [each["role"] for each in harness.planner.chats[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]

    harness.planner.without = set()
    harness.restart()
    harness.planner.script(Turn(text="It was 40 EUR."))
    ben.say(SUPPORT, "@bot how much was it?", thread)
    harness.said(SUPPORT, thread, "It was 40 EUR.")
    harness.settle()
    assert len(harness.planner.chats) == 2
    assert len(harness.planner.requests) == 3
    assert len(harness.planner.refused) == 1
    assert harness.run_in(thread).status is RunStatus.COMPLETED


def test_the_thread_says_that_the_model_calls_no_tools(
    own_harness: Callable[..., Harness],
) -> None:
    """The message comes at once, with a button to try again."""
    harness = own_harness()
    harness.planner.without = {ApiFeature.TOOLS}
    thread = harness.person("ben").say(SUPPORT, "@bot refund 40 EUR of order 1042")
    told = harness.said(SUPPORT, thread, "cannot call tools")
    assert "Retry" in words(told)
    assert json.dumps(harness.planner.refused).count("does not support tools") == 1
