"""Running a call without approval: who may, what it takes, and who has to look afterwards."""

from __future__ import annotations

from collections.abc import Callable
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
    vote,
    waiting,
)
from tests.stories.test_commands import asked
from tests.stories.test_home import opened, read_home, wait
from tests.stories.test_modes import mode
from tests.stories.test_reactions import DONE, wait_for_reaction

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
VETO = """
[defaults]
approvers = ["@shop-leads"]
quorum = 2
veto = 2
break_glass = ["UBEN00001", "UANA00001"]
"""


def reason(why: str = WHY) -> dict[str, Any]:
    """What is typed into the dialog."""
    return {"words": {"text": {"value": why}}}


def break_glass(harness: Harness, who: str, card: dict[str, Any], why: str = WHY) -> None:
    """Run the call without approval, and wait until that is handled."""
    open_modal(harness, who, SUPPORT, card, "break_glass")
    harness.person(who).submit(reason(why))
    arrived(harness)


def ran(harness: Harness, text: str, who: str = "ben") -> tuple[str, dict[str, Any]]:
    """Ben asks and this person runs it without approval; returns the thread and the card
    afterwards.
    """
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    break_glass(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    return thread, now_at(harness, SUPPORT, card["ts"])


def test_the_requester_runs_a_call_without_approval(harness: Harness, fakes: FakeTools) -> None:
    """Two others would have to approve it; with a reason Ben runs it at once."""
    thread = ask(harness, ("note", {"text": "restart"}))
    card = harness.card(SUPPORT, thread)
    view = open_modal(harness, "ben", SUPPORT, card, "break_glass")
    assert (view["title"]["text"], view["submit"]["text"]) == ("Run without approval", "Run now")
    assert "restart" in words(view)
    assert "whatever approval is still missing" in words(view)
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


def test_the_dialog_does_not_deny_the_approvals_there_are(harness: Harness) -> None:
    """One of two people has approved when Ben opens it: it does not say that nobody has."""
    thread = ask(harness, ("note", {"text": "one of two"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "cleo", card)
    harness.slack.wait(lambda: "<@UCLEO0001>" in words(now_at(harness, SUPPORT, card["ts"])))
    view = open_modal(harness, "ben", SUPPORT, card, "break_glass")
    assert "nobody has approved" not in words(view)
    assert "whatever approval is still missing" in words(view)


def test_somebody_the_rule_does_not_name_may_not_run_it(harness: Harness, fakes: FakeTools) -> None:
    """An approver whom the rule does not name is refused privately, and it is recorded."""
    thread = ask(harness, ("note", {"text": "not you"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "cleo", SUPPORT, card, "break_glass")
    told(harness, "cleo", SUPPORT, thread, "You can’t run this without approval")
    assert (statuses(harness, thread), fakes.did("note", "not you")) == ([C.PENDING], 0)
    [call] = harness.calls_in(thread)
    [data] = noted(harness, call.run_id, "dialog.refused")
    assert (data["dialog"], data["why"]) == ("break_glass", "no_break_glass")


def test_a_reason_has_at_least_ten_characters(harness: Harness, fakes: FakeTools) -> None:
    """Blanks do not count."""
    thread = ask(harness, ("note", {"text": "why"}))
    open_modal(harness, "ben", SUPPORT, harness.card(SUPPORT, thread), "break_glass")
    for why in ("urgent", "a         b"):
        refused = harness.person("ben").submit(reason(why))
        assert "at least 10 characters" in str(refused)
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("note", "why")) == ([C.PENDING], 0)


def test_the_people_a_rule_names_replace_those_of_the_defaults(harness: Harness) -> None:
    """Ben, whom only the defaults name, is refused; Dan, whom the rule names, is not."""
    thread = ask(harness, ("put", {"text": "by dan"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ben", SUPPORT, card, "break_glass")
    told(harness, "ben", SUPPORT, thread, "You can’t run this without approval")
    break_glass(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.SUCCEEDED]


def test_a_dialog_opened_before_an_edit_runs_nothing(harness: Harness, fakes: FakeTools) -> None:
    """The dialog counts only for the arguments that it showed."""
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


def test_an_expired_call_cannot_run_without_approval(harness: Harness, fakes: FakeTools) -> None:
    """The dialog was opened before the deadline and submitted after it."""
    thread = ask(harness, ("note", {"text": "too late"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ben", SUPPORT, card, "break_glass")
    later(harness, 3601)
    assert statuses(harness, thread) == [C.EXPIRED]
    harness.person("ben").submit(reason())
    arrived(harness)
    assert fakes.did("note", "too late") == 0


def test_another_approver_confirms_having_looked(harness: Harness) -> None:
    """The person who ran it cannot, nor can somebody who could not approve it. Once an approver
    has, nobody is asked any more.
    """
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


def test_an_earlier_vote_may_rule_out_to_run_it(own_harness: Callable[..., Harness]) -> None:
    """Whoever has rejected a call cannot run it; whoever has approved it can."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, VETO)
    thread = waiting(harness, ("note", {"text": "rejected"}))
    card = harness.card(SUPPORT, thread)
    reject(harness, "ana", SUPPORT, card, "not now")
    arrived(harness)
    break_glass(harness, "ana", card)
    told(harness, "ana", SUPPORT, thread, "You already rejected this")
    assert (statuses(harness, thread), fakes.did("note", "rejected")) == ([C.PENDING], 0)
    thread = ask(harness, ("note", {"text": "approved"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    break_glass(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "approved")) == ([C.SUCCEEDED], 1)


def test_whoever_had_rejected_a_call_can_look_at_it(own_harness: Callable[..., Harness]) -> None:
    """They know best what was wrong with it."""
    harness = own_harness(FakeTools().tools, VETO)
    thread = ask(harness, ("note", {"text": "look"}))
    card = harness.card(SUPPORT, thread)
    reject(harness, "cleo", SUPPORT, card, "not now")
    arrived(harness)
    break_glass(harness, "ben", card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    press(harness, "cleo", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "looked_at")
    arrived(harness)
    assert "👀 Looked at by " in words(now_at(harness, SUPPORT, card["ts"]))


def test_a_reviewer_reports_that_something_is_wrong(harness: Harness) -> None:
    """The requester, who ran it, and the policy's readers get the reviewer's words."""
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


def test_the_requester_cannot_report_on_their_own_request(harness: Harness) -> None:
    """They are an approver, but somebody else has to look; they get no dialog."""
    thread = ask(harness, ("note", {"text": "mine"}), who="ana")
    card = harness.card(SUPPORT, thread)
    break_glass(harness, "ben", card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    press(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "object")
    told(harness, "ana", SUPPORT, thread, "This is your own request")
    [call] = harness.calls_in(thread)
    [refused] = noted(harness, call.run_id, "dialog.refused")
    assert (refused["dialog"], refused["why"]) == ("object", "own_request")


def test_reminders_to_look_continue_until_somebody_has(harness: Harness) -> None:
    """They and the escalation go on after the deadline, then once a day, across a restart."""
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


def test_a_call_does_not_run_if_policy_now_denies_it(harness: Harness, fakes: FakeTools) -> None:
    """It waits for the rest of its plan, across a restart, while its channel is put into observe
    mode.
    """
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


def test_home_and_a_reaction_show_that_a_look_is_needed(harness: Harness) -> None:
    """Cleo, who may look, has it on Home with its buttons; Ana, who ran it, has not."""
    thread, _ = ran(harness, "at home", "ana")
    wait_for_reaction(harness, thread, "rotating_light")
    [call] = harness.calls_in(thread)
    value = f"{call.id}:1"
    blocks = opened(harness, "cleo", "at home", "Run without approval: needs a look")
    [look] = [b for b in blocks if b["type"] == "actions" and value in str(b)]
    assert [each["action_id"] for each in look["elements"]] == ["looked_at", "object"]
    opened(harness, "ana")
    assert value not in read_home(harness, "ana")
    harness.person("cleo").click_home("looked_at", look["block_id"], value)
    arrived(harness)
    all_sent(harness)
    wait(harness, "cleo", without=value)
    wait_for_reaction(harness, thread, DONE)
    told_of = asked(harness, f"/approvals show {call.id}", "cleo")
    assert "🚨 run without approval by " in told_of
    assert "👀 looked at by " in told_of
    assert "run without approval by" in asked(harness, "/approvals history 30", "cleo")


def test_a_call_is_asked_again_if_others_may_run_it_now(harness: Harness, fakes: FakeTools) -> None:
    """It waits for the rest of its plan while the policy changes. No message says that it ran or
    was approved.
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
