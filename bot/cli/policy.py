"""`countersign explain` and `policy replay`: what policy says about a call, and what another policy
would have said about recorded ones. Nothing is changed.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bot.approvals.facts import needed
from bot.cli.read_only_core import (
    BAD_INPUT,
    PlainWords,
    ReadOnlyCore,
    duration,
    moment,
    opened,
    read_only_core,
)
from bot.clock import SystemClock
from bot.explain.explanation import explain
from bot.explain.replay import Replay
from bot.explain.typed_call import MistypedError, parse_typed_call
from bot.policy.authority import Directory, LookupFailedError
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import DOTENV, complain, say
from storage.models import Run

_PERSON = re.compile(r"[UW][A-Z0-9]{2,30}|@.{1,80}")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
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
        type=moment,
        metavar="TIME",
        help="as if it were then: 2026-11-24T22:00, in UTC unless it says otherwise",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="this policy in the place of the one in force",
    )


def run_explain(arguments: argparse.Namespace) -> int:
    """Print how policy decides the call that was typed; returns the exit code."""
    try:
        _check(arguments)
        clock = _Stopped(arguments.at) if arguments.at else SystemClock()
        found = read_only_core(os.environ, DOTENV, arguments.policy, clock)
        words = [arguments.tool, *arguments.values]
        tool, args = parse_typed_call(found.tools, words, found.directory, None)
        arguments.person = _person(found.directory, arguments.person)
        channel = _channel(found.directory, arguments.channel)
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    now = found.clock.now()
    request = Run(
        team=found.authority.team,
        channel=channel,
        thread_ts="",
        requester=arguments.person,
        created_at=now,
        updated_at=now,
    )
    readable = not found.no_record and bool(found.authority.team)
    for line in explain(
        found.grounds, PlainWords(found.directory), request, tool, args, sums=readable
    ):
        say(line)
    for line in _unseen(found, arguments, bool(needed(found.policy, tool).spent)):
        say(line)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raise MistypedError for a person or a channel that is neither an id nor a name."""
    if arguments.person and not _PERSON.fullmatch(arguments.person):
        raise MistypedError(
            f"--as takes a user id such as U0123 or an @name, not {arguments.person!r}."
        )
    if arguments.channel and not _CHANNEL.fullmatch(arguments.channel):
        raise MistypedError(
            f"--in takes a channel id such as C0123 or a #name, not {arguments.channel!r}."
        )


@dataclass(frozen=True, slots=True)
class _Stopped:
    """A clock that always returns the same time."""

    at: datetime

    def now(self) -> datetime:
        """Return the fixed time."""
        return self.at


def _person(directory: CachedDirectory, person: str) -> str:
    """Return the user id of a person, who was given by id or @name."""
    if not person.startswith("@"):
        return person
    try:
        found = sorted(directory.named(person[1:]))
    except LookupFailedError as error:
        raise MistypedError(f"{person} cannot be looked up ({error}); give an id.") from None
    if not found:
        raise MistypedError(f"Nobody goes by {person}.")
    if len(found) > 1:
        raise MistypedError(f"{person} may be any of {', '.join(found[:5])}; give an id.")
    return found[0]


def _channel(directory: Directory, channel: str) -> str:
    """Return the id of a channel given by id or #name; the name if Slack cannot be asked."""
    if not channel.startswith("#"):
        return channel
    try:
        found = directory.channel(channel)
    except LookupFailedError:
        return channel
    if found is None:
        raise MistypedError(f"There is no channel {channel} that the bot can see.")
    return found


def _unseen(found: ReadOnlyCore, arguments: argparse.Namespace, sums: bool) -> list[str]:
    """Return lines that say what was not looked at, and why.

    A record that is not there is mentioned only if the policy needs `sums` from it.
    """
    lines = []
    if found.no_slack:
        lines.append(f"{found.no_slack}: nobody and nothing was looked up.")
    if found.no_record and (sums or found.store.is_there()):
        lines.append(f"The record was not read: {found.no_record}.")
    elif not (found.no_record or found.authority.team):
        lines.append(
            "The record was not read: without Slack it is not known whose requests are meant."
        )
    if not arguments.person:
        lines.append("Nobody was named with --as: this is for somebody whom no rule names.")
    if not arguments.channel:
        lines.append("No channel was named with --in.")
    return ["", *lines] if lines else []


EXPLAIN = CommandFunctions(add_explain_arguments, run_explain)


# `countersign policy replay`: evaluates a policy over the recorded calls. Changes nothing.


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the word `replay`, how far back to go, and the policy."""
    parser.add_argument("what", choices=["replay"])
    parser.add_argument(
        "--since",
        type=duration,
        default="30d",
        metavar="30d",
        help="how far back: 12h, 30d (default: 30d)",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="this policy in the place of the one in force",
    )


def run_policy(arguments: argparse.Namespace) -> int:
    """Replay a policy over the recorded calls, and print the result; returns the exit code."""
    found = opened("There is nothing to replay", DOTENV, complain, arguments.policy)
    if isinstance(found, int):
        return found
    since = found.clock.now() - arguments.since
    written = found.policy.policy.model_copy(update={"asking": frozenset()})
    say(f"{written.source}, digest {written.digest[:8]}")
    words = PlainWords(found.directory)
    for line in Replay(found.sources, found.authority, found.tools, words).lines(since):
        say(line)
    say("")
    say(
        f"{found.no_slack}: nobody and nothing was looked up."
        if found.no_slack
        else "Groups and channels were looked up as they are now;"
        " sums are those of the calls on record then."
    )
    return 0


POLICY = CommandFunctions(add_policy_arguments, run_policy)
