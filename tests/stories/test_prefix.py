"""What begins every request to the model stays the same, so that its server can keep it at hand."""

from __future__ import annotations

import json
from typing import Any

from bot.demo.model_server import Turn
from tests.stories.harness import SUPPORT, Harness

MINUTES = 180  # seconds: three of them


def first_of(request: dict[str, Any]) -> str:
    """What a request begins with, in the order in which a model's server reads it."""
    return json.dumps([request["tools"], request["instructions"], request["input"]])


def test_what_was_sent_begins_the_next_request(harness: Harness) -> None:
    """Minutes later, after an approval and after more words, all that was sent before comes first,
    byte for byte; and tools and instructions are the same in every thread.
    """
    before = len(harness.planner.requests)
    harness.planner.script(
        Turn(calls=[("note", {"text": "the same prefix"})]), Turn(text="Noted."), Turn(text="Yes.")
    )
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot note the same prefix")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(MINUTES)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "Noted.")
    harness.settle()
    harness.clock.advance(MINUTES)
    ben.say(SUPPORT, "@bot is it noted?", thread)
    harness.said(SUPPORT, thread, "Yes.")
    harness.settle()
    asked, approved, more = harness.planner.requests[before:]
    assert len(asked["input"]) < len(approved["input"]) < len(more["input"])
    for earlier, later in ((asked, approved), (approved, more)):
        assert first_of(later).startswith(first_of(earlier).removesuffix("]]"))
    said = [each["input"][-1]["content"][0]["text"] for each in (asked, more)]
    assert said[0].partition(" UTC:")[0] != said[1].partition(" UTC:")[0]

    harness.clock.advance(MINUTES)
    harness.planner.script(Turn(text="Hello."))
    elsewhere = ben.say(SUPPORT, "@bot and here?")
    harness.said(SUPPORT, elsewhere, "Hello.")
    harness.settle()
    assert [harness.planner.requests[-1][each] for each in ("tools", "instructions")] == [
        asked[each] for each in ("tools", "instructions")
    ]
