"""Slack refuses the token for five seconds at each moment of a story."""

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
class RefusedTokenStory:
    """A story in which the token is refused at some moment."""

    harness: Harness
    fakes: FakeTools
    code: str
    text: str

    def refuse(self) -> None:
        """Have Slack refuse the token at every request."""
        self.harness.slack.faults.fail("*", self.code, times=100_000)

    def accept_token(self) -> None:
        """Accept the token again after five seconds, and wait until all is sent."""
        self.harness.clock.advance(5)
        self.harness.slack.faults.clear()
        self.harness.clock.advance(61)
        all_sent(self.harness)

    def build_call(self, tool: str = "note") -> tuple[str, dict[str, str]]:
        """Build the call that the model proposes."""
        return tool, {"text": self.text}

    def ask_with_card(self, tool: str = "note") -> tuple[str, str]:
        """Ask for this call; return the thread and the ts of its card."""
        thread = ask(self.harness, self.build_call(tool))
        return thread, str(self.harness.card(SUPPORT, thread)["ts"])

    def approve(self, ts: str) -> None:
        """Have Ana approve, and wait until that is stored."""
        self.harness.person("ana").click(SUPPORT, ts, "approve")
        arrived(self.harness)


def refuse_at_the_request(story: RefusedTokenStory) -> str:
    """The requester has to be looked up."""
    forget_people(story.harness)
    story.refuse()
    thread = ask(story.harness, story.build_call())
    arrived(story.harness)
    story.accept_token()
    story.approve(str(story.harness.card(SUPPORT, thread)["ts"]))
    return thread


def refuse_during_the_plan(story: RefusedTokenStory) -> str:
    """Ask, and refuse the token while the model works on the plan."""
    hold = story.harness.planner.hold_next_request()
    thread = ask(story.harness, story.build_call())
    story.harness.slack.wait(hold.arrived.is_set)
    story.refuse()
    hold.release()
    story.harness.settle()
    story.accept_token()
    return thread


def refuse_while_planning(story: RefusedTokenStory) -> str:
    """The approvers have been looked up before."""
    ask_for(story.harness, "everybody is looked up")
    thread = refuse_during_the_plan(story)
    story.approve(str(story.harness.card(SUPPORT, thread)["ts"]))
    return thread


def refuse_while_planning_for_unknown_approvers(story: RefusedTokenStory) -> str:
    """The approvers have to be looked up: nobody is asked, and the thread says why."""
    forget_people(story.harness)
    thread = refuse_during_the_plan(story)
    assert len(showing(story.harness, SUPPORT, thread, "Slack could not be asked who may")) == 1
    return thread


def refuse_while_posting_the_card(story: RefusedTokenStory) -> str:
    """The card is posted afterwards."""
    story.harness.slack.faults.fail("chat.postMessage", story.code)
    story.harness.slack.faults.fail("auth.test", story.code, times=100_000)
    thread = ask(story.harness, story.build_call())
    story.harness.slack.wait(lambda: story.harness.calls_in(thread))
    story.harness.settle()
    story.accept_token()
    story.approve(str(story.harness.card(SUPPORT, thread)["ts"]))
    return thread


def refuse_while_the_card_waits(story: RefusedTokenStory) -> str:
    """Nobody does anything meanwhile."""
    thread, ts = story.ask_with_card()
    story.refuse()
    story.harness.clock.advance(2)
    story.harness.settle()
    story.accept_token()
    story.approve(ts)
    return thread


def refuse_at_the_click(story: RefusedTokenStory) -> str:
    """The person was looked up a moment ago, so the click counts."""
    thread, ts = story.ask_with_card()
    story.refuse()
    story.approve(ts)
    story.accept_token()
    return thread


def refuse_at_the_click_of_an_unknown_person(story: RefusedTokenStory) -> str:
    """The person has to be looked up: the click is refused, and they are told afterwards."""
    thread, ts = story.ask_with_card()
    forget_people(story.harness)
    story.refuse()
    story.approve(ts)
    assert statuses(story.harness, thread) == [CallStatus.PENDING]
    story.accept_token()
    told(story.harness, "ana", SUPPORT, thread, "could not")
    story.approve(ts)
    return thread


def refuse_while_opening_a_dialog(story: RefusedTokenStory) -> str:
    """Edit does not open, and the person is told why afterwards."""
    thread, ts = story.ask_with_card()
    story.refuse()
    slack = story.harness.slack
    before = len(slack.requests)
    press(story.harness, "ana", SUPPORT, now_at(story.harness, SUPPORT, ts), "edit")
    slack.wait(lambda: any(each.method == "views.open" for each in slack.requests[before:]))
    arrived(story.harness)
    assert story.harness.person("ana").view() is None
    story.accept_token()
    told(story.harness, "ana", SUPPORT, thread, "refuses all my requests")
    story.approve(ts)
    return thread


def refuse_at_the_edit(story: RefusedTokenStory) -> str:
    """The edit counts, and the card shows it afterwards."""
    first, story.text = story.text, f"{story.text}, edited"
    thread = ask(story.harness, ("note", {"text": first}))
    card = story.harness.card(SUPPORT, thread)
    open_modal(story.harness, "ana", SUPPORT, card, "edit")
    story.refuse()
    assert story.harness.person("ana").submit(typed(text=story.text))["outcome"] == "closed"
    arrived(story.harness)
    story.accept_token()
    assert story.text in words(now_at(story.harness, SUPPORT, card["ts"]))
    assert len(showing(story.harness, SUPPORT, thread, "✏️")) == 1
    story.harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    arrived(story.harness)
    return thread


def refuse_while_the_tool_runs(story: RefusedTokenStory) -> str:
    """The outcome is posted afterwards."""
    thread, ts = story.ask_with_card("slow")
    story.harness.person("ana").click(SUPPORT, ts, "approve")
    story.harness.slack.wait(story.fakes.entered.is_set)
    story.refuse()
    story.fakes.go_on.set()
    story.harness.settle()
    story.accept_token()
    return thread


def refuse_while_the_model_answers(story: RefusedTokenStory, after: int = 0) -> str:
    """After this many events of the model's answer."""
    story.harness.planner.script(Turn(calls=[story.build_call()]), Turn(text=LONG))
    thread = str(story.harness.person("ben").say(SUPPORT, "@bot please"))
    ts = str(story.harness.card(SUPPORT, thread)["ts"])
    hold = story.harness.planner.hold_next_request(after)
    story.harness.person("ana").click(SUPPORT, ts, "approve")
    story.harness.slack.wait(hold.arrived.is_set)
    story.refuse()
    hold.release()
    story.harness.settle()
    story.accept_token()
    return thread


def refuse_during_the_answer(story: RefusedTokenStory) -> str:
    """In the middle of the streamed answer."""
    return refuse_while_the_model_answers(story, after=20)


def refuse_while_uploading(story: RefusedTokenStory) -> str:
    """The rows are too many for a table, so they are uploaded as a file, once."""
    story.fakes.shelf = 60
    for method in ("files.getUploadURLExternal", "files.completeUploadExternal"):
        story.harness.slack.faults.fail(method, story.code)
    story.harness.slack.faults.fail("auth.test", story.code, times=100_000)
    thread = ask(story.harness, story.build_call("books"))
    story.harness.slack.wait(lambda: story.harness.calls_in(thread))
    story.harness.settle()
    story.accept_token()
    files = [
        each["name"]
        for message in story.harness.thread(SUPPORT, thread)
        for each in message.get("files", ())
    ]
    assert len(files) == len(set(files)) == 1
    return thread


def refuse_at_the_deadline(story: RefusedTokenStory) -> str:
    """The call expires, and the card says so afterwards."""
    thread, ts = story.ask_with_card()
    story.refuse()
    [call] = story.harness.calls_in(thread)
    assert call.deadline is not None
    story.harness.clock.advance((call.deadline - story.harness.clock.now()).total_seconds() + 1)
    story.harness.settle()
    story.accept_token()
    assert "xpired" in words(now_at(story.harness, SUPPORT, ts))
    return thread


# each moment, and how often the tool has run in the end
MOMENTS: dict[Callable[[RefusedTokenStory], str], int] = {
    refuse_at_the_request: 1,
    refuse_while_planning: 1,
    refuse_while_planning_for_unknown_approvers: 0,
    refuse_while_posting_the_card: 1,
    refuse_while_the_card_waits: 1,
    refuse_at_the_click: 1,
    refuse_at_the_click_of_an_unknown_person: 1,
    refuse_while_opening_a_dialog: 1,
    refuse_at_the_edit: 1,
    refuse_while_the_tool_runs: 1,
    refuse_while_the_model_answers: 1,
    refuse_during_the_answer: 1,
    refuse_while_uploading: 0,  # a read
    refuse_at_the_deadline: 0,
}


@pytest.mark.long
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda each: each.__name__)
def test_nothing_is_lost_or_repeated_if_the_token_is_refused(
    harness: Harness, fakes: FakeTools, moment: Callable[[RefusedTokenStory], str], code: str
) -> None:
    """An approved call runs once, the answer is posted once, and no card waits in the end."""
    story = RefusedTokenStory(harness, fakes, code, f"{moment.__name__}, {code}")
    thread = moment(story)
    harness.slack.wait(lambda: showing(harness, SUPPORT, thread, DONE))
    all_sent(harness)
    assert sum(fakes.ran.values()) == MOMENTS[moment]
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


def test_a_request_made_while_the_token_is_refused_is_worked_on_later(
    harness: Harness, fakes: FakeTools
) -> None:
    """The token is refused for six minutes."""
    story = RefusedTokenStory(harness, fakes, "account_inactive", "asked long before")
    forget_people(harness)
    story.refuse()
    thread = ask(harness, story.build_call())
    arrived(harness)
    for _ in range(12):
        harness.clock.advance(31)
        harness.settle()
    story.accept_token()
    story.approve(str(harness.card(SUPPORT, thread)["ts"]))
    assert len(showing(harness, SUPPORT, thread, DONE)) == 1
    assert fakes.did("note", story.text) == 1
