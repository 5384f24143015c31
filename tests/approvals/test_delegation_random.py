"""Random delegations: a delegate may do no more than the giver, and passes nothing on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import delete, insert, update
from sqlmodel import col

from bot.approvals.permissions import PermissionChecker
from bot.policy.authority import Authority, Denial, Permission
from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage import calls
from storage.columns import get_column_values
from storage.delegations import Delegation
from storage.models import Call, Revision, Run
from storage.states import CallVerb
from storage.store import Store
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, CLEO, DAN, EVE, GUS, ZOE, FakeDirectory, StillClock
from tests.storage.builders import AT, HOUR, TEAM, seed

PEOPLE = (ANA, BEN, CLEO, DAN, GUS, EVE, ZOE)
MOMENTS = st.integers(-3, 3).map(lambda hours: AT + hours * HOUR)
BEFORE, AFTER = st.just(AT - HOUR) | MOMENTS, st.just(AT + HOUR) | MOMENTS
USERS = st.sampled_from(PEOPLE)
APPROVERS = st.builds(
    Approvers,
    users=st.lists(USERS, max_size=2, unique=True).map(tuple),
    groups=st.sampled_from([(), ("shop-leads",), ("finance",)]),
    requester=st.booleans(),
)
GATES = st.builds(
    Ask,
    rule=st.just("r"),
    stages=st.lists(st.builds(Stage, approvers=APPROVERS), min_size=1, max_size=2).map(tuple),
    self_approval=st.booleans(),
    editor_counts=st.booleans(),
)
GIVEN = st.builds(
    Delegation,
    team=st.sampled_from([TEAM, TEAM, TEAM, "T0OTHERCO"]),
    giver=USERS,
    delegate=USERS,
    given_at=BEFORE,
    until=AFTER,
    revoked_at=st.none() | MOMENTS,
)


class World(NamedTuple):
    """A database, and the checker of who may decide about what is in it."""

    store: Store
    permissions: PermissionChecker


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One database for all examples: each has its own call and delegations."""
    folder: Path = tmp_path_factory.mktemp("delegations")
    store = store_of(folder / "countersign.db").open()
    yield World(store, PermissionChecker(store, StillClock(), Authority(FakeDirectory(), TEAM)))
    store.close()


def arrange_call(
    world: World, gate: Ask, requester: str, editors: list[str], standing: list[Delegation]
) -> tuple[Call, Run]:
    """A call with this requester and these editors, and exactly these delegations."""
    seeded = seed(world.store, gate=dump_gate(gate))
    with world.store.write() as tx:
        tx.execute(delete(Delegation))
        for row in standing:
            tx.execute(insert(Delegation).values(get_column_values(row)))
        tx.execute(update(Run).where(col(Run.id) == seeded.run_id).values(requester=requester))
        for number, editor in enumerate(editors, 2):
            edited = Revision(
                call_id=seeded.ids[0],
                number=number,
                arguments="{}",
                digest="d",
                author=editor,
                created_at=AT,
            )
            calls.insert_revision(tx, edited)
    return seeded.call(), seeded.run()


@pytest.mark.long
@given(
    gate=GATES,
    requester=USERS,
    editors=st.lists(USERS, max_size=2, unique=True),
    standing=st.lists(GIVEN, max_size=5, unique_by=lambda row: row.id),
    verb=st.sampled_from(sorted(CallVerb)),
)
@example(
    gate=Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA,))),)),
    requester=GUS,
    editors=[],
    standing=[Delegation(team=TEAM, giver=ANA, delegate=BEN, given_at=AT, until=AT + HOUR)],
    verb=CallVerb.APPROVE,
)
def test_a_delegation_gives_no_more_than_its_givers_own_right(
    world: World,
    gate: Ask,
    requester: str,
    editors: list[str],
    standing: list[Delegation],
    verb: CallVerb,
) -> None:
    """It must hold at that time; requesters and editors gain nothing, and nobody else more."""
    call, run = arrange_call(world, gate, requester, editors, [])
    alone = {
        person: world.permissions.judge_action(verb, call, run, person, at=AT) for person in PEOPLE
    }
    call, run = arrange_call(world, gate, requester, editors, standing)
    for person in PEOPLE:
        found = world.permissions.judge_action(verb, call, run, person, at=AT)
        giver = found.delegator if isinstance(found, Permission) else ""
        if not giver:
            # a delegate may be told instead that the requester, here a guest, is no colleague
            assert found in (alone[person], Denial.REQUESTER_GONE)
            assert isinstance(found, type(alone[person]))
            continue
        assert isinstance(alone[person], Denial)
        assert isinstance(alone[giver], Permission)
        assert person not in {requester, *editors, GUS, EVE, ZOE}
        assert verb is not CallVerb.EDIT
        assert any(
            (row.team, row.giver, row.delegate) == (TEAM, giver, person)
            and row.given_at <= AT < row.until
            and (row.revoked_at is None or row.revoked_at > AT)
            for row in standing
        )


def test_a_delegate_may_decide_what_the_giver_may(world: World) -> None:
    """Without such a case the test above would show nothing: Dan decides what only Ana may."""
    given_ = Delegation(team=TEAM, giver=ANA, delegate=DAN, given_at=AT, until=AT + HOUR)
    gate = Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA,))),))
    call, run = arrange_call(world, gate, BEN, [], [given_])
    found = world.permissions.judge_action(CallVerb.APPROVE, call, run, DAN, at=AT)
    assert found == Permission(0, f"for {ANA}: named", delegator=ANA)
    call, run = arrange_call(world, gate, ANA, [], [given_])
    assert (
        world.permissions.judge_action(CallVerb.APPROVE, call, run, DAN, at=AT)
        == Denial.NOT_APPROVER
    )
    call, run = arrange_call(world, gate, BEN, [ANA], [given_])
    assert (
        world.permissions.judge_action(CallVerb.APPROVE, call, run, DAN, at=AT)
        == Denial.NOT_APPROVER
    )
    for requester, editors in ((DAN, []), (BEN, [DAN])):  # not their own request or edit
        call, run = arrange_call(world, gate, requester, editors, [given_])
        for verb in (CallVerb.APPROVE, CallVerb.REJECT, CallVerb.RESOLVE):
            found = world.permissions.judge_action(verb, call, run, DAN, at=AT)
            assert found == Denial.NOT_APPROVER
