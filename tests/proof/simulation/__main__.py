"""Many worlds on fresh seeds: `python -m tests.proof.simulation --steps 1000000`, or `--seed N`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter

from tests.proof.simulation.hosted import TwoWorlds
from tests.proof.simulation.world import ViolationError, World

STEPS_PER_WORLD = 4_000  # steps of one world before nothing more happens to it


def print_line(text: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run worlds until there were so many steps; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--steps", type=int, default=1_000_000, help="how many steps in all")
    parser.add_argument("--seed", type=int, help="only the world of this seed")
    parser.add_argument("--first", type=int, help="the first of the seeds; the others follow")
    parser.add_argument(
        "--each", type=int, default=STEPS_PER_WORLD, help="how many steps of each world"
    )
    parser.add_argument("--signed", action="store_true", help="whoever approves has to sign")
    parser.add_argument("--workspaces", type=int, default=1, choices=(1, 2), help="at one process")
    given = parser.parse_args()
    make = World if given.workspaces == 1 else TwoWorlds
    first = given.seed if given.seed is not None else given.first
    seed = first if first is not None else secrets.randbelow(10**9)
    happened: Counter[str] = Counter()
    begun, used, steps, worlds = time.monotonic(), time.process_time(), 0, 0
    while steps < given.steps and not (given.seed is not None and worlds):
        world = make(seed, given.each, signed=given.signed)
        try:
            world.run()
        except ViolationError as error:
            print_line(f"{world.report()}\nVIOLATION of seed {seed}: {error}")
            how = f" WORKSPACES={given.workspaces}" if given.workspaces > 1 else ""
            print_line(f"again: make proof SEED={seed}{how}{' ALL_SIGN=1' if given.signed else ''}")
            return 1
        steps, worlds, seed = steps + world.steps, worlds + 1, seed + 1
        happened += world.tally()
    processor, wall = time.process_time() - used, time.monotonic() - begun
    print_line(
        f"{steps:,} steps in {worlds} worlds (seeds up to {seed - 1}) without a violation: "
        f"{processor:.0f} s of processor time, {wall:.0f} s in all, "
        f"{steps / processor:,.0f} steps a second"
    )
    print_line("; ".join(f"{count:,} {what.strip()}" for what, count in sorted(happened.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
