"""Whether there are enough approvers, whom that takes to look up, where an approval may count."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from bot.policy.authority import (
    Authority,
    Denial,
    LookupFailedError,
    Permission,
    Person,
    is_colleague,
)
from bot.policy.gates import Approvers, Ask, Escalation, Stage
from tests.runs.fakes import ANA, BEN, CLEO, DAN, GUS, FakeDirectory
from tests.storage.builders import TEAM

HERE = "C0SUPPORT"
NOW = timedelta()
LATE = (Escalation(after=60, approvers=Approvers(users=(DAN,))),)


class CountingDirectory(FakeDirectory):
    """Notes how many people are looked up at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def find_people(self, users: Collection[str]) -> dict[str, Person]:
        """Note the number, and look them up."""
        self.sizes.append(len(users))
        return super().find_people(users)


@pytest.fixture
def directory() -> CountingDirectory:
    """Everybody in the directory."""
    return CountingDirectory()


@pytest.fixture
def authority(directory: CountingDirectory) -> Authority:
    """The permission checks of their workspace."""
    return Authority(directory, TEAM)


def make_gate(*stages: Collection[str] | Stage, **options: Any) -> Ask:
    """A gate with these stages, each of one approval where only people are given."""
    made = [
        each if isinstance(each, Stage) else Stage(approvers=Approvers(users=tuple(each)))
        for each in stages
    ]
    return Ask(rule="r", stages=tuple(made), **options)


def make_stage(quorum: int, *people: str) -> Stage:
    """A stage that takes so many of these people."""
    return Stage(approvers=Approvers(users=people), quorum=quorum)


def test_members_of_this_or_a_connected_workspace_are_colleagues() -> None:
    """A workspace of the same company that shares the person counts."""
    grid = Person("U1", "T0GRID", "One", teams=frozenset({TEAM, "T0THIRD"}))
    assert is_colleague(grid, TEAM)
    assert not is_colleague(grid, "T0OTHERCO")
    assert is_colleague(Person("U1", TEAM, "One", teams=frozenset({"T0THIRD"})), TEAM)
    assert not is_colleague(None, TEAM)


@pytest.mark.parametrize(
    ("asked", "editors", "missing"),
    [
        (make_gate([ANA]), (), 0),
        (make_gate([ANA]), (ANA,), 1),
        (make_gate([ANA], editor_counts=True), (ANA,), 0),
        (make_gate([BEN]), (), 1),
        (make_gate([BEN], self_approval=True), (), 0),
        (make_gate([GUS]), (), 1),
        (make_gate(make_stage(2, ANA, CLEO)), (), 0),
        (make_gate(make_stage(3, ANA, CLEO)), (), 1),
        (make_gate([ANA], [ANA]), (), 1),
        (make_gate([ANA], [CLEO]), (), 0),
        (make_gate([ANA, CLEO], [ANA, CLEO], [ANA, CLEO]), (), 1),
        (make_gate([], make_stage(2, ANA)), (), 2),
        (make_gate([], deadline=60, escalation=LATE), (), 0),
        (make_gate([], deadline=59, escalation=LATE), (), 1),
    ],
)
def test_missing_approvers_are_counted_over_all_stages(
    authority: Authority, asked: Ask, editors: tuple[str, ...], missing: int
) -> None:
    """Every stage needs people of its own, who have not edited the call, by the deadline."""
    found = authority.count_missing_approvers(
        asked, requester=BEN, channel=HERE, editors=frozenset(editors)
    )
    assert found == missing


@pytest.mark.parametrize(
    ("strangers", "count", "sizes"),
    [
        (0, 1, [6]),
        (0, 2, [7]),
        (6, 2, [7, 20]),
        (5, 2, [7]),
        (40, 1, [6, 20, 34]),
        (60, 1, [6, 20, 34]),
    ],
)
def test_few_of_many_candidates_are_looked_up(
    authority: Authority, directory: CountingDirectory, strangers: int, count: int, sizes: list[int]
) -> None:
    """First some more than are wanted, in case some are no colleagues; then more, and then all."""
    people = [f"U{number:03}" for number in range(60)]
    directory.known |= {
        user: Person(user, TEAM, user, is_guest=number < strangers)
        for number, user in enumerate(people)
    }
    found = authority.list_first_colleagues(people, count)
    assert found == people[strangers : strangers + count]
    assert directory.sizes == sizes


def test_nobody_is_looked_up_if_nobody_is_wanted(
    authority: Authority, directory: CountingDirectory
) -> None:
    """Nobody is looked up without candidates either."""
    assert authority.list_first_colleagues([ANA], 0) == authority.list_first_colleagues([], 3) == []
    assert directory.sizes == []
    assert authority.list_first_colleagues([CLEO, ANA], 5) == [ANA, CLEO]


def test_approvers_requester_lets_the_requester_approve(authority: Authority) -> None:
    """It does so for the requester's own requests only; elsewhere the requester may not."""
    stage = Stage(approvers=Approvers(requester=True))
    own = make_gate(stage)
    common: dict[str, Any] = {"requester": BEN, "channel": HERE}
    assert authority.list_approver_candidates(own, own.approvers, **common) == {BEN}
    assert authority.may_approve(own, BEN, editors=frozenset(), **common) == Permission(
        why="requester"
    )
    assert authority.may_approve(own, ANA, editors=frozenset(), **common) == Denial.NOT_APPROVER
    listed = make_gate([ANA, BEN])
    assert authority.list_approver_candidates(listed, listed.approvers, **common) == {ANA}
    assert authority.list_able_approvers(listed, listed.approvers, **common) == {ANA}


def is_met_by(authority: Authority, asked: Ask, *people: str, **how: Any) -> bool:
    """Whether the approvals of these people are enough for the gate."""
    given = [(each, NOW) for each in people]
    common: dict[str, Any] = {"requester": BEN, "editors": frozenset(), "channel": HERE, **how}
    return authority.is_gate_met(asked, given, **common)


def test_a_gate_is_met_by_enough_different_allowed_people(
    authority: Authority, directory: CountingDirectory
) -> None:
    """It takes as many as all its stages do."""
    assert is_met_by(authority, make_gate([ANA]), ANA)
    assert not is_met_by(authority, make_gate([ANA]), CLEO)
    assert not is_met_by(authority, make_gate([ANA]))
    assert not is_met_by(authority, make_gate([ANA, CLEO], [ANA]), ANA)
    assert is_met_by(authority, make_gate([ANA, CLEO], [ANA]), ANA, CLEO)
    assert not is_met_by(authority, make_gate([ANA]), ANA, editors=frozenset({ANA}))
    directory.down = True
    with pytest.raises(LookupFailedError):
        is_met_by(authority, make_gate([ANA]), ANA)


def test_an_approval_may_count_in_open_stages_before_others(
    authority: Authority, directory: CountingDirectory
) -> None:
    """The reason against it is the first that is not about another stage."""
    asked = make_gate([ANA, CLEO], [DAN], [ANA, BEN], any_order=True)

    def found(person: str, *open_stages: int, **how: Any) -> Permission | Denial:
        known: dict[str, Any] = {"requester": BEN, "editors": frozenset(), "channel": HERE, **how}
        return authority.may_approve_any_stage(asked, person, open_stages, **known)

    assert found(ANA, 0, 1, 2) == Permission(0, "named", (2,))
    assert found(ANA, 2) == Permission(2, "named", (0,))
    assert found(ANA, 1) == Denial.ENOUGH
    assert found(DAN, 1) == Permission(1, "named")
    assert found(BEN, 0, 1, 2) == Denial.OWN_REQUEST
    assert found(GUS, 0) == Denial.STRANGER
    assert found(ANA, 0, editors=frozenset({ANA})) == Denial.OWN_EDIT
    directory.down = True
    assert found(ANA, 0) == Denial.LOOKUP


def test_nobody_approves_while_who_is_in_one_stage_is_not_known(
    authority: Authority, directory: CountingDirectory
) -> None:
    """Ana is named in the other stage, but where her approval counts depends on both."""

    def find_group(handle: str) -> None:
        raise LookupFailedError("ratelimited")

    directory.find_group = find_group  # type: ignore[method-assign] # only this look-up fails
    finance = Stage(approvers=Approvers(groups=("finance",)))
    asked = make_gate([ANA], finance, any_order=True)
    known: dict[str, Any] = {"requester": BEN, "editors": frozenset(), "channel": HERE}
    assert authority.may_approve_any_stage(asked, ANA, [0, 1], **known) == Denial("lookup")
    with pytest.raises(LookupFailedError):
        is_met_by(authority, make_gate([ANA], finance), ANA, CLEO)


def test_escalated_approvers_may_reject_and_edit_once_it_is_due(authority: Authority) -> None:
    """They may not a second before."""
    asked, common = make_gate([ANA], escalation=LATE), {"requester": BEN, "channel": HERE}
    for seconds, found in ((59, Denial.NOT_APPROVER), (60, Permission(why="named"))):
        waited = timedelta(seconds=seconds)
        assert authority.may_reject(asked, DAN, waited=waited, **common) == found
        assert authority.may_edit(asked, DAN, waited=waited, **common) == found
    assert authority.may_edit(asked, BEN, **common) == Permission(why="requester")
