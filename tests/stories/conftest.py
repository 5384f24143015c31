"""One harness for all stories, and one for each module that has a `POLICY` or `TOOLS` of its own.

Each story gets it at rest, with no faults and no script left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness


@pytest.fixture(scope="session")
def shared_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """The harness that stories share."""
    fakes = FakeTools()
    harness = Harness(tmp_path_factory.mktemp("stories"), fakes.tools)
    yield harness, fakes
    harness.close()


@pytest.fixture(scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Harness, FakeTools]]:
    """The harness of this module and its tools: under the module's `POLICY` or with its `TOOLS`
    and `SETTINGS`, else the shared.
    """
    policy = getattr(request.module, "POLICY", "")
    tools = getattr(request.module, "TOOLS", [])
    if not policy and not tools:
        yield request.getfixturevalue("shared_harness")
        return
    fakes = FakeTools()
    folder = tmp_path_factory.mktemp("stories")
    settings = getattr(request.module, "SETTINGS", {})
    harness = Harness(folder, [*fakes.tools, *tools], policy, **settings)
    yield harness, fakes
    harness.close()


@pytest.fixture
def harness(world: tuple[Harness, FakeTools]) -> Iterator[Harness]:
    """The module's harness, at rest."""
    harness, fakes = world
    fakes.ran.clear()
    fakes.entered.clear()
    fakes.go_on.clear()
    fakes.shelf = 3
    yield harness
    fakes.go_on.set()
    harness.reset()


@pytest.fixture
def fakes(world: tuple[Harness, FakeTools]) -> FakeTools:
    """The tools of the module's harness, and what they did."""
    return world[1]


@pytest.fixture
def own_harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Makes a harness of the story's own (another policy, other limits, other tools).

    Each is closed afterwards.
    """
    made: list[Harness] = []

    def make(tools: Any = (), policy: str = "", **settings: str) -> Harness:
        made.append(Harness(tmp_path, tools, policy, **settings))
        return made[-1]

    yield make
    for harness in made:
        harness.close()
