"""Measures several processes on one PostgreSQL.

It compares a story's cost on PostgreSQL and in a file, one process with two, and measures how soon
one process wakes another and how soon another takes over after a kill. The server runs without
fsync: the bots' work is measured, not a disk.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec

from bench.clicks import measure_stories, read_processor_time
from bench.figures import Figure, Setup, build_figure, percentile
from bench.live import Live, Story


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure all of it; nothing if PostgreSQL or Procrastinate is not installed."""
    # imported here because the rest of the benchmark does not need it
    from tests.postgres_server import binaries, serve

    programs = binaries()
    if programs is None or find_spec("procrastinate") is None:
        return
    with serve(programs) as server:
        for name in ("story", "two", "wake", "killed"):
            server.fresh(name)
        urls = {each: server.url(each, "owner") for each in ("story", "two", "wake", "killed")}
        yield from _compare_stories(setup, urls["story"])
        yield from _compare_processes(setup, urls["two"])
        yield from _measure_wake(setup, urls["wake"])
        yield from _measure_takeover(setup, urls["killed"])


def _compare_stories(setup: Setup, url: str) -> Iterator[Figure]:
    """Compare whole stories in a file and on the server, in turns."""
    count, rounds = (2, 1) if setup.quick else (20, 3)
    costs: dict[str, list[float]] = {"file": [], "server": []}
    with ExitStack() as ends:
        lives = {
            "file": ends.enter_context(Live(setup.make_folder("file"), 5)),
            "server": ends.enter_context(Live(setup.make_folder("server"), 5, database=url)),
        }
        for live in lives.values():
            live.start()
            measure_stories(live, 1 if setup.quick else 10)  # warms the caches
        for _ in range(rounds):
            for name, live in lives.items():
                before = read_processor_time(live)
                measure_stories(live, count)
                costs[name].append((read_processor_time(live) - before) / count)
    for name, words in (("file", "in a file"), ("server", "on PostgreSQL")):
        what = f"processor time of the bot, one whole story, {words}"
        yield build_figure(f"cluster.story.{name}", what, costs[name], "ms")
    ratios = [b / a for a, b in zip(costs["file"], costs["server"], strict=True)]
    yield build_figure("cluster.story.ratio", "… PostgreSQL beside the file", ratios, "×", 1.5)


def _compare_processes(setup: Setup, url: str) -> Iterator[Figure]:
    """Compare many stories at once with one process and with two."""
    count, rounds = (4, 1) if setup.quick else (60, 3)
    rates: dict[int, list[float]] = {1: [], 2: []}
    costs: dict[int, list[float]] = {1: [], 2: []}
    with Live(setup.make_folder("two"), 5, database=url) as one:
        one.start()
        measure_stories(one, 1 if setup.quick else 10)
        for many in (1, 2):
            bots = [one, *(one.create_second() for _ in range(many - 1))]
            for each in bots[1:]:
                each.start()
            for _ in range(rounds):
                before = sum(map(read_processor_time, bots))
                rates[many].append(_measure_throughput(one, count))
                costs[many].append((sum(map(read_processor_time, bots)) - before) / count)
            for each in bots[1:]:
                each.stop()
    for many, words in ((1, "one process"), (2, "two")):
        what = f"whole stories, {count} at once, {words} on PostgreSQL"
        yield build_figure(f"cluster.stories.{many}", what, rates[many], "/s", more_is_better=True)
        what = "… processor time of the bots, each"
        yield build_figure(f"cluster.stories.{many}.processor", what, costs[many], "ms")


def _measure_throughput(live: Live, count: int) -> float:
    """Return the stories per second, with all requests made at once."""
    began = time.monotonic()
    stories = [live.ask() for _ in range(count)]
    for number, story in enumerate(stories):
        _approve(live, story, f"p{number % live.people}")
    for story in stories:
        live.wait(story.is_over)
    return count / (time.monotonic() - began)


def _approve(live: Live, story: Story, person: str) -> None:
    story.click(live.wait(story.find_card), person)


def _measure_wake(setup: Setup, url: str) -> Iterator[Figure]:
    """Measure from the commit that makes a run READY to the notice in another process."""
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
        time.sleep(0.02)  # until it waits again, as it mostly does
    jobs.stop()
    taking.join(15)
    store.close()
    found = took[len(took) // 20 :]  # without the first ones, during its start
    yield Figure(
        "cluster.wake.p50", "a commit here to work there, p50", statistics.median(found), "ms", 10
    )
    yield Figure("cluster.wake.p99", "… p99", percentile(found, 99), "ms")


def _measure_takeover(setup: Setup, url: str) -> Iterator[Figure]:
    """Measure from a kill -9 during a model turn to the request's card from another process."""
    took = []
    for number in range(1 if setup.quick else 3):
        folder = setup.make_folder(f"killed-{number}")
        with Live(folder, 5, database=url) as one:
            one.start()
            held = one.planner.hold_next_request()
            story = one.ask()
            held.arrived.wait(20)
            other = one.create_second()
            other.start()
            one.kill()
            killed = time.monotonic()
            held.release()
            one.wait(story.find_card)
            took.append(time.monotonic() - killed)
            other.stop()
        shutil.rmtree(folder, ignore_errors=True)
    yield build_figure(
        "cluster.killed", "kill −9 to the same request's card, by another", took, "s", 10
    )
