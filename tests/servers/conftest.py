"""The depot's tools, over both ways to reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.support import ServerTools, over_http, over_stdio


@pytest.fixture(scope="module", params=["http", pytest.param("stdio", marks=pytest.mark.long)])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerTools]:
    """The tools of a depot that stays unchanged."""
    folder = tmp_path_factory.mktemp("depot")
    with ExitStack() as stack:
        over = over_stdio(folder) if request.param == "stdio" else None
        made = ServerTools(folder, over or stack.enter_context(over_http(folder)))
        yield made
        made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerTools]:
    """The tools of a depot that a test may change."""
    with over_http(tmp_path, timeout=5) as server:
        made = ServerTools(tmp_path, server)
        yield made
        made.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerTools]:
    """The tools of a depot that is a process of its own."""
    made = ServerTools(tmp_path, over_stdio(tmp_path, env={"DEPOT_TOKEN": "t"}))
    yield made
    made.close()
