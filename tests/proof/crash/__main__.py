"""The crash matrix: `python -m tests.proof.crash` strikes every story at every step.

Prints what was wrong as it is found, and at the end a table of the strikes at each story.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.proof.crash.matrix import find_story_steps, sample_steps, tell_for_pool
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME
from tests.proof.crash.troubles import ENDS, Trouble, can_fail_fsync
from tests.proof.crash.world import can_mount
from tests.records import ON_A_SERVER

MEMORY = Path("/dev/shm")  # a folder of ours is made in it
EVERY = 50  # tellings between two lines about the progress


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix with `argv` (None: the command line); return 1 if anything was wrong."""
    arguments = _build_parser().parse_args(argv)
    begun = time.monotonic()
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        found = {story: find_story_steps(BY_NAME[story], folder) for story in arguments.story}
        steps = {story: sample_steps(each, arguments.most) for story, each in found.items()}
        troubles = [each for each in map(Trouble, arguments.trouble) if _is_possible(each, folder)]
        told = _load_earlier(arguments.told)
        for each in _tell_all(steps, troubles, arguments.jobs, folder, told):
            told.append(each)
            if arguments.told:
                with arguments.told.open("a") as file:
                    file.write(f"{json.dumps(each)}\n")
            if len(told) % EVERY == 0:
                print(f"{len(told)} told", file=sys.stderr, flush=True)
            if time.monotonic() - begun > arguments.minutes * 60:
                break
    print(
        "\n".join(
            list_table_lines({story: len(each) for story, each in found.items()}, troubles, told)
        )
    )
    wrong = sum(bool(each["wrong"]) for each in told)
    minutes = (time.monotonic() - begun) / 60
    print(f"\n{len(told)} tellings, {wrong} of them wrong, in {minutes:.1f} minutes.")
    return int(bool(wrong))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [each.value for each in Trouble]
    parser.add_argument("--story", nargs="*", default=list(BY_NAME), choices=BY_NAME)
    # a server's disk cannot be struck
    most = [each.value for each in ENDS if not (ON_A_SERVER and each is Trouble.POWER)]
    parser.add_argument("--trouble", nargs="*", default=most, choices=names)
    parser.add_argument("--most", type=int, default=10_000, help="steps of each story at most")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after that many")
    parser.add_argument("--told", type=Path, help="keep them here; go on from what it has")
    parser.add_argument("--jobs", type=int, default=2, help="tellings at once")
    return parser


def _is_possible(trouble: Trouble, folder: Path) -> bool:
    match trouble:
        case Trouble.FULL if not can_mount(folder / "mount"):
            print("disk full: left out, for only root may mount a small disk")
            return False
        case Trouble.FSYNC if not can_fail_fsync():
            print("EIO at fsync: left out, for this machine's system calls are not known")
            return False
    return True


def _tell_all(
    steps: dict[str, list[Step]],
    troubles: list[Trouble],
    jobs: int,
    folder: Path,
    before: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Every telling that was not there before, as they end."""
    known = {(each["story"], each["trouble"], each["step"]) for each in before}
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        works = [
            (story, trouble, step, str(folder))
            for story, found in steps.items()
            for trouble in troubles
            for step in found
            if (story, trouble, str(step)) not in known
        ]
        random.shuffle(works)  # so a run that is stopped early has tried some of everything
        for future in as_completed([pool.submit(tell_for_pool, work) for work in works]):
            told: dict[str, Any] = json.loads(future.result())
            if told["wrong"]:
                print(f"{told['story']}, {told['trouble']} at {told['step']}:", flush=True)
                print("\n".join(f"    {each}" for each in told["wrong"]), flush=True)
            yield told
    finally:
        pool.shutdown(cancel_futures=True)


def _load_earlier(file: Path | None) -> list[dict[str, Any]]:
    """The tellings of an earlier run."""
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def list_table_lines(
    steps: dict[str, int], troubles: list[Trouble], told: Iterable[dict[str, Any]]
) -> Iterator[str]:
    """The table of the documentation: each story's steps, strikes and failures."""
    found: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for each in told:
        found[each["story"], each["trouble"]].append(each)
    yield f"| story | steps | {' | '.join(troubles)} |"
    yield f"|---|---|{'---|' * len(troubles)}"
    for story in steps:
        cells = [_format_cell(found[story, trouble]) for trouble in troubles]
        yield f"| {story} | {steps[story]} | {' | '.join(cells)} |"
    cells = [_format_cell([e for s in steps for e in found[s, trouble]]) for trouble in troubles]
    yield f"| **all** | {sum(steps.values())} | {' | '.join(cells)} |"


def _format_cell(tellings: list[dict[str, Any]]) -> str:
    struck = sum(each["struck"] for each in tellings)
    wrong = sum(bool(each["wrong"]) for each in tellings)
    return f"{struck}, {wrong} wrong"


if __name__ == "__main__":
    sys.exit(main())
