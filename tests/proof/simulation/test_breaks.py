"""The simulation notices when the product is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.proof.simulation.breaks import BREAKS, BREAKS_OF_TWO, Break
from tests.proof.simulation.hosted import TwoWorlds
from tests.proof.simulation.world import ViolationError, World

MOST = 400_000  # steps until it is found, at the latest; ten to a hundred thousand are usual


@pytest.mark.long
@pytest.mark.file
@pytest.mark.parametrize("broken", BREAKS, ids=[each.__name__ for each in BREAKS])
def test_it_is_found(broken: Break) -> None:
    """Each fault breaks a promise that is looked at, within so many steps."""
    assert found_after(broken, MOST)


@pytest.mark.long
@pytest.mark.file
@pytest.mark.parametrize("broken", BREAKS_OF_TWO, ids=[each.__name__ for each in BREAKS_OF_TWO])
def test_it_is_found_between_two_workspaces(broken: Break) -> None:
    """Each fault brings something of one workspace to the other, or loses it."""
    assert found_after(broken, MOST, TwoWorlds)


def found_after(
    broken: Break, most: int, make: Callable[[int, int], World | TwoWorlds] = World
) -> int:
    """Return after how many steps it was found; 0 where it was not."""
    steps = 0
    for seed in count(1):
        world = make(seed, 4_000)
        try:
            with broken():
                world.run()
        except ViolationError as error:
            if "TypeError" in str(error):  # the break itself does not fit any more
                raise
            return steps + world.steps
        steps += world.steps
        if steps > most:
            return 0
    raise AssertionError("seeds do not end")
