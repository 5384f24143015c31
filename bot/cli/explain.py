"""The commands that only look: `countersign explain` and `countersign policy replay`.

They change nothing anywhere.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Callable, MutableMapping
from datetime import timedelta
from pathlib import Path

from bot.approvals.facts import needed
from bot.cli.readonly import Onlooker, onlooker
from bot.clock import SystemClock
from bot.core import Core
from bot.durations import DAY, seconds
from bot.explain.explain import explain
from bot.explain.replay import Replay
from bot.explain.typed_call import MistypedError, typed_call
from bot.messages.text import visible
from bot.policy.authority import LookupFailedError
from bot.policy.evaluate import PolicyError
from bot.settings import SettingsError
from storage.models import Run

BAD_INPUT = 2  # exit code
_PERSON = re.compile(r"[UW][A-Z0-9]{2,30}")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")
_LONGEST = 99_999 * DAY  # seconds
Say = Callable[[str], None]
Complain = Callable[[object], int]


class Plain:
    """People by name and id, groups and channels as a policy writes them.

    See `bot.explain.explain.Words`.
    """

    def __init__(self, core: Core) -> None:
        """Names are looked up."""
        self._directory = core.directory

    def person(self, user: str) -> str:
        """Name and id, or the id alone where Slack does not tell."""
        try:
            found = self._directory.person(user)
        except LookupFailedError:
            return user
        return f"{visible(found.name)} ({user})" if found else f"{user} (nobody of that id)"

    def group(self, handle: str) -> str:
        """The handle."""
        return f"@{handle}"

    def channel(self, channel: str) -> str:
        """As it is."""
        return channel

    def quoted(self, text: str) -> str:
        """Hidden characters shown, on one line."""
        return visible(" ".join(text.split()))


def explain_command(
    arguments: argparse.Namespace,
    environ: MutableMapping[str, str],
    dotenv: Path,
    say: Say,
    complain: Complain,
) -> int:
    """Explain the call that was typed; returns the exit code."""
    try:
        if arguments.person and not _PERSON.fullmatch(arguments.person):
            raise MistypedError(f"--as takes a user id such as U0123, not {arguments.person!r}.")
        if arguments.channel and not _CHANNEL.fullmatch(arguments.channel):
            raise MistypedError(
                f"--in takes a channel id such as C0123 or a #name, not {arguments.channel!r}."
            )
        look = _onlooker(arguments, environ, dotenv)
        core = look.core
        tool, args = typed_call(core.tools, arguments.call)
        channel = _channel(core, arguments.channel)
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    now = core.clock.now()
    run = Run(
        team=core.identity.team,
        channel=channel,
        thread_ts="",
        requester=arguments.person,
        created_at=now,
        updated_at=now,
    )
    readable = not look.rows and bool(core.identity.team)
    for line in explain(core, Plain(core), run, tool, args, sums=readable):
        say(line)
    for line in _blind(look, arguments, bool(needed(core, tool).spent)):
        say(line)
    return 0


def _onlooker(
    arguments: argparse.Namespace, environ: MutableMapping[str, str], dotenv: Path
) -> Onlooker:
    """What to look with; raises MistypedError for a policy file or settings that cannot be used."""
    # what is not known is said where it matters
    logging.getLogger("countersign").addHandler(logging.NullHandler())
    try:
        return onlooker(environ, dotenv, arguments.policy, SystemClock())
    except (PolicyError, SettingsError) as error:
        raise MistypedError("; ".join(error.problems)) from None
    except (ImportError, TypeError, ValueError) as error:
        raise MistypedError(f"the tools cannot be used: {error}; see COUNTERSIGN_TOOLS") from None


def _channel(core: Core, channel: str) -> str:
    """The id of a channel that was named; as it was named where Slack cannot be asked."""
    if not channel.startswith("#"):
        return channel
    try:
        found = core.directory.channel(channel)
    except LookupFailedError:
        return channel
    if found is None:
        raise MistypedError(f"There is no channel {channel} that the bot can see.")
    return found


def _blind(look: Onlooker, arguments: argparse.Namespace, sums: bool) -> list[str]:
    """What was not looked at, and why.

    A record that is not there is told of only where `sums` are wanted of it.
    """
    found = []
    if look.slack:
        found.append(f"{look.slack}: nobody and nothing was looked up.")
    if look.rows and (sums or look.core.store.path.exists()):
        found.append(f"The record was not read: {look.rows}.")
    elif not (look.rows or look.core.identity.team):
        found.append(
            "The record was not read: without Slack it is not known whose requests are meant."
        )
    if not arguments.person:
        found.append("Nobody was named with --as: this is for somebody whom no rule names.")
    if not arguments.channel:
        found.append("No channel was named with --in.")
    return ["", *found] if found else []


def replay_command(
    arguments: argparse.Namespace,
    environ: MutableMapping[str, str],
    dotenv: Path,
    say: Say,
    complain: Complain,
) -> int:
    """Run a policy over the recorded calls; returns the exit code."""
    try:
        window = seconds(arguments.since, "hd")
        if not 0 < window <= _LONGEST:
            raise MistypedError(
                f"--since takes a duration such as 12h or 30d, not {arguments.since!r}."
            )
        look = _onlooker(arguments, environ, dotenv)
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    if look.rows:
        return complain(f"There is nothing to replay: {look.rows}.")
    core = look.core
    since = core.clock.now() - timedelta(seconds=window)
    say(
        f"{core.policy.source}, digest {core.policy.model_copy(update={'asking': frozenset()}).digest[:8]}"
    )
    for line in Replay(core, Plain(core)).lines(since):
        say(line)
    say("")
    say(
        f"{look.slack}: nobody and nothing was looked up."
        if look.slack
        else "Groups and channels were looked up as they are now; sums are those of the calls on record then."
    )
    return 0
