"""Calls with an unknown outcome: resolving them, and running them again."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest

from bot.approvals.receipts import ReceiptWriter
from bot.cards.answers import RERUN_NEEDS_REASON_REPLY
from bot.cards.sentences import OUTDATED_CARD_REPLY, RERUN_NEEDS_ALL_APPROVERS_REPLY
from bot.demo.model_server import Turn
from bot.tools import ChangedError, Effect, Preview, Tool, ToolContext, tool
from storage.models import Call
from storage.states import CallStatus
from tests.stories.fakes import FakeTools, Note
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import (
    all_sent,
    arrived,
    ask,
    ask_for,
    noted,
    now_at,
    open_modal,
    press,
    statuses,
    told,
    vote,
    waiting,
)
from tests.stories.test_break_glass import break_glass
from tests.stories.test_what_runs import DENIES, STRICTER, build_changed_note

C = CallStatus
LAX = '[defaults]\napprovers = ["@shop-leads"]\n'
ANSWER = "So that is how it is."
CLEARED: list[str] = []


@tool(
    title="Ship",
    effect="Ship {text}",
    does=Effect.WRITE,
    outcome=lambda args, _: f"Shipped {args.text}",
)
def ship(args: Note, context: ToolContext) -> str:
    """Ships something, and loses the connection."""
    raise ConnectionResetError("the line went dead")


def preview_cleared(args: Note, context: ToolContext) -> Preview:
    """Preview how many are cleared, which has to be the same when the call runs."""
    return Preview(f"{len(CLEARED)} cleared", expects=str(len(CLEARED)))


@tool(title="Clear", effect="Clear {text}", does=Effect.WRITE, preview=preview_cleared)
def clear(args: Note, context: ToolContext) -> str:
    """Clears something, and loses the connection."""
    if context.expects != str(len(CLEARED)):
        raise ChangedError(f"{len(CLEARED)} are cleared now.")
    CLEARED.append(args.text)
    raise ConnectionResetError("the line went dead")


def ask_and_lose_outcome(harness: Harness, tool: str = "lose") -> tuple[str, dict[str, Any]]:
    """Have a call approved and its outcome lost; return the thread and the card."""
    thread, card = ask_for(harness, "parcel", tool)
    harness.planner.script(Turn(text=ANSWER))
    vote(harness, "ana", card)
    return thread, harness.card(SUPPORT, thread, having="run_again")


def get_only_call(harness: Harness, thread: str) -> Call:
    """Return the thread's only call."""
    [call] = harness.calls_in(thread)
    return call


def test_a_call_resolved_as_done_shows_no_error(
    own_harness: Callable[..., Harness],
) -> None:
    """No card, message or receipt has the error of the lost connection."""
    harness = own_harness([ship], LAX)
    thread, card = ask_and_lose_outcome(harness, "ship")
    press(harness, "ana", SUPPORT, card, "resolve_done")
    answer = words(harness.said(SUPPORT, thread, "I could not confirm it."))
    assert ("✅ Done: Ship parcel." in answer, "Ana Ruiz" in answer) == (True, True)
    all_sent(harness)
    shown = words(now_at(harness, SUPPORT, card["ts"]))
    assert ("Ship parcel" in shown, "went dead" in shown) == (True, False)
    assert "Done: Ship parcel. <@UANA00001> said so. Approved by" in shown
    assert "says that it happened" in shown
    core, call = harness.app.core, get_only_call(harness, thread)
    with core.store.read() as tx:
        end = ReceiptWriter(core.key, core.tools).write_receipts(tx, call)["end"]
    content = json.loads(b64decode(end["payload"]))["predicate"]
    assert (content["status"], content["note"], content["reportedBy"]) == (
        "succeeded",
        "",
        "UANA00001",
    )
    [data] = noted(harness, call.run_id, "call.unknown")
    assert "went dead" in data["why"]  # the audit keeps the error


REASONS = {
    "tool": "not run again: the tool has changed since this was shown",
    "gone": "not run again: the tool is no longer there",
    "deny": "not run again: policy now forbids it: loses are frozen until Monday",
    "stricter": "not run again: what the policy says about this has changed since it was asked",
}


def restart_with_change(harness: Harness, fakes: FakeTools, what: str) -> None:
    """Restart the bot with other tools or under another policy."""
    others = [each for each in fakes.tools if each.name != "lose"]
    changed: list[Tool[Any]] = [build_changed_note(fakes, "lose")] if what == "tool" else []
    harness.tools = [*changed, *others] if what in ("tool", "gone") else fakes.tools
    harness.policy = {"deny": DENIES.replace("note", "lose"), "stricter": STRICTER}.get(what, LAX)
    harness.restart()


@pytest.mark.parametrize("what", REASONS)
def test_an_unknown_call_that_may_not_run_again_stays_unknown(
    own_harness: Callable[..., Harness], what: str
) -> None:
    """It was started once, so nobody is told that it did not run; people can still resolve it."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, LAX)
    thread, card = ask_and_lose_outcome(harness)
    restart_with_change(harness, fakes, what)
    press(harness, "ana", SUPPORT, card, "run_again")
    harness.slack.wait(lambda: get_only_call(harness, thread).note == REASONS[what])
    arrived(harness)
    all_sent(harness)
    now = now_at(harness, SUPPORT, card["ts"])
    assert REASONS[what] in words(now)
    assert "resolve_done" in action_ids(now)
    assert statuses(harness, thread) == [C.UNKNOWN]
    press(harness, "ana", SUPPORT, now, "resolve_done")
    answer = harness.said(SUPPORT, thread, ANSWER)
    all_sent(harness)
    assert "Not run" not in words(now_at(harness, SUPPORT, answer["ts"]))
    assert "says that it DID happen" in harness.outputs()[-1]["output"]
    assert fakes.did("lose", "parcel") == 1


def test_an_unknown_call_whose_preview_has_changed_stays_unknown(
    own_harness: Callable[..., Harness],
) -> None:
    """The first run may have changed what the preview shows."""
    harness = own_harness([clear], LAX)
    CLEARED.clear()
    thread, card = ask_and_lose_outcome(harness, "clear")
    press(harness, "ana", SUPPORT, card, "run_again")
    harness.slack.wait(
        lambda: get_only_call(harness, thread).note == "not run again: 1 are cleared now."
    )
    arrived(harness)
    assert (statuses(harness, thread), CLEARED) == ([C.UNKNOWN], ["parcel"])
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    arrived(harness)
    assert statuses(harness, thread) == [C.UNKNOWN]


def test_a_click_cannot_rerun_a_call_needing_a_reason(
    own_harness: Callable[..., Harness],
) -> None:
    """The rule wants a reason with an approval; the person is told so."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, f'{LAX}reasons = "approve"\n')
    thread = waiting(harness, ("lose", {"text": "parcel"}))
    card = harness.card(SUPPORT, thread, having="review")
    open_modal(harness, "ana", SUPPORT, card, "review")
    harness.person("ana").submit({"note": {"text": {"value": "it is due"}}})
    asking = harness.card(SUPPORT, thread, having="run_again")
    press(harness, "ana", SUPPORT, asking, "run_again")
    told(harness, "ana", SUPPORT, thread, RERUN_NEEDS_REASON_REPLY)
    assert statuses(harness, thread) == [C.UNKNOWN]
    assert fakes.did("lose", "parcel") == 1
    press(harness, "ana", SUPPORT, asking, "resolve_done")  # takes no reason
    harness.said(SUPPORT, thread, "looked and says")
    assert statuses(harness, thread) == [C.SUCCEEDED]


def test_only_an_approver_can_say_what_became_of_a_call(harness: Harness) -> None:
    """Others are told who can, the one who approved it included; the attempt is recorded."""
    thread, asking = ask_and_lose_outcome(harness)
    press(harness, "ben", SUPPORT, asking, "resolve_done")
    told(harness, "ben", SUPPORT, thread, "These people can: <@UANA00001>, <@UCLEO0001>.")
    call = get_only_call(harness, thread)
    [data] = noted(harness, call.run_id, "decision.refused")
    assert (call.status, data["verb"], data["why"]) == (C.UNKNOWN, "done", "not_approver")


def test_a_click_on_an_older_card_resolves_nothing(harness: Harness, fakes: FakeTools) -> None:
    """It is about the earlier execution; the person is told that it is out of date."""
    thread, asking = ask_and_lose_outcome(harness)
    press(harness, "ana", SUPPORT, asking, "run_again")
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("lose", "parcel")) == ([C.UNKNOWN], 2)
    cleo = harness.person("cleo")
    before = len(cleo.everything(SUPPORT))
    for action in ("run_again", "resolve_done"):
        press(harness, "cleo", SUPPORT, asking, action)
        arrived(harness)
    all_sent(harness)
    seen = cleo.everything(SUPPORT)[before:]
    assert len([m for m in seen if OUTDATED_CARD_REPLY in words(m)]) == 2
    assert (statuses(harness, thread), fakes.did("lose", "parcel")) == ([C.UNKNOWN], 2)


def test_a_vote_on_a_call_of_unknown_outcome_comes_too_late(harness: Harness) -> None:
    """Its approval was given before it ran."""
    thread, card = ask_for(harness, "parcel", "lose")
    harness.planner.script(Turn(text=ANSWER))
    vote(harness, "ana", card)
    harness.card(SUPPORT, thread, having="run_again")
    press(harness, "cleo", SUPPORT, card, "approve")
    told(harness, "cleo", SUPPORT, thread, "<@UANA00001> already approved this")
    assert statuses(harness, thread) == [C.UNKNOWN]


def test_requesters_cannot_say_what_became_of_their_own_call(harness: Harness) -> None:
    """Not even those who could approve such calls of others."""
    thread = ask(harness, ("lose", {"text": "own parcel"}), who="ana")
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    asking = harness.card(SUPPORT, thread, having="run_again")
    press(harness, "ana", SUPPORT, asking, "resolve_done")
    told(harness, "ana", SUPPORT, thread, "somebody else has to say what happened")
    assert statuses(harness, thread) == [C.UNKNOWN]


def test_a_click_cannot_rerun_a_call_of_several_approvers(
    own_harness: Callable[..., Harness],
) -> None:
    """One person's click would stand for two approvals; but one can say what happened."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, f"{LAX}quorum = 2\n")
    thread = waiting(harness, ("lose", {"text": "parcel"}))
    card = harness.card(SUPPORT, thread)
    for who in ("ana", "cleo"):
        vote(harness, who, card)
    asking = harness.card(SUPPORT, thread, having="run_again")
    press(harness, "ana", SUPPORT, asking, "run_again")
    told(harness, "ana", SUPPORT, thread, RERUN_NEEDS_ALL_APPROVERS_REPLY)
    assert statuses(harness, thread) == [C.UNKNOWN]
    assert fakes.did("lose", "parcel") == 1
    press(harness, "ana", SUPPORT, asking, "resolve_done")
    harness.said(SUPPORT, thread, "looked and says")
    assert statuses(harness, thread) == [C.SUCCEEDED]


def test_a_click_cannot_rerun_a_call_that_ran_without_approval(
    own_harness: Callable[..., Harness],
) -> None:
    """An approver may say what happened, even the one who ran it, but approves nothing by that."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, f'{LAX}break_glass = ["UANA00001"]\n')
    thread = waiting(harness, ("lose", {"text": "parcel"}))
    break_glass(harness, "ana", harness.card(SUPPORT, thread))
    asking = harness.card(SUPPORT, thread, having="run_again")
    press(harness, "cleo", SUPPORT, asking, "run_again")
    told(harness, "cleo", SUPPORT, thread, RERUN_NEEDS_ALL_APPROVERS_REPLY)
    assert statuses(harness, thread) == [C.UNKNOWN]
    assert fakes.did("lose", "parcel") == 1
    press(harness, "ana", SUPPORT, asking, "resolve_done")
    harness.said(SUPPORT, thread, "looked and says")
    assert statuses(harness, thread) == [C.SUCCEEDED]
