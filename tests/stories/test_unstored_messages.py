"""Messages that the database cannot store: their writers are told, and they are not lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from tests.records import ON_A_SERVER
from tests.runs.test_disk import read_only
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, told

NOTICE = "I cannot save anything at the moment"
pytestmark = [
    pytest.mark.file,  # whose disk fails
    pytest.mark.skipif(ON_A_SERVER, reason="it makes a file read-only"),
]


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot in a Slack that waits half a second for an acknowledgement."""
    harness = own_harness()
    harness.slack.world.ack_seconds = 0.5
    return harness


def test_a_person_who_mentions_the_bot_is_told_that_it_cannot_write(harness: Harness) -> None:
    """Privately and once; later Slack delivers the message again, and it is answered."""
    harness.planner.script(Turn(text="Here I am."))
    with read_only(harness.app.core.store):
        thread = harness.person("ben").say(SUPPORT, "@bot are you there?")
        told(harness, "ben", SUPPORT, thread, NOTICE)
        events = [each for each in harness.slack.deliveries if each.kind == "events_api"]
        harness.slack.wait(lambda: all(each.next_at for each in events))
    assert NOTICE not in words({"text": str(harness.person("ana").everything(SUPPORT))})
    for _ in range(2):
        harness.clock.advance(301)
        arrived(harness)
    harness.said(SUPPORT, thread, "Here I am.")
    seen = [m for m in harness.person("ben").everything(SUPPORT) if NOTICE in words(m)]
    assert len(seen) == 1


def test_a_person_who_writes_a_dm_is_told_that_the_bot_cannot_write(harness: Harness) -> None:
    """A message that is not for the bot gets no notice."""
    ben = harness.person("ben")
    with read_only(harness.app.core.store):
        ben.say(GENERAL, "hello everybody")
        ben.say(ben.dm_channel, "hello")
        harness.slack.wait(
            lambda: [m for m in ben.everything(ben.dm_channel) if NOTICE in words(m)]
        )
    assert not [m for m in ben.everything(GENERAL) if m.get("bot_id")]
