"""Words that the database could not take: who wrote them hears of it, and they are not lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from tests.records import ON_A_SERVER
from tests.runs.test_disk import read_only
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, told

pytestmark = pytest.mark.skipif(ON_A_SERVER, reason="it makes a file read-only")
SAID = "I cannot save anything at the moment"


pytestmark = pytest.mark.file  # whose disk fails


@pytest.fixture
def impatient(own_harness: Callable[..., Harness]) -> Harness:
    """A bot in a Slack that waits half a second for an acknowledgement."""
    made = own_harness()
    made.slack.world.ack_seconds = 0.5
    return made


def test_who_mentions_a_bot_that_cannot_write_hears_of_it(impatient: Harness) -> None:
    """In private and once; when the disk is well, the words come again and are answered."""
    harness = impatient
    harness.planner.script(Turn(text="Here I am."))
    with read_only(harness.app.core.store):
        thread = harness.person("ben").say(SUPPORT, "@bot are you there?")
        told(harness, "ben", SUPPORT, thread, SAID)
        events = [each for each in harness.slack.deliveries if each.kind == "events_api"]
        harness.slack.wait(lambda: all(each.next_at for each in events))
    assert SAID not in words({"text": str(harness.person("ana").everything(SUPPORT))})
    for _ in range(2):
        harness.clock.advance(301)
        arrived(harness)
    harness.said(SUPPORT, thread, "Here I am.")
    seen = [m for m in harness.person("ben").everything(SUPPORT) if SAID in words(m)]
    assert len(seen) == 1


def test_who_writes_in_private_hears_of_it(impatient: Harness) -> None:
    """In a direct message it stands there; a message that is not for the bot tells nobody."""
    harness = impatient
    ben = harness.person("ben")
    with read_only(harness.app.core.store):
        ben.say(GENERAL, "hello everybody")
        ben.say(ben.dm_channel, "hello")
        harness.slack.wait(lambda: [m for m in ben.everything(ben.dm_channel) if SAID in words(m)])
    assert not [m for m in ben.everything(GENERAL) if m.get("bot_id")]
