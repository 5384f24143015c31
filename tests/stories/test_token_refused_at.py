"""A token refused for five seconds in each state of a story: nothing lost, nothing said twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sqlmodel import col

from bot.demo.model_server import Turn
from storage.models import Message
from storage.states import CallStatus, MessageStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import (
    all_sent,
    arrived,
    ask,
    ask_for,
    forget_people,
    now_at,
    open_modal,
    press,
    showing,
    statuses,
    told,
    typed,
)

CODES = ("invalid_auth", "account_inactive", "token_revoked")
DONE = "That is all."
LONG = f"{DONE} " + "It was written down with care. " * 20  # long enough to be streamed


@dataclass
class Scene:
    """One story, in which the token is refused at some moment."""

    harness: Harness
    fakes: FakeTools
    code: str
    text: str

    def refuse(self) -> None:
        """Slack lets the bot in no more, whatever it asks."""
        self.harness.slack.faults.fail("*", self.code, times=100_000)

    def good_again(self) -> None:
        """Five seconds are over, and whatever was put off comes due."""
        self.harness.clock.advance(5)
        self.harness.slack.faults.clear()
        self.harness.clock.advance(61)
        all_sent(self.harness)

    def call(self, tool: str = "note") -> tuple[str, dict[str, str]]:
        """What the model proposes."""
        return tool, {"text": self.text}

    def asked(self, tool: str = "note") -> tuple[str, str]:
        """A request whose card is open: its thread, and where the card stands."""
        thread = ask(self.harness, self.call(tool))
        return thread, str(self.harness.card(SUPPORT, thread)["ts"])

    def approve(self, ts: str) -> None:
        """Ana approves."""
        self.harness.person("ana").click(SUPPORT, ts, "approve")
        arrived(self.harness)


def asking(scene: Scene) -> str:
    """As somebody asks who is not known yet."""
    forget_people(scene.harness)
    scene.refuse()
    thread = ask(scene.harness, scene.call())
    arrived(scene.harness)
    scene.good_again()
    scene.approve(str(scene.harness.card(SUPPORT, thread)["ts"]))
    return thread


def planned(scene: Scene) -> str:
    """Have the token refused while the model is at work on the plan."""
    hold = scene.harness.planner.hold_next_request()
    thread = ask(scene.harness, scene.call())
    scene.harness.slack.wait(hold.arrived.is_set)
    scene.refuse()
    hold.release()
    scene.harness.settle()
    scene.good_again()
    return thread


def planning(scene: Scene) -> str:
    """While the model is at work on the plan, and it is known who decides."""
    ask_for(scene.harness, "everybody is looked up")
    thread = planned(scene)
    scene.approve(str(scene.harness.card(SUPPORT, thread)["ts"]))
    return thread


def planning_unknown(scene: Scene) -> str:
    """The same where it has to be looked up: nobody is asked, and the thread is told why."""
    forget_people(scene.harness)
    thread = planned(scene)
    assert len(showing(scene.harness, SUPPORT, thread, "Slack could not be asked who may")) == 1
    return thread


def posting(scene: Scene) -> str:
    """As the card is posted."""
    scene.harness.slack.faults.fail("chat.postMessage", scene.code)
    scene.harness.slack.faults.fail("auth.test", scene.code, times=100_000)
    thread = ask(scene.harness, scene.call())
    scene.harness.slack.wait(lambda: scene.harness.calls_in(thread))
    scene.harness.settle()
    scene.good_again()
    scene.approve(str(scene.harness.card(SUPPORT, thread)["ts"]))
    return thread


def waiting(scene: Scene) -> str:
    """While the card is open, and nobody does anything."""
    thread, ts = scene.asked()
    scene.refuse()
    scene.harness.clock.advance(2)
    scene.harness.settle()
    scene.good_again()
    scene.approve(ts)
    return thread


def clicking(scene: Scene) -> str:
    """At the click of who was looked up a moment ago: it counts at once."""
    thread, ts = scene.asked()
    scene.refuse()
    scene.approve(ts)
    scene.good_again()
    return thread


def clicking_unknown(scene: Scene) -> str:
    """At the click of who has to be looked up: it is refused, and that is said once it can be."""
    thread, ts = scene.asked()
    forget_people(scene.harness)
    scene.refuse()
    scene.approve(ts)
    assert statuses(scene.harness, thread) == [CallStatus.PENDING]
    scene.good_again()
    told(scene.harness, "ana", SUPPORT, thread, "could not")
    scene.approve(ts)
    return thread


def opening_a_dialog(scene: Scene) -> str:
    """As the dialog of Edit is to open: who clicked is told once that can be."""
    thread, ts = scene.asked()
    scene.refuse()
    slack = scene.harness.slack
    before = len(slack.requests)
    press(scene.harness, "ana", SUPPORT, now_at(scene.harness, SUPPORT, ts), "edit")
    slack.wait(lambda: any(each.method == "views.open" for each in slack.requests[before:]))
    arrived(scene.harness)
    assert scene.harness.person("ana").view() is None
    scene.good_again()
    told(scene.harness, "ana", SUPPORT, thread, "refuses all my requests")
    scene.approve(ts)
    return thread


def editing(scene: Scene) -> str:
    """As an edit is submitted: it counts, and the card shows it afterwards."""
    first, scene.text = scene.text, f"{scene.text}, edited"
    thread = ask(scene.harness, ("note", {"text": first}))
    card = scene.harness.card(SUPPORT, thread)
    open_modal(scene.harness, "ana", SUPPORT, card, "edit")
    scene.refuse()
    assert scene.harness.person("ana").submit(typed(text=scene.text))["outcome"] == "closed"
    arrived(scene.harness)
    scene.good_again()
    assert scene.text in words(now_at(scene.harness, SUPPORT, card["ts"]))
    assert len(showing(scene.harness, SUPPORT, thread, "✏️")) == 1
    scene.harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    arrived(scene.harness)
    return thread


def running(scene: Scene) -> str:
    """While the tool runs."""
    thread, ts = scene.asked("slow")
    scene.harness.person("ana").click(SUPPORT, ts, "approve")
    scene.harness.slack.wait(scene.fakes.entered.is_set)
    scene.refuse()
    scene.fakes.go_on.set()
    scene.harness.settle()
    scene.good_again()
    return thread


def answering(scene: Scene, after: int = 0) -> str:
    """As the model answers, before or amid its words."""
    scene.harness.planner.script(Turn(calls=[scene.call()]), Turn(text=LONG))
    thread = str(scene.harness.person("ben").say(SUPPORT, "@bot please"))
    ts = str(scene.harness.card(SUPPORT, thread)["ts"])
    hold = scene.harness.planner.hold_next_request(after)
    scene.harness.person("ana").click(SUPPORT, ts, "approve")
    scene.harness.slack.wait(hold.arrived.is_set)
    scene.refuse()
    hold.release()
    scene.harness.settle()
    scene.good_again()
    return thread


def amid_the_answer(scene: Scene) -> str:
    """While the answer is streamed."""
    return answering(scene, after=20)


def uploading(scene: Scene) -> str:
    """As rows that are too many for a table are uploaded."""
    scene.fakes.shelf = 60
    for method in ("files.getUploadURLExternal", "files.completeUploadExternal"):
        scene.harness.slack.faults.fail(method, scene.code)
    scene.harness.slack.faults.fail("auth.test", scene.code, times=100_000)
    thread = ask(scene.harness, scene.call("books"))
    scene.harness.slack.wait(lambda: scene.harness.calls_in(thread))
    scene.harness.settle()
    scene.good_again()
    files = [
        each["name"]
        for message in scene.harness.thread(SUPPORT, thread)
        for each in message.get("files", ())
    ]
    assert len(files) == len(set(files)) == 1
    return thread


def expiring(scene: Scene) -> str:
    """As the deadline falls."""
    thread, ts = scene.asked()
    scene.refuse()
    [call] = scene.harness.calls_in(thread)
    assert call.deadline is not None
    scene.harness.clock.advance((call.deadline - scene.harness.clock.now()).total_seconds() + 1)
    scene.harness.settle()
    scene.good_again()
    assert "xpired" in words(now_at(scene.harness, SUPPORT, ts))
    return thread


# each with how often the tool is to have run in the end
STATES: dict[Callable[[Scene], str], int] = {
    asking: 1,
    planning: 1,
    planning_unknown: 0,
    posting: 1,
    waiting: 1,
    clicking: 1,
    clicking_unknown: 1,
    opening_a_dialog: 1,
    editing: 1,
    running: 1,
    answering: 1,
    amid_the_answer: 1,
    uploading: 0,  # a read
    expiring: 0,
}


@pytest.mark.long
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("state", STATES, ids=lambda each: each.__name__)
def test_a_token_refused(
    harness: Harness, fakes: FakeTools, state: Callable[[Scene], str], code: str
) -> None:
    """What was approved ran once, each card is true, and each word stands once."""
    scene = Scene(harness, fakes, code, f"{state.__name__}, {code}")
    thread = state(scene)
    harness.slack.wait(lambda: showing(harness, SUPPORT, thread, DONE))
    all_sent(harness)
    assert sum(fakes.ran.values()) == STATES[state]
    assert len(showing(harness, SUPPORT, thread, DONE)) == 1
    assert set(statuses(harness, thread)) <= {
        CallStatus.SUCCEEDED,
        CallStatus.EXPIRED,
        CallStatus.REFUSED,
    }
    cards = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    assert cards == []
    run = harness.run_in(thread)
    failed = Message.status == MessageStatus.FAILED
    assert not harness.all(Message, failed, col(Message.run_id) == run.id)


def test_a_token_refused_for_minutes_while_somebody_asks(
    harness: Harness, fakes: FakeTools
) -> None:
    """What was asked waits as long as that takes, and is then worked on."""
    scene = Scene(harness, fakes, "account_inactive", "asked long before")
    forget_people(harness)
    scene.refuse()
    thread = ask(harness, scene.call())
    arrived(harness)
    for _ in range(12):
        harness.clock.advance(31)
        harness.settle()
    scene.good_again()
    scene.approve(str(harness.card(SUPPORT, thread)["ts"]))
    assert len(showing(harness, SUPPORT, thread, DONE)) == 1
    assert fakes.did("note", scene.text) == 1
