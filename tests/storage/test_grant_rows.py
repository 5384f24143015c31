"""Remembered approvals as rows: which may be used, by which call, how often and until when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import delete

from storage import grants
from storage.grants import Grant
from storage.models import Audit
from storage.store import Store
from storage.transaction import iterate_rows
from tests.records import store_of
from tests.storage.builders import AT, HOUR, TEAM, Seeded, seed

BEN, ANA, DAN = "UBEN00001", "UANA00001", "UDAN00001"
TICK = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all tests of this file."""
    opened = store_of(tmp_path_factory.mktemp("grants") / "countersign.db").open()
    yield opened
    opened.close()


@pytest.fixture
def waiting_call(record: Store) -> Seeded:
    """A call of Ben's in a thread; nothing is remembered."""
    with record.write() as tx:
        tx.execute(delete(Grant))
    return seed(record)


def add_grant(waiting_call: Seeded, **columns: Any) -> Grant:
    """Remember an approval that allows as much as possible, but for `columns`."""
    given: dict[str, Any] = {
        "team": TEAM,
        "requester": BEN,
        "tool": "note",
        "schema_digest": "s",
        "until": AT + HOUR,
        "uses": 2,
        "call_id": waiting_call.ids[0],
        "given_by": ANA,
        "given_at": AT,
        **columns,
    }
    grant = Grant(**given)
    with waiting_call.store.write() as tx:
        grants.give_grant(tx, grant, run_id=waiting_call.run_id)
    return grant


def list_usable(waiting_call: Seeded, arguments: str = '{"text":"a"}') -> list[str]:
    """The ids of the grants that the call may use now."""
    with waiting_call.store.read() as tx:
        found = grants.list_usable_grants(tx, waiting_call.run(), "note", "s", arguments, AT)
    return [each.id for each in found]


def find_grant_row(waiting_call: Seeded, grant: Grant) -> Grant:
    """The grant as it is now."""
    with waiting_call.store.read() as tx:
        found = grants.find_grant(tx, grant.id)
    assert found is not None
    return found


NOT_FOR_IT = {
    "another workspace": {"team": "T0OTHERCO"},
    "another requester": {"requester": DAN},
    "another tool": {"tool": "wipe"},
    "another schema": {"schema_digest": "older"},
    "revoked": {"revoked_at": AT - HOUR},
    "over now": {"until": AT},
    "used up": {"uses": 0},
    "another channel": {"channel": "C0FINANCE"},
    "another thread": {"channel": "C0SUPPORT", "thread_ts": "2.0"},
    "another value": {"pinned": '{"text":"b"}'},
    "a value that is not there": {"pinned": '{"more":null}'},
}


@pytest.mark.parametrize("why", NOT_FOR_IT)
def test_a_grant_does_not_allow_a_call_outside_its_bounds(waiting_call: Seeded, why: str) -> None:
    """Each bound by itself is enough."""
    add_grant(waiting_call, **NOT_FOR_IT[why])
    assert list_usable(waiting_call) == []


def test_usable_grants_are_listed_soonest_end_first(waiting_call: Seeded) -> None:
    """They are for the thread, the channel or everywhere, and for given values or any."""
    wide = add_grant(waiting_call, until=AT + 3 * HOUR, uses=1)
    there = add_grant(waiting_call, channel="C0SUPPORT", pinned='{"text":"a"}', until=AT + 2 * HOUR)
    here = add_grant(waiting_call, channel="C0SUPPORT", thread_ts="1.0", until=AT + TICK)
    assert list_usable(waiting_call, '{"text":"a","more":1}') == [here.id, there.id, wide.id]


def test_a_grants_values_are_compared_as_json(waiting_call: Seeded) -> None:
    """1 is neither true nor "1", and the order of keys does not count."""
    one = add_grant(waiting_call, pinned='{"n":1}')
    assert list_usable(waiting_call, '{"n":1}') == [one.id]
    assert list_usable(waiting_call, '{"n":true}') == []
    assert list_usable(waiting_call, '{"n":"1"}') == []
    ids = {
        add_grant(waiting_call, pinned=pinned).id
        for pinned in ('{"n":{"a":1,"b":2}}', '{"n":{"b":2,"a":1}}')
    }
    assert set(list_usable(waiting_call, '{"n":{"b":2,"a":1}}')) == ids


def test_each_use_of_a_grant_is_counted_and_audited(waiting_call: Seeded) -> None:
    """The audit's row is beside that of the call."""
    grant, other = add_grant(waiting_call), add_grant(waiting_call)
    call = waiting_call.call()
    with waiting_call.store.write() as tx:
        found = [grants.use_grant(tx, grant.id, AT, call) for _ in range(3)]
    assert found == [True, True, False]
    assert (find_grant_row(waiting_call, grant).uses, find_grant_row(waiting_call, other).uses) == (
        0,
        2,
    )
    told = waiting_call.audit()
    assert [each.event for each in told] == ["grant.given"] * 2 + ["grant.used"] * 2
    about = {"grant": grant.id, "tool": "note", "revision": 1, "digest": "digest-0"}
    assert json.loads(told[-1].data) == about
    assert (told[-1].call_id, told[-1].actor, told[0].actor) == (call.id, "worker", ANA)
    until = (AT + HOUR).isoformat()
    assert json.loads(told[0].data) == {
        "grant": grant.id,
        "tool": "note",
        "until": until,
        "uses": 2,
    }


@pytest.mark.parametrize(("columns"), [{"until": AT}, {"revoked_at": AT}, {"uses": 0}])
def test_an_ended_revoked_or_used_up_grant_is_not_used(
    waiting_call: Seeded, columns: dict[str, Any]
) -> None:
    """Its end itself is too late."""
    grant = add_grant(waiting_call, **columns)
    with waiting_call.store.write() as tx:
        assert grants.use_grant(tx, grant.id, AT, waiting_call.call()) is False
    assert find_grant_row(waiting_call, grant).uses == grant.uses


def test_a_grant_is_revoked_once(waiting_call: Seeded) -> None:
    """Its row says by whom and when; the second attempt is told."""
    grant, other = add_grant(waiting_call), add_grant(waiting_call)
    with waiting_call.store.write() as tx:
        assert grants.revoke_grant(tx, grant.id, BEN, AT) is True
        assert grants.revoke_grant(tx, grant.id, ANA, AT + HOUR) is False
    found = find_grant_row(waiting_call, grant)
    assert (found.revoked_at, found.revoked_by) == (AT, BEN)
    assert find_grant_row(waiting_call, other).revoked_at is None
    with waiting_call.store.read() as tx:
        rows = [each for each in iterate_rows(tx, Audit) if each.event == "grant.revoked"]
    revoked = [each for each in rows if grant.id in each.data]
    assert [(each.at, each.actor, json.loads(each.data)) for each in revoked] == [
        (AT, BEN, {"grant": grant.id})
    ]


def test_revoking_all_grants_leaves_ended_ones(waiting_call: Seeded) -> None:
    """Those used up or revoked before stay as well."""
    holds = add_grant(waiting_call, uses=1)
    over, used, gone = (
        add_grant(waiting_call, until=AT),
        add_grant(waiting_call, uses=0),
        add_grant(waiting_call, revoked_at=AT - HOUR),
    )
    with waiting_call.store.write() as tx:
        grants.revoke_all_grants(tx, AT)
    found = [find_grant_row(waiting_call, each).revoked_at for each in (holds, over, used, gone)]
    assert found == [AT, None, None, AT - HOUR]
    assert find_grant_row(waiting_call, holds).revoked_by == "system"


def test_a_persons_usable_grants_are_listed(waiting_call: Seeded) -> None:
    """They requested or gave them; the soonest end comes first."""
    late = add_grant(waiting_call, until=AT + 2 * HOUR, uses=1)
    soon = add_grant(waiting_call, until=AT + TICK)
    for columns in (
        {"team": "T0OTHERCO"},
        {"revoked_at": AT},
        {"until": AT},
        {"uses": 0},
    ):
        add_grant(waiting_call, **columns)
    with waiting_call.store.read() as tx:
        found = {
            who: grants.list_usable_grants_involving_person(tx, TEAM, who, AT)
            for who in (BEN, ANA, DAN)
        }
    ids = [soon.id, late.id]
    assert {who: [each.id for each in some] for who, some in found.items()} == {
        BEN: ids,
        ANA: ids,
        DAN: [],
    }


def test_a_grant_round_trips_through_json(waiting_call: Seeded) -> None:
    """Other programs can use it; JSON that is no grant is refused."""
    grant = add_grant(waiting_call)
    assert grants.load_grant(grants.dump_grant(grant)) == grant
    for wrong in ("{}", grants.dump_grant(grant).replace("{", '{"more":1,', 1)):
        with pytest.raises(ValidationError):
            grants.load_grant(wrong)
