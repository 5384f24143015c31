"""`countersign explain`: what policy says about a call. Nothing is changed."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from bot.approvals.call_gates import get_lookups_needed_by_rules
from bot.cli import read_only_core
from bot.clock import SystemClock
from bot.explain.explanation import explain_call
from bot.explain.replay import FixedClock
from bot.explain.typed_call import TypedCallError, parse_typed_call
from bot.policy.authority import Directory, LookupFailedError
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.console import print_error, print_lines
from storage.models import Run

_PERSON = re.compile(r"[UW][A-Z0-9]{2,30}|@.{1,80}")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, its requester, channel and time, and the policy."""
    parser.add_argument("tool", help="the tool's name")
    parser.add_argument("values", nargs="*", metavar="key=value", help="its arguments")
    parser.add_argument(
        "--as", dest="person", default="", metavar="U0123", help="who asks for it: an id, or @name"
    )
    parser.add_argument(
        "--in", dest="channel", default="", metavar="C0123", help="where: an id, or #name"
    )
    parser.add_argument(
        "--at",
        type=read_only_core.parse_time_option,
        metavar="TIME",
        help="as if it were then: 2026-11-24T22:00, in UTC unless it says otherwise",
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="this policy in the place of the one in force"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print how policy decides the call that was typed; returns the exit code."""
    try:
        _check_person_and_channel(arguments)
        clock = FixedClock(arguments.at) if arguments.at else SystemClock()
        found = read_only_core.build_read_only_core(arguments.policy, clock)
        typed = [arguments.tool, *arguments.values]
        tool, args = parse_typed_call(found.tools, typed, found.directory, None)
        arguments.person = _resolve_person_id(found.directory, arguments.person)
        channel = _resolve_channel_id(found.directory, arguments.channel)
    except TypedCallError as error:
        print_error(error)
        return read_only_core.BAD_INPUT
    now = found.clock.now()
    request = Run(
        team=found.authority.team,
        channel=channel,
        thread_ts="",
        requester=arguments.person,
        created_at=now,
        updated_at=now,
    )
    readable = not found.record_problem and bool(found.authority.team)
    words = read_only_core.PlainMentionStyle(found.directory)
    sources = found.explanation_sources
    print_lines(explain_call(sources, words, request, tool, args, sums=readable))
    sums = bool(get_lookups_needed_by_rules(found.policy, tool).spent)
    print_lines(_format_unread_notes(found, arguments, sums))
    return 0


def _check_person_and_channel(arguments: argparse.Namespace) -> None:
    """Raise MistypedError for a person or a channel that is neither an id nor a name."""
    if arguments.person and not _PERSON.fullmatch(arguments.person):
        raise TypedCallError(
            f"--as takes a user id such as U0123 or an @name, not {arguments.person!r}."
        )
    if arguments.channel and not _CHANNEL.fullmatch(arguments.channel):
        raise TypedCallError(
            f"--in takes a channel id such as C0123 or a #name, not {arguments.channel!r}."
        )


def _resolve_person_id(directory: CachedDirectory, person: str) -> str:
    if not person.startswith("@"):
        return person
    try:
        found = sorted(directory.find_people_by_name(person[1:]))
    except LookupFailedError as error:
        raise TypedCallError(f"{person} cannot be looked up ({error}); give an id.") from None
    if not found:
        raise TypedCallError(f"Nobody goes by {person}.")
    if len(found) > 1:
        raise TypedCallError(f"{person} may be any of {', '.join(found[:5])}; give an id.")
    return found[0]


def _resolve_channel_id(directory: Directory, channel: str) -> str:
    """Return the id of a channel given by id or #name; the name if Slack cannot be asked."""
    if not channel.startswith("#"):
        return channel
    try:
        found = directory.find_channel_id(channel)
    except LookupFailedError:
        return channel
    if found is None:
        raise TypedCallError(f"There is no channel {channel} that the bot can see.")
    return found


def _format_unread_notes(
    found: read_only_core.ReadOnlyCore, arguments: argparse.Namespace, sums: bool
) -> list[str]:
    """Return lines that say what was not looked at, and why.

    A record that is not there is mentioned only if the policy needs `sums` from it.
    """
    lines = []
    if found.slack_problem:
        lines.append(f"{found.slack_problem}: nobody and nothing was looked up.")
    if found.record_problem and (sums or found.store.has_database()):
        lines.append(f"The record was not read: {found.record_problem}.")
    elif not (found.record_problem or found.authority.team):
        lines.append(
            "The record was not read: without Slack it is not known whose requests are meant."
        )
    if not arguments.person:
        lines.append("Nobody was named with --as: this is for somebody whom no rule names.")
    if not arguments.channel:
        lines.append("No channel was named with --in.")
    return ["", *lines] if lines else []
