"""`countersign report`: how people decided, how fast, and who. Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from bot.cli.extras import REPORT, complain_of_missing
from bot.cli.read_only_core import PlainWords, duration, opened
from bot.explain.report import Report, compute_report, report_lines
from countersign.cli.console import DOTENV, complain, say
from storage import call_history


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how far back the report goes, and the file of the picture."""
    parser.add_argument(
        "--since",
        type=duration,
        default="30d",
        metavar="30d",
        help="how far back: 12h, 30d (default: 30d)",
    )
    parser.add_argument(
        "--picture", type=_png, metavar="FILE.png", help="draw it, too, into this file"
    )


def _png(text: str) -> Path:
    """Return the path of a PNG file; raises ArgumentTypeError for any other kind."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"the picture is a PNG: write it as {path.stem}.png")
    return path


def run(arguments: argparse.Namespace) -> int:
    """Print the report, and draw the picture if one is wanted; returns the exit code."""
    found = opened("There is nothing to report", DOTENV, complain)
    if isinstance(found, int):
        return found
    team = found.authority.team
    if not team:
        return complain(
            "The record holds several workspaces, and without Slack it is not known which is meant."
        )
    until = found.clock.now() + timedelta(seconds=1)  # what was asked just now is in it
    since = until - arguments.since
    with found.store.read() as tx:
        asked = call_history.asked_calls(tx, team, since, until)
    computed = compute_report(asked, since, until)
    for line in report_lines(computed, PlainWords(found.directory)):
        say(line)
    if arguments.picture is None:
        return 0
    titles = {name: tool.title for name, tool in found.tools.tools.items()}
    return _draw(computed, titles, arguments.picture)


def _draw(computed: Report, titles: Mapping[str, str], path: Path) -> int:
    """Draw the report's picture into a file; returns the exit code."""
    try:
        # here, since matplotlib may be missing: it comes with the extra only
        from bot.explain.report_picture import draw_png, has_picture
    except ModuleNotFoundError as error:
        return complain_of_missing("picture", error, REPORT)
    if not has_picture(computed):
        say("There is no picture: nothing was decided, and nothing expired.")
        return 0
    try:
        path.write_bytes(draw_png(computed, titles))
    except OSError as error:
        return complain(f"The picture cannot be written to {path}: {error.strerror}.")
    say(f"The picture is in {path}.")
    return 0
