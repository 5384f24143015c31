"""The command line: `python -m bench`, measures everything and prints a table, then JSON.

Some minutes; see --quick.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import (
    clicks,
    cluster,
    crowd,
    floor,
    growth,
    hosted,
    hotspots,
    looks,
    lookups,
    page,
    pause,
    pending,
    plan,
    report,
    resume,
    signatures,
    stories,
)
from bench.figures import Figure, Measurement, Setup

MEASUREMENTS: dict[str, Measurement] = {
    "floor": floor.measure,
    "resume": resume.measure,
    "pause": pause.measure,
    "signatures": signatures.measure,
    "clicks": clicks.measure,
    "plan": plan.measure,
    "stories": stories.measure,
    "crowd": crowd.measure,
    "pending": pending.measure,
    "page": page.measure,
    "lookups": lookups.measure,
    "cluster": cluster.measure,
    "looks": looks.measure,
    "hosted": hosted.measure,
    "growth": growth.measure,
}
ASKED_FOR = {"growth"}  # they take long and run only if named
ROOT = Path(__file__).parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (None: as started); return 0, whatever the figures are.

    1 where `--profile` is not possible.
    """
    arguments = _parser().parse_args(argv)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.profile:
        return _profile(arguments)
    others = report.OtherLoad()
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        for name in arguments.only or [each for each in MEASUREMENTS if each not in ASKED_FOR]:
            began = time.monotonic()
            found = list(MEASUREMENTS[name](Setup(Path(folder), arguments.quick)))
            figures += found
            how = f"{len(found)} figures" if found else "left out: what it takes is not installed"
            sys.stderr.write(f"{name}: {how}, {time.monotonic() - began:.0f} s\n")
    about = report.describe_machine(arguments.folder, others)
    sys.stdout.write(report.format_text(about, figures) + "\n")
    if arguments.json:
        arguments.json.write_text(report.format_json(about, figures) + "\n", "utf-8")
    else:
        sys.stdout.write("\n" + report.format_json(about, figures) + "\n")
    if arguments.update_docs:
        report.update_docs(about, figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(
        "python -m bench", description="What Countersign costs on this machine."
    )
    parser.add_argument(
        "--only", action="append", choices=list(MEASUREMENTS), help="this measurement; repeatable"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, few rounds: to try it out, no figures"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the JSON there instead of printing it"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "var",
        help="on the disk to measure (default: var/ here)",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="print where the processor time goes, function by function, and measure nothing",
    )
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="also write what is printed into docs/performance.md",
    )
    return parser


def _profile(arguments: argparse.Namespace) -> int:
    """Say where the processor time goes, where Python can tell."""
    if not hotspots.IS_POSSIBLE:
        sys.stderr.write("--profile needs Python 3.11; later ones profile a thread at a time\n")
        return 1
    with TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        lines = list(hotspots.build_report(Setup(Path(folder), arguments.quick)))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if arguments.update_docs:
        report.update_profile(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
