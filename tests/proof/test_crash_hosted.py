"""The process of two workspaces is killed amid the work of both: each has its own, and once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.config.connection_settings import Transport
from tests.proof.crash.hosted import find_steps, strike
from tests.proof.crash.matrix import sample
from tests.proof.crash.steps import Step

pytestmark = pytest.mark.long
WAYS = list(Transport)
STRIKES = 4  # of each way; `make proof` takes all steps


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short one, for sockets in it."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module", params=WAYS)
def over(request: pytest.FixtureRequest) -> Transport:
    """How Slack reaches the process."""
    return Transport(request.param)


@pytest.fixture(scope="module")
def steps(folder: Path, over: Transport) -> list[Step]:
    """The steps of the story, undisturbed."""
    return find_steps(folder, over)


@pytest.mark.parametrize("number", range(STRIKES))
def test_killed_here_and_there(
    folder: Path, over: Transport, steps: list[Step], number: int
) -> None:
    """Whatever the step, each workspace comes to its end after the next start, by itself."""
    told = strike(sample(steps, STRIKES)[number], folder, over)
    assert (told.struck, told.wrong) == (True, [])
