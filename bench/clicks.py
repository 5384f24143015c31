"""Clicks, through Bolt and Socket Mode: how soon one is acknowledged when fifty come at once, how
soon the tool starts, what a whole story (message, card, click, tool, answer, card drawn again)
costs the bot, and how many get done in a second.

The local Slack's own work, on the other core, is in every moment, but not in the bot's processor
time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from bench.figures import Figure, Setup, of_rounds, percentile
from bench.live import Live, Story

AT_ONCE = 50


def pending(live: Live, count: int) -> list[Story]:
    """So many requests, each with its card shown."""
    stories = [live.ask() for _ in range(count)]
    for each in stories:
        live.wait(each.card)
    return stories


def burst(live: Live, count: int) -> tuple[list[float], list[Story]]:
    """As many people as there are cards click at once.

    Milliseconds from each click to its acknowledgement.
    """
    stories = pending(live, count)
    cards = [live.wait(story.card) for story in stories]
    sent = [
        story.click(card, f"p{n}")
        for n, (story, card) in enumerate(zip(stories, cards, strict=True))
    ]
    acknowledged = []
    for story, delivery in zip(stories, sent, strict=True):
        assert delivery.wait() == "acked"
        acknowledged.append((delivery.acked_at - story.clicked) * 1000)
    for story in stories:
        live.wait(story.is_over)
    return acknowledged, stories


def single(live: Live, count: int) -> list[Story]:
    """Whole stories one by one, each when the one before is all done."""
    stories = []
    for _ in range(count):
        [story] = pending(live, 1)
        story.click(live.wait(story.card), "p1")
        live.wait(story.is_over)
        stories.append(story)
    return stories


def whole(live: Live, count: int) -> float:
    """Stories per second: all asked for at once, each card approved once it is there."""
    began = time.monotonic()
    stories = [live.ask() for _ in range(count)]
    for number, story in enumerate(stories):
        story.click(live.wait(story.card), f"p{number % live.people}")
    for story in stories:
        live.wait(story.is_over)
    return count / (time.monotonic() - began)


def to_start(live: Live, stories: Sequence[Story]) -> list[float]:
    """Milliseconds from each click to its tool's start."""
    starts = live.tell("report")["starts"]
    return [(starts[story.text] - story.clicked) * 1000 for story in stories]


def processor(live: Live) -> float:
    """Milliseconds of processor time that the bot has used so far, once it has come to rest."""
    return float(live.tell("report")["processor"]) * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """One bot.

    Single stories first, decided by somebody it has looked up before, then bursts, then many.
    """
    with Live(setup.new("clicks"), 5 if setup.quick else AT_ONCE) as live:
        live.start()
        single(live, 1 if setup.quick else 10)  # fills caches
        yield from _one_by_one(live, 2 if setup.quick else 20, 1 if setup.quick else 3)
        yield from _bursts(live, 5 if setup.quick else AT_ONCE, 1 if setup.quick else 5)
        yield from _many(live, 4 if setup.quick else 60, 1 if setup.quick else 3)


def _one_by_one(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    starts, costs = [], []
    for _ in range(rounds):
        before = processor(live)
        stories = single(live, count)
        costs.append((processor(live) - before) / count)
        starts.append(statistics.median(to_start(live, stories)))
    yield of_rounds(
        "story.processor", "processor time of the bot, one whole story", costs, "ms", 28
    )
    yield of_rounds("start", "click to the tool's start, one click", starts, "ms", 12)


def _bursts(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    acknowledged, starts = [], []
    for _ in range(rounds):
        waits, stories = burst(live, count)
        acknowledged.append(waits)
        starts.append(to_start(live, stories))
    at_once = f"{count} clicks at once"
    for name, what, taken, aims in (
        ("ack", "click to acknowledgement", acknowledged, {99: 100}),
        ("start.burst", "click to the tool's start", starts, {50: 400, 99: 900}),
    ):
        for percent in (50, 99):
            found = [percentile(each, percent) for each in taken]
            words = f"{what}, {at_once}, p{percent}"
            yield of_rounds(f"{name}.p{percent}", words, found, "ms", aims.get(percent))


def _many(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    rates, costs = [], []
    for _ in range(rounds):
        before = processor(live)
        rates.append(whole(live, count))
        costs.append((processor(live) - before) / count)
    words = f"whole stories, {count} at once"
    yield of_rounds("stories", words, rates, "/s", 25, more_is_better=True)
    yield of_rounds("stories.processor", "… processor time of the bot, each", costs, "ms")
