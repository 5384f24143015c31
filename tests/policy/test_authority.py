"""Who may approve, reject and edit: every kind of person against every kind of gate."""

from __future__ import annotations

import pytest

from bot.policy.authority import Authority, Denial, LookupFailedError, Permission, Verdict
from bot.policy.gates import Approvers, Ask, Stage
from tests.runs.fakes import ANA, BEN, BOT, CLEO, DAN, EVE, GUS, ZOE, FakeDirectory
from tests.storage.builders import TEAM

HERE, ELSEWHERE = "C0SUPPORT", "C0FINANCE"


@pytest.fixture
def directory() -> FakeDirectory:
    """Everybody in the directory."""
    return FakeDirectory()


@pytest.fixture
def authority(directory: FakeDirectory) -> Authority:
    """The permission checks of their workspace."""
    return Authority(directory, TEAM)


def make_gate(
    *users: str, groups: tuple[str, ...] = (), channel: bool = False, **options: object
) -> Ask:
    """A gate with these approvers."""
    approvers = Approvers(users=users, groups=groups, channel=channel)
    return Ask.model_validate({"rule": "r", "stages": (Stage(approvers=approvers),), **options})


def get_reason(verdict: Verdict) -> str:
    """ "yes", or why not."""
    return verdict if isinstance(verdict, Denial) else "yes"


NAMED = {
    "nobody": (make_gate(), HERE, set()),
    "people": (make_gate(ANA, BEN), HERE, {ANA, BEN}),
    "a group": (make_gate(groups=("shop-leads",)), HERE, {ANA, CLEO}),
    "two groups and a person count once each": (
        make_gate(CLEO, groups=("shop-leads", "finance")),
        HERE,
        {ANA, CLEO},
    ),
    "an empty group": (make_gate(groups=("nobody",)), HERE, set()),
    "a group that is gone": (make_gate(groups=("gone",)), HERE, set()),
    "the channel": (make_gate(channel=True), ELSEWHERE, {ANA, CLEO}),
    "a channel that is gone": (make_gate(channel=True), "C0GONE", set()),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_list_of_approvers_names_distinct_people(authority: Authority, case: str) -> None:
    """A group names its members of now; a group or channel that is gone names nobody."""
    gate, channel, expected = NAMED[case]
    assert authority.list_named_people(gate.approvers, requester=BEN, channel=channel) == expected


def test_only_full_active_members_who_are_named_can_approve(authority: Authority) -> None:
    """The requester can only where the rule says so."""
    everyone = make_gate(ANA, BEN, GUS, EVE, ZOE, BOT, "UNOBODY01")

    def able(gate: Ask) -> set[str]:
        who = gate.approvers
        return {*authority.list_able_approvers(gate, who, requester=BEN, channel=HERE)}

    assert able(everyone) == {ANA}
    assert able(everyone.model_copy(update={"self_approval": True})) == {ANA, BEN}
    assert able(make_gate(channel=True)) == {ANA, CLEO, DAN}
    assert able(make_gate(BEN)) == set()
    assert able(make_gate()) == set()


EVERYBODY = make_gate(ANA, BEN, CLEO, DAN, GUS, EVE, ZOE, BOT, "UNOBODY01")


@pytest.mark.parametrize("person", [GUS, EVE, ZOE, BOT, "UNOBODY01", ""])
def test_strangers_may_not_decide_or_edit_even_if_named(authority: Authority, person: str) -> None:
    """Strangers are guests, people of another workspace, deactivated ones, bots and unknown ids."""
    for gate in (
        EVERYBODY,
        EVERYBODY.model_copy(update={"self_approval": True, "editor_counts": True}),
    ):
        verdicts = [
            authority.may_approve(
                gate, person, requester=person, editors=frozenset(), channel=HERE
            ),
            authority.may_reject(gate, person, requester=BEN, channel=HERE),
            authority.may_edit(gate, person, requester=person, channel=HERE),
        ]
        assert [get_reason(each) for each in verdicts] == ["stranger"] * 3
    assert not authority.is_active_colleague(person)


def test_an_id_of_another_workspace_is_a_stranger_here(
    authority: Authority, directory: FakeDirectory
) -> None:
    """An approver's id counts for nothing once Slack says that it belongs to another workspace."""
    assert authority.may_reject(make_gate(ANA), ANA, requester=BEN, channel=HERE) == Permission(
        why="named"
    )
    other = Authority(directory, "T0OTHERCO")
    assert (
        get_reason(other.may_reject(make_gate(ANA), ANA, requester=BEN, channel=HERE)) == "stranger"
    )
    assert (
        get_reason(
            other.may_approve(make_gate(EVE), EVE, requester=BEN, editors=frozenset(), channel=HERE)
        )
        == "yes"
    )


# self_approval, editor_counts, person, editors -> verdict; Ben requests, Ana and Ben are approvers.
APPROVE = [
    (False, False, ANA, {}, "yes"),
    (False, False, CLEO, {}, "not_approver"),
    (False, False, BEN, {}, "own_request"),
    (True, False, BEN, {}, "yes"),
    (False, False, ANA, {ANA}, "own_edit"),
    (False, False, ANA, {CLEO}, "yes"),
    (False, True, ANA, {ANA}, "yes"),
    (True, False, ANA, {ANA, CLEO}, "own_edit"),
    (True, False, BEN, {BEN}, "own_edit"),
    (False, True, BEN, {BEN}, "own_request"),
    (True, True, BEN, {BEN}, "yes"),
    (True, True, CLEO, {CLEO}, "not_approver"),
]


@pytest.mark.parametrize(("own", "counts", "person", "editors", "expected"), APPROVE)
def test_approvers_may_not_approve_their_own_request_or_edit(
    authority: Authority, own: bool, counts: bool, person: str, editors: set[str], expected: str
) -> None:
    """They may where the rule says so."""
    gate = make_gate(ANA, BEN, self_approval=own, editor_counts=counts)
    verdict = authority.may_approve(
        gate, person, requester=BEN, editors=frozenset(editors), channel=HERE
    )
    assert get_reason(verdict) == expected


def test_any_approver_may_reject_even_their_own_request(authority: Authority) -> None:
    """Nobody else may."""
    found = {
        person: get_reason(
            authority.may_reject(make_gate(ANA, BEN), person, requester=BEN, channel=HERE)
        )
        for person in (ANA, BEN, CLEO, GUS)
    }
    assert found == {ANA: "yes", BEN: "yes", CLEO: "not_approver", GUS: "stranger"}


# editors -> verdicts for: an approver, a requester, a requester who is an approver, somebody else
EDIT = {
    "approvers": ["yes", "not_approver", "yes", "not_approver"],
    "approvers_and_requester": ["yes", "yes", "yes", "not_approver"],
    "nobody": ["not_approver", "not_approver", "not_approver", "not_approver"],
}


@pytest.mark.parametrize("editors", EDIT)
def test_the_rule_says_who_may_edit(authority: Authority, editors: str) -> None:
    """A guest who made the request may not."""
    gate = make_gate(ANA, editors=editors)
    people = [(ANA, BEN), (BEN, BEN), (ANA, ANA), (DAN, BEN)]
    found = [
        get_reason(authority.may_edit(gate, person, requester=who, channel=HERE))
        for person, who in people
    ]
    assert found == EDIT[editors]
    guest = get_reason(authority.may_edit(gate, GUS, requester=GUS, channel=HERE))
    assert guest == ("not_approver" if editors == "nobody" else "stranger")


@pytest.mark.parametrize(
    "gate",
    [make_gate(), make_gate(groups=("nobody",)), make_gate(groups=("gone",))],
    ids=["list", "group", "gone"],
)
def test_without_approvers_nobody_may_approve(authority: Authority, gate: Ask) -> None:
    """That holds with self-approval, too, whoever made the request."""
    for person in (ANA, BEN, CLEO):
        for own in (False, True):
            open_gate = gate.model_copy(update={"self_approval": own, "editor_counts": True})
            verdict = authority.may_approve(
                open_gate, person, requester=person, editors=frozenset(), channel=HERE
            )
            assert get_reason(verdict) == "not_approver"


def test_only_current_members_of_a_group_may_decide(
    authority: Authority, directory: FakeDirectory
) -> None:
    """Somebody who left the group, or was deactivated, may no longer; somebody who joined may."""
    gate = make_gate(groups=("shop-leads",))
    assert get_reason(authority.may_reject(gate, CLEO, requester=BEN, channel=HERE)) == "yes"
    directory.groups["shop-leads"] = frozenset({ANA, DAN})
    assert [
        get_reason(authority.may_reject(gate, who, requester=BEN, channel=HERE))
        for who in (CLEO, DAN)
    ] == [
        "not_approver",
        "yes",
    ]
    directory.known[DAN] = directory.known[ZOE]
    assert get_reason(authority.may_reject(gate, DAN, requester=BEN, channel=HERE)) == "stranger"


def test_nobody_may_decide_while_slack_cannot_be_asked(
    authority: Authority, directory: FakeDirectory
) -> None:
    """The refusal gives that as its reason, and lists of approvers cannot be had."""
    directory.down = True
    for gate in (
        make_gate(ANA),
        make_gate(groups=("shop-leads",)),
        make_gate(channel=True),
        make_gate(),
    ):
        verdicts = [
            authority.may_approve(gate, ANA, requester=BEN, editors=frozenset(), channel=HERE),
            authority.may_reject(gate, ANA, requester=BEN, channel=HERE),
            authority.may_edit(gate, BEN, requester=BEN, channel=HERE),
        ]
        assert [get_reason(each) for each in verdicts] == ["lookup"] * 3
        if gate != make_gate():
            with pytest.raises(LookupFailedError):
                authority.list_able_approvers(gate, gate.approvers, requester=BEN, channel=HERE)
    with pytest.raises(LookupFailedError):
        authority.is_active_colleague(ANA)


def test_a_named_person_is_refused_while_the_group_cannot_be_asked(
    authority: Authority, directory: FakeDirectory
) -> None:
    """The person's own look-up succeeds; only their group's fails."""

    def group(handle: str) -> None:
        raise LookupFailedError("ratelimited")

    directory.find_group = group  # type: ignore[method-assign] # only this look-up fails
    assert (
        get_reason(
            authority.may_reject(
                make_gate(ANA, groups=("shop-leads",)), ANA, requester=BEN, channel=HERE
            )
        )
        == "lookup"
    )
    assert (
        get_reason(authority.may_reject(make_gate(ANA), ANA, requester=BEN, channel=HERE)) == "yes"
    )
