"""Deadlines: silence is no, a click counts at the time it was stored, and a late one never wins."""

from __future__ import annotations

from storage.models import Delivery, Message
from storage.states import CallStatus, RunStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, Turn, World, words

HOUR = 3600


def ask(world: World, text: str, tool: str = "note") -> tuple[str, dict]:
    """Ben asks, the agent proposes one call, the card is there."""
    world.planner.script(Turn(calls=[(tool, {"text": text})]))
    thread = world.person("ben").say(SUPPORT, f"@bot {text}")
    return thread, world.card(SUPPORT, thread)


def test_deadline_while_running(world: World, kit: Kit) -> None:
    """Nobody answers: the clock denies, it is expired and not rejected, the thread and the model
    hear so (T04).
    """
    thread, card = ask(world, "too slow")
    world.planner.script(Turn(text="Nobody answered in time."))
    world.clock.advance(HOUR + 1)
    world.said(SUPPORT, thread, "Nobody answered in time.")
    world.settle()

    [call] = world.calls_in(thread)
    assert call.status is CallStatus.EXPIRED
    assert "call.expired" in world.audit_of(call)
    assert "call.rejected" not in world.audit_of(call)
    [output] = world.outputs()
    assert output["output"].startswith("EXPIRED")
    assert kit.did("note", "too slow") == 0
    assert any("⌛" in words(m) for m in world.thread(SUPPORT, thread))
    [drawn] = [m for m in world.thread(SUPPORT, thread) if m["ts"] == card["ts"]]
    assert '"button"' not in words(drawn)


def test_deadline_while_down(world: World, kit: Kit) -> None:
    """The process was down over the deadline: it falls at the start, before any later click counts
    (T02, T03).
    """
    thread, card = ask(world, "while down")
    world.app.stop()
    world.clock.advance(HOUR + 1)
    world.planner.script(Turn(text="It expired."))
    world.start()
    world.said(SUPPORT, thread, "It expired.")
    assert world.calls_in(thread)[0].status is CallStatus.EXPIRED
    assert kit.did("note", "while down") == 0
    assert '"button"' not in words(
        next(m for m in world.thread(SUPPORT, thread) if m["ts"] == card["ts"])
    )


def test_click_stored_before_the_deadline_and_decided_after_it(world: World, kit: Kit) -> None:
    """A click counts at the time it was stored, even when the process dies before it is decided
    (T01, T02).
    """
    thread, card = ask(world, "just in time")
    world.app.loop.pause()  # stored and acknowledged, and not yet looked at
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: world.all(Delivery, Delivery.status == "new"))
    world.app.stop()
    world.clock.advance(HOUR + 1)
    world.planner.script(Turn(text="Done in time."))
    world.start()
    world.said(SUPPORT, thread, "Done in time.")
    assert world.calls_in(thread)[0].status is CallStatus.SUCCEEDED
    assert kit.did("note", "just in time") == 1


def test_a_late_click_is_told_so(world: World, kit: Kit) -> None:
    """A click after the deadline runs nothing and is told; the card is drawn again (T03)."""
    thread, card = ask(world, "a late click")
    world.app.loop.pause()  # the sweep is late as well
    world.clock.advance(HOUR + 1)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: world.all(Delivery, Delivery.status == "new"))
    world.planner.script(Turn(text="Too late."))
    world.app.loop.resume()
    world.said(SUPPORT, thread, "Too late.")
    world.settle()
    assert world.calls_in(thread)[0].status is CallStatus.EXPIRED
    assert kit.did("note", "a late click") == 0
    told = [m for m in world.person("ana").messages(SUPPORT, thread) if m.get("is_ephemeral")]
    assert any("Too late" in words(m) for m in told)


def test_slack_is_down_at_the_deadline(world: World) -> None:
    """The state flips all the same, and the card follows when Slack is back (T09)."""
    thread, card = ask(world, "slack down")
    world.slack.faults.status("chat.update", 503, times=2)
    world.planner.script(Turn(text="It expired."))
    world.clock.advance(HOUR + 1)
    world.said(SUPPORT, thread, "It expired.")
    assert world.calls_in(thread)[0].status is CallStatus.EXPIRED
    world.slack.wait(
        lambda: (
            '"button"'
            not in words(next(m for m in world.thread(SUPPORT, thread) if m["ts"] == card["ts"]))
        )
    )


def test_an_unknown_call_is_given_up_at_its_deadline(world: World, kit: Kit) -> None:
    """Nobody says what became of a lost call: the model is told unknown and nothing runs again
    (X06).
    """
    thread, card = ask(world, "vanish", tool="lose")
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.card(SUPPORT, thread, having="resolve_done")
    world.settle()
    assert world.run_in(thread).status is RunStatus.WAITING
    world.planner.script(Turn(text="I do not know."))
    world.clock.advance(HOUR + 1)
    world.said(SUPPORT, thread, "I do not know.")
    [call] = world.calls_in(thread)
    assert call.status is CallStatus.UNKNOWN
    assert world.outputs()[-1]["output"].startswith("UNKNOWN")
    assert kit.did("lose", "vanish") == 1


def test_one_expiry_for_each_call(world: World) -> None:
    """However often the sweep looks, a deadline falls once and is said once (T06)."""
    thread, _ = ask(world, "once")
    world.planner.script(Turn(text="It expired."))
    world.clock.advance(HOUR + 1)
    for _ in range(5):
        world.app.loop.wake()
    world.said(SUPPORT, thread, "It expired.")
    world.settle()
    [call] = world.calls_in(thread)
    assert world.audit_of(call).count("call.expired") == 1
    assert len(world.all(Message, Message.key == f"expired:{call.id}:{call.revision}")) == 1
