"""A first policy for `countersign doctor --init`: who decides, and examples to go on from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bot.policy.evaluate import Policy, PolicyError, parse
from countersign.cli.console import complain, say

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
