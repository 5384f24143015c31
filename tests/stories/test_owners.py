"""The owner of what a call is about decides: known by a table, and nobody where it has none."""

from __future__ import annotations

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, statuses, told, vote

C = CallStatus
POLICY = """
[defaults]
approvers = ["UDAN00001"]

[owners.text]
payments = ["UANA00001"]
search = ["UCLEO0001"]

[[rule]]
name = "owners"
tool = "note"
verdict = "ask"
approvers = ["owner of args.text"]
"""


def test_the_owner_decides_and_nobody_else(harness: Harness, fakes: FakeTools) -> None:
    """Not who owns something else, and not whom the defaults name."""
    thread = ask(harness, ("note", {"text": "payments"}))
    card = harness.card(SUPPORT, thread)
    for who in ("cleo", "dan"):
        vote(harness, who, card)
        told(harness, who, SUPPORT, thread, "You cannot decide this one")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "payments")) == ([C.SUCCEEDED], 1)


def test_what_nobody_owns_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Nobody is asked, and it does not run."""
    thread = ask(harness, ("note", {"text": "billing"}))
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "billing")) == ([C.REFUSED], 0)
