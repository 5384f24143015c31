"""A requester's manager decides, as their Slack profile says; without a manager nobody does."""

from __future__ import annotations

import pytest

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, statuses, told, vote

C = CallStatus
POLICY = """
[manager]
field = "Manager"

[defaults]
approvers = ["UDAN00001"]

[[rule]]
name = "managed"
tool = "note"
verdict = "ask"
approvers = ["manager of requester"]

[[rule]]
name = "own requests"
tool = "put"
verdict = "ask"
approvers = ["manager of requester"]
self_approval = true
"""


def test_only_the_requesters_manager_decides(harness: Harness, fakes: FakeTools) -> None:
    """Neither another person's manager nor the approvers of the defaults can."""
    harness.person("ben").set_manager("cleo")
    harness.person("cleo").set_manager("ana")
    thread = ask(harness, ("note", {"text": "managed"}))
    card = harness.card(SUPPORT, thread)
    assert "Approvers: <@UCLEO0001>" in words(card)
    for who in ("ana", "dan"):
        vote(harness, who, card)
        told(harness, who, SUPPORT, thread, "You cannot decide this one")
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "managed")) == ([C.SUCCEEDED], 1)


def test_a_call_is_asked_again_if_the_manager_changed(harness: Harness, fakes: FakeTools) -> None:
    """The manager changed before the call would have started, so the old one's approval is not
    enough.
    """
    harness.person("ben").set_manager("cleo")
    thread = ask(harness, ("note", {"text": "moved"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ben").set_manager("ana")
    harness.settle()
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "has changed since it was asked")
    assert fakes.did("note", "moved") == 0


@pytest.mark.parametrize("manager", ["", "ben", "gus", "zoe", "eve"])
def test_a_call_is_refused_without_a_valid_manager(
    harness: Harness, fakes: FakeTools, manager: str
) -> None:
    """Nobody is named, or the requester, a guest, a former colleague, or somebody of another
    company.
    """
    harness.person("ben").set_manager(*filter(None, [manager]))
    thread = ask(harness, ("note", {"text": "alone"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "alone")) == ([C.REFUSED], 0)


def test_nobody_is_their_own_manager(harness: Harness, fakes: FakeTools) -> None:
    """The rule allows self-approval."""
    harness.person("ben").set_manager("ben")
    thread = ask(harness, ("put", {"text": "own"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("put", "own")) == ([C.REFUSED], 0)


def test_a_call_is_refused_if_the_look_up_fails(harness: Harness, fakes: FakeTools) -> None:
    """Slack does not answer the look-up of the profile."""
    harness.person("ben").set_manager("cleo")
    harness.slack.faults.fail("users.profile.get", times=20)
    thread = ask(harness, ("note", {"text": "silent"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "silent")) == ([C.REFUSED], 0)
