"""Whether there are people enough, whom that takes to look up, and where a yes may count."""

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


class Counting(FakeDirectory):
    """Notes how many people are looked up at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def find_people(self, users: Collection[str]) -> dict[str, Person]:
        """As the one above."""
        self.sizes.append(len(users))
        return super().find_people(users)


@pytest.fixture
def directory() -> Counting:
    """Everybody."""
    return Counting()


@pytest.fixture
def authority(directory: Counting) -> Authority:
    """The authority of their workspace."""
    return Authority(directory, TEAM)


def gate(*stages: Collection[str] | Stage, **options: Any) -> Ask:
    """A gate with these stages, of one person each where only names are given."""
    made = [
        each if isinstance(each, Stage) else Stage(approvers=Approvers(users=tuple(each)))
        for each in stages
    ]
    return Ask(rule="r", stages=tuple(made), **options)


def several(quorum: int, *people: str) -> Stage:
    """A stage that takes so many of these."""
    return Stage(approvers=Approvers(users=people), quorum=quorum)


def test_who_is_a_colleague() -> None:
    """Of this workspace, or of another of the same company that shares it."""
    grid = Person("U1", "T0GRID", "One", teams=frozenset({TEAM, "T0THIRD"}))
    assert is_colleague(grid, TEAM)
    assert not is_colleague(grid, "T0OTHERCO")
    assert is_colleague(Person("U1", TEAM, "One", teams=frozenset({"T0THIRD"})), TEAM)
    assert not is_colleague(None, TEAM)


@pytest.mark.parametrize(
    ("asked", "editors", "missing"),
    [
        (gate([ANA]), (), 0),
        (gate([ANA]), (ANA,), 1),
        (gate([ANA], editor_counts=True), (ANA,), 0),
        (gate([BEN]), (), 1),
        (gate([BEN], self_approval=True), (), 0),
        (gate([GUS]), (), 1),
        (gate(several(2, ANA, CLEO)), (), 0),
        (gate(several(3, ANA, CLEO)), (), 1),
        (gate([ANA], [ANA]), (), 1),
        (gate([ANA], [CLEO]), (), 0),
        (gate([ANA, CLEO], [ANA, CLEO], [ANA, CLEO]), (), 1),
        (gate([], several(2, ANA)), (), 2),
        (gate([], deadline=60, escalation=LATE), (), 0),
        (gate([], deadline=59, escalation=LATE), (), 1),
    ],
)
def test_how_many_are_missing(
    authority: Authority, asked: Ask, editors: tuple[str, ...], missing: int
) -> None:
    """So that every stage finds people of its own, not who edited it, by the deadline."""
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
def test_of_a_crowd_few_are_looked_up(
    authority: Authority, directory: Counting, strangers: int, count: int, sizes: list[int]
) -> None:
    """Some more than are wanted, in case some are no colleagues; then more, and then all."""
    people = [f"U{number:03}" for number in range(60)]
    directory.known |= {
        user: Person(user, TEAM, user, is_guest=number < strangers)
        for number, user in enumerate(people)
    }
    found = authority.list_first_colleagues(people, count)
    assert found == people[strangers : strangers + count]
    assert directory.sizes == sizes


def test_nobody_is_looked_up_in_vain(authority: Authority, directory: Counting) -> None:
    """Without anybody wanted, or to choose from."""
    assert authority.list_first_colleagues([ANA], 0) == authority.list_first_colleagues([], 3) == []
    assert directory.sizes == []
    assert authority.list_first_colleagues([CLEO, ANA], 5) == [ANA, CLEO]


def test_who_asked_may_be_named_as_that(authority: Authority) -> None:
    """Where the list says so their own word counts, and of nobody else's request."""
    stage = Stage(approvers=Approvers(requester=True))
    own = gate(stage)
    common: dict[str, Any] = {"requester": BEN, "channel": HERE}
    assert authority.list_approver_candidates(own, own.approvers, **common) == {BEN}
    assert authority.may_approve(own, BEN, editors=frozenset(), **common) == Permission(
        why="requester"
    )
    assert authority.may_approve(own, ANA, editors=frozenset(), **common) == Denial("not_approver")
    listed = gate([ANA, BEN])
    assert authority.list_approver_candidates(listed, listed.approvers, **common) == {ANA}
    assert authority.list_able_approvers(listed, listed.approvers, **common) == {ANA}


def met(authority: Authority, asked: Ask, *people: str, **how: Any) -> bool:
    """Whether the approvals of these are enough for it."""
    given = [(each, NOW) for each in people]
    common: dict[str, Any] = {"requester": BEN, "editors": frozenset(), "channel": HERE, **how}
    return authority.is_gate_met(asked, given, **common)


def test_whether_those_who_approved_are_enough(authority: Authority, directory: Counting) -> None:
    """As many different people as all stages take, each where they may."""
    assert met(authority, gate([ANA]), ANA)
    assert not met(authority, gate([ANA]), CLEO)
    assert not met(authority, gate([ANA]))
    assert not met(authority, gate([ANA, CLEO], [ANA]), ANA)
    assert met(authority, gate([ANA, CLEO], [ANA]), ANA, CLEO)
    assert not met(authority, gate([ANA]), ANA, editors=frozenset({ANA}))
    directory.down = True
    with pytest.raises(LookupFailedError):
        met(authority, gate([ANA]), ANA)


def test_where_a_yes_may_count(authority: Authority, directory: Counting) -> None:
    """Where somebody is missing first, and then wherever else; the reason against is the first
    that is not about another stage.
    """
    asked = gate([ANA, CLEO], [DAN], [ANA, BEN], any_order=True)

    def found(person: str, *open_stages: int, **how: Any) -> Permission | Denial:
        known: dict[str, Any] = {"requester": BEN, "editors": frozenset(), "channel": HERE, **how}
        return authority.may_approve_any_stage(asked, person, open_stages, **known)

    assert found(ANA, 0, 1, 2) == Permission(0, "named", (2,))
    assert found(ANA, 2) == Permission(2, "named", (0,))
    assert found(ANA, 1) == Denial("enough")
    assert found(DAN, 1) == Permission(1, "named")
    assert found(BEN, 0, 1, 2) == Denial("own_request")
    assert found(GUS, 0) == Denial("stranger")
    assert found(ANA, 0, editors=frozenset({ANA})) == Denial("own_edit")
    directory.down = True
    assert found(ANA, 0) == Denial("lookup")


def test_who_comes_in_later_may_say_no_as_well(authority: Authority) -> None:
    """From that moment on, and edit."""
    asked, common = gate([ANA], escalation=LATE), {"requester": BEN, "channel": HERE}
    for seconds, found in ((59, Denial("not_approver")), (60, Permission(why="named"))):
        waited = timedelta(seconds=seconds)
        assert authority.may_reject(asked, DAN, waited=waited, **common) == found
        assert authority.may_edit(asked, DAN, waited=waited, **common) == found
    assert authority.may_edit(asked, BEN, **common) == Permission(why="requester")
