"""Fixtures with a local Slack for the tests of any Bolt app, named in its top `conftest.py`.

pytest_plugins = ["slack_sandbox.pytest_plugin"]

It is not installed as an entry point: that would import this package into every pytest run of an
environment, before coverage and import hooks are set up, also of projects that do not want it.

The app's manifest is `manifest.yml` in pytest's root folder, or the file named by the ini option
`slack_sandbox_manifest` (YAML or JSON, relative to the root folder). A whole test:

def test_hello(slack):
        client = WebClient(token=slack.bot_token, base_url=slack.api_url)
        app = App(client=client)
        app.message("hello")(lambda say: say("hi"))
        SocketModeHandler(app, slack.app_token).connect()
        slack.wait_connected()
        ana = slack.person("ana")
        ana.say("general", "hello")
        slack.wait(lambda: [m for m in ana.messages("general") if m["text"] == "hi"])

`slack.person(name)` acts and sees; `slack.wait(predicate)` waits for what the app does;
`slack.faults` lets calls fail, hang and break off; `slack.clock` moves the time. It knows no app of
its own and never imports the bot.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import ManifestError, read_manifest
from slack_sandbox.spec.slack_error import Json

_OPTION = "slack_sandbox_manifest"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option that names the manifest."""
    parser.addini(
        _OPTION,
        "The manifest of the Slack app under test, relative to the root folder.",
        default="manifest.yml",
    )


@pytest.fixture(scope="session")
def slack_manifest(pytestconfig: pytest.Config) -> Json:
    """The app's manifest, read once; override it to test with another. A test without one fails."""
    path = Path(pytestconfig.rootpath, str(pytestconfig.getini(_OPTION)))
    try:
        return read_manifest(path)
    except ManifestError as error:
        pytest.fail(f"{_OPTION}: {error}", pytrace=False)


@pytest.fixture
def slack(slack_manifest: Json) -> Iterator[Sandbox]:
    """A Slack of its own for one test: fresh workspace, one app installed.

    Starts in milliseconds.
    """
    with Sandbox(copy.deepcopy(slack_manifest)) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def slack_session(slack_manifest: Json) -> Iterator[Sandbox]:
    """One Slack for the whole run, where the app under test takes long to start.

    What tests leave behind stays.
    """
    with Sandbox(copy.deepcopy(slack_manifest)) as sandbox:
        yield sandbox
