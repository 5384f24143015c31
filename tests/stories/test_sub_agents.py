"""Sub-agents: what they are given, how their calls are approved, where their answers go."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.demo.model_server import Turn
from storage.models import Audit
from storage.states import CallStatus, RunStatus
from tests.pages import ROOT, blocks
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, noted, now_at, open_modal, reject, statuses, told, vote
from tests.stories.sub_agents import (
    AGENTS,
    approve,
    asked_for,
    child_of,
    errand,
    get_last_output,
    get_request_run,
    writes,
)

C, R = CallStatus, RunStatus
TOOLS = AGENTS


def test_a_sub_agents_answer_goes_to_its_parent(harness: Harness, fakes: FakeTools) -> None:
    """Its call is approved like any other; its answer is not posted in the thread."""
    thread, card = asked_for(harness, "errand one")
    harness.settle()
    assert (get_request_run(harness, thread).status, child_of(harness, thread).status) == (
        R.WAITING,
        R.WAITING,
    )
    request = harness.planner.requests[-1]
    assert "You are Note desk" in request["instructions"]
    assert "look after the notes" in request["instructions"]
    assert [each["name"] for each in request["tools"]] == ["note", "peek", "ask_person", "slow"]
    approve(harness, card, Turn(text="I wrote it, master."), Turn(text="Errand one is written."))
    harness.said(SUPPORT, thread, "Errand one is written.")
    harness.settle()
    assert fakes.did("note", "errand one") == 1
    output = get_last_output(harness)
    assert output.startswith("SUCCEEDED.")
    assert "I wrote it, master." in output
    assert 'On record: note {"text":"errand one"}: succeeded.' in output
    assert not [m for m in harness.thread(SUPPORT, thread) if "master" in words(m)]
    assert statuses(harness, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    assert {get_request_run(harness, thread).status, child_of(harness, thread).status} == {
        R.COMPLETED
    }


def test_the_card_shows_the_agents_behind_a_call(harness: Harness, fakes: FakeTools) -> None:
    """The agent's reason comes first, then the requester's words and each agent in between."""
    office = Turn(calls=[errand("Have errand two written", "head_office")])
    desk = Turn(calls=[errand("Write errand two")])
    why = {"text": "errand two", "reason_for_approver": "It was asked for."}
    harness.planner.script(office, desk, Turn(calls=[("note", why)]))
    thread = harness.person("ben").say(SUPPORT, "@bot errand two, please")
    card = words(harness.card(SUPPORT, thread))
    lines = [
        "Note desk says:",
        "Asked by Ben Okafor",
        "errand two, please",
        "🤖 The agent asked Head office: “Have errand two written”",
        "🤖 Head office asked Note desk: “Write errand two”",
    ]
    places = [card.find(each) for each in lines]
    assert -1 not in places
    assert places == sorted(places)


def test_a_repeat_after_a_change_by_a_sub_agent_is_asked(
    harness: Harness, fakes: FakeTools
) -> None:
    """The first result is not given again: the sub-agent's call may have changed things."""
    flag = Turn(calls=[("put", {"text": "flag"})])
    harness.planner.script(flag, Turn(calls=[errand("flag note")]), writes("flag note"))
    thread = harness.person("ben").say(SUPPORT, "@bot raise the flag twice")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 3)
    harness.settle()
    end = (Turn(text="It is written."), flag, Turn(text="Raised again."))
    approve(harness, harness.card(SUPPORT, thread), *end)
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 4)
    harness.settle()
    again = harness.card(SUPPORT, thread)
    assert "the same was done already in this request" in words(again)
    vote(harness, "ana", again)
    harness.said(SUPPORT, thread, "Raised again.")
    assert fakes.did("put", "flag") == 2


def test_two_sub_agents_are_decided_in_any_order(harness: Harness, fakes: FakeTools) -> None:
    """The second is approved first; the agent goes on once it has both answers."""
    both = Turn(calls=[errand("errand three"), errand("errand four")])
    harness.planner.script(both, writes("errand three"), writes("errand four"))
    thread = harness.person("ben").say(SUPPORT, "@bot three and four")

    def card(text: str) -> dict[str, object] | None:
        found = harness.person("ana").messages(SUPPORT, thread)
        return next(
            (m for m in found if f"Write “{text}”" in words(m) and "approve" in action_ids(m)), None
        )

    later, sooner = (
        harness.slack.wait(lambda text=text: card(text)) for text in ("errand three", "errand four")
    )
    approve(harness, sooner, Turn(text="Four it is."))
    arrived(harness)
    assert get_request_run(harness, thread).status is R.WAITING
    assert (fakes.did("note", "errand three"), fakes.did("note", "errand four")) == (0, 1)
    approve(harness, later, Turn(text="Three it is."), Turn(text="Both are written."))
    harness.said(SUPPORT, thread, "Both are written.")
    given = [each["output"] for each in harness.outputs()[-2:]]
    assert sorted(("Three it is." in each, "Four it is." in each) for each in given) == [
        (False, True),
        (True, False),
    ]
    for each in given:  # each answer comes with its own call
        assert ("errand three" in each) == ("Three it is." in each or "Four it is." not in each)


def test_a_sub_agent_is_told_of_a_rejection(harness: Harness, fakes: FakeTools) -> None:
    """Its parent is given its answer, and cannot propose the same call either."""
    thread, card = asked_for(harness, "errand five")
    harness.planner.script(
        Turn(text="They said no."), writes("errand five"), Turn(text="It was not written.")
    )
    reject(harness, "ana", SUPPORT, card, "not on a Sunday")
    harness.said(SUPPORT, thread, "It was not written.")
    harness.settle()
    outputs = [
        str(item["output"])
        for request in harness.planner.requests
        for item in request["input"]
        if item.get("type") == "function_call_output"
    ]
    assert any(each.startswith("REJECTED") and "not on a Sunday" in each for each in outputs)
    answer = next(each for each in outputs if "They said no." in each)
    assert 'note {"text":"errand five"}: rejected' in answer
    assert get_last_output(harness).startswith("REFUSED: a person rejected this very call")
    assert not fakes.did("note", "errand five")


def test_a_sub_agent_can_use_only_its_own_tools(harness: Harness, fakes: FakeTools) -> None:
    """A call of another tool is refused, though its parent may use it."""
    harness.planner.script(
        Turn(calls=[errand("errand thirteen")]),
        Turn(calls=[("wipe", {"text": "errand thirteen"})]),
        Turn(text="I cannot."),
        Turn(text="It cannot."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot errand thirteen")
    harness.said(SUPPORT, thread, "It cannot.")
    assert sorted(statuses(harness, thread)) == [C.REFUSED, C.SUCCEEDED]
    assert not fakes.did("wipe", "errand thirteen")


def test_a_sub_agent_may_itself_need_approval(harness: Harness, fakes: FakeTools) -> None:
    """It does not begin before that, and its own calls need approval too."""
    harness.planner.script(Turn(calls=[errand("errand fourteen", "careful_desk")]))
    thread = harness.person("ben").say(SUPPORT, "@bot errand fourteen")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    assert statuses(harness, thread) == [C.PENDING]
    approve(harness, card, writes("errand fourteen"))
    second = harness.slack.wait(
        lambda: next(
            (
                m
                for m in harness.person("ana").messages(SUPPORT, thread)
                if "Write “errand fourteen”" in words(m) and "approve" in action_ids(m)
            ),
            None,
        )
    )
    assert "At work" in words(now_at(harness, SUPPORT, card["ts"]))
    approve(harness, second, Turn(text="Done."), Turn(text="Fourteen is written."))
    harness.said(SUPPORT, thread, "Fourteen is written.")
    assert fakes.did("note", "errand fourteen") == 1


def test_review_shows_which_agent_asked_the_sub_agent(harness: Harness) -> None:
    """With the task that the sub-agent was given."""
    _, card = asked_for(harness, "errand twenty")
    view = open_modal(harness, "ana", SUPPORT, card, "review")
    assert "🤖 The agent asked Note desk: “please write errand twenty”" in str(view["blocks"])
    harness.person("ana").close_view()


def test_a_sub_agent_can_ask_the_requester_a_question(harness: Harness, fakes: FakeTools) -> None:
    """The question says which agent asks, and for what."""
    question = {"question": "Which wall for fifteen?", "kind": "yes_no"}
    harness.planner.script(
        Turn(calls=[errand("errand fifteen")]),
        Turn(calls=[("ask_person", question)]),
        Turn(text="They said yes."),
        Turn(text="It is settled."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot errand fifteen")
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    assert "<@UBEN00001>, Note desk asks:" in words(asked)
    assert "🤖 The agent asked Note desk: “errand fifteen”" in words(asked)
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    harness.said(SUPPORT, thread, "It is settled.")
    assert statuses(harness, thread) == [C.SUCCEEDED, C.ANSWERED]


def test_a_sub_agents_run_belongs_to_its_request_in_lists_and_audit(
    harness: Harness, fakes: FakeTools
) -> None:
    """`/approvals requests` and `show` list one request with all calls.

    The audit says which call the sub-agent's run was made for.
    """
    thread, card = asked_for(harness, "errand sixteen")
    approve(harness, card, Turn(text="Noted."), Turn(text="Sixteen is written."))
    harness.said(SUPPORT, thread, "Sixteen is written.")
    arrived(harness)
    child, first = child_of(harness, thread), get_request_run(harness, thread)
    harness.person("ben").command(SUPPORT, "/approvals requests")
    listed = told(harness, "ben", SUPPORT, thread, "have errand sixteen written")
    assert listed.count("have errand sixteen written") == 1
    assert "Write “errand sixteen”" in listed
    harness.person("ana").command(SUPPORT, f"/approvals show {child.id}")
    shown = told(harness, "ana", SUPPORT, thread, "have errand sixteen written")
    assert "Write “errand sixteen”" in shown
    assert "proposed by Note desk" in shown.replace('"}, {"type": "text", "text": "', "")
    assert first.id == child.root_id
    [born] = noted(harness, child.id, "run.born")
    [call] = [each for each in harness.calls_in(thread) if each.tool == "note_desk"]
    assert (born["source"], born["call"]) == ("run", call.id)
    assert harness.audit_of(call) == [
        "call.born.approved",
        "call.running",
        "call.entrusted",
        "call.succeeded",
    ]
    assert harness.all(Audit, Audit.run_id == child.id)[0].actor == "agent"


def test_the_answer_lists_the_calls_of_sub_agents(harness: Harness, fakes: FakeTools) -> None:
    """Below the agent's words, from the record."""
    thread, card = asked_for(harness, "errand seventeen")
    approve(harness, card, Turn(text="Noted."), Turn(text="Seventeen is written."))
    answer = harness.said(SUPPORT, thread, "Seventeen is written.")
    harness.settle()
    done = "✅ Done: Write “errand seventeen”."
    assert done in words(now_at(harness, SUPPORT, answer["ts"]))


def test_the_documented_sub_agent_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_harness: Callable[..., Harness]
) -> None:
    """The code in docs/extending.md looks up the stock, and takes an item once approved."""
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / "docs" / "extending.md", "python")
    code = [each for each in found if "ChangedError" in each or "@agent_tool" in each]
    module = types.ModuleType("stock_tools")
    for each in code:
        exec(each, module.__dict__)
    module.rows("CREATE TABLE stock (item TEXT, count INTEGER)")
    module.rows("INSERT INTO stock VALUES ('mug', 5)")
    harness = own_harness([module.list_stock, module.take, module.stock_desk])
    harness.planner.script(
        Turn(calls=[("stock_desk", {"item": "mug", "why": "the new colleague"})]),
        Turn(calls=[("list_stock", {})]),
        Turn(calls=[("take", {"item": "mug", "count": 1})]),
        Turn(text="One mug is taken."),
        Turn(text="Your mug is on its way."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot a mug for the new colleague")
    card = harness.card(SUPPORT, thread)
    assert "🤖 The agent asked Stock desk: “Restock mug: the new colleague”" in words(card)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "Your mug is on its way.")
    assert module.rows("SELECT count FROM stock") == [(4,)]
    first = next(each["input"] for each in harness.planner.requests if len(each["input"]) == 1)
    assert "a mug for the new colleague" in str(first)
    asked = [str(each["input"][0]) for each in harness.planner.requests]
    assert any("Please see to mug. It is for: the new colleague" in each for each in asked)
