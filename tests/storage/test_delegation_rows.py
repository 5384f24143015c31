"""Delegations as rows: shown to the delegate once, ended once, and written to the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from storage import calls, delegations
from storage.decisions import AppliedDecision
from storage.delegations import Delegation
from storage.models import Audit, Vote
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import iterate_rows
from tests.records import store_of
from tests.storage.builders import AT, HOUR, TEAM
from tests.storage.test_votes_and_edits import DAN, TWO, add_calls, cast_vote

ANA, CLEO = "UANA00001", "UCLEO0001"
TICK = timedelta(microseconds=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty record."""
    opened = store_of(tmp_path / "countersign.db").open()
    yield opened
    opened.close()


def delegate(store: Store) -> str:
    """Ana lets Cleo decide for her for an hour; returns the id."""
    row = Delegation(team=TEAM, giver=ANA, delegate=CLEO, given_at=AT, until=AT + HOUR)
    with store.write() as tx:
        delegations.give_delegation(tx, row)
    return row.id


def test_a_delegate_is_shown_the_waiting_calls_once(store: Store) -> None:
    """Of two processes that saw it unshown, only one shows them."""
    given = delegate(store)
    with store.write() as tx:
        assert delegations.mark_delegate_shown_waiting_calls(tx, given, AT)
        assert not delegations.mark_delegate_shown_waiting_calls(tx, given, AT + TICK)
        assert delegations.list_delegations_awaiting_call_list(tx, TEAM, AT) == []


def test_a_delegate_is_shown_nothing_once_the_delegation_has_ended(store: Store) -> None:
    """It was revoked, or is over, since it was seen unshown."""
    given = delegate(store)
    with store.write() as tx:
        assert not delegations.mark_delegate_shown_waiting_calls(tx, given, AT + HOUR)
        assert delegations.revoke_delegation(tx, given, ANA, AT)
        assert not delegations.mark_delegate_shown_waiting_calls(tx, given, AT)


def test_a_delegation_that_is_over_cannot_be_revoked(store: Store) -> None:
    """Up to its end it can; the audit says who gave and who revoked it."""
    given = delegate(store)
    with store.write() as tx:
        assert not delegations.revoke_delegation(tx, given, ANA, AT + HOUR)
        assert delegations.revoke_delegation(tx, given, ANA, AT + HOUR - TICK)
        assert not delegations.revoke_delegation(tx, given, ANA, AT + HOUR - TICK)
    with store.read() as tx:
        rows = [(each.event, each.actor, json.loads(each.data)) for each in iterate_rows(tx, Audit)]
    until = (AT + HOUR).isoformat()
    assert rows == [
        ("delegation.given", ANA, {"delegation": given, "delegate": CLEO, "until": until}),
        ("delegation.revoked", ANA, {"delegation": given}),
    ]


def test_whose_delegate_approved_may_still_reject(store: Store) -> None:
    """As if they had approved themselves: the approval counts no more."""
    made = add_calls(store, TWO, CallStatus.PENDING)
    said = {"call_id": made.ids[0], "revision": 1, "person": DAN, "verb": "approve", "digest": "d"}
    with store.write() as tx:
        calls.insert_vote(tx, Vote(**said, for_person=ANA, created_at=AT))
    assert isinstance(cast_vote(made, TWO, "reject", ANA), AppliedDecision)
    cast_vote(made, TWO, "approve", CLEO)
    assert made.call().status is CallStatus.PENDING
