"""Measures a long plan voted on call by call.

It counts how often Slack is asked to update a card, and what the votes and the run cost the bot.
Each vote is given once the card shows the one before, as by a person who reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.figures import Figure, Setup, build_figure
from bench.live import Live
from bot.demo.model_server import Turn

CALLS = 20
UPDATES, PROCESSOR = 26, 250  # aims: calls to chat.update, milliseconds


def plan_turn(body: dict[str, Any]) -> Turn:
    """Let the stub model propose a plan of notes, then answer."""
    if body["input"][-1].get("type") == "function_call_output":
        return Turn(text="It is done.")
    texts = [f"note {number}" for number in range(CALLS)]
    return Turn(calls=[("note_asked", {"order_id": 1042, "text": text}) for text in texts])


def find_buttons(message: dict[str, Any]) -> list[str]:
    """Return the values of the card's buttons that approve one call, in order."""
    elements = [e for block in message.get("blocks") or [] for e in block.get("elements") or []]
    return [str(e["value"]) for e in elements if e.get("action_id") == "approve"]


def vote_on_plan(live: Live) -> tuple[int, float]:
    """Vote on one plan; return the chat.update calls and the bot's milliseconds."""
    story = live.ask()
    actor = live.slack.person("p1")

    def cards() -> list[dict[str, Any]]:
        return [each for each in actor.messages(story.channel, story.thread) if find_buttons(each)]

    def waiting(count: int) -> list[dict[str, Any]]:
        found = cards()
        return found if sum(len(find_buttons(each)) for each in found) == count else []

    live.wait(partial(waiting, CALLS))
    before = float(live.send_command("report")["processor"])
    asked = len(live.slack.requests)
    for left in range(CALLS, 0, -1):
        [card, *_] = live.wait(partial(waiting, left))
        actor.click(story.channel, card["ts"], "approve", value=find_buttons(card)[0], seen=card)
    live.wait(lambda: not cards() and story.is_over())
    spent = float(live.send_command("report")["processor"]) - before
    made = [each.method for each in live.slack.requests[asked:]]
    return made.count("chat.update"), spent * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure a few plans; the first is not counted."""
    with Live(setup.make_folder("plan"), 5, mind=plan_turn) as live:
        live.start()
        vote_on_plan(live)
        took = [vote_on_plan(live) for _ in range(1 if setup.quick else 5)]
    words = f"a plan of {CALLS} voted on one by one"
    updates = [float(updates) for updates, _ in took]
    yield build_figure("plan.updates", f"calls to chat.update, {words}", updates, "", UPDATES)
    spent = [spent for _, spent in took]
    yield build_figure(
        "plan.processor", f"processor time of the bot, {words}", spent, "ms", PROCESSOR
    )
