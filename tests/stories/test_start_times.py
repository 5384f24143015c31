"""Calls approved now that start at a time named by the rule, unless they are stopped before."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from bot.policy.business_hours import parse_start_time
from bot.runs.program_calls import ClaimRefusedError
from bot.terminal.request_reports import list_waiting_call_reports
from storage.states import CallStatus
from tests.model_stand_in.planner import Turn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.operator_steps import command, environment, with_tools
from tests.stories.steps import (
    arrived,
    ask,
    later,
    noted,
    now_at,
    open_modal,
    press,
    reject,
    showing,
    statuses,
    told,
    typed,
)
from tests.stories.test_break_glass import break_glass
from tests.stories.test_commands import asked as commanded
from tests.stories.test_handed_over import ME, asked, card_of, claimed
from tests.stories.test_home import opened

C = CallStatus
AT = "22:00 Europe/Berlin"
POLICY = f"""
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"
reminders = ["10m"]
good_for = "2h"
run_at = "{AT}"
break_glass = ["UDAN00001"]

[[rule]]
tool = "put"
verdict = "add"
reminders = ["20m"]

[[rule]]
tool = "wipe"
verdict = "ask"
veto = 2
"""


def find_next_start(harness: Harness) -> tuple[datetime, int]:
    """Return the next time to start, and in how many seconds that is."""
    now = harness.clock.now()
    start = parse_start_time(AT).find_next(now)
    return start, int((start - now).total_seconds()) + 1


def ask_and_approve(
    harness: Harness, text: str, tool: str = "note", *, done: bool = True
) -> tuple[str, dict[str, Any]]:
    """Ben asks, Ana approves; return the thread and the card after that."""
    if (
        find_next_start(harness)[1] < 3 * 3600
    ):  # so that no story passes ten in the evening by chance
        later(harness, 4 * 3600)
    answer = [Turn(text="That is all.")] if done else []
    harness.planner.script(Turn(calls=[(tool, {"text": text})]), *answer)
    thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
    card = harness.card(SUPPORT, thread)
    assert "Once approved, starts at 22:00 (Europe/Berlin)" in words(card)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.slack.wait(lambda: "Starts" in words(now_at(harness, SUPPORT, card["ts"])))
    return thread, now_at(harness, SUPPORT, card["ts"])


def test_an_approved_call_starts_at_its_time(harness: Harness, fakes: FakeTools) -> None:
    """The requester is told when, and nobody is reminded until then."""
    thread, card = ask_and_approve(harness, "migrate")
    start, seconds = find_next_start(harness)
    [call] = harness.calls_in(thread)
    assert (call.status, call.starts_at, fakes.did("note", "migrate")) == (C.PENDING, start, 0)
    assert "Approved by <@UANA00001>" in words(card)
    assert "Decide by" not in words(card)
    assert "approve" not in action_ids(card)
    [line] = showing(harness, SUPPORT, thread, "approved this, and it starts")
    assert "<@UBEN00001>" in words(line)
    later(harness, seconds - 60)
    assert (statuses(harness, thread), fakes.did("note", "migrate")) == ([C.PENDING], 0)
    assert not showing(harness, SUPPORT, thread, "this is still waiting")
    later(harness, 61)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "migrate")) == ([C.SUCCEEDED], 1)
    [call] = harness.calls_in(thread)
    assert call.decided_at == start
    [data] = noted(harness, call.run_id, "call.scheduled")
    assert (data["vote"], data["starts_at"]) == ("approve", start.isoformat())
    [begun] = noted(harness, call.run_id, "call.approved")
    assert begun["votes"] == ["UANA00001"]
    assert "Approved by <@UANA00001>" in words(now_at(harness, SUPPORT, card["ts"]))


def test_any_approver_can_stop_a_scheduled_call(harness: Harness, fakes: FakeTools) -> None:
    """One is enough, whether they approved it or not, even with a veto of two."""
    for who, tool in (("ana", "note"), ("cleo", "note"), ("cleo", "wipe")):
        text = f"stopped by {who} {tool}"
        thread, card = ask_and_approve(harness, text, tool)
        press(harness, who, SUPPORT, card, "reject_now")
        harness.said(SUPPORT, thread, "That is all.")
        later(harness, find_next_start(harness)[1])
        assert (statuses(harness, thread), fakes.did(tool, text)) == ([C.REJECTED], 0)


def test_a_scheduled_call_can_be_rejected_with_a_reason(harness: Harness) -> None:
    """The requester and the model are given the reason."""
    thread, card = ask_and_approve(harness, "with a reason")
    reject(harness, "cleo", SUPPORT, card, "we are in a freeze")
    assert "we are in a freeze" in words(harness.said(SUPPORT, thread, "we are in a freeze"))
    harness.said(SUPPORT, thread, "That is all.")
    assert "we are in a freeze" in str(harness.outputs()[0]["output"])


def test_outsiders_cannot_stop_a_scheduled_call(harness: Harness, fakes: FakeTools) -> None:
    """Their click changes nothing, and the call starts."""
    thread, card = ask_and_approve(harness, "not yours")
    press(harness, "eve", SUPPORT, card, "reject_now")
    arrived(harness)
    later(harness, find_next_start(harness)[1])
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "not yours") == 1


def test_a_scheduled_call_needs_no_second_approval(harness: Harness, fakes: FakeTools) -> None:
    """A click on the old card changes nothing, and is answered with who has approved."""
    harness.planner.script(Turn(calls=[("note", {"text": "twice"})]), Turn(text="That is all."))
    thread = harness.person("ben").say(SUPPORT, "@bot twice")
    card = harness.card(SUPPORT, thread)
    for who in ("ana", "cleo"):
        press(harness, who, SUPPORT, card, "approve")
        arrived(harness)
    told(harness, "cleo", SUPPORT, thread, "<@UANA00001> already approved this")
    assert (statuses(harness, thread), fakes.did("note", "twice")) == ([C.PENDING], 0)


def test_a_scheduled_call_survives_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """Its time passes while the bot is stopped, and it starts when the bot does."""
    thread, _ = ask_and_approve(harness, "restart")
    _, seconds = find_next_start(harness)
    harness.app.stop()
    harness.clock.advance(seconds + 600)
    harness.start()
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "restart")) == ([C.SUCCEEDED], 1)


def test_a_scheduled_call_that_is_started_too_late_is_asked_again(
    harness: Harness, fakes: FakeTools
) -> None:
    """The approval is good for two hours from the start time; the bot is back after three."""
    thread, _ = ask_and_approve(harness, "much later", done=False)
    _, seconds = find_next_start(harness)
    harness.app.stop()
    harness.clock.advance(seconds + 3 * 3600)
    harness.start()
    harness.slack.wait(lambda: harness.calls_in(thread)[0].revision == 2)
    harness.settle()
    [call] = harness.calls_in(thread)
    assert (call.status, call.starts_at, fakes.did("note", "much later")) == (C.PENDING, None, 0)


def test_an_edit_of_a_scheduled_call_is_asked_again(harness: Harness, fakes: FakeTools) -> None:
    """Its approval and start time are gone, and nothing runs at that time."""
    harness.planner.script(Turn(calls=[("note", {"text": "before"})]), Turn(text="That is all."))
    thread = harness.person("ben").say(SUPPORT, "@bot edit it")
    card = harness.card(SUPPORT, thread)
    press(harness, "ana", SUPPORT, card, "approve")
    arrived(harness)
    open_modal(harness, "cleo", SUPPORT, card, "edit")
    harness.person("cleo").submit(typed(text="after"))
    arrived(harness)
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision, call.starts_at) == (C.PENDING, 2, None)
    later(harness, find_next_start(harness)[1])
    assert fakes.did("note", "before") == fakes.did("note", "after") == 0


def test_break_glass_runs_a_scheduled_call_at_once(harness: Harness, fakes: FakeTools) -> None:
    """It does not run a second time at its start time."""
    thread, card = ask_and_approve(harness, "cannot wait")
    break_glass(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "cannot wait")) == ([C.SUCCEEDED], 1)
    later(harness, find_next_start(harness)[1])
    assert fakes.did("note", "cannot wait") == 1


def test_the_requester_can_cancel_a_scheduled_call(harness: Harness, fakes: FakeTools) -> None:
    """Nothing runs at its start time."""
    thread, card = ask_and_approve(harness, "withdrawn", done=False)
    press(harness, "ben", SUPPORT, card, "cancel_run")
    arrived(harness)
    later(harness, find_next_start(harness)[1])
    assert (statuses(harness, thread), fakes.did("note", "withdrawn")) == ([C.CANCELLED], 0)


def test_a_plan_with_a_scheduled_call_runs_in_order_at_its_time(
    harness: Harness, fakes: FakeTools
) -> None:
    """Approve all approves the calls that are left."""
    if find_next_start(harness)[1] < 3 * 3600:
        later(harness, 4 * 3600)
    thread = ask(harness, ("note", {"text": "first"}), ("note", {"text": "second"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ana", SUPPORT, card, "approve", 1)
    arrived(harness)
    harness.slack.wait(lambda: "Starts" in words(now_at(harness, SUPPORT, card["ts"])))
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "1 of 2 left to decide" in words(drawn)
    assert words(drawn).count("Once approved, starts at 22:00 (Europe/Berlin)") == 1
    press(harness, "cleo", SUPPORT, drawn, "approve_all")
    arrived(harness)
    assert all(call.starts_at for call in harness.calls_in(thread))
    harness.slack.wait(lambda: "All decided" in words(now_at(harness, SUPPORT, card["ts"])))
    later(harness, find_next_start(harness)[1])
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    assert [fakes.did("note", each) for each in ("first", "second")] == [1, 1]


def test_home_does_not_list_a_scheduled_call_as_waiting(harness: Harness) -> None:
    """It is approved, so nobody has to decide it."""
    ask_and_approve(harness, "no more to do", done=False)
    harness.planner.script(Turn(calls=[("note", {"text": "yet to do"})]))
    thread = harness.person("ben").say(SUPPORT, "@bot yet to do")
    harness.card(SUPPORT, thread)
    opened(harness, "cleo", "yet to do", without="no more to do")


def test_a_program_can_claim_a_call_from_its_start_time(harness: Harness) -> None:
    """Before that the program is told when it starts, and its claim is refused."""
    if find_next_start(harness)[1] < 3 * 3600:
        later(harness, 4 * 3600)
    found = asked(harness, "7.0")
    harness.person("ana").click(SUPPORT, card_of(harness, found)["ts"], "approve")
    arrived(harness)
    start, seconds = find_next_start(harness)
    status = found.load_status()
    assert (status.status, status.starts_at) == (C.PENDING, start)
    assert status.decided_by == ("UANA00001",)
    with pytest.raises(ClaimRefusedError, match="it starts later"):
        found.claim_call(ME)
    later(harness, seconds)
    assert (found.load_status().status, found.load_status().starts_at) == (C.APPROVED, None)
    assert claimed(harness, found).arguments == {"version": "7.0", "env": "production"}


def test_the_terminal_shows_when_a_scheduled_call_starts(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`countersign pending` says who can stop it, `/approvals requests` lists it as approved."""
    thread, _ = ask_and_approve(harness, "listed", done=False)
    start, _ = find_next_start(harness)
    store, tools = harness.app.core.store, harness.app.core.tools
    team = harness.run_in(thread).team
    with store.read() as tx:
        reports = list_waiting_call_reports(tx, tools, team, harness.clock.now())
    [report] = [each for each in reports if "listed" in each.effect]
    assert (report.starts_at, report.needed) == (start, 0)
    monkeypatch.chdir(with_tools(harness.folder))
    for name, value in environment(harness).items():
        monkeypatch.setenv(name, value)
    listed = command(capsys, "pending")[1]
    assert "who can stop it until then: Ana Ruiz (UANA00001)" in listed
    assert "who decides: 0 of" not in listed
    assert "Approved: Write “listed”" in commanded(harness, "/approvals requests")
