"""Calls that policy allows need approval after a rejection; old approvals do not count."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from storage.models import Delivery
from storage.states import CallStatus, DeliveryStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, later, now_at, reject, statuses, vote
from tests.stories.sub_agents import AGENTS, errand, writes

C = CallStatus
POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "4h"
good_for = "30m"

[[rule]]
tool = "put"
verdict = "allow"

[[rule]]
tool = "async_note"
verdict = "allow"
after_rejection = "allow"

[[rule]]
tool = "wipe"
verdict = "deny"
reason = "Nothing is wiped today."
"""
OTHERS = """
[[rule]]
tool = "note"
when = 'args.text == "late"'
verdict = "ask"
approvers = ["@finance"]
"""
WHY = "something in this request was rejected"


def test_after_a_rejection_allowed_calls_need_approval(harness: Harness, fakes: FakeTools) -> None:
    """Reads run all the same, and so do calls whose rule says `after_rejection = "allow"`.

    What policy denies is refused, as before.
    """
    smaller = [(tool, {"text": "smaller"}) for tool in ("put", "async_note", "peek", "wipe")]
    harness.planner.script(
        Turn(calls=[("note", {"text": "large"})]), Turn(calls=smaller), Turn(text="That is all.")
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at all")
    card = harness.said(SUPPORT, thread, WHY, "ana")
    harness.settle()
    assert statuses(harness, thread) == [
        *(C.REJECTED, C.PENDING, C.APPROVED, C.SUCCEEDED, C.REFUSED)
    ]
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert [fakes.did(tool, "smaller") for tool, _ in smaller] == [1, 1, 1, 0]
    # the rejection does not count for other requests
    other = ask(harness, ("put", {"text": "other"}))
    harness.said(SUPPORT, other, "That is all.")
    assert statuses(harness, other) == [C.SUCCEEDED]


def test_a_rejection_counts_for_the_first_call_of_a_sub_agent(own_harness: Any) -> None:
    """It is another run's first call, but of the same request."""
    fakes = FakeTools()
    harness = own_harness([*fakes.tools, *AGENTS], POLICY.replace('"put"', '"note"'))
    harness.planner.script(
        Turn(calls=[("put", {"text": "large"})]),
        Turn(calls=[errand("smaller")]),
        writes("smaller"),
        Turn(text="Written."),
        Turn(text="That is all."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at all")
    card = harness.said(SUPPORT, thread, WHY, "ana")
    harness.settle()
    assert fakes.did("note", "smaller") == 0
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "smaller") == 1


def test_a_rejection_counts_for_its_whole_plan(harness: Harness, fakes: FakeTools) -> None:
    """A call that policy allowed waits for the others of its plan, and one is rejected."""
    thread = ask(harness, ("note", {"text": "first"}), ("put", {"text": "second"}))
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at all")
    harness.said(SUPPORT, thread, WHY)
    harness.settle()
    assert statuses(harness, thread) == [C.REJECTED, C.PENDING]
    assert fakes.did("put", "second") == 0


def test_a_rejection_by_others_is_not_called_a_change_of_policy(own_harness: Any) -> None:
    """Ana approves what policy allowed before her rejection; then Cleo rejects something else."""
    harness = own_harness(FakeTools().tools, POLICY + OTHERS)
    calls = [("put", {"text": "smaller"}), ("note", {"text": "late"})]
    harness.planner.script(Turn(calls=[("note", {"text": "large"})]), Turn(calls=calls))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at all")
    vote(harness, "ana", harness.said(SUPPORT, thread, WHY, "ana"))
    reject(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread, "cleo"), "not that either")
    harness.settle()
    all_sent(harness)
    [again] = [
        words(each) for each in harness.thread(SUPPORT, thread) if "asks to set" in words(each)
    ]
    assert (WHY in again, "S0FINANCE" in again) == (True, True)


def test_an_approval_from_before_a_long_outage_is_asked_again(own_harness: Any) -> None:
    """The click was stored, then the bot was down for three days."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    thread = ask(harness, ("note", {"text": "before the outage"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.loop.pause()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_stored_click(harness)
    harness.app.stop()
    harness.clock.advance(3 * 86_400)
    harness.start()
    harness.said(SUPPORT, thread, "it was approved more than 1 day ago and had not started")
    harness.settle()
    assert (statuses(harness, thread), fakes.did("note", "before the outage")) == ([C.PENDING], 0)
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "before the outage") == 1


def wait_for_stored_click(harness: Harness) -> None:
    """Wait until the click is stored; the loop is paused, so it is not decided."""
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == DeliveryStatus.NEW))


def test_an_expired_approval_is_asked_again(harness: Harness, fakes: FakeTools) -> None:
    """It is good for 30 minutes, as the card says; the plan's other call is decided after 31."""
    thread = ask(harness, ("note", {"text": "early"}), ("note", {"text": "late"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    all_sent(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "Approval expires" in words(drawn)
    later(harness, 1860)
    vote(harness, "ana", drawn)
    harness.said(SUPPORT, thread, "it was approved more than 30 minutes ago and had not started")
    harness.settle()
    assert statuses(harness, thread) == [C.PENDING, C.APPROVED]
    assert fakes.did("note", "early") == 0
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert [fakes.did("note", text) for text in ("early", "late")] == [1, 1]
