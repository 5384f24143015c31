"""The pytest plugin in the tests of another Bolt project, in a pytest run of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

MANIFEST = """
features:
  bot_user: {display_name: greeter}
  slash_commands: [{command: /greet, description: Greets}]
oauth_config:
  scopes: {bot: [channels:history, chat:write, commands]}
settings:
  event_subscriptions: {bot_events: [message.channels]}
"""

APP = """
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient


def start(slack):
    app = App(client=WebClient(token=slack.bot_token, base_url=slack.api_url))

    @app.message("hello")
    def hello(message, say):
        say(f"hi <@{message['user']}>", thread_ts=message["ts"])

    @app.command("/greet")
    def greet(ack, command):
        ack(f"greetings, {command['text']}")

    handler = SocketModeHandler(app, slack.app_token)
    handler.connect()
    slack.wait_connected()
    return handler
"""

TESTS = """
import pytest
from greeter import start


@pytest.fixture
def app(slack):
    handler = start(slack)
    yield
    handler.client.auto_reconnect_enabled = False
    slack.faults.cut()
    slack.wait(lambda: slack.connections == 0)
    handler.close()


def test_says_hi(slack, app):
    ana = slack.person("ana")
    ts = ana.say("general", "hello")
    answer = slack.wait(lambda: ana.messages("general", ts)[1:])[0]
    assert answer["text"] == "hi <@UANA00001>"


def test_greets(slack, app):
    ben = slack.person("ben")
    assert ben.command("general", "/greet world").wait() == "acked"
    assert [m["text"] for m in ben.messages("general")] == ["greetings, world"]


def test_a_slack_of_its_own(slack, slack_session):
    assert slack.person("ben").messages("general") == []
    assert slack.url != slack_session.url
    slack.world.app.manifest["features"].clear()
    slack_session.person("ben").say("general", "still here")


def test_one_for_all(slack_session):
    assert [m["text"] for m in slack_session.person("ana").messages("general")] == ["still here"]
    assert slack_session.world.app.name == "greeter"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A little Bolt project with a conftest that names the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest('pytest_plugins = ["slack_sandbox.pytest_plugin"]')
    pytester.makepyfile(greeter=APP, test_greeter=TESTS)
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    """Run the project's tests, in order, without this environment's other plugins."""
    return project.runpytest_subprocess(
        "-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"
    )


@pytest.mark.long
def test_the_plugin_works_in_another_project(project: pytest.Pytester) -> None:
    """Its manifest is found in the root folder; messages and commands arrive.

    Each test has its own Slack.
    """
    project.makefile(".yml", manifest=MANIFEST)
    run(project).assert_outcomes(passed=4)


def test_the_ini_option_names_another_manifest(project: pytest.Pytester) -> None:
    """The ini option names another file.

    A manifest that Slack would not take fails the tests with the reason.
    """
    project.makeini("[pytest]\nslack_sandbox_manifest = slack/app.yaml")
    project.mkdir("slack").joinpath("app.yaml").write_text(
        MANIFEST.replace("description: Greets", "description: ''")
    )
    result = run(project)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*slack_sandbox_manifest: *app.yaml: features.slash_commands*"])
