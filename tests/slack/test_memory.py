"""What the outbox remembers of channels that have to rest: how long, and until when."""

from __future__ import annotations

from datetime import timedelta

from bot.slack.posting import OutboxMemory, SlackPost
from tests.runs.fakes import StillClock
from tests.storage.builders import AT

TENTH = timedelta(seconds=0.1)


def test_a_channel_rests_longer_each_time() -> None:
    """A tenth of a second, then twice that; once something went well it begins anew."""
    clock = StillClock()
    memory = OutboxMemory(clock)
    for pause in (TENTH, 2 * TENTH, 4 * TENTH):
        memory.rest("C1")
        assert memory.next_end(AT) == AT + pause
    assert memory.awake({"C1", "C2"}, AT) == {"C2"}
    memory.went_well("C1")
    memory.went_well("C2")
    assert (memory.awake({"C1"}, AT), memory.next_end(AT)) == ({"C1"}, None)
    memory.rest("C1")
    assert memory.next_end(AT) == AT + TENTH


def test_it_may_go_on_at_the_end_of_its_rest() -> None:
    """Not before; the first of several is what there is to wait for."""
    memory = OutboxMemory(StillClock())
    memory.rest("C2")
    memory.rest("C2")
    memory.rest("C1")
    assert memory.next_end(AT) == AT + TENTH
    assert memory.awake({"C1", "C2"}, AT + TENTH) == {"C1"}
    assert memory.next_end(AT + TENTH) == AT + 2 * TENTH
    assert memory.next_end(AT + 2 * TENTH) is None


def test_what_stands_is_remembered_until_it_is_stored() -> None:
    """By its row."""
    memory, posted = OutboxMemory(StillClock()), SlackPost("1.1", 2)
    memory.keep(7, posted)
    assert (memory.posted(7), memory.posted(8)) == (posted, None)
    memory.forget(7)
    memory.forget(8)
    assert memory.posted(7) is None
