"""What the demo tells a first-time visitor: what to ask for, and who could decide the card.

It reads the messages of Countersign's cards and nothing else of the bot; a sandbox alone is given
no guide.
"""

from __future__ import annotations

import re
from typing import Any

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

DECIDING = ("approve", "review")  # the buttons that only a waiting card has
PROMPTS = [
    ("Refund part of an order", "refund 15 EUR of order 1042, the mug was chipped"),
    ("Look an order up", "what is the status of order 1042?"),
    ("Cancel an order", "cancel order 1043, the customer changed her mind"),
]


def first_steps(world: World) -> Json:
    """Prompts, and the cards that wait with the ids of who may decide them, the oldest first."""
    name = world.app.name.capitalize()
    return {
        "title": f"Ask {name} for something",
        "text": "It looks things up at once. A change it shows on a card first, "
        "and carries it out only when somebody else has approved.",
        "prompts": [{"title": title, "message": f"@{name} {text}"} for title, text in PROMPTS],
        "waiting": [_waiting(world, m) for m in _cards(world)],
    }


def _cards(world: World) -> list[Message]:
    stored = [
        m
        for channel in world.messages.values()
        for m in channel.values()
        if m.app_id == world.app.id
    ]
    return sorted((m for m in stored if not m.only_for and _waits(m)), key=lambda m: m.ts)


def _waits(message: Message) -> bool:
    actions = [block for block in message.body.get("blocks", []) if block["type"] == "actions"]
    return any(
        element.get("action_id") in DECIDING for block in actions for element in block["elements"]
    )


def _waiting(world: World, message: Message) -> Json:
    words = _words(message.body["blocks"])
    barred = set(re.findall(r"(?:Asked|Edited) by <@(\w+)>", words))
    approvers = re.search(r"Approvers: (.*)", words)
    may = _named(world, approvers[1].split("  ·  ")[0] if approvers else "")
    at = {"channel": message.channel, "ts": message.ts, "thread_ts": message.body.get("thread_ts")}
    return at | {"deciders": [user for user in may if user not in barred]}


def _words(blocks: list[Json]) -> str:
    lines: list[str] = []
    for block in blocks:
        elements: list[Any] = block["elements"] if block["type"] == "context" else []
        lines += [str(element.get("text", "")) for element in elements]
    return "\n".join(lines)


def _named(world: World, text: str) -> list[str]:
    """Return the people that the mentions in `text` stand for, each once, in that order.

    Users, groups and channels are mentioned.
    """
    found: list[str] = []
    for kind, name in re.findall(r"<(@|!subteam\^|#)(\w+)", text):
        if kind == "@":
            found.append(name)
        elif kind == "#" and name in world.channels:
            found += world.channels[name].members
        else:
            found += next((group.users for group in world.groups.values() if group.id == name), [])
    return [
        user
        for user in dict.fromkeys(found)
        if user in world.by_id and not world.by_id[user].deleted
    ]
