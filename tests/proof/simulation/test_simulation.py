"""A few thousand steps of the simulation, on a fixed seed and on a new one."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from tests.proof.simulation.hosted import TwoWorlds
from tests.proof.simulation.world import ViolationError, World

# seeds that found something: a deadline beside another end; a worker taken for lost; an edit
# reported after the deletion
FAILED_SEEDS = (2, 552714828, 967677187, 215445118)  # the last one with the record on PostgreSQL
STEPS = 2_000


def run_seed(
    seed: int, steps: int = STEPS, *, reads_little: bool = False, signed: bool = False
) -> World:
    """Run the world of that seed; a violation is shown with its last events."""
    world = World(seed, steps, signed=signed)
    world.model.reads_little = reads_little
    run_world(world)
    return world


def run_world(world: World | TwoWorlds) -> None:
    """Run that world, or those two."""
    how = " WORKSPACES=2" if isinstance(world, TwoWorlds) else ""
    try:
        world.run()
    except ViolationError as error:
        again = f"again: make proof SEED={world.seed}{how}"
        pytest.fail(f"{world.report()}\nseed {world.seed}: {error}\n{again}")


def test_the_promises_hold_on_a_fixed_seed() -> None:
    """In any order of events nothing runs unapproved or twice, and nothing is lost."""
    world = run_seed(1)
    assert world.record.effects, "nothing has happened at all"


def test_the_promises_hold_on_a_new_seed() -> None:
    """A violation is shown with its seed."""
    run_seed(secrets.randbelow(10**9))


def test_the_promises_hold_in_two_workspaces_of_one_process() -> None:
    """Ids of people, channels and messages are the same; each has only what is its own."""
    for seed in (1, secrets.randbelow(10**9)):
        both = TwoWorlds(seed, STEPS)
        run_world(both)
        assert all(each.acknowledged for each in both.parts), "nothing has happened at all"


@pytest.mark.long
def test_the_promises_hold_where_all_sign() -> None:
    """Nothing is approved without a passkey; there are crashes and repeated signatures."""
    signed = 0
    for seed in (1, secrets.randbelow(10**9)):
        signed += run_seed(seed, 12_000, signed=True).record.votes["votes that are signed"]
    assert signed


@pytest.mark.long
def test_the_promises_hold_in_long_threads() -> None:
    """The model often cannot read so much: what it is sent then is valid, also if a process ends
    during a summary.
    """
    for seed in (1, secrets.randbelow(10**9)):
        world = run_seed(seed, 12_000, reads_little=True)
        assert world.model.summaries


def test_a_seed_does_the_same_again() -> None:
    """So a failure can be repeated."""
    one, other = run_seed(2, 600), run_seed(2, 600)
    assert list(one.scheduler.recent_events) == list(other.scheduler.recent_events)
    assert one.record.effects == other.record.effects


@pytest.mark.long
def test_a_seed_does_the_same_in_another_process() -> None:
    """Sets may have another order there."""
    script = (
        "from tests.proof.simulation.hosted import TwoWorlds\n"
        "from tests.proof.simulation.world import World\n"
        "for world in (World(2, 1500), TwoWorlds(2, 1500)):\n"
        "    world.run()\n"
        "    print(world.steps, *world.scheduler.recent_events, sep='\\n')"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(order)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for order in (0, 1)
    }
    assert len(told) == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", FAILED_SEEDS)
def test_seeds_that_failed_once_pass(seed: int) -> None:
    """A promise was broken in these worlds."""
    run_seed(seed, 4_000)
