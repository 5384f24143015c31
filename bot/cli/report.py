"""`countersign report`: how people decided, how fast, and who. Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from bot.cli import read_only_core
from bot.cli.request_views import add_json_option, format_json
from bot.explain.report import Report, compute_report, render_report_lines
from bot.explain.rule_report import compute_rule_report, render_rule_report_lines
from countersign.cli.console import print_error, print_line, print_lines, print_missing_package
from storage import call_history


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: how far back the report goes, and the file of the picture."""
    parser.add_argument(
        "--since",
        type=read_only_core.parse_duration_option,
        default="30d",
        metavar="30d",
        help="how far back: 12h, 30d (default: 30d)",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--picture",
        type=_parse_png_path,
        metavar="FILE.png",
        help="also draw it as a picture into this file",
    )
    add_json_option(either)


def _parse_png_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"the picture is a PNG: write it as {path.stem}.png")
    return path


def run(arguments: argparse.Namespace) -> int:
    """Print the report, and draw the picture if one is wanted; returns the exit code."""
    core = read_only_core.open_core()
    team = core.authority.team
    if not team:
        return print_error(
            "The record holds several workspaces, and without Slack it is unknown which one to"
            " report on."
        )
    until = core.clock.now() + timedelta(seconds=1)  # includes calls asked for just now
    since = until - arguments.since
    with core.store.read() as tx:
        decided_calls = call_history.list_calls_people_had_to_decide(tx, team, since, until)
        gates = call_history.list_gates_given(tx, team, since, until)
    computed = compute_report(decided_calls, since, until)
    rules = compute_rule_report(decided_calls, gates, core.policy.policy, core.tools)
    words = read_only_core.PlainMentionStyle(core.directory)
    if arguments.json:
        print_line(format_json(asdict(computed) | asdict(rules)))
    else:
        print_lines(render_report_lines(computed, words))
        print_lines(render_rule_report_lines(rules, words))
    if arguments.picture is None:
        return 0
    titles = {name: tool.title for name, tool in core.tools.tools.items()}
    return _write_picture(computed, titles, arguments.picture)


def _write_picture(computed: Report, titles: Mapping[str, str], path: Path) -> int:
    try:
        # here, since matplotlib may be missing: only an extra brings it
        from bot.explain.report_picture import draw_report_png, has_decisions_to_draw
    except ModuleNotFoundError as error:
        return print_missing_package("picture", error, ("matplotlib",), "countersign-bot[report]")
    if not has_decisions_to_draw(computed):
        print_line("No picture was made: nothing was decided, and nothing expired.")
        return 0
    try:
        path.write_bytes(draw_report_png(computed, titles))
    except OSError as error:
        return print_error(f"The picture cannot be written to {path}: {error.strerror}.")
    print_line(f"The picture is in {path}.")
    return 0
