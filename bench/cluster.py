"""Several processes on one PostgreSQL: what a story costs beside a record in a file, what a second
process adds, how soon one is woken by another, and how soon what a killed one held goes on.

The server has fsync off: it is the bots' work that is measured, and not a disk.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec

from bench.clicks import processor, single
from bench.figures import Figure, Setup, of_rounds, percentile
from bench.live import Live, Story


def measure(setup: Setup) -> Iterator[Figure]:
    """Nothing where PostgreSQL or Procrastinate is not installed."""
    # only now: the rest of the benchmark needs neither
    from tests.postgres_server import binaries, serve

    programs = binaries()
    if programs is None or find_spec("procrastinate") is None:
        return
    with serve(programs) as server:
        for name in ("story", "two", "wake", "killed"):
            server.fresh(name)
        urls = {each: server.url(each, "owner") for each in ("story", "two", "wake", "killed")}
        yield from _story(setup, urls["story"])
        yield from _two(setup, urls["two"])
        yield from _wake(setup, urls["wake"])
        yield from _killed(setup, urls["killed"])


def _story(setup: Setup, url: str) -> Iterator[Figure]:
    """Whole stories one by one, in a file and on the server in turns."""
    count, rounds = (2, 1) if setup.quick else (20, 3)
    costs: dict[str, list[float]] = {"file": [], "server": []}
    with ExitStack() as ends:
        lives = {
            "file": ends.enter_context(Live(setup.new("file"), 5)),
            "server": ends.enter_context(Live(setup.new("server"), 5, database=url)),
        }
        for live in lives.values():
            live.start()
            single(live, 1 if setup.quick else 10)  # fills caches
        for _ in range(rounds):
            for name, live in lives.items():
                before = processor(live)
                single(live, count)
                costs[name].append((processor(live) - before) / count)
    for name, words in (("file", "in a file"), ("server", "on PostgreSQL")):
        what = f"processor time of the bot, one whole story, {words}"
        yield of_rounds(f"cluster.story.{name}", what, costs[name], "ms")
    ratios = [b / a for a, b in zip(costs["file"], costs["server"], strict=True)]
    yield of_rounds("cluster.story.ratio", "… PostgreSQL beside the file", ratios, "×", 1.5)


def _two(setup: Setup, url: str) -> Iterator[Figure]:
    """Many stories at once, by one process and by two."""
    count, rounds = (4, 1) if setup.quick else (60, 3)
    rates: dict[int, list[float]] = {1: [], 2: []}
    costs: dict[int, list[float]] = {1: [], 2: []}
    with Live(setup.new("two"), 5, database=url) as one:
        one.start()
        single(one, 1 if setup.quick else 10)
        for many in (1, 2):
            bots = [one, *(one.beside() for _ in range(many - 1))]
            for each in bots[1:]:
                each.start()
            for _ in range(rounds):
                before = sum(map(processor, bots))
                rates[many].append(_whole(one, count))
                costs[many].append((sum(map(processor, bots)) - before) / count)
            for each in bots[1:]:
                each.stop()
    for many, words in ((1, "one process"), (2, "two")):
        what = f"whole stories, {count} at once, {words} on PostgreSQL"
        yield of_rounds(f"cluster.stories.{many}", what, rates[many], "/s", more_is_better=True)
        what = "… processor time of the bots, each"
        yield of_rounds(f"cluster.stories.{many}.processor", what, costs[many], "ms")


def _whole(live: Live, count: int) -> float:
    """Stories per second; a click that one of the bots was too busy for is done again."""
    began = time.monotonic()
    stories = [live.ask() for _ in range(count)]
    for number, story in enumerate(stories):
        _approve(live, story, f"p{number % live.people}")
    for story in stories:
        live.wait(story.is_over)
    return count / (time.monotonic() - began)


def _approve(live: Live, story: Story, person: str) -> None:
    story.click(live.wait(story.card), person)


def _wake(setup: Setup, url: str) -> Iterator[Figure]:
    """From the commit that makes a run READY to the thread that hears of it in another process."""
    from bot.replicas.jobs import RunJobQueue
    from bot.replicas.replicas import build_psycopg_arguments
    from storage.store import Store

    store = Store(url, key=b"of-the-benchmark-and-of-nobody-else").open()
    begun, moments = threading.Event(), []

    def hear(_run_id: str) -> None:
        moments.append(time.monotonic())
        begun.set()

    jobs = RunJobQueue(build_psycopg_arguments(store), hear, 4)
    jobs.create_job_tables(store)
    taking = threading.Thread(target=jobs.run, daemon=True)
    taking.start()
    took: list[float] = []
    for number in range(5 if setup.quick else 210):
        begun.clear()
        with store.write() as tx:
            jobs.insert_jobs(tx, [f"run-{number}"])
        committed = time.monotonic()
        begun.wait(20)
        took.append((moments[-1] - committed) * 1000)
        time.sleep(0.02)  # so that it waits to be woken, as it mostly does
    jobs.stop()
    taking.join(15)
    store.close()
    found = took[len(took) // 20 :]  # the first ones find it still beginning
    yield Figure(
        "cluster.wake.p50", "a commit here to work there, p50", statistics.median(found), "ms", 10
    )
    yield Figure("cluster.wake.p99", "… p99", percentile(found, 99), "ms")


def _killed(setup: Setup, url: str) -> Iterator[Figure]:
    """From a kill -9 amid a model turn to the card of that request, which another process makes."""
    took = []
    for number in range(1 if setup.quick else 3):
        folder = setup.new(f"killed-{number}")
        with Live(folder, 5, database=url) as one:
            one.start()
            held = one.planner.hold_next_request()
            story = one.ask()
            held.arrived.wait(20)
            other = one.beside()
            other.start()
            one.kill()
            killed = time.monotonic()
            held.release()
            one.wait(story.card)
            took.append(time.monotonic() - killed)
            other.stop()
        shutil.rmtree(folder, ignore_errors=True)
    yield of_rounds(
        "cluster.killed", "kill −9 to the same request's card, by another", took, "s", 10
    )
