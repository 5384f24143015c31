"""Measures clicks through Bolt and Socket Mode.

It measures how soon a click is acknowledged when fifty arrive at once, how soon the tool starts,
what a whole story (message, card, click, tool, answer, card updated) costs the bot, and how many
stories per second it completes. Times include the local Slack's work on the other core; the bot's
processor time does not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from bench.figures import Figure, Setup, build_figure, percentile
from bench.live import Live, Story

AT_ONCE = 50


def request_cards(live: Live, count: int) -> list[Story]:
    """Make `count` requests and wait for their cards."""
    stories = [live.ask() for _ in range(count)]
    for each in stories:
        live.wait(each.find_card)
    return stories


def measure_burst(live: Live, count: int) -> tuple[list[float], list[Story]]:
    """Click `count` cards at once, each as another person.

    Return the milliseconds from each click to its acknowledgement, and the stories.
    """
    stories = request_cards(live, count)
    cards = [live.wait(story.find_card) for story in stories]
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


def measure_stories(live: Live, count: int) -> list[Story]:
    """Run whole stories one at a time."""
    stories = []
    for _ in range(count):
        [story] = request_cards(live, 1)
        story.click(live.wait(story.find_card), "p1")
        live.wait(story.is_over)
        stories.append(story)
    return stories


def measure_throughput(live: Live, count: int) -> float:
    """Return the stories per second, with all requests made at once.

    Each card is approved once it is there.
    """
    began = time.monotonic()
    stories = [live.ask() for _ in range(count)]
    for number, story in enumerate(stories):
        story.click(live.wait(story.find_card), f"p{number % live.people}")
    for story in stories:
        live.wait(story.is_over)
    return count / (time.monotonic() - began)


def measure_starts(live: Live, stories: Sequence[Story]) -> list[float]:
    """Return the milliseconds from each click to its tool's start."""
    starts = live.send_command("report")["starts"]
    return [(starts[story.text] - story.clicked) * 1000 for story in stories]


def read_processor_time(live: Live) -> float:
    """Return the processor milliseconds that the bot has used, once it is idle."""
    return float(live.send_command("report")["processor"]) * 1000


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure one bot: single stories, then bursts, then many stories at once.

    Whoever decides the single stories has been looked up before.
    """
    with Live(setup.make_folder("clicks"), 5 if setup.quick else AT_ONCE) as live:
        live.start()
        measure_stories(live, 1 if setup.quick else 10)  # warms the caches
        yield from _one_by_one(live, 2 if setup.quick else 20, 1 if setup.quick else 3)
        yield from _bursts(live, 5 if setup.quick else AT_ONCE, 1 if setup.quick else 5)
        yield from _many(live, 4 if setup.quick else 60, 1 if setup.quick else 3)


def _one_by_one(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    starts, costs = [], []
    for _ in range(rounds):
        before = read_processor_time(live)
        stories = measure_stories(live, count)
        costs.append((read_processor_time(live) - before) / count)
        starts.append(statistics.median(measure_starts(live, stories)))
    yield build_figure(
        "story.processor", "processor time of the bot, one whole story", costs, "ms", 28
    )
    yield build_figure("start", "click to the tool's start, one click", starts, "ms", 12)


def _bursts(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    acknowledged, starts = [], []
    for _ in range(rounds):
        waits, stories = measure_burst(live, count)
        acknowledged.append(waits)
        starts.append(measure_starts(live, stories))
    at_once = f"{count} clicks at once"
    for name, what, taken, aims in (
        ("ack", "click to acknowledgement", acknowledged, {99: 100}),
        ("start.burst", "click to the tool's start", starts, {50: 400, 99: 900}),
    ):
        for percent in (50, 99):
            found = [percentile(each, percent) for each in taken]
            words = f"{what}, {at_once}, p{percent}"
            yield build_figure(f"{name}.p{percent}", words, found, "ms", aims.get(percent))


def _many(live: Live, count: int, rounds: int) -> Iterator[Figure]:
    rates, costs = [], []
    for _ in range(rounds):
        before = read_processor_time(live)
        rates.append(measure_throughput(live, count))
        costs.append((read_processor_time(live) - before) / count)
    words = f"whole stories, {count} at once"
    yield build_figure("stories", words, rates, "/s", 25, more_is_better=True)
    yield build_figure("stories.processor", "… processor time of the bot, each", costs, "ms")
