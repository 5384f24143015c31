"""What becomes of messages that are not for the bot, and of requests whose message changes."""

from __future__ import annotations

from storage.models import Delivery
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask


def kept(harness: Harness, text: str) -> list[Delivery]:
    """What the inbox keeps that has this text anywhere."""
    return [row for row in harness.all(Delivery) if text in row.body]


def test_what_is_not_for_the_bot_is_not_kept(harness: Harness) -> None:
    """Talk among people leaves no words behind, in the channel or in a request's thread.

    The request's own stay.
    """
    thread = ask(harness, ("note", {"text": "kept"}))
    harness.card(SUPPORT, thread)
    ana = harness.person("ana")
    alone = ana.say(SUPPORT, "my private plum cake")
    reply = ana.say(SUPPORT, "my private plum jam", thread_ts=thread)
    ana.edit(SUPPORT, alone, "my private plum tart")
    ana.delete(SUPPORT, reply)
    arrived(harness)
    assert not kept(harness, "plum")
    assert not kept(harness, '"bot_id"')
    assert kept(harness, "please")
    assert not harness.all(Delivery, Delivery.key.endswith(alone))  # type: ignore[attr-defined] # a column
    [seen] = harness.all(Delivery, Delivery.key.endswith(reply))  # type: ignore[attr-defined] # a column
    assert (seen.body, seen.note) == ("{}", "not addressed to the bot")
