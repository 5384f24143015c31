"""Requests to the model begin the same, so that its server can use its prompt cache."""

from __future__ import annotations

import json
from typing import Any

from bot.demo.model_server import Turn
from tests.stories.harness import SUPPORT, Harness

PAUSE = 180  # seconds


def dump_prefix(request: dict[str, Any]) -> str:
    """Dump tools, instructions and input, in the order in which a model's server reads them."""
    return json.dumps([request["tools"], request["instructions"], request["input"]])


def test_each_model_request_begins_with_the_one_before(harness: Harness) -> None:
    """Byte for byte, after minutes, an approval and another message of the requester.

    Tools and instructions are the same in every thread.
    """
    before = len(harness.planner.requests)
    harness.planner.script(
        Turn(calls=[("note", {"text": "the same prefix"})]), Turn(text="Noted."), Turn(text="Yes.")
    )
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot note the same prefix")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(PAUSE)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "Noted.")
    harness.settle()
    harness.clock.advance(PAUSE)
    ben.say(SUPPORT, "@bot is it noted?", thread)
    harness.said(SUPPORT, thread, "Yes.")
    harness.settle()
    asked, approved, more = harness.planner.requests[before:]
    assert len(asked["input"]) < len(approved["input"]) < len(more["input"])
    for earlier, later in ((asked, approved), (approved, more)):
        assert dump_prefix(later).startswith(dump_prefix(earlier).removesuffix("]]"))
    said = [each["input"][-1]["content"][0]["text"] for each in (asked, more)]
    assert said[0].partition(" UTC:")[0] != said[1].partition(" UTC:")[0]

    harness.clock.advance(PAUSE)
    harness.planner.script(Turn(text="Hello."))
    elsewhere = ben.say(SUPPORT, "@bot and here?")
    harness.said(SUPPORT, elsewhere, "Hello.")
    harness.settle()
    assert [harness.planner.requests[-1][each] for each in ("tools", "instructions")] == [
        asked[each] for each in ("tools", "instructions")
    ]
