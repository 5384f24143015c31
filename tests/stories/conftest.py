"""One harness for all stories, and one for each module that has a `POLICY` or `TOOLS` of its own.

Each story gets it at rest, with no faults and no script left over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.stories.hosted import HostedHarness, TwoWorkspaces

PLACES = ("first", "second") if os.environ.get("STORIES_HOSTED") else ("only",)
# not run with STORIES_HOSTED: they set limits below what settings may say, or use commands
# beside the bot, which go by the machine's clock
NEVER_HOSTED = frozenset(
    f"test_{each}.py" for each in ("limits", "passkey_commands", "workers", "wire")
)
TABLES_OF_PEOPLES_ACTS = ("delivery", "run", "vote", "revision", "answer", "signature")
World = tuple[Harness, FakeTools]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """With STORIES_HOSTED, leave out the stories that need a process of their own."""
    return True if len(PLACES) > 1 and collection_path.name in NEVER_HOSTED else None


@contextmanager
def run_harnesses(
    folder: Path, tools: list[Any], policy: str | None = None, **settings: str
) -> Iterator[list[Harness]]:
    """Run the harness for a folder; with STORIES_HOSTED one for each workspace of a process."""
    if len(PLACES) == 1:
        harness = Harness(folder, tools, policy, **settings)
        try:
            yield [harness]
            harness.check_at_end()
        finally:
            harness.close()
        return
    two = TwoWorkspaces(folder, tools)
    hosted: list[Harness] = [HostedHarness(two, each, policy, **settings) for each in two.teams]
    try:
        yield hosted
        for each in hosted:
            each.check_at_end()
    finally:
        for each in hosted:
            each.close()
        two.close()


@pytest.fixture(scope="session")
def shared_worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    """The harnesses that stories share, one for each place."""
    fakes = FakeTools()
    with run_harnesses(tmp_path_factory.mktemp("stories"), fakes.tools) as made:
        yield [(each, fakes) for each in made]


@pytest.fixture(scope="session")
def shared_harness(shared_worlds: list[World]) -> World:
    """The harness that stories share, in the first place."""
    return shared_worlds[0]


@pytest.fixture(scope="module")
def worlds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[World]]:
    """The module's harnesses and their tools, one for each place.

    With the module's `POLICY`, `TOOLS` and `SETTINGS` if it has any, else the shared ones.
    """
    policy = getattr(request.module, "POLICY", "")
    tools = getattr(request.module, "TOOLS", [])
    if not policy and not tools:
        yield request.getfixturevalue("shared_worlds")
        return
    fakes = FakeTools()
    folder = tmp_path_factory.mktemp("stories")
    settings = getattr(request.module, "SETTINGS", {})
    with run_harnesses(folder, [*fakes.tools, *tools], policy, **settings) as made:
        yield [(each, fakes) for each in made]


@pytest.fixture(scope="module", params=PLACES if len(PLACES) > 1 else None)
def world(request: pytest.FixtureRequest, worlds: list[World]) -> World:
    """The harness and its tools, for the place where a story runs."""
    found = worlds[PLACES.index(getattr(request, "param", PLACES[0]))]
    found[1].ran.clear()  # what ran in the place before
    return found


@pytest.fixture
def harness(world: World) -> Iterator[Harness]:
    """The module's harness, idle; after the story other workspaces have to be unchanged."""
    harness, fakes = world
    fakes.ran.clear()
    fakes.entered.clear()
    fakes.go_on.clear()
    fakes.shelf = 3
    others = harness.others if isinstance(harness, HostedHarness) else []
    for each in others:
        each.settle()
    before, shift = [each.dump() for each in others], harness.clock.shift
    yield harness
    fakes.go_on.set()
    harness.reset()
    # all go by one clock: if the story moved it, the others' deadlines have passed too
    tables = TABLES_OF_PEOPLES_ACTS if harness.clock.shift != shift else None
    for each, was in zip(others, before, strict=True):
        each.settle()
        now = each.dump()
        changed = [(name, row) for name in tables or was for row in set(was[name]) ^ set(now[name])]
        assert not changed, f"{each.team}: {changed}"


@pytest.fixture
def fakes(world: World) -> FakeTools:
    """The tools of the module's harness, which count what they did."""
    return world[1]


@pytest.fixture
def own_harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Makes harnesses of the story's own, with another policy, other settings or tools.

    Each is closed afterwards.
    """
    made: list[Harness] = []

    def make(tools: Any = (), policy: str = "", **settings: str) -> Harness:
        made.append(Harness(tmp_path, tools, policy, **settings))
        return made[-1]

    yield make
    for harness in made:
        harness.close()
