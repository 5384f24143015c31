"""The bot is mentioned in a thread of others: which messages of it the model is given."""

from __future__ import annotations

import json

from bot.demo.model_server import Turn
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent


def ask_in_thread(harness: Harness, thread: str, answer: str) -> str:
    """Have Ben ask in that thread, and return what the model is given, as JSON."""
    harness.planner.script(Turn(text=answer))
    harness.person("ben").say(SUPPORT, "@bot so what now?", thread)
    harness.said(SUPPORT, thread, answer)
    all_sent(harness)
    return json.dumps(harness.planner.requests[-1]["input"])


def test_of_a_long_thread_the_first_and_newest_messages_are_read(harness: Harness) -> None:
    """The model is told how many of 300 replies are left out, and gets the first message once."""
    ana = harness.person("ana")
    thread = ana.say(SUPPORT, "the beginning of it all")
    for number in range(300):
        ana.say(SUPPORT, f"remark {number:04}.", thread)
    given = ask_in_thread(harness, thread, "Nothing is to be done.")
    assert "the beginning of it all" in given
    for number in range(271, 300):
        assert f"remark {number:04}." in given
    assert "remark 0270." not in given
    assert "remark 0000." not in given
    assert "(271 older messages or parts of messages are left out.)" in given
    again = ask_in_thread(harness, thread, "Still nothing.")
    assert again.count("the beginning of it all") == 1


def test_a_short_thread_is_read_whole(harness: Harness) -> None:
    """No message is left out or given twice."""
    ana = harness.person("ana")
    thread = ana.say(SUPPORT, "it begins here")
    for number in range(29):
        ana.say(SUPPORT, f"word {number:02}.", thread)
    given = ask_in_thread(harness, thread, "All of it was read.")
    assert given.count("it begins here") == 1
    assert all(given.count(f"word {number:02}.") == 1 for number in range(29))
    assert "left out" not in given
