"""Measures many people at once.

Five hundred people start a conversation at the same time, and three approvers vote on each of many
cards without a pause.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from bench.clicks import request_cards
from bench.figures import Figure, Setup, build_figure, percentile
from bench.live import QUORUM_OF_THREE, Live

CONVERSATIONS, CARDS, QUORUM = 500, 150, 3
IN_TIME = 3.0  # seconds in which Slack expects an acknowledgement
UNDECIDED = 30  # most clicks that are not decided yet
LOOK = 0.005  # seconds between two counts of the votes


def measure_conversations(live: Live, count: int) -> tuple[list[float], float]:
    """Let `count` people write to the bot at once, each in a thread of their own.

    Return the seconds to the acknowledgement of each event, and until all cards were there.
    """
    before, began = len(live.slack.deliveries), time.monotonic()
    stories = [live.ask(f"p{number}") for number in range(count)]
    for each in stories:
        live.wait(each.find_card)
    cards = time.monotonic() - began
    events = [each for each in live.slack.deliveries[before:] if each.kind == "events_api"]
    live.wait(lambda: all(map(_is_settled, events)))
    return [_measure_wait(each) for each in events], cards


def _is_settled(delivery: Any) -> bool:
    """Return whether it is known if the delivery was acknowledged in time."""
    late = delivery.sent_at is not None and time.monotonic() - delivery.sent_at > IN_TIME
    return bool(delivery.ok or late or delivery.attempts > 1)


def _measure_wait(delivery: Any) -> float:
    """Return the seconds to the acknowledgement of the first attempt; infinite without one."""
    if delivery.attempts != 1 or not delivery.ok:
        return float("inf")
    return float(delivery.acked_at - delivery.sent_at)


def _calculate_share_in_time(waits: list[float]) -> float:
    """Return the percentage acknowledged within Slack's three seconds."""
    return 100 * sum(each <= IN_TIME for each in waits) / len(waits)


def measure_decisions(live: Live, cards: int) -> float:
    """Return the votes decided per second, with three people clicking without a pause."""
    stories = request_cards(live, cards)
    clicks = deque(
        (story, live.wait(story.find_card), f"p{number}")
        for story in stories
        for number in range(QUORUM)
    )
    total = len(clicks)
    with closing(sqlite3.connect(f"file:{live.folder}/countersign.db?mode=ro", uri=True)) as db:
        before, began = _votes(db), time.monotonic()
        decided = 0
        while decided < total:
            while clicks and total - len(clicks) - decided < UNDECIDED:
                story, card, person = clicks.popleft()
                story.click(card, person)
            time.sleep(LOOK)
            decided = _votes(db) - before
            if time.monotonic() - began > 120:
                raise TimeoutError(f"{decided} of {total} votes were decided")
        took = time.monotonic() - began
    for story in stories:
        live.wait(story.is_over)
    return total / took


def _votes(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM vote").fetchone()[0])


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure conversations, each round with a new bot, then decisions."""
    count, rounds = (5, 1) if setup.quick else (CONVERSATIONS, 3)
    shares, slowest, cards = [], [], []
    for number in range(rounds):
        with Live(setup.make_folder(f"conversations-{number}"), count + 1) as live:
            live.start()
            live.wait(live.ask(f"p{count}").find_card)
            waits, last = measure_conversations(live, count)
        shares.append(_calculate_share_in_time(waits))
        slowest.append(percentile([min(each, 10.0) for each in waits], 99))
        cards.append(last)
    words = f"{count} conversations at once: events acknowledged within 3 s"
    yield build_figure("crowd.acknowledged", words, shares, "%", 100, more_is_better=True)
    yield build_figure(
        "crowd.p99", "… event to acknowledgement, p99 (10: later or never)", slowest, "s"
    )
    yield build_figure("crowd.cards", "… until every one has its card", cards, "s")
    with Live(setup.make_folder("conversations-new"), count) as live:
        live.start()
        waits, _ = measure_conversations(live, count)
    yield Figure(
        "crowd.new", "… by a process in its first second", _calculate_share_in_time(waits), "%"
    )
    with Live(setup.make_folder("decisions"), QUORUM, policy=QUORUM_OF_THREE) as live:
        live.start()
        measure_decisions(live, 1 if setup.quick else 10)  # warms the caches
        rates = [measure_decisions(live, 3 if setup.quick else CARDS) for _ in range(rounds)]
    words = f"decisions, quorum of three, {QUORUM} clicks a card without a pause"
    yield build_figure("decisions", words, rates, "/s", 120, more_is_better=True)
