"""Every alert of docs/alerts.yml fires on the fault that it is for, and none fires without one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from urllib.request import urlopen

import pytest

pytest.importorskip("prometheus_client")
pytest.importorskip("starlette")

from bot.demo.model_server import Turn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, press, vote, waiting
from tests.test_docs_watching import ALERTS
from tests.watch.promql import Scraped

pytestmark = pytest.mark.file  # the faults of the database are those of a file
LONG_DEADLINE_POLICY = '[defaults]\napprovers = ["@shop-leads"]\ndeadline = "12h"\n'
EXPRESSIONS = {each["alert"]: each["expr"] for each in ALERTS}


@dataclass
class Watch:
    """Prometheus beside one bot: it scrapes when asked to, by the story's clock."""

    harness: Harness
    scraped: Scraped = field(default_factory=Scraped)
    at: float = 0.0

    def scrape(self, later: float = 15.0) -> None:
        """Scrape this many seconds after the last time."""
        self.at += later
        web = self.harness.app.endpoints.web
        assert web is not None
        try:
            with urlopen(f"{web.url}/metrics", timeout=10) as answer:
                page: str | None = answer.read().decode()
        except OSError:
            page = None
        self.scraped.add(self.at, page)

    def advance(self, seconds: float) -> None:
        """Move the clock on, then scrape."""
        self.harness.clock.advance(seconds)
        self.scrape(seconds)

    def fires(self, alert: str) -> bool:
        """Whether that alert's expression is true."""
        return self.scraped.fires(EXPRESSIONS[alert])

    def advance_until(self, alert: str, step: float = 10.0) -> None:
        """Move the clock on and scrape until that alert's expression is true."""

        def look() -> bool:
            self.advance(step)
            return self.fires(alert)

        self.harness.slack.wait(look, 30)


def stop_bot(watch: Watch) -> None:
    """The bot has stopped."""
    watch.harness.app.stop()
    watch.scrape()


def rename_database(watch: Watch) -> None:
    """The database is renamed."""
    path = watch.harness.folder / "countersign.db"
    path.rename(path.with_name("elsewhere.db"))
    watch.scrape()


def rename_database_and_write(watch: Watch) -> None:
    """The database is renamed, and a message arrives."""
    rename_database(watch)
    watch.harness.person("ben").say(SUPPORT, "@bot are you there?")
    watch.advance_until("CountersignUnstored", 0.1)


def hold_write_lock(watch: Watch) -> None:
    """Another program holds the write lock for more than a second while a message arrives."""
    with closing(
        sqlite3.connect(watch.harness.folder / "countersign.db", isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        watch.harness.person("ben").say(SUPPORT, "@bot are you there?")
        watch.harness.slack.wait(lambda: time.monotonic() - begun > 1.5)
        other.execute("ROLLBACK")
    watch.advance_until("CountersignAcknowledgesLate", 1)


def hang_look_ups(watch: Watch) -> None:
    """Slack does not answer who somebody is."""
    watch.harness.slack.faults.hang("users.info", times=50)
    watch.harness.slack.faults.hang("users.list", times=50)
    watch.harness.person("dan").say(SUPPORT, "@bot are you there?")
    watch.advance_until("CountersignInboxBehind", 31)


def refuse_posts(watch: Watch) -> None:
    """Slack answers each post with status 503."""
    watch.harness.slack.faults.status("chat.postMessage", 503, times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.advance_until("CountersignOutboxBehind", 31)


def occupy_worker(watch: Watch) -> None:
    """The one worker waits for the model, and another request comes."""
    hold = watch.harness.planner.hold_next_request()
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    assert hold.arrived.wait(20)
    watch.harness.person("ben").say(SUPPORT, "@bot two")
    watch.advance_until("CountersignRunsWait", 100)
    hold.release()


def fail_model(watch: Watch) -> None:
    """The model's server answers 500."""
    watch.harness.planner.fail_next_requests(500, times=100)
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    watch.harness.person("ben").say(SUPPORT, "@bot two")
    watch.advance_until("CountersignModelFails", 1)


def refuse_model_key(watch: Watch) -> None:
    """The model's server answers 401."""
    watch.harness.planner.fail_next_requests(401, times=100)
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    watch.advance_until("CountersignModelRefusesKey", 1)


def fail_posts(watch: Watch) -> None:
    """Slack answers each post with an error."""
    watch.harness.slack.faults.fail("chat.postMessage", "internal_error", times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.advance_until("CountersignSlackRefuses")


def limit_posts(watch: Watch) -> None:
    """Slack rate-limits each post."""
    watch.harness.slack.faults.rate_limit("chat.postMessage", 1, times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.advance_until("CountersignSlackLimits")


def fail_look_ups(watch: Watch) -> None:
    """Slack answers each look-up of a person with an error."""
    for method in ("users.info", "users.list"):
        watch.harness.slack.faults.fail(method, "internal_error", times=500)

    def look() -> bool:
        watch.harness.person("dan").say(SUPPORT, "@bot one")
        watch.harness.settle()
        watch.advance(10)
        return watch.fires("CountersignLookUpsFail")

    watch.harness.slack.wait(look, 30)


def decide_nothing(watch: Watch) -> None:
    """Nobody decides for four hours; three are not enough for the alert."""
    watch.harness.card(SUPPORT, waiting(watch.harness, ("note", {"text": "x"})))
    watch.advance(3 * 3600)
    assert not watch.fires("CountersignNobodyDecides")
    watch.advance(3600 + 60)


def let_deadlines_pass(watch: Watch) -> None:
    """Six calls expire undecided."""
    calls = [("note", {"text": f"note {number}"}) for number in range(6)]
    watch.harness.card(SUPPORT, waiting(watch.harness, *calls), having="approve_all")
    watch.advance(11.5 * 3600)
    watch.advance_until("CountersignExpiries", 600)


def lose_outcome(watch: Watch) -> None:
    """The outcome of a call is lost."""
    card = watch.harness.card(SUPPORT, waiting(watch.harness, ("lose", {"text": "x"})))
    vote(watch.harness, "ana", card)
    watch.advance_until("CountersignUnknownCalls", 1)


def fail_requests(watch: Watch) -> None:
    """Four requests end with an error."""
    for number in range(4):
        watch.harness.planner.fail_next_requests(400, times=4)
        watch.harness.person("ben").say(SUPPORT, f"@bot {number}")
        watch.harness.settle()
    watch.advance_until("CountersignRequestsFail", 1)


def break_policy_file(watch: Watch) -> None:
    """The policy's file is not valid TOML any more."""
    (watch.harness.folder / "policy.toml").write_text("[defaults", "utf-8")
    watch.advance_until("CountersignPolicyRefused", 5)


def name_unknown_group(watch: Watch) -> None:
    """The policy names a group that Slack does not know."""
    watch.harness.app.start_inspection()
    policy = '[defaults]\napprovers = ["@no-such-group"]\n'
    (watch.harness.folder / "policy.toml").write_text(policy, "utf-8")
    watch.advance_until("CountersignSetup", 5)


FAULTS: dict[str, Callable[[Watch], None]] = {
    "CountersignDown": stop_bot,
    "CountersignDatabase": rename_database,
    "CountersignUnstored": rename_database_and_write,
    "CountersignAcknowledgesLate": hold_write_lock,
    "CountersignInboxBehind": hang_look_ups,
    "CountersignOutboxBehind": refuse_posts,
    "CountersignRunsWait": occupy_worker,
    "CountersignModelFails": fail_model,
    "CountersignModelRefusesKey": refuse_model_key,
    "CountersignSlackRefuses": fail_posts,
    "CountersignSlackLimits": limit_posts,
    "CountersignLookUpsFail": fail_look_ups,
    "CountersignNobodyDecides": decide_nothing,
    "CountersignExpiries": let_deadlines_pass,
    "CountersignUnknownCalls": lose_outcome,
    "CountersignRequestsFail": fail_requests,
    "CountersignPolicyRefused": break_policy_file,
    "CountersignSetup": name_unknown_group,
}


@pytest.fixture
def watch(own_harness: Callable[..., Harness]) -> Watch:
    """A bot with one worker, scraped before and after one request."""
    settings = {"COUNTERSIGN_HTTP": "127.0.0.1:0", "COUNTERSIGN_WORKERS": "1"}
    harness = own_harness(FakeTools().tools, LONG_DEADLINE_POLICY, **settings)
    made = Watch(harness)
    made.scrape()
    thread = ask(harness, ("note", {"text": "well"}))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    made.scrape()
    return made


def test_every_alert_has_a_fault_here() -> None:
    """No alert stays untried, and each one that is tried exists."""
    assert list(FAULTS) == list(EXPRESSIONS)


def test_no_alert_fires_when_all_is_well(watch: Watch) -> None:
    """A request is asked, answered, and nothing else happens for three minutes."""
    watch.harness.planner.script(Turn(text="And well."))
    thread = watch.harness.person("ben").say(SUPPORT, "@bot how are you?")
    watch.harness.said(SUPPORT, thread, "And well.")
    watch.harness.settle()
    for _ in range(3):
        watch.advance(60)
        assert [each for each in EXPRESSIONS if watch.fires(each)] == []


@pytest.mark.long
@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_on_its_fault(watch: Watch, alert: str) -> None:
    """It does not fire before the fault."""
    assert not watch.fires(alert)
    FAULTS[alert](watch)
    assert watch.fires(alert)
