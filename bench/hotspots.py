"""Where the processor time goes, function by function: `python -m bench --profile`.

cProfile on every thread, with the thread's own processor time as its clock, so that waiting is not
in it. Profiling makes small functions look dearer than they are: shares, not milliseconds.
"""

from __future__ import annotations

import cProfile
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from bench import clicks, resume
from bench.figures import Setup
from bench.live import Live

ROOT = Path(__file__).parents[1]
IS_POSSIBLE = sys.version_info[:2] < (3, 12)  # later versions allow one active profiler per process
MOST = 15  # functions in a table
BUILT_IN = "Python, built in"
NATIVE = {"sqlite3": "sqlite3", "pydantic_core": "pydantic", "json": "json"}


@dataclass(frozen=True, slots=True)
class Spent:
    """One function: the part it belongs to, its name, calls and own seconds."""

    part: str
    name: str
    calls: int
    own: float


class Profiles:
    """Profiles all threads that start from now on and, if asked, this one."""

    def __init__(self, *, this_thread: bool) -> None:
        self._all: list[cProfile.Profile] = []
        self._here: cProfile.Profile | None = None
        threading.setprofile(self._begin)
        if this_thread:
            self._here = self._begin()

    def _begin(self, *_: object) -> cProfile.Profile:
        """Profile the calling thread."""
        profile = cProfile.Profile(time.thread_time)
        self._all.append(profile)
        profile.enable()
        return profile

    def list_spent(self) -> list[tuple[str, str, int, float]]:
        """Return every function so far in the order of `Spent`, added up by name."""
        if self._here is not None:
            self._here.disable()  # this method is not part of the profile
        calls: dict[tuple[str, str], int] = defaultdict(int)
        own: dict[tuple[str, str], float] = defaultdict(float)
        for profile in list(self._all):
            for entry in profile.getstats():
                where = name_function(entry.code)
                calls[where] += entry.callcount + entry.reccallcount
                own[where] += entry.inlinetime
        found = [(*where, number, own[where]) for where, number in calls.items()]
        if self._here is not None:
            self._here.enable()
        return found

    def stop(self) -> None:
        """Stop profiling this thread and new ones."""
        threading.setprofile(None)
        if self._here is not None:
            self._here.disable()


def name_function(code: CodeType | str) -> tuple[str, str]:
    """Return the part of a function (our package, a library, Python) and its name."""
    if isinstance(code, str):  # built-in: "<method 'execute' of 'sqlite3.Connection' objects>"
        quoted = re.findall(r"'([^']+)'", code)
        name = ".".join(reversed(quoted)) or code.strip("<>").removeprefix("built-in method ")
        known = (part for word, part in NATIVE.items() if word in code)
        return next(known, BUILT_IN), name
    path = Path(code.co_filename)
    name = f"{path.stem}.{code.co_qualname}"
    if path.is_relative_to(ROOT) and ".venv" not in path.parts:
        folders = path.relative_to(ROOT).parts[:-1]
        return ".".join(folders[:2]), name
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py"), name
    return "Python's library", name


def find_spent_between(
    before: Iterable[Iterable[Any]], after: Iterable[Iterable[Any]]
) -> list[Spent]:
    """Return what was spent between two profiles, most own time first."""
    old = {(each.part, each.name): each for each in (Spent(*row) for row in before)}
    found = []
    for each in (Spent(*row) for row in after):
        was = old.get((each.part, each.name))
        calls, own = (was.calls, was.own) if was else (0, 0.0)
        found.append(Spent(each.part, each.name, each.calls - calls, each.own - own))
    return sorted((each for each in found if each.calls), key=lambda each: -each.own)


def format_tables(spent: list[Spent], stories: int) -> Iterator[str]:
    """Return two Markdown tables: own time by part and by function."""
    total = sum(each.own for each in spent) or 1.0
    parts: dict[str, float] = defaultdict(float)
    for each in spent:
        parts[each.part] += each.own
    yield "| part | own time |\n|---|---|"
    for part, own in sorted(parts.items(), key=lambda each: -each[1]):
        if own / total >= 0.01:
            yield f"| {part} | {own / total:.0%} |"
    yield "\n| function | part | own time | calls a story |\n|---|---|---|---|"
    for each in spent[:MOST]:
        calls = f"{each.calls / stories:,.0f}"
        yield f"| `{each.name}` | {each.part} | {each.own / total:.1%} | {calls} |"


def profile_resumes(setup: Setup) -> tuple[list[Spent], int]:
    """Profile full pauses and resumptions without Slack; return their number too."""
    rounds, stories = resume.Rounds(setup.make_folder("profile"), 1, 1), 2 if setup.quick else 100
    profiles = Profiles(this_thread=True)  # before the pools start their threads
    try:
        rounds.bench = rounds.bench.reopen()
        rounds.run_full(10), rounds.run_full(10)
        threads = [rounds.create_thread(10) for _ in range(stories)]
        before = profiles.list_spent()
        for thread in threads:
            resume.run_full(rounds.bench, thread)
        after = profiles.list_spent()
    finally:
        profiles.stop()
    rounds.close()
    return find_spent_between(before, after), stories


def profile_stories(setup: Setup) -> tuple[list[Spent], int]:
    """Profile the real bot on whole stories, one at a time; return their number too."""
    count = 2 if setup.quick else 60
    with Live(setup.make_folder("profile-live"), 5) as live:
        live.start("--profile")
        clicks.measure_stories(live, 1 if setup.quick else 10)
        before = live.send_command("profile")["spent"]
        clicks.measure_stories(live, count)
        after = live.send_command("profile")["spent"]
    return find_spent_between(before, after), count


PROFILES: dict[str, Callable[[Setup], tuple[list[Spent], int]]] = {
    "a pause and its resumption, full, warm, 10 items of history": profile_resumes,
    "a whole story of the real bot, one by one": profile_stories,
}


def build_report(setup: Setup) -> Iterator[str]:
    """Return the lines of both profiles."""
    for what, profile in PROFILES.items():
        spent, stories = profile(setup)
        yield f"\n**{what[0].upper()}{what[1:]}** ({stories} stories)\n"
        yield from format_tables(spent, stories)
