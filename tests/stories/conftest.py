"""One world for all stories; each story gets it at rest, with no faults and no script left over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stories.kit import Kit
from tests.stories.world import World


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Kit]]:
    """The world that stories share."""
    kit = Kit()
    world = World(tmp_path_factory.mktemp("world"), kit.tools)
    yield world, kit
    world.close()


@pytest.fixture
def world(shared: tuple[World, Kit]) -> Iterator[World]:
    """The shared world, at rest."""
    world, kit = shared
    kit.entered.clear()
    kit.go_on.clear()
    kit.shelf = 3
    yield world
    kit.go_on.set()
    world.reset()


@pytest.fixture
def kit(shared: tuple[World, Kit]) -> Kit:
    """The tools of the shared world, and what they did."""
    return shared[1]


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes a world of the story's own (another policy, other limits, other tools).

    Closed afterwards.
    """
    made: list[World] = []

    def make(tools: Any = (), policy: str = "", **settings: str) -> World:
        made.append(World(tmp_path, tools, policy, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()
