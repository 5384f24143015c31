"""`countersign doctor`: checks everything a start depends on, and says how to put it right.

It only looks: it posts nothing, migrates nothing, and may run while the bot does. `--init` writes
a first policy; `--live` tries everything at Slack once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path

from bot.checks import people_checks, slack
from bot.checks.check import CheckResult, CheckSubject, print_checks
from bot.checks.inspection import check_freezes_and_business_hours
from bot.cli.doctor import checks, http_checks
from bot.cli.doctor.live_check import check_app_token, run_live_check
from bot.cli.doctor.model_check import check_model
from bot.clock import Clock, SystemClock
from bot.config.connection_settings import ListeningAddress
from bot.config.environment import (
    DotenvError,
    read_environment_variables,
    remove_variables_slack_misreads,
)
from bot.config.settings import Settings
from bot.config.startup import StartupError, read_settings_and_policy
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.slack.client import ListWorkspaces, find_app_id
from bot.version import describe_version
from countersign.cli.console import DOTENV, UsageError, print_error, print_line
from storage.record import ReadOnlyStore

POLICY_PATH = Path("policy.toml")
POLICY_TEMPLATE = """\
# Who decides what the agent may do. Countersign reads this file when it starts, and when it
# changes. Rules are tried from the top; the first that matches applies. If none matches, reads run
# and everything else asks.

[defaults]
approvers = [{approvers}]  # user ids ("U0123"), groups ("@shop-leads"), "channel" (its members)
post_to = "thread"  # or "approvers" (their DMs), a channel id ("C0123") or name ("#finance")
deadline = "4h"  # undecided by then: not run; 30s to 30d
self_approval = false  # true: people may approve what they asked for
editors = "approvers_and_requester"  # or "approvers", "nobody"
editor_counts = false  # true: people may approve what they edited

# Three examples; remove the # and change them.

# [[rule]]
# name = "no new channels"
# tool = "create_channel"  # a name, a pattern such as "refund_*", or a list of them
# verdict = "deny"
# reason = "The office creates channels."

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


def write_first_policy(approvers: Sequence[str]) -> int:
    """Write the first policy; if `approvers` is empty, ask at the terminal who decides.

    Returns the exit code.
    """
    if not approvers and sys.stdin.isatty():
        with suppress(EOFError):  # Ctrl-D: no approvers
            approvers = input(
                "Who decides? User ids (U0123), groups (@shop-leads)"
                ' or "channel", separated by spaces: '
            ).split()
    if not approvers:
        return print_error(
            "Say who decides, for example: countersign doctor --init --approver U0123 --approver"
            " @shop-leads"
        )
    try:
        write_policy(POLICY_PATH, approvers)
    except FileExistsError:
        return print_error(
            f"{POLICY_PATH} already exists and was not changed; move it away to get a new one."
        )
    except PolicyError as error:  # its problems name places in a file that was not written
        problems = (each.partition("] approvers: ")[2] or each for each in error.problems)
        return print_error(f"{POLICY_PATH} was not written: {'; '.join(problems)}")
    print_line(
        f"Wrote {POLICY_PATH}. Set COUNTERSIGN_POLICY={POLICY_PATH}, then run: countersign doctor"
    )
    return 0


def write_policy(path: Path, approvers: Sequence[str]) -> Policy:
    """Write a first policy that names `approvers` (U…, @group or channel) to `path`, and return it.

    Raises PolicyError for invalid approvers, FileExistsError rather than overwrite, and other
    OSErrors.
    """
    quoted = ", ".join(
        '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in approvers
    )
    text = POLICY_TEMPLATE.replace("{approvers}", quoted)
    policy = parse(text, str(path))
    file = path.open("x", encoding="utf-8")
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()  # an incomplete policy would stop the next `--init`
        raise
    return policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the first policy, its approvers and the live check."""
    parser.add_argument(
        "--init", action="store_true", help=f"write a first {POLICY_PATH}; never overwrites"
    )
    tried = "try everything that the bot does, in this person's direct messages, then delete it"
    parser.add_argument("--live", metavar="@me", help=f"{tried}; @name or a user id")
    who = 'who decides, with --init: a user id, "@group" or "channel"; repeatable'
    parser.add_argument("--approver", action="append", default=[], metavar="U0123", help=who)


MANY_WORKSPACES_ERROR = (
    "the bot is installed in many workspaces here: `countersign workspaces doctor` checks all,"
    " `countersign workspaces doctor T…` checks one"
)


def run(arguments: argparse.Namespace) -> int:
    """Check everything, write the first policy or run the live check; returns the exit code."""
    if arguments.live is not None:
        if arguments.init or arguments.approver:
            raise UsageError("--live takes no other options")
        return run_live_check(os.environ, DOTENV, arguments.live)
    if arguments.init:
        return write_first_policy(arguments.approver)
    if arguments.approver:
        raise UsageError("--approver needs --init")
    with suppress(DotenvError):  # the checks report it
        if "COUNTERSIGN_CLIENT_ID" in read_environment_variables(os.environ, DOTENV):
            raise UsageError(MANY_WORKSPACES_ERROR)
    return print_checks(run_all_checks(os.environ, DOTENV, SystemClock()), print_line)


def run_all_checks(
    environ: MutableMapping[str, str],
    dotenv_path: Path | None,
    clock: Clock,
    http: ListeningAddress | None = None,
    list_granted: ListWorkspaces | None = None,
) -> Iterator[CheckResult]:
    """Run all checks, yielding each result at once.

    Removes misleading variables from `environ`, as a start would. For one of many workspaces,
    `http` is the address of the process that serves them; for an organisation, `list_granted`
    returns the workspaces that it lets the bot use.
    """
    try:
        settings, policy = read_settings_and_policy(environ, dotenv_path, transport=None)
    except StartupError as error:
        yield from (CheckSubject("settings").fail(each) for each in error.settings)
        yield from (CheckSubject("policy").fail(each) for each in error.policy)
        return
    yield CheckSubject("version").confirm(describe_version())
    yield CheckSubject("settings").confirm("complete")
    for warning in settings.warnings:
        yield CheckSubject("settings").warn(warning)
    remove_variables_slack_misreads(environ, settings.slack_api_url)
    yield CheckSubject("policy").confirm(
        f"{settings.policy_path}: {len(policy.rules)} rules, digest {policy.digest[:8]}"
    )
    if http is not None:
        settings = settings.model_copy(update={"http": http})
    yield from run_checks_beyond_configuration(settings, policy, clock, list_granted)


def run_checks_beyond_configuration(
    settings: Settings, policy: Policy, clock: Clock, list_granted: ListWorkspaces | None = None
) -> Iterator[CheckResult]:
    """Yield the checks of what the settings and the policy refer to: Slack, tools, model, …

    Each comes after those it depends on. `list_granted`: as for `run_all_checks`.
    """
    client = slack.build_retrying_client(settings, list_granted)
    sign_in = slack.sign_in_to_slack(client, clock, settings.workspace)
    if isinstance(sign_in, CheckResult):
        yield sign_in
    else:
        store = ReadOnlyStore(settings.database_url)
        yield from people_checks.check_workspace(sign_in, settings, policy, store, clock.now())
    if settings.slack_app_token.get_secret_value():
        own_app = (
            "" if isinstance(sign_in, CheckResult) else find_app_id(client, sign_in.workspace.bot)
        )
        yield check_app_token(client, settings, own_app)
    yield from http_checks.check_http_settings(settings)
    yield from people_checks.check_signing_setup(settings, policy)
    yield from http_checks.check_monitoring(settings)
    yield from checks.check_tools_can_be_built(settings)
    yield from checks.check_surfaces()
    yield from checks.check_rules_against_tools(settings, policy)
    yield from check_freezes_and_business_hours(policy, clock.now())
    yield from checks.check_bot_database(settings)
    yield from checks.check_agent_databases(settings)
    yield from checks.check_mcp_servers(settings)
    yield from check_model(settings, clock)
