"""`countersign doctor`: looks at everything a start depends on, and says what to do about what is
wrong.

It only looks: it posts nothing, migrates nothing, and may run beside a working bot. `--init` writes
a first policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path

from bot.cli.doctor.checks import Check, check_database, check_model, check_tools
from bot.cli.doctor.databases import check_databases
from bot.cli.doctor.policy import check_rules, usual_requesters
from bot.cli.doctor.slack import check_slack
from bot.clock import Clock
from bot.policy.evaluate import Policy, parse
from bot.settings import Settings, prepare_environment
from bot.startup import StartupError, read

FIRST_POLICY = """\
# Who decides about what the agent wants to do. Countersign reads this file at its start, and when it changes.
# Rules are tried from the top; the first that fits applies. What no rule fits: reads run, all else asks.

[defaults]
approvers = [{approvers}]  # user ids ("U0123"), groups ("@shop-leads"), or "channel": whoever is in it
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


def examine(
    environ: MutableMapping[str, str], dotenv_path: Path | None, clock: Clock
) -> Iterator[Check]:
    """All checks, as they are made.

    Takes misleading variables out of `environ`, as a start would.
    """
    try:
        settings, policy = read(environ, dotenv_path)
    except StartupError as error:
        yield from (Check("fail", "settings", each) for each in error.settings)
        yield from (Check("fail", "policy", each) for each in error.policy)
        return
    yield Check("ok", "settings", "all there")
    for warning in settings.warnings:
        yield Check("warn", "settings", warning)
    prepare_environment(environ, settings)
    yield Check(
        "ok",
        "policy",
        f"{settings.policy_path}: {len(policy.rules)} rules, digest {policy.digest[:8]}",
    )
    yield from check_all(settings, policy, clock)


def check_all(settings: Settings, policy: Policy, clock: Clock) -> Iterator[Check]:
    """The checks beyond the configuration itself."""
    yield from check_slack(settings, policy, clock, usual_requesters(settings, clock.now()))
    yield from check_tools(settings)
    yield from check_rules(settings, policy, clock)
    yield from check_database(settings)
    yield from check_databases(settings)
    yield from check_model(settings)


def doctor(checks: Iterator[Check], say: Callable[[str], None]) -> int:
    """Say each check in a line, then the sum; returns the exit code, 1 where something failed."""
    counts = {"ok": 0, "warn": 0, "fail": 0}
    for check in checks:
        counts[check.level] += 1
        say(str(check))
    say(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} wrong")
    return 1 if counts["fail"] else 0


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
