"""What the model is told of a thread in which it is asked late: how it began, and the newest."""

from __future__ import annotations

import json

from bot.demo.model_server import Turn
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent


def told(harness: Harness, thread: str, answer: str) -> str:
    """Ben asks in that thread; what the model is given, as JSON."""
    harness.planner.script(Turn(text=answer))
    harness.person("ben").say(SUPPORT, "@bot so what now?", thread)
    harness.said(SUPPORT, thread, answer)
    all_sent(harness)
    return json.dumps(harness.planner.requests[-1]["input"])


def test_a_thread_of_more_than_a_page(harness: Harness) -> None:
    """Of 300 remarks the newest are read, and how it began; how many are left out is said."""
    ana = harness.person("ana")
    thread = ana.say(SUPPORT, "the beginning of it all")
    for number in range(300):
        ana.say(SUPPORT, f"remark {number:04}.", thread)
    given = told(harness, thread, "Nothing is to be done.")
    assert "the beginning of it all" in given
    for number in range(271, 300):
        assert f"remark {number:04}." in given
    assert "remark 0270." not in given
    assert "remark 0000." not in given
    assert "(271 older messages or parts of messages are left out.)" in given
    again = told(harness, thread, "Still nothing.")
    assert again.count("the beginning of it all") == 1


def test_a_short_thread_is_read_whole(harness: Harness) -> None:
    """Nothing is left out, and nothing told twice."""
    ana = harness.person("ana")
    thread = ana.say(SUPPORT, "it begins here")
    for number in range(29):
        ana.say(SUPPORT, f"word {number:02}.", thread)
    given = told(harness, thread, "All of it was read.")
    assert given.count("it begins here") == 1
    assert all(given.count(f"word {number:02}.") == 1 for number in range(29))
    assert "left out" not in given
