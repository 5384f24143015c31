"""`countersign chat` as its user sees it: keys, the bot's restart, and second questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.demo.model_server import Turn
from storage.models import Run, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.operator_steps import ANA, at_the_machine, environment, waits, world
from tests.stories.steps import ask, statuses
from tests.stories.typist import Typist

C = CallStatus
UP, BEGINNING = "\x1b[A", "\x01"
__all__ = ["at_the_machine", "world"]


@pytest.fixture
def typist(harness: Harness) -> Iterator[Typist]:
    """Ana at `countersign chat`, at its prompt."""
    found = Typist(harness.folder, environment(harness), "chat")
    found.reads(harness.slack.wait, "you>")
    yield found
    found.close()


def test_a_chat_continues_after_the_bot_has_restarted(harness: Harness, typist: Typist) -> None:
    """It says that the bot has stopped and that it is back, and repeats nothing."""
    wait = harness.slack.wait
    harness.planner.script(Turn(text="Said before the stop."))
    typist.type("say something")
    typist.reads(wait, "Said before the stop.")
    harness.settle()
    harness.app.stop()
    typist.reads(wait, "The bot has stopped. The chat continues when it runs again")
    typist.type("hello?")
    typist.reads(wait, "The bot is not running yet.")
    harness.start()
    typist.reads(wait, "The bot is running again.")
    harness.planner.script(Turn(text="Said after the start."))
    typist.type("and now?")
    typist.reads(wait, "Said after the start.")
    assert "say something" in str(harness.planner.requests[-1]["input"])
    assert typist.end() == 0
    said_after = typist.screen.rpartition("The bot is running again.")[2]
    assert "Said before the stop." not in said_after


def test_lines_are_recalled_edited_and_kept(harness: Harness, typist: Typist) -> None:
    """Arrow up recalls the last line, keys move in it, and a half-typed line survives an answer."""
    wait = harness.slack.wait
    typist.type("/nonsense")
    typist.reads(wait, "There is no /nonsense; /help lists the commands. you>")
    typist.press(UP)
    typist.type("2")
    typist.reads(wait, "There is no /nonsense2; /help lists the commands. you>")
    typist.press("omething" + BEGINNING)
    harness.planner.script(Turn(text="Begun at the terminal."))
    typist.type("say s")
    typist.reads(wait, "Begun at the terminal.")
    assert "say something" in str(harness.planner.requests[-1]["input"])
    harness.settle()
    typist.reads(wait, "Begun at the terminal. you>")
    typist.press("which ")
    typist.reads(wait, "you> which")
    harness.planner.script(Turn(text="Heard in Slack."))
    ana = harness.person("ana")
    ana.say(ana.dm_channel, "and here?", find_newest_thread(harness))
    typist.reads(wait, "Heard in Slack.")
    typist.reads(wait, "Heard in Slack. you> which")
    harness.settle()
    harness.planner.script(Turn(text="The whole line."))
    typist.type("one?")
    typist.reads(wait, "The whole line.")
    assert "which one?" in str(harness.planner.requests[-1]["input"])


def find_newest_thread(harness: Harness) -> str:
    """The thread of Ana's newest request."""
    newest = max(harness.all(Run, Run.requester == ANA), key=lambda run: run.created_at)
    return str(newest.thread_ts)


def test_a_destructive_call_is_approved_by_a_second_yes(
    harness: Harness, fakes: FakeTools, typist: Typist
) -> None:
    """It is asked as in Slack's dialog; anything but a yes leaves the call waiting."""
    wait = harness.slack.wait
    thread = ask(harness, ("wipe", {"text": "typed and final"}))
    waits(harness, thread)
    typist.type("/pending")
    typist.reads(wait, "/approve 1")
    for word, said in (("sure", "It was not approved"), ("yes", "Your approval counts; 1 more")):
        typist.type("/approve 1")
        typist.reads(wait, "Approve this? Wipe “typed and final” This cannot be undone.")
        typist.reads(wait, "Approve? (yes / no):")
        [call] = harness.calls_in(thread)
        assert not harness.all(Vote, Vote.call_id == call.id)
        typist.type(word)
        typist.reads(wait, said)
    assert statuses(harness, thread) == [C.PENDING]
    assert not fakes.ran


def test_a_call_runs_without_approval_from_the_chat(
    harness: Harness, fakes: FakeTools, typist: Typist
) -> None:
    """A reason is required, and a second yes if the call cannot be undone."""
    wait = harness.slack.wait
    thread = ask(harness, ("wipe", {"text": "typed and urgent"}))
    waits(harness, thread)
    typist.type("/pending")
    typist.reads(wait, "/break-glass 1 why")
    typist.type("/break-glass 1 the shop is down, nobody answers")
    typist.reads(wait, "Run this without approval? Wipe “typed and urgent” This cannot be undone.")
    typist.reads(wait, "Run it? (yes / no):")
    assert statuses(harness, thread) == [C.PENDING]
    typist.type("yes")
    typist.reads(wait, "Run without approval: Wipe “typed and urgent”")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "typed and urgent") == 1
    waits(harness, ask(harness, ("wipe", {"text": "no words"})))
    typist.type("/pending")
    typist.reads(wait, "/break-glass 2 why")
    typist.type("/break-glass 2")
    typist.reads(wait, "Run it? (yes / no):")
    typist.type("yes")
    typist.reads(wait, "Say why it cannot wait: /break-glass 2 …")


def test_a_plan_is_sent_back_from_the_chat(harness: Harness, typist: Typist) -> None:
    """Words are required. Commands for what only Slack offers say where to find it."""
    wait = harness.slack.wait
    thread = ask(harness, ("note", {"text": "worded badly"}), answer="Worded anew.")
    waits(harness, thread)
    typist.type("/pending")
    typist.reads(wait, "/approve 1")
    typist.type("/send-back 1")
    typist.reads(wait, "Say what the new plan should do differently: /send-back 1 …")
    typist.type("/send-back 1 word it well")
    typist.reads(wait, "Sent back; the agent makes another plan.")
    harness.said(SUPPORT, thread, "word it well")
    harness.said(SUPPORT, thread, "Worded anew.")
    assert statuses(harness, thread) == [C.SUPERSEDED]
    typist.type("/remember")
    typist.reads(wait, "approve with a note or remember it")
    typist.type("/delegate")
    typist.reads(wait, "/approvals delegate")
