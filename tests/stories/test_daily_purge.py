"""The daily purge of a working bot: contents of old requests are deleted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta

from bot.upkeep import DailyPurge
from storage.models import Item, Revision
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent, arrived, ask, later, now_at, statuses, told, vote

DAY = 86_400


def ask_and_approve(harness: Harness, text: str) -> str:
    """Have a note requested, approved and answered; return the thread."""
    thread = ask(harness, ("note", {"text": text}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    return thread


def test_the_contents_of_an_old_thread_are_purged(own_harness: Callable[..., Harness]) -> None:
    """The card in Slack stays; a new request in the thread begins without its transcript."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTERSIGN_KEEP_DAYS="90")
    old = ask_and_approve(harness, "long ago")
    card = harness.said(SUPPORT, old, "long ago", who="ana")
    assert harness.app.daily_purge.purge() == 0
    later(harness, 91 * DAY)
    young = ask_and_approve(harness, "just now")
    assert harness.app.daily_purge.purge() == 1
    kept = {each.arguments for each in harness.all(Revision)}
    assert kept == {"{}", '{"text":"just now"}'}
    assert statuses(harness, old) == [CallStatus.SUCCEEDED]
    harness.person("ben").say(SUPPORT, "@bot and now?", old)
    arrived(harness)
    harness.settle()
    asked = json.dumps(harness.planner.requests[-1]["input"])
    assert "and now?" in asked
    assert '"function_call"' not in asked
    assert now_at(harness, SUPPORT, card["ts"])["ts"] == card["ts"]
    assert statuses(harness, young) == [CallStatus.SUCCEEDED]


def test_without_the_setting_nothing_is_purged(own_harness: Callable[..., Harness]) -> None:
    """`COUNTERSIGN_KEEP_DAYS` is not set."""
    harness = own_harness(FakeTools().tools)
    ask_and_approve(harness, "kept for ever")
    later(harness, 4000 * DAY)
    assert harness.app.daily_purge.purge() == 0
    assert all(each.body != "{}" for each in harness.all(Item))


def test_the_purge_runs_by_itself_after_the_start(own_harness: Callable[..., Harness]) -> None:
    """On a thread of its own."""
    harness = own_harness(FakeTools().tools)
    ask_and_approve(harness, "old by now")
    later(harness, 91 * DAY)
    gone = threading.Event()
    core = harness.app.core
    purging = DailyPurge(core.store, core.clock, 90, soon=timedelta(), done=gone.set)
    purging.start()
    try:
        assert gone.wait(30)
    finally:
        purging.stop()


def test_home_lists_purged_requests_without_contents(
    own_harness: Callable[..., Harness],
) -> None:
    """It says that the contents were purged."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_KEEP_DAYS="90")
    ask_and_approve(harness, "seen on Home")
    later(harness, 91 * DAY)
    assert harness.app.daily_purge.purge() == 1
    harness.person("ben").open_home()
    shown = json.dumps(harness.slack.wait(harness.person("ben").home), ensure_ascii=False)
    assert "Write a note (what it was about was purged)" in shown
    assert "seen on Home" not in shown


def test_a_purged_request_cannot_be_retried(own_harness: Callable[..., Harness]) -> None:
    """Its Retry button is still in Slack, and answers that there is nothing to retry."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_KEEP_DAYS="90")
    harness.planner.fail_next_requests(500, times=5)
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread, who="ben", having="retry")
    all_sent(harness)
    later(harness, 91 * DAY)
    assert harness.app.daily_purge.purge() == 1
    harness.person("ben").click(SUPPORT, card["ts"], "retry")
    told(harness, "ben", SUPPORT, thread, "nothing to retry")
    assert harness.run_in(thread).status is RunStatus.FAILED
