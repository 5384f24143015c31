"""Many people at once: five hundred who begin a conversation in the same moment, and three
approvers for each of many cards whose clicks keep coming.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from bench.clicks import pending
from bench.figures import Figure, Setup, of_rounds, percentile
from bench.live import QUORUM_OF_THREE, Live

CONVERSATIONS, CARDS, QUORUM = 500, 150, 3
IN_TIME = 3.0  # seconds in which Slack wants an event acknowledged
UNDECIDED = 30  # clicks on their way at most
LOOK = 0.005  # seconds between two looks at the votes


def conversations(live: Live, count: int) -> tuple[list[float], float]:
    """So many people write to the bot, each in a thread of their own, without waiting.

    Seconds to the acknowledgement of each event, and until all cards were there.
    """
    before, began = len(live.slack.deliveries), time.monotonic()
    stories = [live.ask(f"p{number}") for number in range(count)]
    for each in stories:
        live.wait(each.card)
    cards = time.monotonic() - began
    events = [each for each in live.slack.deliveries[before:] if each.kind == "events_api"]
    live.wait(lambda: all(map(_settled, events)))
    return [_waited(each) for each in events], cards


def _settled(delivery: Any) -> bool:
    """Whether it is known by now if it was acknowledged in time."""
    late = delivery.sent_at is not None and time.monotonic() - delivery.sent_at > IN_TIME
    return bool(delivery.ok or late or delivery.attempts > 1)


def _waited(delivery: Any) -> float:
    """Seconds until a delivery was acknowledged at its first attempt; infinite where it was not."""
    if delivery.attempts != 1 or not delivery.ok:
        return float("inf")
    return float(delivery.acked_at - delivery.sent_at)


def _in_time(waits: list[float]) -> float:
    """How many in a hundred were acknowledged within Slack's three seconds."""
    return 100 * sum(each <= IN_TIME for each in waits) / len(waits)


def decisions(live: Live, cards: int) -> float:
    """Votes decided in a second while clicks keep coming: three people, card after card."""
    stories = pending(live, cards)
    clicks = deque(
        (story, live.wait(story.card), f"p{number}")
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
    """The conversations in a life of their own each time; then the decisions in one."""
    count, rounds = (5, 1) if setup.quick else (CONVERSATIONS, 3)
    shares, slowest, cards = [], [], []
    for number in range(rounds):
        with Live(setup.new(f"conversations-{number}"), count + 1) as live:
            live.start()
            live.wait(live.ask(f"p{count}").card)
            waits, last = conversations(live, count)
        shares.append(_in_time(waits))
        slowest.append(percentile([min(each, 10.0) for each in waits], 99))
        cards.append(last)
    words = f"{count} conversations at once: events acknowledged within 3 s"
    yield of_rounds("crowd.acknowledged", words, shares, "%", 100, more_is_better=True)
    yield of_rounds(
        "crowd.p99", "… event to acknowledgement, p99 (10: later or never)", slowest, "s"
    )
    yield of_rounds("crowd.cards", "… until every one has its card", cards, "s")
    with Live(setup.new("conversations-new"), count) as live:
        live.start()
        waits, _ = conversations(live, count)
    yield Figure("crowd.new", "… by a process in its first second", _in_time(waits), "%")
    with Live(setup.new("decisions"), QUORUM, policy=QUORUM_OF_THREE) as live:
        live.start()
        decisions(live, 1 if setup.quick else 10)  # fills caches
        rates = [decisions(live, 3 if setup.quick else CARDS) for _ in range(rounds)]
    words = f"decisions, quorum of three, {QUORUM} clicks a card without a pause"
    yield of_rounds("decisions", words, rates, "/s", 120, more_is_better=True)
