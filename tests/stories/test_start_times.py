"""Approved now, started at the time that the rule names, unless somebody stops it until then."""

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


def starting(harness: Harness) -> tuple[datetime, int]:
    """When it is to start next, and in how many seconds that is."""
    now = harness.clock.now()
    start = parse_start_time(AT).find_next(now)
    return start, int((start - now).total_seconds()) + 1


def approved(
    harness: Harness, text: str, tool: str = "note", *, done: bool = True
) -> tuple[str, dict[str, Any]]:
    """Ben asks, Ana approves; returns the thread and the card as it stands then."""
    if starting(harness)[1] < 3 * 3600:  # so that no story crosses ten in the evening unawares
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


def test_it_is_approved_now_and_starts_then(harness: Harness, fakes: FakeTools) -> None:
    """Nothing runs before its time; who asked is told when, and the clock starts it."""
    thread, card = approved(harness, "migrate")
    start, seconds = starting(harness)
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


def test_whoever_may_decide_stops_it(harness: Harness, fakes: FakeTools) -> None:
    """One of them is enough, who approved it or not, even where two rejections end it before."""
    for who, tool in (("ana", "note"), ("cleo", "note"), ("cleo", "wipe")):
        text = f"stopped by {who} {tool}"
        thread, card = approved(harness, text, tool)
        press(harness, who, SUPPORT, card, "reject_now")
        harness.said(SUPPORT, thread, "That is all.")
        later(harness, starting(harness)[1])
        assert (statuses(harness, thread), fakes.did(tool, text)) == ([C.REJECTED], 0)


def test_it_is_stopped_with_a_reason(harness: Harness) -> None:
    """The reason reaches who asked, and the model."""
    thread, card = approved(harness, "with a reason")
    reject(harness, "cleo", SUPPORT, card, "we are in a freeze")
    assert "we are in a freeze" in words(harness.said(SUPPORT, thread, "we are in a freeze"))
    harness.said(SUPPORT, thread, "That is all.")
    assert "we are in a freeze" in str(harness.outputs()[0]["output"])


def test_nobody_else_stops_it(harness: Harness, fakes: FakeTools) -> None:
    """Someone who may not decide is refused, and it starts."""
    thread, card = approved(harness, "not yours")
    press(harness, "eve", SUPPORT, card, "reject_now")
    arrived(harness)
    later(harness, starting(harness)[1])
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "not yours") == 1


def test_a_second_approval_changes_nothing(harness: Harness, fakes: FakeTools) -> None:
    """An old card's Approve is answered with who has approved it."""
    harness.planner.script(Turn(calls=[("note", {"text": "twice"})]), Turn(text="That is all."))
    thread = harness.person("ben").say(SUPPORT, "@bot twice")
    card = harness.card(SUPPORT, thread)
    for who in ("ana", "cleo"):
        press(harness, who, SUPPORT, card, "approve")
        arrived(harness)
    told(harness, "cleo", SUPPORT, thread, "<@UANA00001> already approved this")
    assert (statuses(harness, thread), fakes.did("note", "twice")) == ([C.PENDING], 0)


def test_a_restart_does_not_lose_it(harness: Harness, fakes: FakeTools) -> None:
    """The time is in the database: a bot that was away starts it when it is back."""
    thread, _ = approved(harness, "restart")
    _, seconds = starting(harness)
    harness.app.stop()
    harness.clock.advance(seconds + 600)
    harness.start()
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "restart")) == ([C.SUCCEEDED], 1)


def test_long_after_its_time_it_is_asked_again(harness: Harness, fakes: FakeTools) -> None:
    """An approval is valid for so long from the time to start; then people are asked anew."""
    thread, _ = approved(harness, "much later", done=False)
    _, seconds = starting(harness)
    harness.app.stop()
    harness.clock.advance(seconds + 3 * 3600)
    harness.start()
    harness.slack.wait(lambda: harness.calls_in(thread)[0].revision == 2)
    harness.settle()
    [call] = harness.calls_in(thread)
    assert (call.status, call.starts_at, fakes.did("note", "much later")) == (C.PENDING, None, 0)


def test_an_edit_has_it_asked_again(harness: Harness, fakes: FakeTools) -> None:
    """What was approved is not what would run: votes are taken anew, and no time is set."""
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
    later(harness, starting(harness)[1])
    assert fakes.did("note", "before") == fakes.did("note", "after") == 0


def test_breaking_glass_does_not_wait(harness: Harness, fakes: FakeTools) -> None:
    """Who may run it without approval may run it before its time."""
    thread, card = approved(harness, "cannot wait")
    break_glass(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "cannot wait")) == ([C.SUCCEEDED], 1)
    later(harness, starting(harness)[1])
    assert fakes.did("note", "cannot wait") == 1


def test_who_asked_cancels_it(harness: Harness, fakes: FakeTools) -> None:
    """As any request of theirs."""
    thread, card = approved(harness, "withdrawn", done=False)
    press(harness, "ben", SUPPORT, card, "cancel_run")
    arrived(harness)
    later(harness, starting(harness)[1])
    assert (statuses(harness, thread), fakes.did("note", "withdrawn")) == ([C.CANCELLED], 0)


def test_a_plan_waits_for_it(harness: Harness, fakes: FakeTools) -> None:
    """The calls of a plan run in order; Approve all approves those that are left."""
    if starting(harness)[1] < 3 * 3600:
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
    later(harness, starting(harness)[1])
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    assert [fakes.did("note", each) for each in ("first", "second")] == [1, 1]


def test_home_does_not_ask_for_it(harness: Harness) -> None:
    """What is approved waits for nobody: Home has only what does."""
    approved(harness, "no more to do", done=False)
    harness.planner.script(Turn(calls=[("note", {"text": "yet to do"})]))
    thread = harness.person("ben").say(SUPPORT, "@bot yet to do")
    harness.card(SUPPORT, thread)
    opened(harness, "cleo", "yet to do", without="no more to do")


def test_a_program_claims_it_then(harness: Harness) -> None:
    """It sees when, and is given the call from that time on."""
    if starting(harness)[1] < 3 * 3600:
        later(harness, 4 * 3600)
    found = asked(harness, "7.0")
    harness.person("ana").click(SUPPORT, card_of(harness, found)["ts"], "approve")
    arrived(harness)
    start, seconds = starting(harness)
    status = found.load_status()
    assert (status.status, status.starts_at) == (C.PENDING, start)
    assert status.decided_by == ("UANA00001",)
    with pytest.raises(ClaimRefusedError, match="it starts later"):
        found.claim_call(ME)
    later(harness, seconds)
    assert (found.load_status().status, found.load_status().starts_at) == (C.APPROVED, None)
    assert claimed(harness, found).arguments == {"version": "7.0", "env": "production"}


def test_the_terminal_and_the_lists_say_when(harness: Harness) -> None:
    """What waits for its time is listed as approved, and starts then."""
    thread, _ = approved(harness, "listed", done=False)
    start, _ = starting(harness)
    store, tools = harness.app.core.store, harness.app.core.tools
    team = harness.run_in(thread).team
    with store.read() as tx:
        reports = list_waiting_call_reports(tx, tools, team, harness.clock.now())
    [report] = [each for each in reports if "listed" in each.effect]
    assert (report.starts_at, report.needed) == (start, 0)
    assert "Approved: Write “listed”" in commanded(harness, "/approvals requests")
