"""The process of two workspaces is killed during the work of both: each has its effects once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.config.connection_settings import Transport
from tests.proof.crash.hosted import find_steps, strike
from tests.proof.crash.matrix import sample_steps
from tests.proof.crash.steps import Step

pytestmark = pytest.mark.long
TRANSPORTS = list(Transport)
STRIKES = 4  # with each transport; `make proof` takes all steps


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a short path, for sockets."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module", params=TRANSPORTS)
def over(request: pytest.FixtureRequest) -> Transport:
    """How Slack reaches the process."""
    return Transport(request.param)


@pytest.fixture(scope="module")
def steps(folder: Path, over: Transport) -> list[Step]:
    """The steps of the undisturbed story."""
    return find_steps(folder, over)


@pytest.mark.parametrize("number", range(STRIKES))
def test_two_workspaces_recover_from_a_kill_at_any_step(
    folder: Path, over: Transport, steps: list[Step], number: int
) -> None:
    """Each comes to its end by itself after the next start."""
    told = strike(sample_steps(steps, STRIKES)[number], folder, over)
    assert (told.struck, told.wrong) == (True, [])
