"""The digest of a call that is to be asked about again: the same arguments, the next revision."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from sqlmodel import col

from bot.approvals.call_state import compute_call_digest, compute_next_revision_digest
from storage.models import Call
from storage.store import Store
from tests.approvals.world import World, make_gate
from tests.runs.fakes import ANA


@pytest.fixture
def world(store: Store) -> World:
    """A world without calls."""
    return World(store)


def test_the_next_revision_has_a_digest_of_its_own(world: World) -> None:
    """It is as if the call had been shown with that number, under its gate and preview."""
    made = world.add_calls(make_gate([ANA]), expects="two rows")
    tools, key, call = world.core.tools, b"k" * 32, made.call()
    with world.store.read() as tx:
        found = compute_next_revision_digest(tx, key, made.run(), call, tools)
    given = {"gate": call.gate, "expects": "two rows"}
    same = [
        compute_call_digest(key, made.run(), tools.tools["note"], text, revision=number, **given)
        for text, number in (('{"text": "note 0"}', 2), ('{"text": "note 0"}', 1))
    ]
    assert (found, found == same[1]) == (same[0], False)


@pytest.mark.parametrize("columns", [{"tool": "gone"}, {"revision": 7}])
def test_a_call_that_cannot_run_has_no_next_digest(
    world: World, columns: dict[str, object]
) -> None:
    """Its tool or its arguments do not exist any more."""
    made = world.add_calls(make_gate([ANA]))
    with world.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == made.ids[0]).values(**columns))
    with world.store.read() as tx:
        call, tools = made.call(), world.core.tools
        assert compute_next_revision_digest(tx, b"k" * 32, made.run(), call, tools) == ""
