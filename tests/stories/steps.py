"""Steps of stories: asking, clicking, filling in dialogs, waiting."""

from __future__ import annotations

import json
from typing import Any

from sqlmodel import col

from bot.demo.model_server import Turn
from bot.slack.directory import SlackDirectory
from slack_sandbox.workspace.records import Delivery as Sent
from storage.models import Audit, Message
from storage.states import MESSAGE_OPEN_STATUSES, CallStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words


def ask(
    harness: Harness,
    *calls: tuple[str, Any],
    who: str = "ben",
    channel: str = SUPPORT,
    answer: str = "That is all.",
) -> str:
    """Have someone ask; the scripted model proposes these calls and then answers.

    Returns the thread.
    """
    harness.planner.script(Turn(calls=calls), Turn(text=answer))
    thread: str = harness.person(who).say(channel, "@bot please")
    return thread


def waiting(
    harness: Harness, *calls: tuple[str, Any], who: str = "ben", channel: str = SUPPORT
) -> str:
    """Have someone ask; the scripted model proposes these calls and has no answer scripted.

    Returns the thread.
    """
    harness.planner.script(Turn(calls=calls))
    thread: str = harness.person(who).say(channel, "@bot please")
    return thread


def ask_for(harness: Harness, text: str, tool: str = "note") -> tuple[str, dict[str, Any]]:
    """Have Ben ask, and the model propose one call with this text; return thread and card."""
    harness.planner.script(Turn(calls=[(tool, {"text": text})]))
    thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
    return thread, harness.card(SUPPORT, thread)


def told(harness: Harness, who: str, channel: str, thread: str, text: str) -> str:
    """Wait for the message with this text that only this person sees, and return its words.

    In the thread, or in the channel if the thread has no replies.
    """

    def look() -> str | None:
        seen = harness.person(who).everything(channel)
        near = [m for m in seen if m.get("thread_ts", m["ts"]) in (thread, m["ts"])]
        mine = [m for m in near if m.get("is_ephemeral") and m["ts"] > thread]
        return next((words(m) for m in mine if text in words(m)), None)

    return str(harness.slack.wait(look))


def open_modal(
    harness: Harness, who: str, channel: str, card: dict[str, Any], action: str, nth: int = 0
) -> dict[str, Any]:
    """Press as `press` does; wait for the dialog, and return it."""
    press(harness, who, channel, card, action, nth)
    view: dict[str, Any] = harness.slack.wait(harness.person(who).view)
    return view


def press(
    harness: Harness, who: str, channel: str, card: dict[str, Any], action: str, nth: int = 0
) -> Sent:
    """Click the nth button of this action id as `card` shows it, or choose it in the menu."""
    if action not in action_ids(card):
        return menu(harness, who, card, f"{action}:", channel, nth)
    value = value_of(card, action, nth)
    sent: Sent = harness.person(who).click(channel, card["ts"], action, value=value, seen=card)
    return sent


def reject(
    harness: Harness, who: str, channel: str, card: dict[str, Any], why: str, nth: int = 0
) -> dict[str, Any]:
    """Reject one call of a card with this reason; return the outcome of the dialog."""
    view = open_modal(harness, who, channel, card, "reject", nth)
    options = next(b["element"]["options"] for b in view["blocks"] if b.get("block_id") == "reason")
    other = next(option for option in options if option["value"] == "other")
    typed = {"reason": {"preset": {"selected_option": other}}, "words": {"text": {"value": why}}}
    outcome: dict[str, Any] = harness.person(who).submit(typed)
    return outcome


def typed(**fields: str) -> dict[str, Any]:
    """Build the state of the Edit dialog with one text for each field."""
    return {f"f:{name}": {"v": {"value": text}} for name, text in fields.items()}


def on_top(harness: Harness, who: str) -> str:
    """Return the error at the top of this person's dialog."""
    block = harness.person(who).view()["blocks"][0]
    assert block["block_id"] == "problem", block
    return str(block["text"]["text"])


def now_at(harness: Harness, channel: str, ts: str, who: str = "ana") -> dict[str, Any]:
    """Return a message as it is now, anywhere in the channel."""
    return next(m for m in harness.person(who).everything(channel) if m["ts"] == ts)


def arrived(harness: Harness) -> None:
    """Wait until the bot has acknowledged, and so stored, all deliveries, and is idle."""
    harness.slack.wait(
        lambda: all(each.outcome != "pending" for each in harness.slack.deliveries[harness.since :])
    )
    harness.settle()


def chat(harness: Harness, answer: str, channel: str = SUPPORT, who: str = "ben") -> str:
    """Have someone ask and the model answer without calls; return the thread."""
    harness.planner.script(Turn(text=answer))
    thread: str = harness.person(who).say(channel, "@bot tell me")
    return thread


def showing(harness: Harness, channel: str, thread: str | None, part: str) -> list[dict[str, Any]]:
    """Return the bot's messages with this text."""
    return [
        m
        for m in harness.person("ana").messages(channel, thread)
        if m.get("bot_id") and part in words(m)
    ]


def all_sent(harness: Harness) -> None:
    """Wait until the outbox is empty, moving the clock over its pauses."""

    def unsent() -> list[Message]:
        return harness.all(Message, col(Message.status).in_(MESSAGE_OPEN_STATUSES))

    for _ in range(6):
        harness.settle()
        if not unsent():
            return
        harness.clock.advance(61)
    raise AssertionError([(m.kind, m.status, m.error) for m in unsent()])


def menu(
    harness: Harness,
    who: str,
    card: dict[str, Any],
    choice: str,
    channel: str = SUPPORT,
    nth: int = 0,
) -> Sent:
    """Choose the nth option of the card's menus whose value begins so."""
    found = [
        (block["block_id"], option)
        for block in card["blocks"]
        for element in [*block.get("elements", []), block.get("accessory") or {}]
        if element.get("action_id") == "more"
        for option in element["options"]
        if option["value"].startswith(choice)
    ]
    block, option = found[nth]
    person, ts = harness.person(who), card["ts"]
    sent: Sent = person.click(channel, ts, "more", block, selected=option, seen=card)
    return sent


def took(delivery: Sent) -> float:
    """Return the seconds from sending to acknowledgement."""
    assert delivery.sent_at is not None
    assert delivery.acked_at is not None
    return delivery.acked_at - delivery.sent_at


def forget_people(harness: Harness) -> None:
    """Clear the cache of people, so that they are looked up again."""
    assert isinstance(harness.app.core.directory, SlackDirectory)
    harness.app.core.directory.clear_cache()


def statuses(harness: Harness, thread: str) -> list[CallStatus]:
    """Return the statuses of the thread's calls."""
    return [call.status for call in harness.calls_in(thread)]


def later(harness: Harness, seconds: int) -> None:
    """Let these seconds pass, and wait until the bot is idle."""
    harness.clock.advance(seconds)
    harness.settle()


def cards_of(harness: Harness, who: str, text: str) -> list[dict[str, Any]]:
    """Return the cards with this text in the person's direct messages."""
    mine = harness.person(who)
    return [
        m for m in mine.messages(mine.dm_channel) if text in words(m) and "approve" in action_ids(m)
    ]


def vote(
    harness: Harness, who: str, card: dict[str, Any], channel: str = SUPPORT, **how: Any
) -> None:
    """Approve, and wait until that is decided."""
    harness.person(who).click(channel, card["ts"], "approve", **how)
    arrived(harness)


def session(harness: Harness, thread: str) -> str:
    """Return the state of a thread's session in Slack; "" if it has none."""
    sessions = harness.slack.world.sessions
    found = [each["status"] for key, each in sessions.items() if thread in key]
    return str(found[0]) if found else ""


def noted(harness: Harness, run_id: str, event: str) -> list[dict[str, Any]]:
    """Return the data of a run's audit rows of this event, oldest first."""
    found = [row for row in harness.all(Audit) if (row.run_id, row.event) == (run_id, event)]
    return [json.loads(row.data) | json.loads(row.payload or "{}") for row in found]
