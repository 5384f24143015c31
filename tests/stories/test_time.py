"""Deadlines: silence is no, a click counts at the time it was stored, and a late one never wins."""

from __future__ import annotations

from bot.demo.model_server import Turn
from storage.models import Delivery, Message
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.steps import all_sent, ask_for, now_at, told

HOUR = 3600


def test_deadline_while_running(harness: Harness, fakes: FakeTools) -> None:
    """Nobody answers: the clock denies, and the call is expired and not rejected.

    The thread and the model hear so.
    """
    thread, card = ask_for(harness, "too slow")
    harness.planner.script(Turn(text="Nobody answered in time."))
    harness.clock.advance(HOUR + 1)
    harness.said(SUPPORT, thread, "Nobody answered in time.")
    harness.settle()

    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.EXPIRED
    assert "call.expired" in harness.audit_of(call)
    assert "call.rejected" not in harness.audit_of(call)
    [output] = harness.outputs()
    assert output["output"].startswith("EXPIRED")
    assert fakes.did("note", "too slow") == 0
    assert any("⏰" in words(m) for m in harness.thread(SUPPORT, thread))
    [drawn] = [m for m in harness.thread(SUPPORT, thread) if m["ts"] == card["ts"]]
    assert '"button"' not in words(drawn)


def test_deadline_while_down(harness: Harness, fakes: FakeTools) -> None:
    """The process was down over the deadline: it falls at the start, before a later click."""
    thread, card = ask_for(harness, "while down")
    harness.app.stop()
    harness.clock.advance(HOUR + 1)
    harness.planner.script(Turn(text="It expired."))
    harness.start()
    harness.said(SUPPORT, thread, "It expired.")
    assert harness.calls_in(thread)[0].status is CallStatus.EXPIRED
    assert fakes.did("note", "while down") == 0
    assert '"button"' not in words(
        next(m for m in harness.thread(SUPPORT, thread) if m["ts"] == card["ts"])
    )


def test_click_stored_before_the_deadline_and_decided_after_it(
    harness: Harness, fakes: FakeTools
) -> None:
    """A click counts at the time it was stored, even when the process dies before it is decided."""
    thread, card = ask_for(harness, "just in time")
    harness.app.loop.pause()  # stored and acknowledged, and not yet looked at
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == "new"))
    harness.app.stop()
    harness.clock.advance(HOUR + 1)
    harness.planner.script(Turn(text="Done in time."))
    harness.start()
    harness.said(SUPPORT, thread, "Done in time.")
    assert harness.calls_in(thread)[0].status is CallStatus.SUCCEEDED
    assert fakes.did("note", "just in time") == 1


def test_a_late_click_is_told_so(harness: Harness, fakes: FakeTools) -> None:
    """A click after the deadline runs nothing and is told; the card is drawn again."""
    thread, card = ask_for(harness, "a late click")
    harness.app.loop.pause()  # the sweep is late as well
    harness.clock.advance(HOUR + 1)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == "new"))
    harness.planner.script(Turn(text="Too late."))
    harness.app.loop.resume()
    harness.said(SUPPORT, thread, "Too late.")
    harness.settle()
    assert harness.calls_in(thread)[0].status is CallStatus.EXPIRED
    assert fakes.did("note", "a late click") == 0
    told = [m for m in harness.person("ana").messages(SUPPORT, thread) if m.get("is_ephemeral")]
    assert any("Too late" in words(m) for m in told)


def test_slack_is_down_at_the_deadline(harness: Harness) -> None:
    """The state flips all the same, and the card follows when Slack is back."""
    thread, card = ask_for(harness, "slack down")
    harness.slack.faults.status("chat.update", 503, times=2, match=having(card["ts"]))
    harness.planner.script(Turn(text="It expired."))
    harness.clock.advance(HOUR + 1)
    harness.said(SUPPORT, thread, "It expired.")
    assert harness.calls_in(thread)[0].status is CallStatus.EXPIRED
    harness.slack.wait(
        lambda: (
            '"button"'
            not in words(next(m for m in harness.thread(SUPPORT, thread) if m["ts"] == card["ts"]))
        )
    )


def test_an_unknown_call_is_given_up_at_its_deadline(harness: Harness, fakes: FakeTools) -> None:
    """Nobody says what became of a lost call: the model is told unknown and nothing runs again.

    The card asks no longer, and an old button says so.
    """
    thread, card = ask_for(harness, "vanish", tool="lose")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    asking = harness.card(SUPPORT, thread, having="resolve_done")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.WAITING
    harness.planner.script(Turn(text="I do not know."))
    harness.clock.advance(HOUR + 1)
    harness.said(SUPPORT, thread, "I do not know.")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.UNKNOWN
    assert harness.outputs()[-1]["output"].startswith("UNKNOWN")
    all_sent(harness)
    over = now_at(harness, SUPPORT, asking["ts"])
    assert action_ids(over) == []
    assert "and nobody is asked any more" in words(over)
    harness.person("ana").click(SUPPORT, asking["ts"], "run_again", seen=asking)
    told(harness, "ana", SUPPORT, thread, "This was out of date")
    assert fakes.did("lose", "vanish") == 1


def test_nobody_is_asked_about_a_cancelled_request(harness: Harness, fakes: FakeTools) -> None:
    """A request that is cancelled while a call's end is unknown takes the three buttons away."""
    thread, card = ask_for(harness, "vanish, cancelled", tool="lose")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    asking = harness.card(SUPPORT, thread, having="resolve_done")
    harness.settle()
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    all_sent(harness)
    assert action_ids(now_at(harness, SUPPORT, asking["ts"])) == []


def test_one_expiry_for_each_call(harness: Harness) -> None:
    """However often the sweep looks, a deadline falls once and is said once."""
    thread, _ = ask_for(harness, "once")
    harness.planner.script(Turn(text="It expired."))
    harness.clock.advance(HOUR + 1)
    for _ in range(5):
        harness.app.loop.wake()
    harness.said(SUPPORT, thread, "It expired.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert harness.audit_of(call).count("call.expired") == 1
    assert len(harness.all(Message, Message.key == f"expired:{call.id}:{call.revision}")) == 1
