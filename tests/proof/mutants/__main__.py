"""Mutants of some modules: `python -m tests.proof.mutants MODULE… --tests PATH… --minutes 10`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.proof.mutants.changes import list_changes
from tests.proof.mutants.session import CAUGHT, HUNG, NO_MUTANT, Session

ROOT = Path(__file__).parents[3]


def main() -> int:
    """Try the changes, and list those that no test noticed."""
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("modules", nargs="+", help="files, by their paths")
    parser.add_argument("--tests", nargs="+", required=True, help="what is to notice")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=10.0, help="of tests for one change")
    parser.add_argument("--lines", type=int, nargs="*", help="only changes on these lines")
    parser.add_argument("--most", type=int, help="so many of them, by chance")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = [change for each in given.modules for change in list_changes(ROOT / each, ROOT)]
    if given.lines:
        found = [change for change in found if change.line in given.lines]
    Random(given.seed).shuffle(found)
    until = time.monotonic() + 60 * given.minutes
    session = Session(ROOT, found[: given.most], until, given.seconds)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    pytest.main([*options, *given.tests], plugins=[session])
    tried = [each for each in session.tried if each.end != NO_MUTANT]
    for path in sorted({each.path for each in tried}):
        ends = Counter(each.end for each in tried if each.path == path)
        caught = ends[CAUGHT] + ends[HUNG]
        of = sum(change.path == path for change in found)
        sys.stdout.write(
            f"{path}: {caught} of {sum(ends.values())} tried are caught ({of} in all)\n"
        )
    for each in sorted(tried, key=lambda one: (one.path, one.line)):
        if each.end not in (CAUGHT, HUNG):
            sys.stdout.write(f"{each.path}:{each.line}: {each.what}: {each.end}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
