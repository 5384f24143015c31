"""The environment of an app that the sandbox starts: what it has, and what it must not have. Pure.

Python and Node read the two folders beside this file before they run anything; programs of other
kinds get an environment in which proxies lead nowhere and all tokens are the sandbox's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

SLACK_HOSTS = (  # hosts of the real Slack, and all below them
    *("slack.com", "slack-edge.com", "slack-files.com"),
    *("slack-gov.com", "slack-msgs.com", "slackb.com"),
)
GUARD_VARIABLE = "LOCAL_SLACK"  # tells the hooks for Python and Node what they may reach
_SHIMS = Path(__file__).parent
_CLOSED_PROXY_URL = "http://127.0.0.1:9"  # nothing listens there
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_OAUTH_VARIABLES = ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET")  # set only if the app uses OAuth
_NO_PROXY_HOSTS = "localhost,127.0.0.1,::1"
_TOKEN = re.compile(r"(?<![A-Za-z0-9])(?:xox[a-z](?:\.xox[a-z])?|xapp)-\w|hooks\.slack\.com/")


class LaunchError(Exception):
    """Raised if the app cannot be started; the text says why in one line."""


def app_environment(
    inherited: Mapping[str, str], variables: Mapping[str, str], allowed: Sequence[str] = ()
) -> dict[str, str]:
    """The environment of an app: the inherited one, with `variables` (SLACK_…) in it.

    `allowed`: hosts beyond this machine that it may reach. Raises LaunchError if one of them is
    Slack's, or if another variable holds a token that is not the sandbox's.
    """
    for host in allowed:
        if is_slack(host):
            raise LaunchError(f"{host} is the real Slack, from which --run keeps the app")
    own = set(variables.values())
    for name, value in inherited.items():
        if name not in variables and value not in own and _TOKEN.search(value):
            raise LaunchError(
                f"{name} is about a real workspace, and the app would see it;"
                f" start without it: env -u {name} countersign sandbox …"
            )
    hosts = [host.lower() for host in allowed]
    guard = {"api": variables["SLACK_API_URL"], "slack": SLACK_HOSTS, "allowed": hosts}
    before = [f'--require "{_SHIMS / "node" / "local_slack.cjs"}"', inherited.get("NODE_OPTIONS")]
    paths = [str(_SHIMS / "python"), inherited.get("PYTHONPATH")]
    return {
        **{name: value for name, value in inherited.items() if name not in _OAUTH_VARIABLES},
        **dict.fromkeys(_PROXIES, _CLOSED_PROXY_URL),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), _NO_PROXY_HOSTS),
        **variables,
        GUARD_VARIABLE: json.dumps(guard),
        "NODE_OPTIONS": " ".join(filter(None, before)),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def is_slack(host: str) -> bool:
    """Whether a host is the real Slack's."""
    name = host.lower().rstrip(".")
    return any(name == each or name.endswith(f".{each}") for each in SLACK_HOSTS)
