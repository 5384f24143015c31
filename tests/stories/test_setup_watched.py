"""What is wrong with the setup is said by the bot itself: in the log, and as a number."""

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

PAGE = {"COUNTERSIGN_HTTP": "127.0.0.1:0"}
SOUND = '[defaults]\napprovers = ["@shop-leads", "UDAN00001"]\n'
NO_GROUP = SOUND.replace("@shop-leads", "@shop-leeds")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of the setup."""
    return [each.getMessage() for each in caplog.records if each.name == "countersign.setup"]


def number(harness: Harness, level: str) -> float:
    """What the page of metrics says is wrong (`fail`) or odd (`warn`)."""
    page = harness.app.core.signals.tracer.render_metrics_page() or ""
    start = f'countersign_setup_problems{{level="{level}"}} '
    return next(float(each.removeprefix(start)) for each in page.splitlines() if start in each)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what a thread is about to do."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at once."""
    monkeypatch.setattr(inspection, "FIRST_CHECK_DELAY_SECONDS", 0.0)


def reload(harness: Harness, policy: str) -> None:
    """Put another policy into the file, and let the bot see it."""
    (harness.folder / "policy.toml").write_text(policy)
    for _ in range(2):
        harness.clock.advance(POLICY_CHECK_INTERVAL.total_seconds() + 1)
        harness.settle()


def test_it_says_what_is_wrong_at_the_start_and_after_each_reload(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """A group that is not there is a line of the log and a number; once the file is mended the
    number falls, and what is wrong in the next one is told as well.
    """
    caplog.set_level(logging.INFO, "countersign.setup")
    harness = own_harness(policy=NO_GROUP, **PAGE)
    assert (number(harness, "fail"), number(harness, "warn")) == (0, 0)
    harness.app.start_inspection()
    until(lambda: number(harness, "fail") > 0)
    [line] = [each for each in lines(caplog) if "@shop-leeds" in each]
    assert line.startswith("the setup: fail approvers @shop-leeds: there is no such user group. ")
    reload(harness, SOUND)
    until(lambda: number(harness, "fail") == 0)
    assert lines(caplog)[-1] == "the setup: no problems"
    reload(harness, SOUND + 'post_to = "#nowhere"\n')
    until(lambda: number(harness, "fail") > 0)
    assert any("channel #nowhere: does not exist" in each for each in lines(caplog))


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
def test_each_kind_of_trouble_is_a_line(
    own_harness: Callable[..., Harness],
    caplog: pytest.LogCaptureFixture,
    policy: str,
    said: str,
) -> None:
    """People, places, rules that nobody can decide, and tools that run unasked: a line each."""
    harness = own_harness(policy=policy, **PAGE)
    harness.app.start_inspection()
    until(lambda: number(harness, "fail") + number(harness, "warn") > 0)
    assert any(said in each for each in lines(caplog)), lines(caplog)


def test_missing_scopes_and_an_unknown_operator_are_told(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """What doctor fails at, the running bot says too."""
    harness = own_harness(policy=SOUND, COUNTERSIGN_OPERATOR="U0NOBODY1", **PAGE)
    app = harness.slack.world.app
    app.granted = app.scopes - {"reactions:write"}
    harness.app.start_inspection()
    until(lambda: number(harness, "fail") == 2)
    text = "\n".join(lines(caplog))
    assert "scopes: missing: reactions:write" in text
    assert "operator: there is no such person" in text


def test_slack_that_does_not_answer_holds_up_neither_the_look_nor_the_stop(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """A look that fails is a line; the bot works, and stops at once."""
    harness = own_harness(policy=SOUND, **PAGE)
    harness.slack.faults.fail("usergroups.list", "internal_error", times=50)
    harness.app.start_inspection()
    until(lambda: number(harness, "fail") > 0)
    assert any("Slack cannot be asked" in each for each in lines(caplog))
    begun = time.monotonic()
    harness.app.stop()
    assert time.monotonic() - begun < 10
    harness.start()


@pytest.mark.socket
def test_an_app_token_of_another_app_is_refused_at_the_start(
    own_harness: Callable[..., Harness],
) -> None:
    """What people do would never arrive, so the bot does not start, and says why."""
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
