"""Every alert of docs/watching.md is tried by its trouble, at the wire; when all is well, none is
raised.
"""

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

pytestmark = pytest.mark.file  # the troubles of the database are a file's
PATIENT = '[defaults]\napprovers = ["@shop-leads"]\ndeadline = "12h"\n'
EXPRESSIONS = {each["alert"]: each["expr"] for each in ALERTS}


@dataclass
class Watch:
    """Prometheus beside one bot: it scrapes when told to, by the story's clock."""

    harness: Harness
    scraped: Scraped = field(default_factory=Scraped)
    at: float = 0.0

    def scrape(self, later: float = 15.0) -> None:
        """Scrape so many seconds after the last time."""
        self.at += later
        web = self.harness.app.endpoints.web
        assert web is not None
        try:
            with urlopen(f"{web.url}/metrics", timeout=10) as answer:
                page: str | None = answer.read().decode()
        except OSError:
            page = None
        self.scraped.add(self.at, page)

    def pass_by(self, seconds: float) -> None:
        """So much time passes, and it scrapes again."""
        self.harness.clock.advance(seconds)
        self.scrape(seconds)

    def fires(self, alert: str) -> bool:
        """Whether that alert's expression is true."""
        return self.scraped.fires(EXPRESSIONS[alert])

    def until(self, alert: str, step: float = 10.0) -> None:
        """Have time pass until that alert's expression is true."""

        def look() -> bool:
            self.pass_by(step)
            return self.fires(alert)

        self.harness.slack.wait(look, 30)


def stop(watch: Watch) -> None:
    """The bot has ended."""
    watch.harness.app.stop()
    watch.scrape()


def lose_the_file(watch: Watch) -> None:
    """The database is renamed."""
    path = watch.harness.folder / "countersign.db"
    path.rename(path.with_name("elsewhere.db"))
    watch.scrape()


def write_to_it_then(watch: Watch) -> None:
    """The database is renamed, and somebody writes."""
    lose_the_file(watch)
    watch.harness.person("ben").say(SUPPORT, "@bot are you there?")
    watch.until("CountersignUnstored", 0.1)


def hold_the_lock(watch: Watch) -> None:
    """Another program writes for longer than a second while a message arrives."""
    with closing(
        sqlite3.connect(watch.harness.folder / "countersign.db", isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        watch.harness.person("ben").say(SUPPORT, "@bot are you there?")
        watch.harness.slack.wait(lambda: time.monotonic() - begun > 1.5)
        other.execute("ROLLBACK")
    watch.until("CountersignAcknowledgesLate", 1)


def keep_a_look_up(watch: Watch) -> None:
    """Slack does not say who somebody is."""
    watch.harness.slack.faults.hang("users.info", times=50)
    watch.harness.slack.faults.hang("users.list", times=50)
    watch.harness.person("dan").say(SUPPORT, "@bot are you there?")
    watch.until("CountersignInboxBehind", 31)


def refuse_posts(watch: Watch) -> None:
    """Slack takes no message."""
    watch.harness.slack.faults.status("chat.postMessage", 503, times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.until("CountersignOutboxBehind", 31)


def keep_the_worker(watch: Watch) -> None:
    """The one worker waits for the model, and another request comes."""
    hold = watch.harness.planner.hold_next_request()
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    assert hold.arrived.wait(20)
    watch.harness.person("ben").say(SUPPORT, "@bot two")
    watch.until("CountersignRunsWait", 100)
    hold.release()


def fail_the_model(watch: Watch) -> None:
    """The model's server answers 500."""
    watch.harness.planner.fail_next_requests(500, times=100)
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    watch.harness.person("ben").say(SUPPORT, "@bot two")
    watch.until("CountersignModelFails", 1)


def refuse_the_key(watch: Watch) -> None:
    """The model's server answers 401."""
    watch.harness.planner.fail_next_requests(401, times=100)
    watch.harness.person("ben").say(SUPPORT, "@bot one")
    watch.until("CountersignModelRefusesKey", 1)


def fail_posts(watch: Watch) -> None:
    """Slack answers each post with an error."""
    watch.harness.slack.faults.fail("chat.postMessage", "internal_error", times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.until("CountersignSlackRefuses")


def limit_posts(watch: Watch) -> None:
    """Slack wants a pause after each post."""
    watch.harness.slack.faults.rate_limit("chat.postMessage", 1, times=500)
    waiting(watch.harness, ("note", {"text": "x"}))
    watch.until("CountersignSlackLimits")


def fail_look_ups(watch: Watch) -> None:
    """Slack answers each look-up of a person with an error."""
    for method in ("users.info", "users.list"):
        watch.harness.slack.faults.fail(method, "internal_error", times=500)

    def look() -> bool:
        watch.harness.person("dan").say(SUPPORT, "@bot one")
        watch.harness.settle()
        watch.pass_by(10)
        return watch.fires("CountersignLookUpsFail")

    watch.harness.slack.wait(look, 30)


def decide_nothing(watch: Watch) -> None:
    """Nobody decides for four hours."""
    watch.harness.card(SUPPORT, waiting(watch.harness, ("note", {"text": "x"})))
    watch.pass_by(3 * 3600)
    assert not watch.fires("CountersignNobodyDecides")
    watch.pass_by(3600 + 60)


def let_deadlines_pass(watch: Watch) -> None:
    """Nobody decides about six calls until their deadlines fall."""
    calls = [("note", {"text": f"note {number}"}) for number in range(6)]
    watch.harness.card(SUPPORT, waiting(watch.harness, *calls), having="approve_all")
    watch.pass_by(11.5 * 3600)
    watch.until("CountersignExpiries", 600)


def lose_an_answer(watch: Watch) -> None:
    """A call's answer is lost."""
    card = watch.harness.card(SUPPORT, waiting(watch.harness, ("lose", {"text": "x"})))
    vote(watch.harness, "ana", card)
    watch.until("CountersignUnknownCalls", 1)


def fail_requests(watch: Watch) -> None:
    """Four requests end with an error."""
    for number in range(4):
        watch.harness.planner.fail_next_requests(400, times=4)
        watch.harness.person("ben").say(SUPPORT, f"@bot {number}")
        watch.harness.settle()
    watch.until("CountersignRequestsFail", 1)


def break_the_policy(watch: Watch) -> None:
    """The policy's file is changed to something that is none."""
    (watch.harness.folder / "policy.toml").write_text("[defaults", "utf-8")
    watch.until("CountersignPolicyRefused", 5)


def name_a_group_that_is_not_there(watch: Watch) -> None:
    """The policy's approvers are a group that Slack does not know."""
    watch.harness.app.start_inspection()
    policy = '[defaults]\napprovers = ["@no-such-group"]\n'
    (watch.harness.folder / "policy.toml").write_text(policy, "utf-8")
    watch.until("CountersignSetup", 5)


TROUBLES: dict[str, Callable[[Watch], None]] = {
    "CountersignDown": stop,
    "CountersignDatabase": lose_the_file,
    "CountersignUnstored": write_to_it_then,
    "CountersignAcknowledgesLate": hold_the_lock,
    "CountersignInboxBehind": keep_a_look_up,
    "CountersignOutboxBehind": refuse_posts,
    "CountersignRunsWait": keep_the_worker,
    "CountersignModelFails": fail_the_model,
    "CountersignModelRefusesKey": refuse_the_key,
    "CountersignSlackRefuses": fail_posts,
    "CountersignSlackLimits": limit_posts,
    "CountersignLookUpsFail": fail_look_ups,
    "CountersignNobodyDecides": decide_nothing,
    "CountersignExpiries": let_deadlines_pass,
    "CountersignUnknownCalls": lose_an_answer,
    "CountersignRequestsFail": fail_requests,
    "CountersignPolicyRefused": break_the_policy,
    "CountersignSetup": name_a_group_that_is_not_there,
}


@pytest.fixture
def watch(own_harness: Callable[..., Harness]) -> Watch:
    """A bot of one worker that is scraped, twice by now; one request has come and gone."""
    settings = {"COUNTERSIGN_HTTP": "127.0.0.1:0", "COUNTERSIGN_WORKERS": "1"}
    harness = own_harness(FakeTools().tools, PATIENT, **settings)
    made = Watch(harness)
    made.scrape()
    thread = ask(harness, ("note", {"text": "well"}))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    made.scrape()
    return made


def test_every_alert_has_its_trouble() -> None:
    """None is left untried, and none is tried that is not there."""
    assert list(TROUBLES) == list(EXPRESSIONS)


def test_no_alert_when_all_is_well(watch: Watch) -> None:
    """A request is asked, approved, run and answered, and nobody is told of it."""
    watch.harness.planner.script(Turn(text="And well."))
    thread = watch.harness.person("ben").say(SUPPORT, "@bot how are you?")
    watch.harness.said(SUPPORT, thread, "And well.")
    watch.harness.settle()
    for _ in range(3):
        watch.pass_by(60)
        assert [each for each in EXPRESSIONS if watch.fires(each)] == []


@pytest.mark.long
@pytest.mark.parametrize("alert", TROUBLES)
def test_an_alert_is_raised_by_its_trouble(watch: Watch, alert: str) -> None:
    """Its expression is true of what is scraped then, and was not before."""
    assert not watch.fires(alert)
    TROUBLES[alert](watch)
    assert watch.fires(alert)
