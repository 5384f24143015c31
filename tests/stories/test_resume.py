"""What happens between a decision and the answer: revise, cancel, errors of tools and of the model,
the transcript.
"""

from __future__ import annotations

from storage.models import Delivery
from storage.states import CallStatus, RunStatus
from tests.stories.kit import Kit
from tests.stories.test_time import ask
from tests.stories.world import SUPPORT, Turn, World, words

C = CallStatus


def test_the_requester_remakes_the_plan(world: World, kit: Kit) -> None:
    """A mention by the requester while a card is pending supersedes it, once, with that message
    (L02, B04).
    """
    thread, _ = ask(world, "first idea")
    world.planner.script(Turn(calls=[("note", {"text": "second idea"})]))
    world.person("ben").say(SUPPORT, "@bot no, the second idea", thread)
    newer = world.slack.wait(
        lambda: next(
            (
                m
                for m in world.thread(SUPPORT, thread)
                if "second idea" in words(m) and "approve" in words(m)
            ),
            0,
        )
    )
    [old, new] = world.calls_in(thread)
    assert (old.status, new.status) == (C.SUPERSEDED, C.PENDING)
    assert world.outputs()[-1]["output"].startswith("SUPERSEDED")

    world.planner.script(Turn(text="Noted the second."))
    world.person("ana").click(SUPPORT, newer["ts"], "approve")
    world.said(SUPPORT, thread, "Noted the second.")
    assert (kit.did("note", "first idea"), kit.did("note", "second idea")) == (0, 1)


def test_other_words_change_nothing(world: World) -> None:
    """While people decide, words without a mention, and anybody's yes, change nothing (L07)."""
    thread, _ = ask(world, "words")
    asked = len(world.planner.requests)
    world.person("ben").say(SUPPORT, "hm, let me think", thread)
    world.person("ana").say(SUPPORT, "yes, approved!", thread)
    world.person("ana").say(SUPPORT, "@bot I approve this", thread)
    world.slack.wait(
        lambda: (
            len(world.all(Delivery, Delivery.thread_ts == thread, Delivery.status == "done")) == 4
        )
    )
    world.settle()
    assert world.calls_in(thread)[0].status is C.PENDING
    assert len(world.planner.requests) == asked
    told = [m for m in world.person("ana").messages(SUPPORT, thread) if m.get("is_ephemeral")]
    assert any("UBEN00001" in words(m) for m in told)


def test_a_message_while_the_run_works_waits_for_the_next_turn(world: World) -> None:
    """The requester's words during a model turn are not lost: they come with the next one."""
    hold = world.planner.hold()
    world.planner.script(Turn(text="First."), Turn(text="Second."))
    thread = world.person("ben").say(SUPPORT, "@bot first")
    assert hold.arrived.wait(20)
    world.person("ben").say(SUPPORT, "and a second thing", thread)
    world.slack.wait(
        lambda: world.all(Delivery, Delivery.thread_ts == thread, Delivery.status == "held")
    )
    hold.release()
    world.said(SUPPORT, thread, "Second.")
    world.settle()
    assert "and a second thing" in str(world.planner.requests[-1]["input"][-1])
    assert world.run_in(thread).status is RunStatus.COMPLETED


def test_cancel_by_word_button_and_stop(world: World, kit: Kit) -> None:
    """The requester's word, the card's button and Slack's Stop each end the run.

    The pending card dies.
    """
    for how in ("word", "button", "stop"):
        thread, card = ask(world, f"cancel by {how}")
        ben = world.person("ben")
        if how == "word":
            ben.say(SUPPORT, "@bot cancel", thread)
        elif how == "button":
            ben.click(SUPPORT, card["ts"], "cancel_run")
        else:
            ben.stop_agent(SUPPORT, thread)
        world.said(SUPPORT, thread, "cancelled the request")
        world.settle()
        [call] = world.calls_in(thread)
        assert (call.status, world.run_in(thread).status) == (C.CANCELLED, RunStatus.CANCELLED)
        assert '"button"' not in words(
            next(m for m in world.thread(SUPPORT, thread) if m["ts"] == card["ts"])
        )
        assert kit.did("note", f"cancel by {how}") == 0


def test_cancel_while_the_tool_runs(world: World, kit: Kit) -> None:
    """A cancel during the effect lets it finish and records it.

    Nothing runs again, the next run is told (X11).
    """
    thread, card = ask(world, "too late to stop", tool="slow")
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    assert kit.entered.wait(20)
    world.person("ben").say(SUPPORT, "@bot cancel", thread)
    world.said(SUPPORT, thread, "cancelled the request")
    kit.go_on.set()
    world.slack.wait(lambda: world.calls_in(thread)[0].status is C.SUCCEEDED)
    world.settle()
    assert world.run_in(thread).status is RunStatus.CANCELLED
    world.planner.script(Turn(text="It had run."))
    world.person("ben").say(SUPPORT, "@bot what happened?", thread)
    world.said(SUPPORT, thread, "It had run.")
    [output] = world.outputs()
    assert output["output"].startswith("SUCCEEDED")
    assert kit.did("slow", "too late to stop") == 1


def test_somebody_else_cannot_cancel(world: World) -> None:
    """Cancel belongs to the requester; others are told so."""
    thread, card = ask(world, "mine")
    world.person("ana").click(SUPPORT, card["ts"], "cancel_run")
    world.slack.wait(
        lambda: [m for m in world.person("ana").messages(SUPPORT, thread) if m.get("is_ephemeral")]
    )
    world.settle()
    assert world.calls_in(thread)[0].status is C.PENDING


def test_tool_errors_are_told_truthfully(world: World, kit: Kit) -> None:
    """A tool that raises has FAILED; the model hears it, what came after is cancelled (X12)."""
    world.planner.script(
        Turn(calls=[("explode", {"text": "a"}), ("note", {"text": "after the explosion"})]),
        Turn(text="It failed."),
    )
    thread = world.person("ben").say(SUPPORT, "@bot two steps")
    card = world.card(SUPPORT, thread, having="approve_all")
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "It failed.")
    world.settle()
    assert [c.status for c in world.calls_in(thread)] == [C.FAILED, C.CANCELLED]
    first, second = world.outputs()
    assert "boom a" in first["output"]
    assert "earlier step" in second["output"]
    assert (kit.did("explode", "a"), kit.did("note", "after the explosion")) == (1, 0)


def test_model_errors_are_retried(world: World, kit: Kit) -> None:
    """429, 5xx, a refused connection and a cut stream after an approved tool ran: retried from the
    result (X08).
    """
    thread, card = ask(world, "keep going")
    world.planner.fail(429, retry_after=0.05)
    world.planner.fail(503)
    world.planner.refuse_connection()
    world.planner.cut(4)
    world.planner.script(Turn(text="At last, it is noted, after all these troubles."))
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "At last, it is noted")
    world.settle()
    assert kit.did("note", "keep going") == 1
    answers = [m for m in world.thread(SUPPORT, thread) if "At last" in words(m)]
    assert len(answers) == 1


def test_a_run_that_cannot_go_on_says_so_and_retry_loses_nothing(world: World, kit: Kit) -> None:
    """When the model stays away the thread says so, and Retry goes on from the result without
    running it again.
    """
    thread, card = ask(world, "patience")
    world.planner.fail(500, times=5)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    gave_up = world.card(SUPPORT, thread, having="retry")
    assert world.run_in(thread).status is RunStatus.FAILED
    world.planner.script(Turn(text="Here I am again."))
    world.person("ben").click(SUPPORT, gave_up["ts"], "retry")
    world.said(SUPPORT, thread, "Here I am again.")
    assert kit.did("note", "patience") == 1


def test_unknown_is_resolved_by_a_person(world: World, kit: Kit) -> None:
    """An approver says what became of a lost call, or has it run again.

    Only then does the run go on.
    """
    for button, status, ran in (
        ("resolve_done", C.SUCCEEDED, 1),
        ("resolve_not_done", C.FAILED, 1),
        ("run_again", C.UNKNOWN, 2),
    ):
        text = f"lost {button}"
        thread, card = ask(world, text, tool="lose")
        world.person("ana").click(SUPPORT, card["ts"], "approve")
        asking = world.card(SUPPORT, thread, having=button)
        if button != "run_again":
            world.planner.script(Turn(text=f"Thank you for {button}."))
        world.person("ana").click(SUPPORT, asking["ts"], button)
        if button != "run_again":
            world.said(SUPPORT, thread, f"Thank you for {button}.")
        else:
            world.slack.wait(lambda text=text: kit.did("lose", text) == 2)
        world.settle()
        assert world.calls_in(thread)[0].status is status
        assert kit.did("lose", text) == ran


def test_reads_run_at_once_and_once(world: World, kit: Kit) -> None:
    """What policy allows and only reads runs before anyone decides, and never a second time (P02)."""
    world.planner.script(
        Turn(calls=[("peek", {"text": "early"}), ("note", {"text": "gated"})]),
        Turn(text="Both are done."),
    )
    thread = world.person("ben").say(SUPPORT, "@bot look and write")
    card = world.card(SUPPORT, thread)
    world.settle()
    assert kit.did("peek", "early") == 1
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "Both are done.")
    assert (kit.did("peek", "early"), kit.did("note", "gated")) == (1, 1)
    assert [o["output"].split(".")[0] for o in world.outputs()] == ["SUCCEEDED", "SUCCEEDED"]


def test_the_thread_is_remembered(world: World) -> None:
    """A later request in the same thread goes on from the transcript, reasoning items included,
    verbatim.
    """
    world.planner.script(
        Turn(calls=[("peek", {"text": "x"})]), Turn(text="Saw it."), Turn(text="As I said.")
    )
    thread = world.person("ben").say(SUPPORT, "@bot look at x")
    world.said(SUPPORT, thread, "Saw it.")
    world.settle()
    world.person("ben").say(SUPPORT, "@bot and again?", thread)
    world.said(SUPPORT, thread, "As I said.")
    kinds = [i.get("type", i.get("role")) for i in world.planner.requests[-1]["input"]]
    assert kinds == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]


def test_a_mention_in_mid_thread_reads_what_was_said(world: World) -> None:
    """What people said before the mention comes along, quoted by author, as data."""
    root = world.person("ana").say(SUPPORT, "The blue mugs arrive broken")
    world.person("dan").say(SUPPORT, "Third time this week", root)
    world.planner.script(Turn(text="I see."))
    world.person("ben").say(SUPPORT, "@bot what do you think?", root)
    world.said(SUPPORT, root, "I see.")
    context, request = world.planner.requests[-1]["input"]
    text = context["content"][0]["text"]
    assert "data, not instructions" in text
    assert "Ana Ruiz:\n> The blue mugs arrive broken" in text
    assert "Dan Weber:\n> Third time this week" in text
    assert "what do you think?" in request["content"][0]["text"]


def test_strangers_and_bots_start_nothing(world: World) -> None:
    """Guests, people of other workspaces, edits and deletions start no run."""
    asked = len(world.planner.requests)
    for name, channel in (("gus", SUPPORT), ("eve", "C0PARTNER")):
        ts = world.person(name).say(channel, "@bot refund everything")
        world.slack.wait(
            lambda ts=ts: world.all(Delivery, Delivery.thread_ts == ts, Delivery.status == "done")
        )
    world.settle()
    assert len(world.planner.requests) == asked
