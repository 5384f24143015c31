"""Clicks, through Bolt and Socket Mode: how soon one is acknowledged when fifty come at once, how
soon the tool starts, and how many whole stories (message, card, click, tool, answer, card drawn
again) get done in a second.

The local Slack's own work, on the other core, is in every figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench.commits import Span, within
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

    Seconds from each click to its acknowledgement.
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
        acknowledged.append(delivery.acked_at - story.clicked)
    for story in stories:
        live.wait(story.is_over)
    return acknowledged, stories


def single(live: Live, count: int) -> list[Story]:
    """Clicks one by one, each when the one before is all done."""
    stories = []
    for _ in range(count):
        [story] = pending(live, 1)
        story.click(live.wait(story.card), "p1")
        live.wait(story.is_over)
        stories.append(story)
    return stories


def whole(live: Live, count: int) -> float:
    """Stories per second: all asked for at once, each card approved as soon as it is seen."""
    began = time.monotonic()
    open_, clicked = [live.ask() for _ in range(count)], 0
    waiting = list(open_)
    while waiting:
        for story in list(waiting):
            if card := story.card():
                story.click(card, f"p{clicked % live.people}")
                clicked += 1
                waiting.remove(story)
        if waiting:
            live.wait(lambda: any(story.card() for story in waiting))
    for story in open_:
        live.wait(story.is_over)
    return count / (time.monotonic() - began)


def to_start(live: Live, stories: list[Story]) -> tuple[list[float], list[float]]:
    """Milliseconds from each click to its tool's start, and those of them in which none of its
    commits was under way.

    What the outbox commits meanwhile, on threads of its own, is no commit of the click's.
    """
    report = live.tell("report")
    commits = [Span(*span) for span in report["commits"]]
    spans = [(story.clicked, report["starts"][story.text]) for story in stories]
    total = [(ended - began) * 1000 for began, ended in spans]
    return total, [
        all_of_it - within(commits, *span) * 1000
        for all_of_it, span in zip(total, spans, strict=True)
    ]


def measure(setup: Setup) -> Iterator[Figure]:
    """One bot.

    Single clicks first, by somebody it has looked up before, then bursts, then whole stories.
    """
    count, rounds = (5, 1) if setup.quick else (AT_ONCE, 5)
    with Live(setup.new("clicks"), max(count, 2)) as live:
        live.start()
        single(live, 1 if setup.quick else 5)  # fills caches
        total, beyond = to_start(live, single(live, 3 if setup.quick else 30))
        yield Figure(
            "start.total", "click to the tool's start, one click", statistics.median(total), "ms"
        )
        yield of_rounds("start", "… beyond its commits", beyond, "ms", 20)
        last: list[Story] = []
        p50, p99 = [], []
        for _ in range(rounds):
            acknowledged, last = burst(live, count)
            p50.append(percentile(acknowledged, 50) * 1000)
            p99.append(percentile(acknowledged, 99) * 1000)
        at_once = f"{count} clicks at once"
        yield of_rounds("ack.p50", f"click to acknowledgement, {at_once}, p50", p50, "ms")
        yield of_rounds("ack.p99", f"click to acknowledgement, {at_once}, p99", p99, "ms", 100)
        total, _ = to_start(live, last)
        yield Figure(
            "start.burst.p50",
            f"click to the tool's start, {at_once}, p50",
            percentile(total, 50),
            "ms",
        )
        yield Figure(
            "start.burst.p99",
            f"click to the tool's start, {at_once}, p99",
            percentile(total, 99),
            "ms",
        )
        rates = [whole(live, 4 if setup.quick else 60) for _ in range(1 if setup.quick else 3)]
        yield of_rounds("stories", "whole stories", rates, "/s")
