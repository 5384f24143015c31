"""The model's server no longer reads the reasoning that it has sealed: the thread goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.config.connection_settings import ModelApi
from bot.demo.model_server import Turn
from storage.models import Item
from storage.states import CallStatus, RunStatus
from tests.model_stand_in import answers
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask_for, statuses, vote

BY_RESPONSES = {"OPENAI_API": ModelApi.RESPONSES}


def list_reasoning(harness: Harness) -> list[dict[str, Any]]:
    """Return the stored items of reasoning."""
    items = [json.loads(each.body) for each in harness.all(Item)]
    return [each for each in items if each.get("type") == "reasoning"]


def test_a_thread_goes_on_after_the_servers_seals_changed(
    own_harness: Callable[..., Harness], fakes: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with another key, another region behind a gateway, or another model, while a call waits:
    the call runs once, its output is told, and later messages are answered as well.
    """
    harness = own_harness(fakes.tools, **BY_RESPONSES)
    thread, card = ask_for(harness, "sealed")
    [sealed] = list_reasoning(harness)
    monkeypatch.setattr(answers, "_SEAL", "of another organisation")

    harness.planner.script(Turn(text="It is noted."))
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "It is noted.")
    harness.settle()
    assert fakes.did("note", "sealed") == 1
    assert (statuses(harness, thread), harness.run_in(thread).status) == (
        [CallStatus.SUCCEEDED],
        RunStatus.COMPLETED,
    )
    assert harness.outputs()[-1]["output"].startswith("SUCCEEDED. Approved by <@UANA00001>")
    assert ["could not be verified" in each for each in harness.planner.refused] == [True]
    assert list_reasoning(harness) == [sealed]  # what is stored stays

    harness.planner.script(Turn(text="You are welcome."))
    harness.person("ben").say(SUPPORT, "@bot thanks", thread)
    harness.said(SUPPORT, thread, "You are welcome.")
    assert fakes.did("note", "sealed") == 1
