"""Run at once, alone, without approval: who may, what it takes, and who has to look afterwards."""

from __future__ import annotations

from typing import Any

from bot.policy.evaluation import parse
from storage.models import Vote
from storage.states import CallStatus, CallVerb
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import (
    all_sent,
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
from tests.stories.test_commands import asked
from tests.stories.test_home import opened, shown, wait
from tests.stories.test_marks import DONE, wears
from tests.stories.test_modes import mode

C = CallStatus
WHY = "the shop is down and nobody answers"
ASKED, AGAIN = "please look at what", "nobody has looked yet"
POLICY = """
readers = ["UDAN00001"]

[modes]
loosen = ["@shop-leads"]

[defaults]
approvers = ["@shop-leads"]
quorum = 2
deadline = "1h"
reminders = ["10m"]
escalation = [{after = "30m", approvers = ["UDAN00001"]}]
break_glass = ["UBEN00001", "UANA00001"]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["@shop-leads"]
break_glass = ["UDAN00001"]

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@shop-leads"]
"""


def reason(why: str = WHY) -> dict[str, Any]:
    """What is typed into the dialog."""
    return {"words": {"text": {"value": why}}}


def break_glass(harness: Harness, who: str, card: dict[str, Any], why: str = WHY) -> None:
    """Run it without approval, until that has been dealt with."""
    open_modal(harness, who, SUPPORT, card, "break_glass")
    harness.person(who).submit(reason(why))
    arrived(harness)


def ran(harness: Harness, text: str, who: str = "ben") -> tuple[str, dict[str, Any]]:
    """Ben asks, and this person runs it; returns the thread and the card as it stands then."""
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    break_glass(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    return thread, now_at(harness, SUPPORT, card["ts"])


def test_who_asked_runs_it_alone(harness: Harness, fakes: FakeTools) -> None:
    """Two would have to approve it and who asked may not; with a reason they run it at once."""
    thread = ask(harness, ("note", {"text": "restart"}))
    card = harness.card(SUPPORT, thread)
    view = open_modal(harness, "ben", SUPPORT, card, "break_glass")
    assert (view["title"]["text"], view["submit"]["text"]) == ("Run without approval", "Run now")
    assert "restart" in words(view)
    assert "nobody has approved it" in words(view)
    harness.person("ben").submit(reason())
    line = words(harness.said(SUPPORT, thread, "That is all."))
    assert "🚨 Run without approval by" in line
    assert f": “{WHY}”." in line
    harness.settle()
    assert (statuses(harness, thread), fakes.did("note", "restart")) == ([C.SUCCEEDED], 1)
    assert (
        f'Run without approval by <@UBEN00001>, quoted: "{WHY}"' in harness.outputs()[0]["output"]
    )
    drawn = words(now_at(harness, SUPPORT, card["ts"]))
    assert "🚨 Run without approval by " in drawn
    assert f": “{WHY}”" in drawn
    assert "Approved" not in drawn
    [call] = harness.calls_in(thread)
    [data] = noted(harness, call.run_id, "call.approved")
    assert (data["vote"], data["counts_as"]) == ("break_glass", "break-glass, named")
    asked = words(harness.said(SUPPORT, thread, ASKED))
    assert "🚨 <!subteam^" in asked
    assert WHY in asked


def test_others_may_not(harness: Harness, fakes: FakeTools) -> None:
    """An approver whom the rule does not name is refused, privately, and it is recorded."""
    thread = ask(harness, ("note", {"text": "not you"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "break_glass")
    told(harness, "cleo", SUPPORT, thread, "You can’t run this without approval")
    assert (statuses(harness, thread), fakes.did("note", "not you")) == ([C.PENDING], 0)
    [call] = harness.calls_in(thread)
    [data] = noted(harness, call.run_id, "dialog.refused")
    assert (data["dialog"], data["why"]) == ("break_glass", "no_break_glass")


def test_the_reason_has_to_say_something(harness: Harness, fakes: FakeTools) -> None:
    """Less than ten characters are no reason, and blanks are none."""
    thread = ask(harness, ("note", {"text": "why"}))
    open_modal(harness, "ben", SUPPORT, harness.card(SUPPORT, thread), "break_glass")
    for why in ("urgent", "a         b"):
        refused = harness.person("ben").submit(reason(why))
        assert "at least 10 characters" in str(refused)
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("note", "why")) == ([C.PENDING], 0)


def test_where_nobody_is_named_there_is_no_choice(harness: Harness) -> None:
    """A rule without it takes that of [defaults]; a rule with one names others."""
    thread = ask(harness, ("put", {"text": "by dan"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ben", SUPPORT, card, "break_glass")
    told(harness, "ben", SUPPORT, thread, "You can’t run this without approval")
    break_glass(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.SUCCEEDED]


def test_an_edit_in_between(harness: Harness, fakes: FakeTools) -> None:
    """A dialog opened before an edit runs nothing: it counts for what it showed."""
    thread = ask(harness, ("note", {"text": "shown"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "break_glass")
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="edited"))
    arrived(harness)
    assert harness.person("ben").submit(reason())["outcome"] == "updated"
    assert "out of date" in str(harness.person("ben").view())
    harness.person("ben").close_view()
    assert (statuses(harness, thread), fakes.did("note", "edited")) == ([C.PENDING], 0)
    break_glass(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "edited") == 1


def test_after_the_deadline_and_after_a_no(harness: Harness, fakes: FakeTools) -> None:
    """What has expired or was rejected cannot be run without approval."""
    thread = ask(harness, ("note", {"text": "too late"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "break_glass")
    later(harness, 3601)
    assert statuses(harness, thread) == [C.EXPIRED]
    harness.person("ben").submit(reason())
    arrived(harness)
    assert fakes.did("note", "too late") == 0


def test_somebody_else_looks_at_it(harness: Harness) -> None:
    """Who ran it may not; an approver may, once, and nobody is asked any more."""
    thread, card = ran(harness, "look", "ana")
    press(harness, "ana", SUPPORT, card, "looked_at")
    told(harness, "ana", SUPPORT, thread, "You ran this yourself")
    press(harness, "ben", SUPPORT, card, "looked_at")
    told(harness, "ben", SUPPORT, thread, "Only somebody who could have approved this")
    press(harness, "cleo", SUPPORT, card, "looked_at")
    arrived(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "👀 Looked at by " in words(drawn)
    assert not {"looked_at", "object"} & {*action_ids(drawn)}
    press(harness, "cleo", SUPPORT, card, "looked_at")
    told(harness, "cleo", SUPPORT, thread, "You already looked at this")
    [call] = harness.calls_in(thread)
    assert (call.look_due_at, call.status) == (None, C.SUCCEEDED)
    later(harness, 90_000)
    assert not showing(harness, SUPPORT, thread, AGAIN)


def test_something_is_wrong(harness: Harness) -> None:
    """Who ran it, who asked and the policy's readers are told in whose words."""
    thread, card = ran(harness, "wrong")
    open_modal(harness, "ana", SUPPORT, card, "object")
    harness.person("ana").submit(reason("it was the wrong shop"))
    line = words(harness.said(SUPPORT, thread, "something is wrong"))
    assert "⚠️ <@UBEN00001>: Ana Ruiz has looked at what" in line
    assert "“it was the wrong shop”" in line
    dan = harness.person("dan")
    harness.slack.wait(lambda: any("wrong shop" in words(m) for m in dan.messages(dan.dm_channel)))
    assert "⚠️ Something is wrong, says " in words(now_at(harness, SUPPORT, card["ts"]))
    [call] = harness.calls_in(thread)
    assert [vote.verb for vote in harness.all(Vote, Vote.call_id == call.id)] == [
        CallVerb.BREAK_GLASS,
        CallVerb.OBJECT,
    ]
    assert call.status is C.SUCCEEDED


def test_until_somebody_has_looked(harness: Harness) -> None:
    """Reminders and the escalation go on after the deadline, then once a day."""
    thread, card = ran(harness, "remind")
    assert len(showing(harness, SUPPORT, thread, ASKED)) == 1
    later(harness, 601)
    assert len(showing(harness, SUPPORT, thread, AGAIN)) == 1
    harness.restart()
    harness.settle()
    later(harness, 1200)
    lines = showing(harness, SUPPORT, thread, AGAIN)
    assert len(lines) == 2
    assert "<@UDAN00001>" in words(lines[-1])
    later(harness, 3 * 86_400)
    assert len(showing(harness, SUPPORT, thread, AGAIN)) == 3
    later(harness, 86_400)
    assert len(showing(harness, SUPPORT, thread, AGAIN)) == 4
    press(harness, "dan", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "looked_at")
    arrived(harness)
    later(harness, 2 * 86_400)
    assert len(showing(harness, SUPPORT, thread, AGAIN)) == 4


def test_what_is_denied_by_then_does_not_run(harness: Harness, fakes: FakeTools) -> None:
    """It waits for the rest of its plan, over a restart, and the channel only looks by then."""
    thread = ask(harness, ("note", {"text": "denied"}), ("note", {"text": "beside"}))
    card = harness.card(SUPPORT, thread)
    break_glass(harness, "ben", card)
    assert statuses(harness, thread) == [C.APPROVED, C.PENDING]
    harness.restart()
    mode(harness, "observe", "dan", "observe mode now")
    reject(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "not this one")
    harness.said(SUPPORT, thread, "That is all.")
    mode(harness, "ask", "ana", "ask mode now")
    assert statuses(harness, thread) == [C.INVALIDATED, C.REJECTED]
    assert not fakes.did("note", "denied")
    later(harness, 90_000)
    assert harness.calls_in(thread)[0].look_due_at is None
    assert not showing(harness, SUPPORT, thread, AGAIN)


def test_home_and_the_mark_say_so(harness: Harness) -> None:
    """Who may look has it on Home with its buttons; who ran it has not."""
    thread, _ = ran(harness, "at home", "ana")
    wears(harness, thread, "rotating_light")
    [call] = harness.calls_in(thread)
    value = f"{call.id}:1"
    blocks = opened(harness, "cleo", "at home", "Run without approval: needs a look")
    [look] = [b for b in blocks if b["type"] == "actions" and value in str(b)]
    assert [each["action_id"] for each in look["elements"]] == ["looked_at", "object"]
    opened(harness, "ana")
    assert value not in shown(harness, "ana")
    harness.person("cleo").click_home("looked_at", look["block_id"], value)
    arrived(harness)
    all_sent(harness)
    wait(harness, "cleo", without=value)
    wears(harness, thread, DONE)
    told_of = asked(harness, f"/approvals show {call.id}", "cleo")
    assert "🚨 run without approval by " in told_of
    assert "👀 looked at by " in told_of
    assert "run without approval by" in asked(harness, "/approvals history 30", "cleo")


def test_who_may_has_changed_before_it_runs(harness: Harness, fakes: FakeTools) -> None:
    """It waits for the rest of its plan, and by then the policy names somebody else.

    It is asked again, and nothing says that it was run or approved.
    """
    thread = ask(harness, ("note", {"text": "waits"}), ("put", {"text": "the rest"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    cards = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    one, rest = sorted(cards, key=lambda each: "the rest" in words(each))
    break_glass(harness, "ben", one)
    line = words(harness.said(SUPPORT, thread, ASKED))
    assert "Ben Okafor chose to run without approval" in line
    assert "ran" not in line.split()
    known = harness.app.core.policy.policy
    harness.app.core.policy.policy = parse(
        POLICY.replace('"UBEN00001", "UANA00001"', '"UDAN00001"')
    )
    try:
        press(harness, "ana", SUPPORT, rest, "approve")
        harness.said(SUPPORT, thread, "what the policy says about this has changed since", "ana")
    finally:
        harness.app.core.policy.policy = known
    harness.settle()
    assert (statuses(harness, thread)[0], fakes.did("note", "waits")) == (C.PENDING, 0)
