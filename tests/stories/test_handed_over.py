"""Calls that a program describes, has approved, claims once and executes itself."""

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


def programs(harness: Harness) -> ProgramRequests:
    """What a program asks."""
    return ProgramRequests(harness.app.core.forms(), harness.app.core.signals)


def asked(harness: Harness, version: str, **also: Any) -> ProgramRequest:
    """The CI asks whether it may deploy this version, in Ben's name, in #support."""
    given = {"version": version, "env": "production"}
    setting = {"requester": BEN, "channel": SUPPORT, "client": "ci", "why": "Ready to go."} | also
    return programs(harness).ask(DEPLOY, given, **setting)


def card_of(harness: Harness, found: ProgramRequest, having: str = "approve") -> dict[str, Any]:
    """The card that asks for it, once it has that button."""
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card: dict[str, Any] = harness.card(SUPPORT, thread, having=having)
    return card


def approved(harness: Harness, version: str, **also: Any) -> ProgramRequest:
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


def thread_of(harness: Harness, found: ProgramRequest) -> str:
    """All that is said in its thread, as JSON text."""
    thread = harness.thread(SUPPORT, harness.run_of(found.run_id).thread_ts)
    return "\n".join(map(words, thread))


def test_approved_claimed_and_reported(harness: Harness) -> None:
    """People see whose words these are; the program runs it once, and the thread hears how."""
    found = asked(harness, "1.0")
    with pytest.raises(ClaimRefusedError):
        found.claim_call(ME)
    card = card_of(harness, found)
    assert "Deploy 1.0 to production" in words(card)
    assert "Requested by the program “ci”, which runs this once approved" in words(card)
    assert "Its author did not say whether this can be undone." in words(card)
    assert "cannot be undone" not in words(card)
    assert words(card).index("Version") < words(card).index("Env: production")  # as it has them
    with pytest.raises(ClaimRefusedError, match="waits for people"):
        found.claim_call(ME)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.decided_by) == (C.APPROVED, ("UANA00001",))
    assert standing.handed_over
    assert "the program that asked has not begun yet" in thread_of(harness, found)
    got = claimed(harness, found)
    assert got.arguments == {"version": "1.0", "env": "production"}
    assert (got.revision, got.digest) == (standing.revision, standing.digest)
    found.report_outcome(ME, True, {"url": "https://shop.example"})
    found.report_outcome(ME, True, {"url": "https://shop.example"})
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.result) == (C.SUCCEEDED, {"url": "https://shop.example"})
    assert harness.run_of(found.run_id).status is RunStatus.COMPLETED
    assert "Done: Deploy 1.0 to production" in thread_of(harness, found)


def test_a_claim_that_comes_too_late(harness: Harness) -> None:
    """A month after its approval it is not handed out, and people are asked again; then it is."""
    found = approved(harness, "1.1")
    assert "Approval expires" in thread_of(harness, found)
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


@pytest.mark.file  # on a server a job has it started, whether or not the loop looks
def test_a_claim_that_nobody_answered_for_days(harness: Harness) -> None:
    """It was claimed in time, and then the bot was down for three days before it was started: it
    is not handed out, and people are asked again.
    """
    found = approved(harness, "1.2")
    harness.app.loop.pause()
    harness.slack.wait(lambda: not harness.app.loop.busy)
    assert found.claim_call(ME) is None
    harness.app.stop()
    harness.clock.advance(3 * 86_400)
    harness.start()
    again = programs(harness).find_request(found.run_id, "ci")
    assert again is not None
    harness.slack.wait(lambda: again.load_status().status == C.PENDING)
    with pytest.raises(ClaimRefusedError, match="waits for people"):
        again.claim_call(ME)


def test_only_one_of_two_claims_it(harness: Harness) -> None:
    """Two attempts at once: one has it, the other is told so, now and ever after."""
    found, got, lost = approved(harness, "2.0"), [], []

    def attempt(claimant: str) -> None:
        try:
            got.append((claimant, claimed(harness, found, claimant)))
        except ClaimRefusedError:
            lost.append(claimant)

    attempts = [threading.Thread(target=attempt, args=(each,)) for each in (ME, OTHER)]
    for each in attempts:
        each.start()
    for each in attempts:
        each.join(20)
    [(winner, first)], [loser] = got, lost
    assert claimed(harness, found, winner) == first  # its answer was lost: the same again
    for claimant in (loser, "a third of all attempts"):
        with pytest.raises(ClaimRefusedError, match="somebody else"):
            found.claim_call(claimant)
        with pytest.raises(ClaimRefusedError):
            found.report_outcome(claimant, True, "mine")
    found.report_outcome(winner, False, "the disk was full")
    harness.settle()
    standing = found.load_status()
    assert (standing.status, standing.note) == (C.FAILED, "the disk was full")
    with pytest.raises(ClaimRefusedError, match="ended"):
        found.report_outcome(winner, True, "or not")
    [call] = harness.calls_in(harness.run_of(found.run_id).thread_ts)
    assert harness.audit_of(call).count("call.running") == 1


def test_what_people_edited_is_what_it_gets(harness: Harness) -> None:
    """The dialog has the fields of its schema; what does not fit that is refused there."""
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


def test_rejected_expired_and_taken_back(harness: Harness) -> None:
    """Nothing of it can be claimed; the program's own deadline is kept where it is shorter."""
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


def test_a_program_that_is_not_heard_of(harness: Harness) -> None:
    """Its claim lapses, people are asked; it may still report, and is never handed out again."""
    found = approved(harness, "5.0")
    claimed(harness, found)
    harness.clock.advance(200)
    claimed(harness, found)  # a sign of life holds it for longer
    harness.clock.advance(200)
    harness.settle()
    assert found.load_status().status == C.RUNNING
    harness.clock.advance(handovers.CLAIM_LEASE_DURATION.total_seconds())
    harness.slack.wait(lambda: found.load_status().status == C.UNKNOWN)
    for claimant in (ME, OTHER):
        with pytest.raises(ClaimRefusedError):
            found.claim_call(claimant)
    assert card_of(harness, found, "resolve_done")
    found.report_outcome(ME, True, "it was slow")
    harness.settle()
    assert found.load_status().status == C.SUCCEEDED


def test_run_again_is_claimed_anew(harness: Harness) -> None:
    """Nobody knows how it ended; an approver wants it again: it is there for a new attempt."""
    found = approved(harness, "6.0")
    claimed(harness, found)
    harness.clock.advance(handovers.CLAIM_LEASE_DURATION.total_seconds() + 1)
    harness.slack.wait(lambda: found.load_status().status == C.UNKNOWN)
    card = card_of(harness, found, "run_again")
    harness.person("ana").click(SUPPORT, card["ts"], "run_again")
    arrived(harness)
    harness.slack.wait(lambda: found.load_status().status == C.APPROVED)
    with pytest.raises(ClaimRefusedError):
        found.report_outcome(ME, True, "from the first attempt")
    assert claimed(harness, found, OTHER).revision == 2
    found.report_outcome(OTHER, True, "again")


def test_it_outlives_restarts(harness: Harness) -> None:
    """The bot starts anew while it waits to be claimed, and while it is held."""
    found = approved(harness, "7.0")
    harness.restart()
    found = programs(harness).find_request(found.run_id, "ci") or found
    claimed(harness, found)
    harness.restart()
    harness.settle()
    found = programs(harness).find_request(found.run_id, "ci") or found
    assert found.load_status().status == C.RUNNING
    assert programs(harness).find_request(found.run_id, "another") is None
    found.report_outcome(ME, True, "over two lives")
    harness.settle()
    assert found.load_status().result == "over two lives"


def test_policy_knows_the_client(harness: Harness) -> None:
    """A rule may be about a program; what it allows is claimed without anybody being asked."""
    rotate = HandedOverAction("rotate", "Rotate the keys", "Rotate the keys", Effect.WRITE)
    ours = programs(harness).ask(rotate, {}, requester=BEN, channel=SUPPORT, client="night")
    got = harness.slack.wait(lambda: _or_none(ours))
    assert got.arguments == {}
    ours.report_outcome(ME, True, None)
    others = programs(harness).ask(rotate, {}, requester=BEN, channel=SUPPORT, client="day")
    harness.slack.wait(lambda: others.load_status().status == C.PENDING)


def _or_none(found: ProgramRequest) -> ProgramClaim | None:
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
def test_what_nobody_can_be_asked(harness: Harness, action: HandedOverAction, why: str) -> None:
    """An action that hides behind a name of ours, or says nothing, is refused in a sentence."""
    with pytest.raises(HandedOverActionError, match=why):
        programs(harness).ask(action, {}, requester=BEN)


def test_a_secret_is_shown_to_nobody_but_who_claims_it(harness: Harness) -> None:
    """What the schema calls write-only stands masked on the card and in what is looked at."""
    given = {"version": "8.0", "env": "staging", "token": "hunter-hunter-2"}
    found = programs(harness).ask(DEPLOY, given, requester=BEN, channel=SUPPORT, client="ci")
    card = card_of(harness, found)
    assert "hunter-hunter-2" not in words(card)
    assert "hunter-hunter-2" not in str(found.load_status())
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    harness.settle()
    assert claimed(harness, found).arguments["token"] == "hunter-hunter-2"
    found.report_outcome(ME, True, "done")


def cancelled_at_work(harness: Harness, version: str) -> ProgramRequest:
    """Its program has begun this deployment, and then Ben cancels the request."""
    found = approved(harness, version)
    claimed(harness, found)
    harness.settle()
    thread = harness.run_of(found.run_id).thread_ts
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_a_request_cancelled_while_its_program_is_at_work(harness: Harness, restarts: bool) -> None:
    """What the program has begun goes on, and its report counts; until then nothing is unknown."""
    found = cancelled_at_work(harness, "7.1")
    if restarts:
        harness.restart()
    harness.settle()
    found = programs(harness).find_request(found.run_id, "ci") or found
    assert harness.run_of(found.run_id).status is RunStatus.CANCELLED
    assert "Running…" in thread_of(harness, found)
    assert claimed(harness, found).revision == 1  # it says that it is still at work
    found.report_outcome(ME, True, "deployed")
    harness.settle()
    assert found.load_status().status == C.SUCCEEDED
    assert "Done: Deploy 7.1 to production" in thread_of(harness, found)
    assert "Nobody knows" not in thread_of(harness, found)
    assert harness.run_of(found.run_id).status is RunStatus.CANCELLED


def test_a_cancelled_request_whose_program_falls_silent(harness: Harness) -> None:
    """Once its claim lapses the outcome is unknown; nobody is asked, and it may still report."""
    found = cancelled_at_work(harness, "7.2")
    harness.settle()
    later(harness, handovers.CLAIM_LEASE_DURATION.total_seconds() + 1)
    harness.settle()
    assert (found.load_status().status, found.load_status().deadline) == (C.UNKNOWN, None)
    assert "resolve_done" not in thread_of(harness, found)
    found.report_outcome(ME, False, "the disk was full")
    harness.settle()
    assert found.load_status().status == C.FAILED
