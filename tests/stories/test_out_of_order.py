"""Slack delivers events out of order: a deletion before its message, a message days late."""

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
    """Hand the bot this payload under a new event id, as Slack may send it."""
    body = copy.deepcopy(payload) | {"event_id": f"Ev0ORDER{next(NUMBERS)}"}
    answer = harness.app.bolt.dispatch(BoltRequest(body=body, mode="socket_mode"))
    assert answer.status == 200


def record_deleted_message(harness: Harness, channel: str) -> list[Json]:
    """Post and delete a message to the bot; return Slack's payloads about it, in order.

    Their ts is changed to one about which nothing has been delivered.
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
            found.append(_replace_ts(each.payload, ts, new))
    all_sent(harness)
    return found


def _replace_ts(found: Any, old: str, new: str) -> Any:
    """Replace a ts wherever it occurs in this payload."""
    if isinstance(found, dict):
        return {key: _replace_ts(value, old, new) for key, value in found.items()}
    if isinstance(found, list):
        return [_replace_ts(each, old, new) for each in found]
    return new if found == old else found


@pytest.mark.parametrize("where", ["channel", "dm"])
def test_a_message_whose_deletion_came_first_is_not_answered(harness: Harness, where: str) -> None:
    """In a channel a mention is delivered twice, in a direct message once."""
    channel = SUPPORT if where == "channel" else harness.person("ben").dm_channel
    payloads = record_deleted_message(harness, channel)
    gone = [each for each in payloads if each["event"].get("subtype")]
    said = [each for each in payloads if each not in gone]
    assert len(gone) == 1
    assert len(said) == (2 if where == "channel" else 1)
    asked = len(harness.planner.requests)
    for each in (*gone, *said, *gone):
        deliver(harness, each)
        arrived(harness)
    assert len(harness.planner.requests) == asked


def test_deletions_of_messages_not_for_the_bot_are_not_stored(harness: Harness) -> None:
    """The deleted message did not mention the bot."""
    ben = harness.person("ben")
    ts = ben.say(SUPPORT, "to all of you")
    ben.delete(SUPPORT, ts)
    arrived(harness)
    thread = chat(harness, "Hello.")
    harness.said(SUPPORT, thread, "Hello.")
    assert not [row for row in list_delivery_keys(harness) if row.endswith(ts)]


def list_delivery_keys(harness: Harness) -> list[str]:
    """Return the keys of all stored deliveries."""
    return [each.key for each in harness.all(Delivery)]


def find_late_notes(harness: Harness) -> list[Json]:
    """Return the bot's notes that a message came too late."""
    return [m for m in harness.person("ben").everything(SUPPORT) if LATE in words(m)]


@pytest.mark.parametrize("days", [1.5, 2, 30])
def test_a_message_delivered_days_late_is_not_worked_on(harness: Harness, days: float) -> None:
    """Its thread says so once, however often it is delivered; the model is not asked."""
    payloads = record_deleted_message(harness, SUPPORT)
    said = [each for each in payloads if each["event"].get("subtype") is None]
    now = harness.clock.now().timestamp()
    old = f"{int(now - days * 86_400)}.{next(NUMBERS):06d}"
    ts = harness.person("ben").say(SUPPORT, "what comes late")
    with harness.slack.world.lock:
        messages = harness.slack.world.messages[SUPPORT]
        messages[old] = messages.pop(ts)
        messages[old].body["ts"] = old
    asked, told = len(harness.planner.requests), len(find_late_notes(harness))
    for each in (*said, *said):
        deliver(harness, _replace_ts(each, each["event"]["ts"], old))
        arrived(harness)
    all_sent(harness)
    assert len(harness.planner.requests) == asked
    assert len(find_late_notes(harness)) == told + 1
