"""`countersign doctor`: looks at everything a start depends on, and says what to do about what is
wrong.

It only looks: it posts nothing, migrates nothing, and may run beside a working bot. `--init` writes
a first policy; `--live` tries everything at Slack once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path

from bot import version
from bot.checks.check import Check, Level, fail, ok, warn
from bot.checks.people_checks import check_operator, check_people, usual_requesters
from bot.checks.rules import check_hours
from bot.checks.slack import check_places, check_sign_in, make_client, sign_in
from bot.cli.doctor.checks import (
    check_app_token,
    check_database,
    check_databases,
    check_rules,
    check_servers,
    check_surfaces,
    check_tools,
    check_watching,
)
from bot.cli.doctor.http import check_http
from bot.cli.doctor.live_check import live
from bot.cli.doctor.model import check_model
from bot.clock import Clock, SystemClock
from bot.config.settings import Settings, prepare_environment
from bot.config.startup import StartupError, read_settings_and_policy
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.slack.client import app_of
from bot.surfaces.registry import PartKind
from countersign.cli.console import DOTENV, UsageError, complain, say

# A first policy for `countersign doctor --init`: who decides, and examples to go on from.

POLICY = Path("policy.toml")
FIRST_POLICY = """\
# Who decides about what the agent wants to do. Countersign reads this file at its start, and when
# it changes. Rules are tried from the top; the first that fits applies. What no rule fits: reads
# run, all else asks.

[defaults]
approvers = [{approvers}]  # user ids ("U0123"), groups ("@shop-leads"), "channel" (who is in it)
post_to = "thread"  # or "approvers" (their DMs), a channel id ("C0123") or name ("#finance")
deadline = "4h"  # then the answer is no; 30s to 30d
self_approval = false  # true: who asks may also approve
editors = "approvers_and_requester"  # or "approvers", "nobody"
editor_counts = false  # true: who edits may also approve what came of it

# Three examples; take the # away and change them.

# [[rule]]
# name = "no new channels"
# tool = "create_channel"  # a name, a pattern such as "refund_*", or a list of them
# verdict = "deny"
# reason = "Channels are made by the office."

# [[rule]]
# name = "what cannot be undone"
# effect = "destructive"  # read, write, destructive, or a list of them
# verdict = "ask"
# post_to = "approvers"
# deadline = "1d"

# [[rule]]
# name = "harmless"
# tool = "set_topic"
# verdict = "allow"
"""


def ask_and_write(approvers: Sequence[str]) -> int:
    """Write the first policy, asking at the terminal who decides where nobody is named.

    Returns the exit code.
    """
    if not approvers and sys.stdin.isatty():
        answer = input(
            "Who decides? User ids (U0123), groups (@shop-leads)"
            ' or "channel", separated by spaces: '
        )
        approvers = answer.split()
    if not approvers:
        return complain(
            "Say who decides: countersign doctor --init --approver U0123 --approver @shop-leads"
        )
    try:
        write_policy(POLICY, approvers)
    except FileExistsError:
        return complain(
            f"{POLICY} is already there and was left as it is; move it away to have a new one."
        )
    except PolicyError as error:
        return complain(error)
    say(f"Wrote {POLICY}. Set COUNTERSIGN_POLICY={POLICY}, then run: countersign doctor")
    return 0


def write_policy(path: Path, approvers: Sequence[str]) -> Policy:
    """Write a first policy that names `approvers` (U…, @group or channel) to `path`, and return it.

    Raises PolicyError for approvers that are none, FileExistsError rather than overwrite, other
    OSErrors as they come.
    """
    quoted = ", ".join(
        '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in approvers
    )
    text = FIRST_POLICY.replace("{approvers}", quoted)
    policy = parse(text, str(path))
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the first policy, and who decides by it."""
    parser.add_argument(
        "--init", action="store_true", help=f"write a first {POLICY}; never overwrites"
    )
    tried = "post to this person's direct messages, try all that the bot does, and clear it away"
    parser.add_argument("--live", metavar="@me", help=f"{tried}; @name or a user id")
    who = 'who decides, with --init: a user id, "@group" or "channel"; repeatable'
    parser.add_argument("--approver", action="append", default=[], metavar="U0123", help=who)


def run(arguments: argparse.Namespace) -> int:
    """Look at everything, or write the first policy; returns the exit code."""
    if arguments.live is not None:
        if arguments.init or arguments.approver:
            raise UsageError("--live goes alone")
        return live(os.environ, DOTENV, arguments.live)
    if arguments.init:
        return ask_and_write(arguments.approver)
    if arguments.approver:
        raise UsageError("--approver goes with doctor --init")
    return doctor(examine(os.environ, DOTENV, SystemClock()), say)


def examine(
    environ: MutableMapping[str, str], dotenv_path: Path | None, clock: Clock
) -> Iterator[Check]:
    """All checks, as they are made.

    Takes misleading variables out of `environ`, as a start would.
    """
    try:
        settings, policy = read_settings_and_policy(environ, dotenv_path, transport=None)
    except StartupError as error:
        yield from (fail("settings", each) for each in error.settings)
        yield from (fail("policy", each) for each in error.policy)
        return
    yield ok("version", version.describe_version())
    yield ok("settings", "all there")
    for warning in settings.warnings:
        yield warn("settings", warning)
    prepare_environment(environ, settings.slack_api_url)
    yield ok(
        "policy",
        f"{settings.policy_path}: {len(policy.rules)} rules, digest {policy.digest[:8]}",
    )
    yield from check_all(settings, policy, clock)


def check_all(settings: Settings, policy: Policy, clock: Clock) -> Iterator[Check]:
    """Make the checks beyond the configuration itself, in the order they build on."""
    client = make_client(settings)
    found = sign_in(client, clock)
    if isinstance(found, Check):
        yield found
    else:
        yield from check_sign_in(found, settings)
        yield from check_places(policy, found.workspace)
        usual = usual_requesters(settings, clock.now())
        yield from check_people(policy, found.workspace, usual)
        yield from check_operator(settings, policy, found.workspace)
    if settings.slack_app_token.get_secret_value():
        own_app = "" if isinstance(found, Check) else app_of(client, found.workspace.bot)
        yield check_app_token(client, settings, own_app)
    yield from check_http(settings)
    yield from check_watching(settings)
    yield from check_tools(settings)
    yield from map(check_surfaces, PartKind)
    yield from check_rules(settings, policy)
    yield from check_hours(policy, clock.now())
    yield from check_database(settings)
    yield from check_databases(settings)
    yield from check_servers(settings)
    yield from check_model(settings, clock)


def doctor(checks: Iterator[Check], say: Callable[[str], None]) -> int:
    """Say each check in a line, then the sum; returns the exit code, 1 where something failed."""
    counts = dict.fromkeys(Level, 0)
    for check in checks:
        counts[check.level] += 1
        say(str(check))
    bad = counts[Level.FAIL]
    say(f"{counts[Level.OK]} ok, {counts[Level.WARN]} to look at, {bad} wrong")
    return 1 if bad else 0
