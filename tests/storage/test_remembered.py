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
    """A call of Ben's in a thread, and nothing is remembered."""
    with record.write() as tx:
        tx.execute(delete(Grant))
    return seed(record)


def give(asked: Seeded, **columns: Any) -> Grant:
    """Remember an approval that is as wide as can be, but for `columns`."""
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


def usable(asked: Seeded, arguments: str = '{"text":"a"}') -> list[str]:
    """The ids of what the call may run on now."""
    with asked.store.read() as tx:
        found = grants.list_usable_grants(tx, asked.run(), "note", "s", arguments, AT)
    return [each.id for each in found]


def kept(asked: Seeded, grant: Grant) -> Grant:
    """As it stands."""
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
def test_what_does_not_stand_for_a_call(asked: Seeded, why: str) -> None:
    """Each of its bounds by itself keeps a call from running on it."""
    give(asked, **NOT_FOR_IT[why])
    assert usable(asked) == []


def test_what_stands_for_a_call(asked: Seeded) -> None:
    """In its thread, its channel or anywhere, with its values or any; what ends first comes
    first.
    """
    wide = give(asked, until=AT + 3 * HOUR, uses=1)
    there = give(asked, channel="C0SUPPORT", pinned='{"text":"a"}', until=AT + 2 * HOUR)
    here = give(asked, channel="C0SUPPORT", thread_ts="1.0", until=AT + TICK)
    assert usable(asked, '{"text":"a","more":1}') == [here.id, there.id, wide.id]


def test_values_are_compared_as_json(asked: Seeded) -> None:
    """One is neither true nor the text of it, and the order of keys does not matter."""
    one = give(asked, pinned='{"n":1}')
    assert usable(asked, '{"n":1}') == [one.id]
    assert usable(asked, '{"n":true}') == []
    assert usable(asked, '{"n":"1"}') == []
    ids = {
        give(asked, pinned=pinned).id for pinned in ('{"n":{"a":1,"b":2}}', '{"n":{"b":2,"a":1}}')
    }
    assert set(usable(asked, '{"n":{"b":2,"a":1}}')) == ids


def test_each_use_is_written_down(asked: Seeded) -> None:
    """So often and no more, each in the audit beside the call that ran."""
    grant, other = give(asked), give(asked)
    call = asked.call()
    with asked.store.write() as tx:
        found = [grants.use_grant(tx, grant.id, AT, call) for _ in range(3)]
    assert found == [True, True, False]
    assert (kept(asked, grant).uses, kept(asked, other).uses) == (0, 2)
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
def test_what_is_over_is_not_used(asked: Seeded, columns: dict[str, Any]) -> None:
    """At its end, once it is revoked, or without a use left."""
    grant = give(asked, **columns)
    with asked.store.write() as tx:
        assert grants.use_grant(tx, grant.id, AT, asked.call()) is False
    assert kept(asked, grant).uses == grant.uses


def test_it_is_ended_once(asked: Seeded) -> None:
    """By whom and when, in its row and in the audit; the second who tries is told."""
    grant, other = give(asked), give(asked)
    with asked.store.write() as tx:
        assert grants.revoke_grant(tx, grant.id, BEN, AT) is True
        assert grants.revoke_grant(tx, grant.id, ANA, AT + HOUR) is False
    found = kept(asked, grant)
    assert (found.revoked_at, found.revoked_by) == (AT, BEN)
    assert kept(asked, other).revoked_at is None


def test_all_that_holds_is_ended(asked: Seeded) -> None:
    """What is over, used up or revoked before keeps its own end."""
    holds = give(asked, uses=1)
    over, used, gone = give(asked, until=AT), give(asked, uses=0), give(asked, revoked_at=AT - HOUR)
    with asked.store.write() as tx:
        grants.revoke_all_grants(tx, AT)
    found = [kept(asked, each).revoked_at for each in (holds, over, used, gone)]
    assert found == [AT, None, None, AT - HOUR]
    assert kept(asked, holds).revoked_by == "system"


def test_what_is_still_open_for_somebody(asked: Seeded) -> None:
    """What they asked for or gave and can still be used, soonest end first."""
    late = give(asked, until=AT + 2 * HOUR, uses=1)
    soon = give(asked, until=AT + TICK)
    for columns in (
        {"team": "T0OTHERCO"},
        {"revoked_at": AT},
        {"until": AT},
        {"uses": 0},
    ):
        give(asked, **columns)
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


def test_a_grant_as_json(asked: Seeded) -> None:
    """Other programs can write it and read it again; what is none is refused."""
    grant = give(asked)
    assert grants.load_grant(grants.dump_grant(grant)) == grant
    for wrong in ("{}", grants.dump_grant(grant).replace("{", '{"more":1,', 1)):
        with pytest.raises(ValidationError):
            grants.load_grant(wrong)
