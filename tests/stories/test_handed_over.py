"""Calls that a program describes, has approved, claims once and runs itself."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from bot.runs.program_calls import ClaimRefusedError, ProgramClaim
from bot.runs.program_requests import ProgramRequest, ProgramRequests
from bot.tools import Effect
from bot.tools.handed_over import HandedOverAction, HandedOverActionError
from storage import programs as handovers
from storage.states import CallStatus, RunStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, later, open_modal, reject, typed, vote

C = CallStatus
BEN = "UBEN00001"
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
name = "the night job may"
tool = "rotate"
when = 'client == "night"'
verdict = "allow"
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "version": {"type": "string", "maxLength": 20},
        "env": {"enum": ["staging", "production"]},
        "token": {"type": "string", "writeOnly": True},
    },
    "required": ["version", "env"],
    "additionalProperties": False,
}
DEPLOY = HandedOverAction("deploy", "Deploy the shop", "Deploy {version} to {env}", schema=SCHEMA)
ME, OTHER = "attempt-1-of-the-job", "attempt-2-of-the-job"


def build_program_requests(harness: Harness) -> ProgramRequests:
    """The port through which programs ask."""
    return ProgramRequests(harness.app.core.forms(), harness.app.core.signals)


def asked(harness: Harness, version: str, **also: Any) -> ProgramRequest:
    """The program “ci” asks to deploy this version, in Ben's name, in #support."""
    given = {"version": version, "env": "production"}
    setting = {"requester": BEN, "channel": SUPPORT, "client": "ci", "why": "Ready to go."} | also
    return build_program_requests(harness).ask(DEPLOY, given, **setting)


def card_of(harness: Harness, found: ProgramRequest, having: str = "approve") -> dict[str, Any]:
    """The card for it, once it has that button."""
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card: dict[str, Any] = harness.card(SUPPORT, thread, having=having)
    return card


def ask_and_approve(harness: Harness, version: str, **also: Any) -> ProgramRequest:
    """The same, approved by Ana."""
    found = asked(harness, version, **also)
    card = card_of(harness, found)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.settle()
    assert found.load_status().status == C.APPROVED
    return found


def claimed(harness: Harness, found: ProgramRequest, claimant: str = ME) -> ProgramClaim:
    """The call, once it has been checked and started."""
    got: ProgramClaim = harness.slack.wait(lambda: found.claim_call(claimant))
    return got


def read_thread(harness: Harness, found: ProgramRequest) -> str:
    """Everything that was said in its thread, as JSON text."""
    thread = harness.thread(SUPPORT, harness.run_of(found.run_id).thread_ts)
    return "\n".join(map(words, thread))


def test_a_program_claims_runs_and_reports_an_approved_call(harness: Harness) -> None:
    """The card names the program, and the thread shows the outcome."""
    found = asked(harness, "1.0")
    with pytest.raises(ClaimRefusedError):
        found.claim_call(ME)
    card = card_of(harness, found)
    assert "Deploy 1.0 to production" in words(card)
    assert "Requested by the program “ci”, which runs this once approved" in words(card)
    assert "It is not known whether this can be undone." in words(card)
    assert "cannot be undone" not in words(card)
    assert words(card).index("Version") < words(card).index("Env: production")  # schema's order
    with pytest.raises(ClaimRefusedError, match="waits for people"):
        found.claim_call(ME)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.decided_by) == (C.APPROVED, ("UANA00001",))
    assert standing.handed_over
    assert "the program that asked has not begun yet" in read_thread(harness, found)
    got = claimed(harness, found)
    assert got.arguments == {"version": "1.0", "env": "production"}
    assert (got.revision, got.digest) == (standing.revision, standing.digest)
    found.report_outcome(ME, True, {"url": "https://shop.example"})
    found.report_outcome(ME, True, {"url": "https://shop.example"})
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.result) == (C.SUCCEEDED, {"url": "https://shop.example"})
    assert harness.run_of(found.run_id).status is RunStatus.COMPLETED
    assert "Done: Deploy 1.0 to production" in read_thread(harness, found)
    assert "Ask again" not in read_thread(harness, found)  # only the program can


def test_people_are_asked_again_if_a_claim_comes_too_late(harness: Harness) -> None:
    """Once approved again it can be claimed."""
    found = ask_and_approve(harness, "1.1")
    assert "Approval expires" in read_thread(harness, found)
    later(harness, 30 * 86_400)
    assert found.load_status().status == C.APPROVED
    with pytest.raises(ClaimRefusedError, match="too old: people are asked again"):
        found.claim_call(ME)
    harness.settle()
    assert found.load_status().status == C.PENDING
    with pytest.raises(ClaimRefusedError, match="waits for people"):
        found.claim_call(ME)
    vote(harness, "ana", card_of(harness, found))
    arrived(harness)
    harness.settle()
    assert found.load_status().revision == 2
    assert claimed(harness, found, OTHER).revision == 2


@pytest.mark.file  # on PostgreSQL a job starts the claimed call even while the loop is paused
def test_people_are_asked_again_if_a_claimed_call_starts_too_late(harness: Harness) -> None:
    """The claim was in time, but the bot was down for three days before it could start the call."""
    found = ask_and_approve(harness, "1.2")
    harness.app.loop.pause()
    harness.slack.wait(lambda: not harness.app.loop.busy)
    assert found.claim_call(ME) is None
    with pytest.raises(ClaimRefusedError, match="somebody else"):
        found.claim_call(OTHER)
    harness.app.stop()
    harness.clock.advance(3 * 86_400)
    harness.start()
    again = build_program_requests(harness).find_request(found.run_id, "ci")
    assert again is not None
    harness.slack.wait(lambda: again.load_status().status == C.PENDING)
    with pytest.raises(ClaimRefusedError, match="waits for people"):
        again.claim_call(ME)


def test_only_one_of_two_attempts_claims_a_call(harness: Harness) -> None:
    """The other attempt is told so, then and ever after."""
    found, got, lost = ask_and_approve(harness, "2.0"), [], []

    def try_to_claim(claimant: str) -> None:
        try:
            got.append((claimant, claimed(harness, found, claimant)))
        except ClaimRefusedError:
            lost.append(claimant)

    attempts = [threading.Thread(target=try_to_claim, args=(each,)) for each in (ME, OTHER)]
    for each in attempts:
        each.start()
    for each in attempts:
        each.join(20)
    [(winner, first)], [loser] = got, lost
    assert claimed(harness, found, winner) == first  # as after a lost answer
    for claimant in (loser, "a third of all attempts"):
        with pytest.raises(ClaimRefusedError, match="somebody else"):
            found.claim_call(claimant)
        with pytest.raises(ClaimRefusedError, match="somebody else"):
            found.report_outcome(claimant, True, "mine")
    found.report_outcome(winner, False, "the disk was full")
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.note) == (C.FAILED, "the disk was full")
    with pytest.raises(ClaimRefusedError, match="ended"):
        found.report_outcome(winner, True, "or not")
    [call] = harness.calls_in(harness.run_of(found.run_id).thread_ts)
    assert harness.audit_of(call).count("call.running") == 1


def test_a_program_gets_the_arguments_that_people_edited(harness: Harness) -> None:
    """The dialog has the fields of its schema, and refuses values that do not fit."""
    found = asked(harness, "3.0")
    card = card_of(harness, found)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    sent = harness.person("ana").submit(typed(version="3.1-" + "x" * 20))
    assert sent["outcome"] == "errors"
    harness.person("ana").submit(typed(version="3.1"))
    arrived(harness)
    harness.person("cleo").click(SUPPORT, card_of(harness, found)["ts"], "approve")
    arrived(harness)
    harness.settle()
    assert claimed(harness, found).arguments == {"version": "3.1", "env": "production"}
    assert found.load_status().edited_by == ("UANA00001",)
    found.report_outcome(ME, True, "out")


def test_a_rejected_expired_or_withdrawn_call_is_not_claimed(harness: Harness) -> None:
    """The program's own deadline counts if it is the shorter one."""
    found = asked(harness, "4.0")
    reject(harness, "ana", SUPPORT, card_of(harness, found), "not on a Friday")
    arrived(harness)
    assert (found.load_status().status, found.load_status().note) == (C.REJECTED, "not on a Friday")
    late = asked(harness, "4.1", deadline=timedelta(minutes=5))
    card_of(harness, late)
    harness.clock.advance(301)
    harness.slack.wait(lambda: late.load_status().status == C.EXPIRED)
    back = asked(harness, "4.2")
    card_of(harness, back)
    assert back.cancel()
    assert not back.cancel()
    for each in (found, late, back):
        with pytest.raises(ClaimRefusedError, match="must not be run"):
            each.claim_call(ME)


def test_a_silent_programs_call_becomes_unknown(harness: Harness) -> None:
    """Its claim lapses and people are asked. It may still report, and the call is never handed out
    again.
    """
    found = ask_and_approve(harness, "5.0")
    claimed(harness, found)
    harness.clock.advance(200)
    claimed(harness, found)  # a sign of life prolongs the claim
    harness.clock.advance(200)
    harness.settle()
    assert found.load_status().status == C.RUNNING
    harness.clock.advance(handovers.CLAIM_LEASE_DURATION.total_seconds())
    harness.slack.wait(lambda: found.load_status().status == C.UNKNOWN)
    for claimant in (ME, OTHER):
        with pytest.raises(ClaimRefusedError, match="who had it may still report it"):
            found.claim_call(claimant)
    assert card_of(harness, found, "resolve_done")
    found.report_outcome(ME, True, "it was slow")
    harness.settle()
    assert found.load_status().status == C.SUCCEEDED


def test_a_call_to_run_again_is_claimed_by_a_new_attempt(harness: Harness) -> None:
    """An approver wants it run again because its outcome is unknown; the first attempt cannot
    report any more.
    """
    found = ask_and_approve(harness, "6.0")
    claimed(harness, found)
    harness.clock.advance(handovers.CLAIM_LEASE_DURATION.total_seconds() + 1)
    harness.slack.wait(lambda: found.load_status().status == C.UNKNOWN)
    card = card_of(harness, found, "run_again")
    harness.person("ana").click(SUPPORT, card["ts"], "run_again")
    arrived(harness)
    harness.slack.wait(lambda: found.load_status().status == C.APPROVED)
    with pytest.raises(ClaimRefusedError, match="nobody has claimed it"):
        found.report_outcome(ME, True, "from the first attempt")
    assert claimed(harness, found, OTHER).revision == 2
    found.report_outcome(OTHER, True, "again")


def test_a_claim_survives_restarts(harness: Harness) -> None:
    """The bot restarts before the call is claimed and after it."""
    found = ask_and_approve(harness, "7.0")
    harness.restart()
    found = build_program_requests(harness).find_request(found.run_id, "ci") or found
    claimed(harness, found)
    harness.restart()
    harness.settle()
    found = build_program_requests(harness).find_request(found.run_id, "ci") or found
    assert found.load_status().status == C.RUNNING
    assert build_program_requests(harness).find_request(found.run_id, "another") is None
    found.report_outcome(ME, True, "over two lives")
    harness.settle()
    assert found.load_status().result == "over two lives"


def test_a_rule_may_allow_the_calls_of_one_program(harness: Harness) -> None:
    """It is claimed without anybody being asked; another program's call is asked."""
    rotate = HandedOverAction("rotate", "Rotate the keys", "Rotate the keys", Effect.WRITE)
    ours = build_program_requests(harness).ask(
        rotate, {}, requester=BEN, channel=SUPPORT, client="night"
    )
    got = harness.slack.wait(lambda: _claim_or_none(ours))
    assert got.arguments == {}
    ours.report_outcome(ME, True, None)
    others = build_program_requests(harness).ask(
        rotate, {}, requester=BEN, channel=SUPPORT, client="day"
    )
    harness.slack.wait(lambda: others.load_status().status == C.PENDING)


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_thread_is_told_of_a_report_after_the_request_has_ended(
    harness: Harness, cancelled: bool
) -> None:
    """Nobody was asked, and the program had handed the work on, or its requester cancelled."""
    rotate = HandedOverAction("rotate", "Rotate the keys", "Rotate all keys", Effect.WRITE)
    ours = build_program_requests(harness).ask(
        rotate, {}, requester=BEN, channel=SUPPORT, client="night"
    )
    harness.slack.wait(lambda: _claim_or_none(ours))
    if cancelled:
        harness.person("ben").say(SUPPORT, "cancel", harness.run_of(ours.run_id).thread_ts)
    else:
        ours.report_outcome(ME, None, "given to the runner")
    ended = RunStatus.CANCELLED if cancelled else RunStatus.COMPLETED
    harness.slack.wait(lambda: harness.run_of(ours.run_id).status is ended)
    harness.settle()
    assert "Done: 12 keys" not in read_thread(harness, ours)
    ours.report_outcome(ME, True, "12 keys")
    harness.settle()
    said = harness.thread(SUPPORT, harness.run_of(ours.run_id).thread_ts)
    assert ["Done: 12 keys" in words(each) for each in said].count(True) == 1


def _claim_or_none(found: ProgramRequest) -> ProgramClaim | None:
    try:
        return found.claim_call(ME)
    except ClaimRefusedError:
        return None


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (HandedOverAction("note", "Note", "Note"), "a tool of Countersign's own"),
        (HandedOverAction("ask_person", "Ask", "Ask"), "a tool of Countersign's own"),
        (HandedOverAction("a b", "T", "E"), "letters, digits"),
        (HandedOverAction("x", " ", "E"), "title"),
        (HandedOverAction("x", "T", "e" * 301), "effect"),
        (HandedOverAction("x", "T", "Do {what}"), "not a field"),
        (HandedOverAction("deploy", "T", "{version.__class__}", schema=SCHEMA), "not a field"),
        (HandedOverAction("deploy", "T", "{version!r}", schema=SCHEMA), "not a field"),
        (HandedOverAction("x", "T", "E", schema={"type": "array"}), "object"),
    ],
)
def test_an_action_that_cannot_be_shown_is_refused(
    harness: Harness, action: HandedOverAction, why: str
) -> None:
    """It has the name of one of our tools, or does not say what it does."""
    with pytest.raises(HandedOverActionError, match=why):
        build_program_requests(harness).ask(action, {}, requester=BEN)


def test_a_secret_is_shown_only_to_the_program_that_claims_it(harness: Harness) -> None:
    """A write-only field is masked on the card and in the status."""
    given = {"version": "8.0", "env": "staging", "token": "hunter-hunter-2"}
    found = build_program_requests(harness).ask(
        DEPLOY, given, requester=BEN, channel=SUPPORT, client="ci"
    )
    card = card_of(harness, found)
    assert "hunter-hunter-2" not in words(card)
    assert "hunter-hunter-2" not in str(found.load_status())
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.settle()
    assert claimed(harness, found).arguments["token"] == "hunter-hunter-2"
    found.report_outcome(ME, True, "done")


def cancel_while_running(harness: Harness, version: str) -> ProgramRequest:
    """Its program has begun this deployment, and then Ben cancels the request."""
    found = ask_and_approve(harness, version)
    claimed(harness, found)
    harness.settle()
    thread = harness.run_of(found.run_id).thread_ts
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_a_program_may_report_after_a_cancellation(harness: Harness, restarts: bool) -> None:
    """Until then the call is running and not unknown."""
    found = cancel_while_running(harness, "7.1")
    if restarts:
        harness.restart()
    harness.settle()
    found = build_program_requests(harness).find_request(found.run_id, "ci") or found
    assert harness.run_of(found.run_id).status is RunStatus.CANCELLED
    assert "Running…" in read_thread(harness, found)
    assert claimed(harness, found).revision == 1  # a sign of life
    found.report_outcome(ME, True, "deployed")
    harness.settle()
    assert found.load_status().status == C.SUCCEEDED
    assert "Done: Deploy 7.1 to production" in read_thread(harness, found)
    assert "Nobody knows" not in read_thread(harness, found)
    assert harness.run_of(found.run_id).status is RunStatus.CANCELLED


def test_a_silent_programs_cancelled_call_becomes_unknown(harness: Harness) -> None:
    """Nobody is asked, and the program may still report."""
    found = cancel_while_running(harness, "7.2")
    harness.settle()
    later(harness, handovers.CLAIM_LEASE_DURATION.total_seconds() + 1)
    harness.settle()
    assert (found.load_status().status, found.load_status().deadline) == (C.UNKNOWN, None)
    assert "resolve_done" not in read_thread(harness, found)
    found.report_outcome(ME, False, "the disk was full")
    harness.settle()
    assert found.load_status().status == C.FAILED
