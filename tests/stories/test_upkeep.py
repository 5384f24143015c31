"""The daily purge of the running bot: old threads are emptied, and go on from nothing."""

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


def decided(harness: Harness, text: str) -> str:
    """Somebody asked for this, Ana approved it, all is said; returns the thread."""
    thread = ask(harness, ("note", {"text": text}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    return thread


def test_an_old_thread_is_emptied(own_harness: Callable[..., Harness]) -> None:
    """What was said in it is gone from the record; its card stands; a new request knows nothing."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTERSIGN_KEEP_DAYS="90")
    old = decided(harness, "long ago")
    card = harness.said(SUPPORT, old, "long ago", who="ana")
    assert harness.app.daily_purge.purge() == 0
    later(harness, 91 * DAY)
    young = decided(harness, "just now")
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


def test_without_the_setting_nothing_goes(own_harness: Callable[..., Harness]) -> None:
    """It is off unless somebody wants it."""
    harness = own_harness(FakeTools().tools)
    decided(harness, "kept for ever")
    later(harness, 4000 * DAY)
    assert harness.app.daily_purge.purge() == 0
    assert all(each.body != "{}" for each in harness.all(Item))


def test_it_is_done_without_being_asked(own_harness: Callable[..., Harness]) -> None:
    """Soon after the start, on a thread of its own."""
    harness = own_harness(FakeTools().tools)
    decided(harness, "old by now")
    later(harness, 91 * DAY)
    gone = threading.Event()
    core = harness.app.core
    purging = DailyPurge(core.store, core.clock, 90, soon=timedelta(), done=gone.set)
    purging.start()
    try:
        assert gone.wait(30)
    finally:
        purging.stop()


def test_home_tells_of_a_purged_request_without_its_words(
    own_harness: Callable[..., Harness],
) -> None:
    """It stands there with its outcome; what it was about is gone there too."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_KEEP_DAYS="90")
    decided(harness, "seen on Home")
    later(harness, 91 * DAY)
    assert harness.app.daily_purge.purge() == 1
    harness.person("ben").open_home()
    shown = json.dumps(harness.slack.wait(harness.person("ben").home), ensure_ascii=False)
    assert "Write a note (what it was about was purged)" in shown
    assert "seen on Home" not in shown


def test_a_purged_request_is_not_tried_again(own_harness: Callable[..., Harness]) -> None:
    """Its Retry button still stands in Slack: pressed, it says that there is nothing to retry."""
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
