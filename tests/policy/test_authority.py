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
    """Everybody."""
    return FakeDirectory()


@pytest.fixture
def authority(directory: FakeDirectory) -> Authority:
    """The authority of their workspace."""
    return Authority(directory, TEAM)


def ask(*users: str, groups: tuple[str, ...] = (), channel: bool = False, **options: object) -> Ask:
    """A gate with these approvers."""
    approvers = Approvers(users=users, groups=groups, channel=channel)
    return Ask.model_validate({"rule": "r", "stages": (Stage(approvers=approvers),), **options})


def why(verdict: Verdict) -> str:
    """yes, or why not."""
    return verdict.why if isinstance(verdict, Denial) else "yes"


NAMED = {
    "nobody": (ask(), HERE, set()),
    "people": (ask(ANA, BEN), HERE, {ANA, BEN}),
    "a group": (ask(groups=("shop-leads",)), HERE, {ANA, CLEO}),
    "two groups and a person count once each": (
        ask(CLEO, groups=("shop-leads", "finance")),
        HERE,
        {ANA, CLEO},
    ),
    "an empty group": (ask(groups=("nobody",)), HERE, set()),
    "a group that is gone": (ask(groups=("gone",)), HERE, set()),
    "the channel": (ask(channel=True), ELSEWHERE, {ANA, CLEO}),
    "a channel that is gone": (ask(channel=True), "C0GONE", set()),
}


@pytest.mark.parametrize("case", NAMED)
def test_whom_a_list_names(authority: Authority, case: str) -> None:
    """Whom a list names: distinct people, the group's of now, nobody where there is nobody."""
    gate, channel, expected = NAMED[case]
    assert authority.list_named_people(gate.approvers, requester=BEN, channel=channel) == expected


def test_who_could_approve(authority: Authority) -> None:
    """Full active members who are named could approve.

    The requester could only where the rule says so.
    """
    everyone = ask(ANA, BEN, GUS, EVE, ZOE, BOT, "UNOBODY01")

    def able(gate: Ask) -> set[str]:
        who = gate.approvers
        return {*authority.list_able_approvers(gate, who, requester=BEN, channel=HERE)}

    assert able(everyone) == {ANA}
    assert able(everyone.model_copy(update={"self_approval": True})) == {ANA, BEN}
    assert able(ask(channel=True)) == {ANA, CLEO, DAN}
    assert able(ask(BEN)) == set()
    assert able(ask()) == set()


EVERYBODY = ask(ANA, BEN, CLEO, DAN, GUS, EVE, ZOE, BOT, "UNOBODY01")


@pytest.mark.parametrize("person", [GUS, EVE, ZOE, BOT, "UNOBODY01", ""])
def test_strangers_may_do_nothing(authority: Authority, person: str) -> None:
    """Guests, people of another workspace, deactivated ones, bots and unknown ids may nothing.

    They may not even where a rule names them.
    """
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
        assert [why(each) for each in verdicts] == ["stranger"] * 3
    assert not authority.is_active_colleague(person)


def test_the_same_id_in_another_workspace(authority: Authority, directory: FakeDirectory) -> None:
    """An approver's id is nobody's here once Slack says that it belongs to another workspace."""
    assert authority.may_reject(ask(ANA), ANA, requester=BEN, channel=HERE) == Permission(
        why="named"
    )
    other = Authority(directory, "T0OTHERCO")
    assert why(other.may_reject(ask(ANA), ANA, requester=BEN, channel=HERE)) == "stranger"
    assert (
        why(other.may_approve(ask(EVE), EVE, requester=BEN, editors=frozenset(), channel=HERE))
        == "yes"
    )


# self_approval, editor_counts, person, editors -> verdict; Ben asked, Ana and Ben are approvers.
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
def test_approvers_may_approve(
    authority: Authority, own: bool, counts: bool, person: str, editors: set[str], expected: str
) -> None:
    """An approver, not of their own request nor of their own edit, unless the rule says so."""
    gate = ask(ANA, BEN, self_approval=own, editor_counts=counts)
    verdict = authority.may_approve(
        gate, person, requester=BEN, editors=frozenset(editors), channel=HERE
    )
    assert why(verdict) == expected


def test_any_approver_may_reject(authority: Authority) -> None:
    """Any approver may say no, also to their own request; nobody else may."""
    found = {
        person: why(authority.may_reject(ask(ANA, BEN), person, requester=BEN, channel=HERE))
        for person in (ANA, BEN, CLEO, GUS)
    }
    assert found == {ANA: "yes", BEN: "yes", CLEO: "not_approver", GUS: "stranger"}


# who may edit -> verdicts of an approver, of the requester who is none, of the requester who is
# one, of somebody else
EDIT = {
    "approvers": ["yes", "not_approver", "yes", "not_approver"],
    "approvers_and_requester": ["yes", "yes", "yes", "not_approver"],
    "nobody": ["not_approver", "not_approver", "not_approver", "not_approver"],
}


@pytest.mark.parametrize("editors", EDIT)
def test_who_may_edit_is_the_rules_word(authority: Authority, editors: str) -> None:
    """Who may change the arguments is the rule's word, and a guest who asked may not."""
    gate = ask(ANA, editors=editors)
    people = [(ANA, BEN), (BEN, BEN), (ANA, ANA), (DAN, BEN)]
    found = [
        why(authority.may_edit(gate, person, requester=who, channel=HERE)) for person, who in people
    ]
    assert found == EDIT[editors]
    guest = why(authority.may_edit(gate, GUS, requester=GUS, channel=HERE))
    assert guest == ("not_approver" if editors == "nobody" else "stranger")


@pytest.mark.parametrize(
    "gate", [ask(), ask(groups=("nobody",)), ask(groups=("gone",))], ids=["list", "group", "gone"]
)
def test_an_empty_list_is_nobody(authority: Authority, gate: Ask) -> None:
    """No approvers means nobody, whoever asks, with or without self-approval."""
    for person in (ANA, BEN, CLEO):
        for own in (False, True):
            open_gate = gate.model_copy(update={"self_approval": own, "editor_counts": True})
            verdict = authority.may_approve(
                open_gate, person, requester=person, editors=frozenset(), channel=HERE
            )
            assert why(verdict) == "not_approver"


def test_membership_is_that_of_now(authority: Authority, directory: FakeDirectory) -> None:
    """Who left the group, or was deactivated, may no longer; who joined may."""
    gate = ask(groups=("shop-leads",))
    assert why(authority.may_reject(gate, CLEO, requester=BEN, channel=HERE)) == "yes"
    directory.groups["shop-leads"] = frozenset({ANA, DAN})
    assert [
        why(authority.may_reject(gate, who, requester=BEN, channel=HERE)) for who in (CLEO, DAN)
    ] == [
        "not_approver",
        "yes",
    ]
    directory.known[DAN] = directory.known[ZOE]
    assert why(authority.may_reject(gate, DAN, requester=BEN, channel=HERE)) == "stranger"


def test_a_failed_look_up_refuses(authority: Authority, directory: FakeDirectory) -> None:
    """When Slack cannot be asked, nobody is let through, and that is said as such.

    Who asks for lists is told too.
    """
    directory.down = True
    for gate in (ask(ANA), ask(groups=("shop-leads",)), ask(channel=True), ask()):
        verdicts = [
            authority.may_approve(gate, ANA, requester=BEN, editors=frozenset(), channel=HERE),
            authority.may_reject(gate, ANA, requester=BEN, channel=HERE),
            authority.may_edit(gate, BEN, requester=BEN, channel=HERE),
        ]
        assert [why(each) for each in verdicts] == ["lookup"] * 3
        if gate != ask():
            with pytest.raises(LookupFailedError):
                authority.list_able_approvers(gate, gate.approvers, requester=BEN, channel=HERE)
    with pytest.raises(LookupFailedError):
        authority.is_active_colleague(ANA)


def test_a_group_that_cannot_be_asked_refuses_its_members(
    authority: Authority, directory: FakeDirectory
) -> None:
    """A person who is found is still refused while their group is not."""

    def group(handle: str) -> None:
        raise LookupFailedError("ratelimited")

    directory.find_group = group  # type: ignore[method-assign] # only this look-up fails
    assert (
        why(
            authority.may_reject(ask(ANA, groups=("shop-leads",)), ANA, requester=BEN, channel=HERE)
        )
        == "lookup"
    )
    assert why(authority.may_reject(ask(ANA), ANA, requester=BEN, channel=HERE)) == "yes"
