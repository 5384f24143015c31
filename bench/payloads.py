"""Payloads as Slack delivers them: a request, and a click on Approve."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from bench.fakes import APPROVER, BOT, CHANNEL, REQUEST, TEAM, choose_requester
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, encode_button_value
from storage.models import Call

_written = count(1)


def build_mention(thread: str, by: str = "") -> dict[str, Any]:
    """Build a request to the bot in that thread, where there were messages before.

    `by` is its author, else the thread's requester.
    """
    ts = f"{int(time.time())}.{next(_written):06d}"
    event = {
        "type": "app_mention",
        "user": by or choose_requester(thread),
        "channel": CHANNEL,
        "ts": ts,
        "thread_ts": thread,
        "text": f"<@{BOT}> {REQUEST}",
    }
    return {"type": "event_callback", "event_id": f"Ev{ts}", "team_id": TEAM, "event": event}


def build_approval(call: Call) -> dict[str, Any]:
    """Build the approver's click on Approve of this call."""
    value = encode_button_value(CallTarget(call.id, call.revision))
    return {
        "type": "block_actions",
        "user": {"id": APPROVER, "team_id": TEAM},
        "team": {"id": TEAM},
        "channel": {"id": CHANNEL},
        "container": {"type": "message", "message_ts": "1700000000.000001"},
        "actions": [{"type": "button", "action_id": Action.APPROVE, "value": value}],
    }
