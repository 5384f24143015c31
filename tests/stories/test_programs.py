"""Code in the bot's own process asks people to approve calls, and learns how they ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from bot.runs.program_calls import ProgramRequestStatus, RequesterNotPermittedError
from bot.runs.program_requests import ProgramRequest, ProgramRequests
from bot.tools import Effect, ToolContext, tool
from bot.tools.names import PersonId
from storage import channel_modes, moves
from storage.models import Run
from storage.states import CALL_FINAL_STATUSES, CallStatus, ChannelMode
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, PARTNERS, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, open_modal, reject, typed
from tests.stories.test_break_glass import break_glass

C = CallStatus
BEN = "UBEN00001"
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
tool = "wipe"
verdict = "deny"
reason = "nothing is wiped here"
"""

STRICT = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
veto = 2
break_glass = ["UBEN00001"]
"""


class Greeting(BaseModel):
    """Whom to greet."""

    who: PersonId = Field(title="Whom")


def get_program_requests(harness: Harness) -> ProgramRequests:
    """The interface through which code in the process makes requests."""
    return ProgramRequests(harness.app.core.forms(), harness.app.core.signals)


def request_call(
    harness: Harness, text: str, tool: str = "note", channel: str = SUPPORT, who: str = BEN
) -> ProgramRequest:
    """Have a program request this call, by default in Ben's name in #support."""
    return get_program_requests(harness).ask(
        tool, {"text": text}, requester=who, channel=channel, why="The nightly job found it."
    )


def wait_for_end(harness: Harness, found: ProgramRequest) -> ProgramRequestStatus:
    """Wait until the request's call has ended, and return its status."""
    harness.slack.wait(lambda: found.load_status().status in CALL_FINAL_STATUSES)
    return found.load_status()


def test_a_program_learns_how_its_approved_call_ended(harness: Harness, fakes: FakeTools) -> None:
    """The card gives the program's reason; the call runs once, and no model is asked."""
    turns = len(harness.planner.requests)
    found = request_call(harness, "from a program")
    card = harness.slack.wait(
        lambda: next(
            (
                m
                for m in harness.person("ana").everything(SUPPORT)
                if "approve" in words(m) and "from a program" in words(m)
            ),
            None,
        )
    )
    assert "The nightly job found it." in words(card)
    assert found.load_status().status == C.PENDING
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    ended = wait_for_end(harness, found)
    assert (ended.status, ended.result) == (C.SUCCEEDED, "noted from a program")
    assert ended.arguments == {"text": "from a program"}
    assert fakes.did("note", "from a program") == 1
    assert len(harness.planner.requests) == turns


def test_a_program_learns_of_edits_and_rejections(harness: Harness, fakes: FakeTools) -> None:
    """It gets the arguments that ran, and the reason of a rejection."""
    found = request_call(harness, "edit this one")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="as Ana wants it"))
    arrived(harness)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    assert wait_for_end(harness, found).arguments == {"text": "as Ana wants it"}
    assert fakes.did("note", "as Ana wants it") == 1

    found = request_call(harness, "reject this one")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at night")
    ended = wait_for_end(harness, found)
    assert (ended.status, ended.note) == (C.REJECTED, "not at night")


def test_a_program_learns_of_several_rejections_and_of_a_run_without_approval(
    own_harness: Callable[..., Harness],
) -> None:
    """It gets each reason, and whoever decided."""
    harness = own_harness(FakeTools().tools, STRICT)
    found = request_call(harness, "not for two of them")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    for who, why in (("ana", "too late"), ("cleo", "too dear")):
        reject(harness, who, SUPPORT, harness.card(SUPPORT, thread, who), why)
        arrived(harness)
    ended = wait_for_end(harness, found)
    assert (ended.status, ended.note) == (C.REJECTED, "too late; too dear")
    assert (ended.decided_by, ended.break_glass) == (("UANA00001", "UCLEO0001"), "")

    found = request_call(harness, "at once")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    break_glass(harness, "ben", harness.card(SUPPORT, thread), "all is down")
    ended = wait_for_end(harness, found)
    assert (ended.status, ended.decided_by) == (C.SUCCEEDED, (BEN,))
    assert ended.break_glass == "all is down"


def test_policy_and_argument_checks_apply_to_programs(harness: Harness, fakes: FakeTools) -> None:
    """A denied call is refused; an unknown tool or wrong arguments raise an error at once."""
    ended = wait_for_end(harness, request_call(harness, "everything", tool="wipe"))
    assert (ended.status, ended.note) == (C.REFUSED, "policy: nothing is wiped here")
    assert fakes.did("wipe", "everything") == 0
    with pytest.raises(KeyError):
        request_call(harness, "x", tool="no_such_tool")
    with pytest.raises(ValidationError):
        get_program_requests(harness).ask("note", {"words": "x"}, requester=BEN)


def test_a_program_is_told_which_name_is_unknown(own_harness: Callable[..., Harness]) -> None:
    """In its request's note, and the requester in the thread."""

    @tool(title="Greet", effect="Greet {who}", does=Effect.WRITE)
    def greet(args: Greeting, context: ToolContext) -> str:
        """Greet somebody."""
        return f"greeted {args.who}"

    harness = own_harness([greet])
    found = get_program_requests(harness).ask(
        "greet", {"who": "@nobody-here"}, requester=BEN, channel=SUPPORT
    )
    ended = wait_for_end(harness, found)
    assert (ended.status, ended.note) == (C.REFUSED, "There is nobody called @nobody-here.")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    said = words(harness.said(SUPPORT, thread, "I did not ask anybody"))
    assert "about this: There is nobody called @nobody-here." in said
    assert ".." not in said


def test_the_requester_can_cancel_but_not_approve(harness: Harness, fakes: FakeTools) -> None:
    """A program made the request in Ben's name."""
    found = request_call(harness, "taken back")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread, "ben")
    harness.person("ben").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    assert found.load_status().status == C.PENDING
    harness.person("ben").say(SUPPORT, "cancel", thread)
    assert wait_for_end(harness, found).status == C.CANCELLED
    assert fakes.did("note", "taken back") == 0


def test_a_decided_call_cannot_be_cancelled(harness: Harness) -> None:
    """Not even in the moment before its request has ended."""
    found = request_call(harness, "rejected by then")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    harness.card(SUPPORT, thread)
    arrived(harness)
    store, now = harness.app.core.store, harness.clock.now()
    [call] = harness.calls_in(thread)
    with store.write() as tx:
        assert moves.change_call_status(
            tx, call, C.REJECTED, at=now, actor="UANA00001", note="not today"
        )
    assert not found.cancel()
    assert found.load_status().status == C.REJECTED


def test_a_programs_request_survives_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """The bot restarts while the card waits; the request is found again by its id."""
    found = request_call(harness, "after a restart")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread)
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    again = get_program_requests(harness).find_request(found.run_id)
    assert again is not None
    assert wait_for_end(harness, again).status == C.SUCCEEDED
    assert fakes.did("note", "after a restart") == 1


def test_requests_for_shared_channels_are_asked_in_private(harness: Harness) -> None:
    """So are requests for a channel in which the requester is not a member."""
    ben = harness.person("ben")
    for text, channel in (("our discounts", PARTNERS), ("none of your ledgers", FINANCE)):
        found = request_call(harness, text, channel=channel)
        root = harness.slack.wait(lambda text=text: find_message(harness, ben.dm_channel, text))
        harness.settle()
        run = harness.run_of(found.run_id)
        assert (run.channel, run.thread_ts) == (ben.dm_channel, root["ts"])
    everywhere = [
        *harness.person("eve").everything(PARTNERS),
        *harness.person("cleo").everything(FINANCE),
    ]
    assert not [m for m in everywhere if "discounts" in words(m) or "ledgers" in words(m)]


def test_a_request_asked_in_private_keeps_its_channels_mode(harness: Harness) -> None:
    """It was for a shared channel that is in observe mode."""
    core = harness.app.core
    for mode in (ChannelMode.OBSERVE, ChannelMode.ASK):
        with core.store.write() as tx:
            at = core.clock.now()
            channel_modes.switch_mode(tx, core.identity.team, PARTNERS, mode, "system", at=at)
        if mode is ChannelMode.OBSERVE:
            ended = wait_for_end(
                harness, request_call(harness, "seen from outside", channel=PARTNERS)
            )
            assert ended.status == C.REFUSED
            assert "observe mode" in ended.note


def find_message(harness: Harness, channel: str, text: str) -> Any:
    """Return the first message with this text that Ben sees there, if any."""
    seen = harness.person("ben").messages(channel)
    return next((m for m in seen if text in words(m)), None)


def test_programs_cannot_request_in_the_name_of_outsiders(harness: Harness) -> None:
    """A guest, somebody of another company, an unknown person and nobody at all."""
    before = len(harness.all(Run))
    for who in ("UGUS00001", "UEVE00001", "UNOBODY01", ""):
        with pytest.raises(RequesterNotPermittedError):
            request_call(harness, "for a stranger", who=who)
    assert len(harness.all(Run)) == before
