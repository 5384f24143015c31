"""The environment of an app that the sandbox starts: nothing of a real workspace is in it."""

from __future__ import annotations

import pytest

from slack_sandbox.launch.environment import LaunchError, app_environment

OURS = {"SLACK_API_URL": "http://127.0.0.1:1/api/", "SLACK_BOT_TOKEN": "xoxb-sandbox-bot"}


@pytest.mark.parametrize(
    "value", ["xoxb-1-abc", "bot=xoxe.xoxp-1-abc", "xapp-1-A", "https://hooks.slack.com/services/T"]
)
def test_a_real_token_keeps_the_app_from_starting(value: str) -> None:
    """A variable that holds a token or hook of a real workspace is named, its value is not."""
    with pytest.raises(LaunchError) as refused:
        app_environment({"OTHER_APP": value}, OURS)
    assert "OTHER_APP is about a real workspace" in str(refused.value)
    assert value not in str(refused.value)


def test_the_sandboxs_variables_override_the_apps() -> None:
    """Bolt's OAuth is not switched on by accident.

    The sandbox's own token under another name does not count as real.
    """
    inherited = {
        "SLACK_BOT_TOKEN": "xoxb-1-real",
        "SLACK_CLIENT_ID": "1.2",
        "MY_TOKEN": OURS["SLACK_BOT_TOKEN"],
        "NODE_OPTIONS": "--trace-warnings",
        "PYTHONPATH": "/srv/app",
    }
    made = app_environment(inherited, OURS)
    assert OURS.items() <= made.items()
    assert made["MY_TOKEN"] == OURS["SLACK_BOT_TOKEN"]
    assert "SLACK_CLIENT_ID" not in made
    assert made["NODE_OPTIONS"].endswith(" --trace-warnings")
    assert made["PYTHONPATH"].endswith(":/srv/app")


@pytest.mark.parametrize("host", ["slack.com", "hooks.Slack.com", "files.slack.com."])
def test_slack_cannot_be_allowed(host: str) -> None:
    """Slack's hosts cannot be among the hosts that an app may reach."""
    with pytest.raises(LaunchError, match="is the real Slack"):
        app_environment({}, OURS, [host])
