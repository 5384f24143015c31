"""A working bot reports problems of its setup: in the log, and as a metric."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from tests.local_slack import read_countersign_manifest

pytest.importorskip("prometheus_client")

from bot.checks import inspection
from bot.config.startup import POLICY_CHECK_INTERVAL, StartupError
from bot.slack.socket import TOKENS_OF_TWO_APPS_ERROR
from tests.stories.harness import Harness
from tests.stories.test_clock_set_back import set_clock_forward_and_back

PAGE = {"COUNTERSIGN_HTTP": "127.0.0.1:0"}
SOUND = '[defaults]\napprovers = ["@shop-leads", "UDAN00001"]\n'
NO_GROUP = SOUND.replace("@shop-leads", "@shop-leeds")


def list_setup_log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's lines about the setup."""
    return [each.getMessage() for each in caplog.records if each.name == "countersign.setup"]


def read_problem_count(harness: Harness, level: str) -> float:
    """Read from the metrics page how many problems (`fail`) or oddities (`warn`) there are."""
    page = harness.app.core.signals.tracer.render_metrics_page() or ""
    start = f'countersign_setup_problems{{level="{level}"}} '
    return next(float(each.removeprefix(start)) for each in page.splitlines() if start in each)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a thread has made this true."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


@pytest.fixture(autouse=True)
def _inspect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first check begin without a delay."""
    monkeypatch.setattr(inspection, "FIRST_CHECK_DELAY_SECONDS", 0.0)


@pytest.mark.file  # a server has a clock of its own
def test_a_record_ahead_of_a_clock_that_is_right_is_reported(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """The machine's clock was an hour ahead and is set right: there is nothing to set."""
    caplog.set_level(logging.INFO, "countersign.setup")
    harness = own_harness(policy=SOUND, **PAGE)
    set_clock_forward_and_back(harness)
    harness.app.start_inspection()
    wait_until(lambda: any("clock" in each for each in list_setup_log_lines(caplog)))
    [line] = [each for each in list_setup_log_lines(caplog) if "clock" in each]
    assert line.startswith("the setup: warn clock: the record's time is 1 hour ahead of this")
    assert "stopped for as long" in line


def replace_policy(harness: Harness, policy: str) -> None:
    """Write another policy to the file, and let the bot load it."""
    (harness.folder / "policy.toml").write_text(policy)
    for _ in range(2):
        harness.clock.advance(POLICY_CHECK_INTERVAL.total_seconds() + 1)
        harness.settle()


def test_problems_are_reported_at_the_start_and_after_each_reload(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """A missing group is a line of the log and counts in the metric; a correct policy clears it."""
    caplog.set_level(logging.INFO, "countersign.setup")
    harness = own_harness(policy=NO_GROUP, **PAGE)
    assert (read_problem_count(harness, "fail"), read_problem_count(harness, "warn")) == (0, 0)
    harness.app.start_inspection()
    wait_until(lambda: read_problem_count(harness, "fail") > 0)
    [line] = [each for each in list_setup_log_lines(caplog) if "@shop-leeds" in each]
    assert line.startswith("the setup: fail approvers @shop-leeds: there is no such user group. ")
    replace_policy(harness, SOUND)
    wait_until(lambda: read_problem_count(harness, "fail") == 0)
    assert list_setup_log_lines(caplog)[-1] == "the setup: no problems"
    replace_policy(harness, SOUND + 'post_to = "#nowhere"\n')
    wait_until(lambda: read_problem_count(harness, "fail") > 0)
    assert any("channel #nowhere: does not exist" in each for each in list_setup_log_lines(caplog))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (SOUND.replace("UDAN00001", "U0NOBODY1"), "approver U0NOBODY1: there is no such person"),
        (SOUND + 'post_to = "#random"\n', "channel #random: the bot is not in it"),
        (SOUND + "quorum = 40\n", "rule 'default': needs 40 to approve"),
        (
            SOUND + '[[rule]]\nname = "r"\nverdict = "ask"\nrequester = "@no-such"\n',
            "group @no-such: there is no such user group",
        ),
        (
            SOUND + '[[rule]]\nname = "r"\nverdict = "ask"\nchannel = "#nowhere"\n',
            "channel #nowhere: does not exist",
        ),
        (
            SOUND + '[[rule]]\nname = "r"\nverdict = "ask"\nwhen = "requester == people.nobody"\n',
            "person @nobody: nobody has that handle",
        ),
        (
            SOUND + '[[rule]]\nname = "r"\nverdict = "ask"\nrequester = "U0NOBODY1"\n',
            "requester U0NOBODY1: there is no such person",
        ),
        (
            SOUND + '[[rule]]\nname = "all"\ntool = "*"\nverdict = "allow"\n',
            "rule 'all': these changes run without approval: cancel_order",
        ),
    ],
)
def test_each_kind_of_problem_is_logged(
    own_harness: Callable[..., Harness],
    caplog: pytest.LogCaptureFixture,
    policy: str,
    said: str,
) -> None:
    """Unknown people, groups and channels, impossible quorums, and writes without approval."""
    harness = own_harness(policy=policy, **PAGE)
    harness.app.start_inspection()
    wait_until(
        lambda: read_problem_count(harness, "fail") + read_problem_count(harness, "warn") > 0
    )
    assert any(said in each for each in list_setup_log_lines(caplog)), list_setup_log_lines(caplog)


def test_missing_scopes_and_an_unknown_operator_are_logged(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """The working bot reports what `doctor` would."""
    harness = own_harness(policy=SOUND, COUNTERSIGN_OPERATOR="U0NOBODY1", **PAGE)
    app = harness.slack.world.app
    app.granted = app.scopes - {"reactions:write"}
    harness.app.start_inspection()
    wait_until(lambda: read_problem_count(harness, "fail") == 2)
    text = "\n".join(list_setup_log_lines(caplog))
    assert "scopes: missing: reactions:write" in text
    assert "operator: there is no such person" in text


def test_a_failing_slack_look_up_is_logged_and_the_bot_can_stop(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """Slack answers with an error 50 times; the bot still stops within ten seconds."""
    harness = own_harness(policy=SOUND, **PAGE)
    harness.slack.faults.fail("usergroups.list", "internal_error", times=50)
    harness.app.start_inspection()
    wait_until(lambda: read_problem_count(harness, "fail") > 0)
    assert any("Slack cannot be asked" in each for each in list_setup_log_lines(caplog))
    begun = time.monotonic()
    harness.app.stop()
    assert time.monotonic() - begun < 10
    harness.start()


@pytest.mark.socket
def test_the_bot_does_not_start_with_an_app_token_of_another_app(
    own_harness: Callable[..., Harness],
) -> None:
    """Slack's events would never arrive; the error names both apps."""
    harness = own_harness(policy=SOUND)
    harness.app.stop()
    other = harness.slack.install(read_countersign_manifest())
    harness.extra["SLACK_APP_TOKEN"] = other.app_token
    with pytest.raises(StartupError) as caught:
        harness.start()
    harness.app.stop()
    assert caught.value.settings == (
        TOKENS_OF_TWO_APPS_ERROR.format(other.id, harness.slack.world.app.id),
    )
    del harness.extra["SLACK_APP_TOKEN"]
    harness.start()
