"""Programs as rows: keys that are revoked, and calls that are claimed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import inbox, programs
from storage.models import Audit, Call, Delivery
from storage.programs import ProgramApiKey
from storage.states import CallStatus as C
from storage.states import DeliveryKind
from storage.store import Store
from storage.transaction import iterate_rows
from tests.records import store_of
from tests.storage.builders import AT, HOUR, TEAM, seed

BEN = "UBEN00001"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty record."""
    opened = store_of(tmp_path / "countersign.db").open()
    yield opened
    opened.close()


def list_events(store: Store, event: str) -> list[dict[str, object]]:
    """The data of the audit rows of this event."""
    with store.read() as tx:
        return [json.loads(row.data) for row in iterate_rows(tx, Audit, Audit.event == event)]


def test_a_key_is_revoked_once_and_only_by_its_own_workspace(store: Store) -> None:
    """By its id as well as by its name."""
    row = ProgramApiKey(
        id="k1", team=TEAM, name="shop", person=BEN, per_hour=9, hash="h", made_at=AT
    )
    with store.write() as tx:
        assert programs.store_api_key(tx, row, BEN)
        for name in ("csk_k1_…", "shop"):
            assert not programs.revoke_api_keys(tx, "TELSEWHERE", name, BEN, at=AT)
        assert programs.revoke_api_keys(tx, TEAM, "csk_k1_…", BEN, at=AT)
        for name in ("csk_k1_…", "shop"):
            assert not programs.revoke_api_keys(tx, TEAM, name, BEN, at=AT + HOUR)
        found = programs.find_api_key(tx, "k1")
        assert found is not None
        assert found.revoked_at == AT
    assert list_events(store, "key.revoked") == [{"key": "k1", "name": "shop"}]


def test_a_call_is_claimed_once(store: Store) -> None:
    """Of two programs that saw it unclaimed, one gets it; the audit says which."""
    seeded = seed(store, C.APPROVED)
    with store.write() as tx:
        assert tx.update_rows(Call, {"id": seeded.ids[0]}, action="deploy") == 1
    call = seeded.call()
    with store.write() as tx:
        for claimant, is_first in (("one", True), ("two", False)):
            claimed = programs.claim_call(tx, call, claimant, at=AT, actor="program")
            assert claimed is is_first
    assert seeded.call().claimant == "one"
    assert [data["claimant"] for data in list_events(store, "call.claimed")] == ["one"]


@pytest.mark.parametrize(
    ("statuses", "is_over"),
    [
        ([C.SUCCEEDED, C.REJECTED], True),
        ([C.UNKNOWN], True),
        ([C.PENDING], False),
        ([C.SUCCEEDED, C.RUNNING], False),
    ],
)
def test_a_key_that_counts_while_a_request_is_open_is_free_afterwards(
    store: Store, statuses: list[C], is_over: bool
) -> None:
    """So the next request under it is a new one, and counts towards the hourly limit."""
    name = programs.build_delivery_key("shop", "again")
    asked = {"kind": DeliveryKind.PROGRAM, "team": TEAM, "user": BEN, "body": "{}"}
    run_id = seed(store, *statuses).run_id
    with store.write() as tx:
        inbox.insert_delivery(tx, Delivery(key=name, received_at=AT, **asked))
        assert tx.update_rows(Delivery, {"key": name}, run_id=run_id) == 1
        has_request = programs.has_request_with_idempotency_key
        assert has_request(tx, "shop", "again")
        assert not has_request(tx, "shop", "another")
        assert has_request(tx, "shop", "again", while_open=True) is not is_over
        programs.free_delivery_key_of_ended_request(tx, name)
        assert (inbox.find_delivery(tx, name) is None) is is_over
