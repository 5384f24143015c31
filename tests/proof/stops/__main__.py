"""Stops by signals: `python -m tests.proof.stops` makes 500, and prints a table of them."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.postgres_server import binaries, serve
from tests.proof.stops.lives import LONGEST, Stop, stopped_at_random


def main(argv: Sequence[str] | None = None) -> int:
    """Make the stops chosen by `argv` (None: the command line); return 1 if one took too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most", type=int, default=500, help="how many stops (500)")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first (0)")
    parser.add_argument("--minutes", type=float, default=120, help="begin none after so long (120)")
    arguments = parser.parse_args(argv)
    # a shell makes background processes and their children ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, told = time.monotonic(), []
    with ExitStack() as stack:
        programs = binaries()
        server = stack.enter_context(serve(programs)) if programs is not None else None
        for seed in range(arguments.first, arguments.first + arguments.most):
            if time.monotonic() - begun > arguments.minutes * 60:
                break
            # the path of a socket must be short
            with TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
                if server is not None:
                    server.fresh("stops")
                told.append(stopped_at_random(Path(folder), seed, server))
            if told[-1].wrong:
                print(f"seed {seed}: {told[-1]}", file=sys.stderr, flush=True)
    print("\n".join(list_table_lines(told)))
    return int(any(each.wrong for each in told))


def list_table_lines(told: Sequence[Stop]) -> list[str]:
    """How often each command was stopped, and the longest end; a table in Markdown."""
    found: dict[tuple[str, str], list[Stop]] = defaultdict(list)
    for each in told:
        found[each.command, each.hung].append(each)
    lines = ["| command | what hung | stops | the longest took | wrong |", "|---|---|---|---|---|"]
    for (command, hung), those in sorted(found.items()):
        longest, wrong = max(each.seconds for each in those), sum(bool(e.wrong) for e in those)
        lines.append(f"| {command} | {hung} | {len(those)} | {longest:.1f} s | {wrong} |")
    wrong = sum(bool(each.wrong) for each in told)
    return [*lines, "", f"{len(told)} stops, {wrong} of them wrong; {LONGEST:g} s are allowed."]


if __name__ == "__main__":
    sys.exit(main())
