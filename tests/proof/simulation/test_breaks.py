"""The simulation notices when the product is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.proof.simulation.breaks import BREAKS, BREAKS_OF_TWO, Break
from tests.proof.simulation.hosted import TwoWorlds
from tests.proof.simulation.world import ViolationError, World

MAX_STEPS = 400_000  # limit of steps until it is found; ten to a hundred thousand are usual


@pytest.mark.long
@pytest.mark.file
@pytest.mark.parametrize("broken", BREAKS, ids=[each.__name__ for each in BREAKS])
def test_each_planted_fault_is_found(broken: Break) -> None:
    """It breaks a promise within the limit of steps."""
    assert count_steps_until_found(broken, MAX_STEPS)


@pytest.mark.long
@pytest.mark.file
@pytest.mark.parametrize("broken", BREAKS_OF_TWO, ids=[each.__name__ for each in BREAKS_OF_TWO])
def test_each_fault_between_two_workspaces_is_found(broken: Break) -> None:
    """It brings something of one workspace to the other, or loses it."""
    assert count_steps_until_found(broken, MAX_STEPS, TwoWorlds)


def count_steps_until_found(
    broken: Break, most: int, make: Callable[[int, int], World | TwoWorlds] = World
) -> int:
    """Return the number of steps until it was found; 0 if it was not."""
    steps = 0
    for seed in count(1):
        world = make(seed, 4_000)
        try:
            with broken():
                world.run()
        except ViolationError as error:
            if "TypeError" in str(error):  # the break itself does not fit the product any more
                raise
            return steps + world.steps
        steps += world.steps
        if steps > most:
            return 0
    raise AssertionError("seeds do not end")
