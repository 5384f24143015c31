"""Deadlines: calls expire, clicks count at the time they were stored, late ones do not count."""

from __future__ import annotations

from bot.demo.model_server import Turn
from storage.models import Delivery, Message
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.steps import all_sent, ask_for, now_at, told

HOUR = 3600


def test_a_call_nobody_decides_expires_at_its_deadline(harness: Harness, fakes: FakeTools) -> None:
    """It is expired, not rejected, and the thread and the model are told."""
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


def test_a_call_expires_at_the_start_if_the_bot_was_down(
    harness: Harness, fakes: FakeTools
) -> None:
    """The deadline passed while the bot was stopped."""
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
    """A click counts at the time it was stored, even if the bot stops before it is decided."""
    thread, card = ask_for(harness, "just in time")
    harness.app.loop.pause()  # the click is stored and acknowledged, but not decided
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == "new"))
    harness.app.stop()
    harness.clock.advance(HOUR + 1)
    harness.planner.script(Turn(text="Done in time."))
    harness.start()
    harness.said(SUPPORT, thread, "Done in time.")
    assert harness.calls_in(thread)[0].status is CallStatus.SUCCEEDED
    assert fakes.did("note", "just in time") == 1


def test_a_click_after_the_deadline_runs_nothing(harness: Harness, fakes: FakeTools) -> None:
    """The person is told that it came too late."""
    thread, card = ask_for(harness, "a late click")
    harness.app.loop.pause()  # so that the call has not expired yet
    harness.clock.advance(HOUR + 1)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == "new"))
    harness.planner.script(Turn(text="Too late."))
    harness.app.loop.resume()
    harness.said(SUPPORT, thread, "Too late.")
    harness.settle()
    assert harness.calls_in(thread)[0].status is CallStatus.EXPIRED
    assert fakes.did("note", "a late click") == 0
    private = [m for m in harness.person("ana").messages(SUPPORT, thread) if m.get("is_ephemeral")]
    assert any("Too late" in words(m) for m in private)


def test_a_call_expires_while_slack_is_down(harness: Harness) -> None:
    """The card is updated once Slack is back."""
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


def test_an_unknown_outcome_is_given_up_at_the_deadline(harness: Harness, fakes: FakeTools) -> None:
    """Nobody resolves it: the model is told that it is unknown, and nothing runs again.

    The card loses its buttons, and an old one is answered as out of date.
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


def test_cancelling_a_request_removes_the_buttons_of_an_unknown_call(
    harness: Harness, fakes: FakeTools
) -> None:
    """Nobody has to resolve it any more."""
    thread, card = ask_for(harness, "vanish, cancelled", tool="lose")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    asking = harness.card(SUPPORT, thread, having="resolve_done")
    harness.settle()
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    all_sent(harness)
    assert action_ids(now_at(harness, SUPPORT, asking["ts"])) == []


def test_a_call_expires_once(harness: Harness) -> None:
    """However often the loop looks, there is one audit row and one message."""
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
