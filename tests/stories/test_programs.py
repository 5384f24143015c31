"""Code in the bot's own process puts calls before people, and hears how they ended."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from bot.runs.program_calls import ProgramRequestStatus, RequesterNotPermittedError
from bot.runs.program_requests import ProgramRequest, ProgramRequests
from storage import channel_modes, moves
from storage.models import Run
from storage.states import CALL_FINAL_STATUSES, CallStatus, ChannelMode
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, PARTNERS, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, open_modal, reject, typed

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


def programs(harness: Harness) -> ProgramRequests:
    """What a program asks."""
    return ProgramRequests(harness.app.core.forms(), harness.app.core.signals)


def asked(
    harness: Harness, text: str, tool: str = "note", channel: str = SUPPORT, who: str = BEN
) -> ProgramRequest:
    """A program asks for this, in Ben's name, in #support."""
    return programs(harness).ask(
        tool, {"text": text}, requester=who, channel=channel, why="The nightly job found it."
    )


def ended_status(harness: Harness, found: ProgramRequest) -> ProgramRequestStatus:
    """The request's status once its call has ended."""
    harness.slack.wait(lambda: found.load_status().status in CALL_FINAL_STATUSES)
    return found.load_status()


def test_people_decide_and_the_program_hears_it(harness: Harness, fakes: FakeTools) -> None:
    """The card says who answers for it and why; it runs once, and no model is asked."""
    turns = len(harness.planner.requests)
    found = asked(harness, "from a program")
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
    ended = ended_status(harness, found)
    assert (ended.status, ended.result) == (C.SUCCEEDED, "noted from a program")
    assert ended.arguments == {"text": "from a program"}
    assert fakes.did("note", "from a program") == 1
    assert len(harness.planner.requests) == turns


def test_it_hears_what_was_edited_and_rejected(harness: Harness, fakes: FakeTools) -> None:
    """The arguments are those that ran; a rejection comes with its words."""
    found = asked(harness, "edit this one")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="as Ana wants it"))
    arrived(harness)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    assert ended_status(harness, found).arguments == {"text": "as Ana wants it"}
    assert fakes.did("note", "as Ana wants it") == 1

    found = asked(harness, "reject this one")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not at night")
    ended = ended_status(harness, found)
    assert (ended.status, ended.note) == (C.REJECTED, "not at night")


def test_policy_holds_for_programs_too(harness: Harness, fakes: FakeTools) -> None:
    """What is denied is refused, and the program is told so at once where it is plainly wrong."""
    ended = ended_status(harness, asked(harness, "everything", tool="wipe"))
    assert (ended.status, ended.note) == (C.REFUSED, "policy: nothing is wiped here")
    assert fakes.did("wipe", "everything") == 0
    with pytest.raises(KeyError):
        asked(harness, "x", tool="no_such_tool")
    with pytest.raises(ValidationError):
        programs(harness).ask("note", {"words": "x"}, requester=BEN)


def test_the_requester_takes_it_back(harness: Harness, fakes: FakeTools) -> None:
    """Who answers for it may cancel it, and cannot approve it."""
    found = asked(harness, "taken back")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread, "ben")
    harness.person("ben").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    assert found.load_status().status == C.PENDING
    harness.person("ben").say(SUPPORT, "cancel", thread)
    assert ended_status(harness, found).status == C.CANCELLED
    assert fakes.did("note", "taken back") == 0


def test_what_is_decided_is_not_taken_back(harness: Harness) -> None:
    """A call that is over stays as it is, also in the moment before its request has ended."""
    found = asked(harness, "rejected by then")
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


def test_it_outlives_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """The bot starts anew while the card waits: the same request is heard of in its next life."""
    found = asked(harness, "after a restart")
    thread = harness.slack.wait(lambda: harness.run_of(found.run_id).thread_ts)
    card = harness.card(SUPPORT, thread)
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    again = programs(harness).find_request(found.run_id)
    assert again is not None
    assert ended_status(harness, again).status == C.SUCCEEDED
    assert fakes.did("note", "after a restart") == 1


def test_where_another_company_reads_it_is_asked_in_private(harness: Harness) -> None:
    """In a shared channel nothing is posted, nor in one where the requester is not."""
    ben = harness.person("ben")
    for text, channel in (("our discounts", PARTNERS), ("none of your ledgers", FINANCE)):
        found = asked(harness, text, channel=channel)
        root = harness.slack.wait(lambda text=text: showing_in(harness, ben.dm_channel, text))
        harness.settle()
        run = harness.run_of(found.run_id)
        assert (run.channel, run.thread_ts) == (ben.dm_channel, root["ts"])
    everywhere = [
        *harness.person("eve").everything(PARTNERS),
        *harness.person("cleo").everything(FINANCE),
    ]
    assert not [m for m in everywhere if "discounts" in words(m) or "ledgers" in words(m)]


def test_in_private_it_keeps_to_the_channels_mode(harness: Harness) -> None:
    """What was to be asked in a shared channel keeps to that channel's mode where it goes on."""
    core = harness.app.core
    for mode in (ChannelMode.OBSERVE, ChannelMode.ASK):
        with core.store.write() as tx:
            at = core.clock.now()
            channel_modes.switch_mode(tx, core.identity.team, PARTNERS, mode, "system", at=at)
        if mode is ChannelMode.OBSERVE:
            ended = ended_status(harness, asked(harness, "seen from outside", channel=PARTNERS))
            assert ended.status == C.REFUSED
            assert "observe mode" in ended.note


def showing_in(harness: Harness, channel: str, text: str) -> Any:
    """Ben's first message there with this text; None while there is none."""
    seen = harness.person("ben").messages(channel)
    return next((m for m in seen if text in words(m)), None)


def test_nobody_asks_in_a_strangers_name(harness: Harness) -> None:
    """A guest, somebody of another company, a bot and nobody at all answer for nothing."""
    before = len(harness.all(Run))
    for who in ("UGUS00001", "UEVE00001", "UNOBODY01", ""):
        with pytest.raises(RequesterNotPermittedError):
            asked(harness, "for a stranger", who=who)
    assert len(harness.all(Run)) == before
