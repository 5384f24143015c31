"""One bot for all these tests, and the sources, each started when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sources.place import Place
from tests.sources.source import Source
from tests.sources.table import SOURCES


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, dict[str, Source]]]:
    """The place, and the sources started so far."""
    place, begun = Place(tmp_path_factory.mktemp("s")), dict[str, Source]()
    yield place, begun
    for each in begun.values():
        each.close()
    place.close()


@pytest.fixture
def place(shared: tuple[Place, dict[str, Source]]) -> Iterator[Place]:
    """The place with nothing going on; it is reset after each test."""
    found, _ = shared
    yield found
    found.line.twice = False
    found.line.cut.clear()
    found.harness.reset()


@pytest.fixture
def source_of(shared: tuple[Place, dict[str, Source]]) -> Callable[[str], Source]:
    """Finds a source by its name."""
    place, begun = shared

    def find(name: str) -> Source:
        if name not in begun:
            begun[name] = next(each for each in SOURCES if each.name == name)(place)
        return begun[name]

    return find
