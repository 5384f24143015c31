"""A sub-agent whose transcript becomes longer than its model can read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bot.config.connection_settings import ModelApi
from bot.demo.model_server import Turn, estimate_tokens
from storage.models import Item
from storage.transcripts import COMPACTION_TYPE
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.sub_agents import AGENTS, approve, asked_for, child_of

WINDOW = 14_000  # tokens
LONG = "x" * 8_000


@pytest.mark.long
def test_a_sub_agent_goes_on_after_a_compaction(
    own_harness: Callable[..., Harness],
) -> None:
    """What it looked up is summed up; its task and what was approved for it stay as they were, and
    so does its parent's transcript.
    """
    fakes = FakeTools()
    # the server compacts by itself, which takes no turn
    terms = {"OPENAI_API": ModelApi.RESPONSES, "COUNTERSIGN_CONTEXT_TOKENS": str(WINDOW)}
    harness = own_harness([*fakes.tools, *AGENTS], **terms)
    harness.planner.context = WINDOW
    thread, card = asked_for(harness, "errand long")
    looks = [Turn(calls=[("peek", {"text": f"{number} {LONG}"})]) for number in range(5)]
    approve(harness, card, *looks, Turn(text="I have looked."), Turn(text="It has looked."))
    harness.said(SUPPORT, thread, "It has looked.")
    harness.settle()
    assert fakes.did("note", "errand long") == 1
    assert sum(fakes.ran.values()) == 6
    assert harness.planner.refused == []
    made = [
        each for each in harness.all(Item) if json.loads(each.body).get("type") == COMPACTION_TYPE
    ]
    assert {each.run_id for each in made} == {child_of(harness, thread).id}
    *_, child, parent = harness.planner.requests
    sent = child["input"]
    assert estimate_tokens(sent) < WINDOW
    assert "please write errand long" in json.dumps(sent)
    assert "compaction" in [each.get("type") for each in sent]
    [noted] = [each for each in sent if each.get("name") == "note"]
    [became] = [each for each in sent if each.get("call_id") == noted["call_id"]][1:]
    assert became["output"].startswith("SUCCEEDED. Approved by <@UANA00001>")
    assert "compaction" not in [each.get("type") for each in parent["input"]]
    assert all("left out" not in words(each) for each in harness.thread(SUPPORT, thread))
