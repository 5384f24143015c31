"""What the outbox remembers of paused channels and of posts that are not stored yet."""

from __future__ import annotations

from datetime import timedelta

from bot.slack.outbox_memory import OutboxMemory, SlackPost
from tests.runs.fakes import StillClock
from tests.storage.builders import AT

TENTH = timedelta(seconds=0.1)


def test_a_channel_pauses_longer_after_each_database_failure() -> None:
    """A tenth of a second, then twice that each time; a success starts over."""
    clock = StillClock()
    memory = OutboxMemory(clock)
    for pause in (TENTH, 2 * TENTH, 4 * TENTH):
        memory.pause_after_database_failure("C1")
        assert memory.find_next_due_time(AT) == AT + pause
    assert memory.filter_unpaused_channels({"C1", "C2"}, AT) == {"C2"}
    memory.end_database_failure_pause("C1")
    memory.end_database_failure_pause("C2")
    assert (memory.filter_unpaused_channels({"C1"}, AT), memory.find_next_due_time(AT)) == (
        {"C1"},
        None,
    )
    memory.pause_after_database_failure("C1")
    assert memory.find_next_due_time(AT) == AT + TENTH


def test_a_channel_goes_on_at_the_end_of_its_pause() -> None:
    """Not before; the next due time is that of the first channel."""
    memory = OutboxMemory(StillClock())
    memory.pause_after_database_failure("C2")
    memory.pause_after_database_failure("C2")
    memory.pause_after_database_failure("C1")
    assert memory.find_next_due_time(AT) == AT + TENTH
    assert memory.filter_unpaused_channels({"C1", "C2"}, AT + TENTH) == {"C1"}
    assert memory.find_next_due_time(AT + TENTH) == AT + 2 * TENTH
    assert memory.find_next_due_time(AT + 2 * TENTH) is None


def test_a_post_is_remembered_until_it_is_stored() -> None:
    """By the number of its row."""
    memory, posted = OutboxMemory(StillClock()), SlackPost("1.1", 2)
    memory.remember_post(7, posted)
    assert (memory.find_post(7), memory.find_post(8)) == (posted, None)
    memory.forget_post(7)
    memory.forget_post(8)
    assert memory.find_post(7) is None
