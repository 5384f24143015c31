"""Deliveries in another order than what happened: a deletion first, a message days late."""

from __future__ import annotations

import copy
from itertools import count
from typing import Any

import pytest
from slack_bolt import BoltRequest

from bot.demo.model_server import Turn
from storage.models import Delivery
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, arrived, chat

Json = dict[str, Any]
NUMBERS = count(1)
LATE = "delivered this message more than a day after"


def deliver(harness: Harness, payload: Json) -> None:
    """Have the bot get this payload, as Slack may send it."""
    body = copy.deepcopy(payload) | {"event_id": f"Ev0ORDER{next(NUMBERS)}"}
    answer = harness.app.bolt.dispatch(BoltRequest(body=body, mode="socket_mode"))
    assert answer.status == 200


def recorded(harness: Harness, channel: str) -> list[Json]:
    """What Slack sends of a message to the bot that is said and deleted: its payloads, in order.

    Under another ts, at which nothing has been delivered.
    """
    harness.planner.script(Turn(text="never mind"))
    ben = harness.person("ben")
    before = len(harness.slack.deliveries)
    ts = ben.say(channel, "@bot note what is deleted soon")
    arrived(harness)
    ben.delete(channel, ts)
    arrived(harness)
    new = f"{int(harness.clock.now().timestamp())}.{next(NUMBERS):06d}"
    found = []
    for each in harness.slack.deliveries[before:]:
        event = each.payload.get("event", {})
        about = event.get("deleted_ts") or (event.get("message") or event).get("ts")
        is_message = event.get("type") in ("message", "app_mention")
        if is_message and about == ts and event.get("user", "UBEN00001") == "UBEN00001":
            found.append(_replaced(each.payload, ts, new))
    all_sent(harness)
    return found


def _replaced(found: Any, old: str, new: str) -> Any:
    """The same with one ts in the place of another, wherever it stands."""
    if isinstance(found, dict):
        return {key: _replaced(value, old, new) for key, value in found.items()}
    if isinstance(found, list):
        return [_replaced(each, old, new) for each in found]
    return new if found == old else found


@pytest.mark.parametrize("where", ["channel", "dm"])
def test_a_deletion_before_its_message_begins_nothing(harness: Harness, where: str) -> None:
    """In a channel, where it comes twice, as in a direct message: there is no card, and no word."""
    channel = SUPPORT if where == "channel" else harness.person("ben").dm_channel
    payloads = recorded(harness, channel)
    gone = [each for each in payloads if each["event"].get("subtype")]
    said = [each for each in payloads if each not in gone]
    assert len(gone) == 1
    assert len(said) == (2 if where == "channel" else 1)
    asked = len(harness.planner.requests)
    for each in (*gone, *said, *gone):
        deliver(harness, each)
        arrived(harness)
    assert len(harness.planner.requests) == asked


def test_other_peoples_deletions_are_not_kept(harness: Harness) -> None:
    """A deletion of what was said to nobody here leaves no row behind that would be a message's."""
    ben = harness.person("ben")
    ts = ben.say(SUPPORT, "to all of you")
    ben.delete(SUPPORT, ts)
    arrived(harness)
    thread = chat(harness, "Hello.")
    harness.said(SUPPORT, thread, "Hello.")
    assert not [row for row in rows_of(harness) if row.endswith(ts)]


def rows_of(harness: Harness) -> list[str]:
    """The keys of all deliveries."""
    return [each.key for each in harness.all(Delivery)]


def late_words(harness: Harness) -> list[Json]:
    """What says of a message that it came too late."""
    return [m for m in harness.person("ben").everything(SUPPORT) if LATE in words(m)]


@pytest.mark.parametrize("days", [1.5, 2, 30])
def test_a_message_days_late_is_not_begun(harness: Harness, days: float) -> None:
    """Its thread says so, once, however often it comes; nothing is asked of the model."""
    payloads = recorded(harness, SUPPORT)
    said = [each for each in payloads if each["event"].get("subtype") is None]
    now = harness.clock.now().timestamp()
    old = f"{int(now - days * 86_400)}.{next(NUMBERS):06d}"
    asked, told = len(harness.planner.requests), len(late_words(harness))
    for each in (*said, *said):
        deliver(harness, _replaced(each, each["event"]["ts"], old))
        arrived(harness)
    all_sent(harness)
    assert len(harness.planner.requests) == asked
    assert len(late_words(harness)) == told + 1
