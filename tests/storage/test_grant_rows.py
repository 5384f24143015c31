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
from storage.store import Store
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
def asked(record: Store) -> Seeded:
    """A call of Ben's in a thread; nothing is remembered."""
    with record.write() as tx:
        tx.execute(delete(Grant))
    return seed(record)


def add_grant(asked: Seeded, **columns: Any) -> Grant:
    """Remember an approval that allows as much as possible, but for `columns`."""
    given: dict[str, Any] = {
        "team": TEAM,
        "requester": BEN,
        "tool": "note",
        "schema_digest": "s",
        "until": AT + HOUR,
        "uses": 2,
        "call_id": asked.ids[0],
        "given_by": ANA,
        "given_at": AT,
        **columns,
    }
    grant = Grant(**given)
    with asked.store.write() as tx:
        grants.give_grant(tx, grant, run_id=asked.run_id)
    return grant


def list_usable(asked: Seeded, arguments: str = '{"text":"a"}') -> list[str]:
    """The ids of the grants that the call may use now."""
    with asked.store.read() as tx:
        found = grants.list_usable_grants(tx, asked.run(), "note", "s", arguments, AT)
    return [each.id for each in found]


def find_grant_row(asked: Seeded, grant: Grant) -> Grant:
    """The grant as it is now."""
    with asked.store.read() as tx:
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
def test_a_grant_does_not_allow_a_call_outside_its_bounds(asked: Seeded, why: str) -> None:
    """Each bound by itself is enough."""
    add_grant(asked, **NOT_FOR_IT[why])
    assert list_usable(asked) == []


def test_usable_grants_are_listed_soonest_end_first(asked: Seeded) -> None:
    """They are for the thread, the channel or everywhere, and for given values or any."""
    wide = add_grant(asked, until=AT + 3 * HOUR, uses=1)
    there = add_grant(asked, channel="C0SUPPORT", pinned='{"text":"a"}', until=AT + 2 * HOUR)
    here = add_grant(asked, channel="C0SUPPORT", thread_ts="1.0", until=AT + TICK)
    assert list_usable(asked, '{"text":"a","more":1}') == [here.id, there.id, wide.id]


def test_a_grants_values_are_compared_as_json(asked: Seeded) -> None:
    """1 is neither true nor "1", and the order of keys does not count."""
    one = add_grant(asked, pinned='{"n":1}')
    assert list_usable(asked, '{"n":1}') == [one.id]
    assert list_usable(asked, '{"n":true}') == []
    assert list_usable(asked, '{"n":"1"}') == []
    ids = {
        add_grant(asked, pinned=pinned).id
        for pinned in ('{"n":{"a":1,"b":2}}', '{"n":{"b":2,"a":1}}')
    }
    assert set(list_usable(asked, '{"n":{"b":2,"a":1}}')) == ids


def test_each_use_of_a_grant_is_counted_and_audited(asked: Seeded) -> None:
    """The audit's row is beside that of the call."""
    grant, other = add_grant(asked), add_grant(asked)
    call = asked.call()
    with asked.store.write() as tx:
        found = [grants.use_grant(tx, grant.id, AT, call) for _ in range(3)]
    assert found == [True, True, False]
    assert (find_grant_row(asked, grant).uses, find_grant_row(asked, other).uses) == (0, 2)
    told = asked.audit()
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
    asked: Seeded, columns: dict[str, Any]
) -> None:
    """Its end itself is too late."""
    grant = add_grant(asked, **columns)
    with asked.store.write() as tx:
        assert grants.use_grant(tx, grant.id, AT, asked.call()) is False
    assert find_grant_row(asked, grant).uses == grant.uses


def test_a_grant_is_revoked_once(asked: Seeded) -> None:
    """Its row says by whom and when; the second attempt is told."""
    grant, other = add_grant(asked), add_grant(asked)
    with asked.store.write() as tx:
        assert grants.revoke_grant(tx, grant.id, BEN, AT) is True
        assert grants.revoke_grant(tx, grant.id, ANA, AT + HOUR) is False
    found = find_grant_row(asked, grant)
    assert (found.revoked_at, found.revoked_by) == (AT, BEN)
    assert find_grant_row(asked, other).revoked_at is None


def test_revoking_all_grants_leaves_ended_ones(asked: Seeded) -> None:
    """Those used up or revoked before stay as well."""
    holds = add_grant(asked, uses=1)
    over, used, gone = (
        add_grant(asked, until=AT),
        add_grant(asked, uses=0),
        add_grant(asked, revoked_at=AT - HOUR),
    )
    with asked.store.write() as tx:
        grants.revoke_all_grants(tx, AT)
    found = [find_grant_row(asked, each).revoked_at for each in (holds, over, used, gone)]
    assert found == [AT, None, None, AT - HOUR]
    assert find_grant_row(asked, holds).revoked_by == "system"


def test_a_persons_usable_grants_are_listed(asked: Seeded) -> None:
    """They requested or gave them; the soonest end comes first."""
    late = add_grant(asked, until=AT + 2 * HOUR, uses=1)
    soon = add_grant(asked, until=AT + TICK)
    for columns in (
        {"team": "T0OTHERCO"},
        {"revoked_at": AT},
        {"until": AT},
        {"uses": 0},
    ):
        add_grant(asked, **columns)
    with asked.store.read() as tx:
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


def test_a_grant_round_trips_through_json(asked: Seeded) -> None:
    """Other programs can use it; JSON that is no grant is refused."""
    grant = add_grant(asked)
    assert grants.load_grant(grants.dump_grant(grant)) == grant
    for wrong in ("{}", grants.dump_grant(grant).replace("{", '{"more":1,', 1)):
        with pytest.raises(ValidationError):
            grants.load_grant(wrong)
