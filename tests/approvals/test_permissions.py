"""What each person may do to a waiting call: by its gate, its votes and delegations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import delete

from bot.approvals.permissions import is_reason_in_own_words, may_approve_alone, needs_reason
from bot.cards.review_dialog import REJECTION_REASONS
from bot.policy.authority import Denial, Permission, Verdict
from bot.policy.gates import Approvers, Ask, Stage
from storage.calls import CallEditorsAndVotes
from storage.delegations import Delegation
from storage.models import Vote
from storage.states import CallVerb
from storage.store import Store
from tests.approvals.world import World, make_gate, make_vote
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, CLEO, DAN, EVE, GUS, ZOE
from tests.storage.builders import ALLOWED, AT, Seeded

ONE = make_gate([ANA])
TWO_STEPS = make_gate([ANA, BEN], [DAN])
V = CallVerb


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all tests of this file."""
    opened = store_of(tmp_path_factory.mktemp("permissions") / "countersign.db").open()
    yield opened
    opened.close()


@pytest.fixture
def world(record: Store) -> World:
    """A world without delegations, in which Slack knows everybody."""
    with record.write() as tx:
        tx.execute(delete(Delegation))
    return World(record)


def judge(world: World, made: Seeded, verb: CallVerb, person: str, **how: bool) -> Verdict:
    """What this person may do now."""
    return world.permissions.judge_action(verb, made.call(), made.run(), person, at=AT, **how)


def test_stages_are_approved_in_order(world: World) -> None:
    """People of the second stage may reject before it opens."""
    fresh = world.add_calls(TWO_STEPS)
    assert judge(world, fresh, V.APPROVE, ANA) == Permission(0, "named")
    assert judge(world, fresh, V.APPROVE, DAN) == Denial.NOT_YET
    assert judge(world, fresh, V.REJECT, DAN) == Permission(why="named")
    begun = world.add_calls(TWO_STEPS, votes=[make_vote(ANA)])
    assert judge(world, begun, V.APPROVE, DAN) == Permission(1, "named")
    assert judge(world, begun, V.APPROVE, ANA) == Denial.NOT_YET


def test_unordered_stages_are_approved_where_somebody_is_missing(world: World) -> None:
    """Once a stage has enough approvals, nobody approves in it."""
    made = world.add_calls(
        make_gate([ANA, CLEO], [DAN, CLEO], any_order=True), votes=[make_vote(ANA)]
    )
    assert judge(world, made, V.APPROVE, DAN) == Permission(1, "named")
    assert judge(world, made, V.APPROVE, CLEO) == Permission(1, "named", also=(0,))
    assert judge(world, world.add_calls(ONE), V.APPROVE, CLEO) == Denial.NOT_APPROVER


def test_votes_and_editors_passed_in_are_not_read_again(world: World) -> None:
    """The database has no editor here."""
    made = world.add_calls(TWO_STEPS)
    known = CallEditorsAndVotes(frozenset({DAN}), (make_vote(ANA),))
    found = world.permissions.judge_action(
        V.APPROVE, made.call(), made.run(), DAN, at=AT, involved=known
    )
    assert found == Denial.OWN_EDIT


def test_an_editor_may_not_approve_their_edited_call(world: World) -> None:
    """This holds in their own stage, too."""
    made = world.add_calls(TWO_STEPS, votes=[make_vote(ANA)], editors=[DAN])
    assert judge(world, made, V.APPROVE, DAN) == Denial.OWN_EDIT


def test_approvers_of_any_stage_may_record_an_unknown_outcome(world: World) -> None:
    """The requester and editors may not."""
    made = world.add_calls(TWO_STEPS, editors=[ANA])
    found = {who: judge(world, made, V.RESOLVE, who) for who in (ANA, BEN, DAN, CLEO)}
    assert found == {
        ANA: Denial.OWN_EDIT,
        BEN: Denial.OWN_REQUEST,
        DAN: Permission(why="named"),
        CLEO: Denial.NOT_APPROVER,
    }


def test_the_requester_may_send_a_plan_back_but_not_reject_it(world: World) -> None:
    """Approvers may do both; guests may do neither, nor may anybody else."""
    made = world.add_calls(ONE)
    assert judge(world, made, V.SEND_BACK, BEN) == Permission(why="requester")
    assert judge(world, made, V.REJECT, BEN) == Denial.NOT_APPROVER
    assert judge(world, made, V.SEND_BACK, ANA) == Permission(why="named")
    assert judge(world, made, V.SEND_BACK, DAN) == Denial.NOT_APPROVER
    theirs = world.add_calls(ONE, requester=GUS)
    assert judge(world, theirs, V.SEND_BACK, GUS) == Denial.STRANGER


def test_an_editor_may_approve_only_where_the_gate_says_so(world: World) -> None:
    """An edit that is being stored counts already, and makes votes on the old revision void."""
    made = world.add_calls(ONE, editors=[CLEO])
    assert judge(world, made, V.APPROVE, ANA) == Permission(why="named")
    assert judge(world, made, V.APPROVE, ANA, fresh_editor=True) == Denial.OWN_EDIT
    lenient = world.add_calls(
        make_gate([ANA], [ANA, DAN], editor_counts=True), votes=[make_vote(DAN)]
    )
    found = judge(world, lenient, V.APPROVE, ANA, fresh_editor=True)
    assert found == Permission(0, "named, own edit allowed")


def test_an_editor_does_not_approve_as_a_delegate(world: World) -> None:
    """Who has just edited a call has no vote on it, by another person's right either."""
    world.add_delegation(ANA, DAN)
    made = world.add_calls(make_gate([ANA], editor_counts=True))
    assert isinstance(judge(world, made, V.APPROVE, DAN), Permission)
    assert judge(world, made, V.APPROVE, DAN, fresh_editor=True) == Denial.NOT_APPROVER


def test_break_glass_takes_a_colleague_whom_slack_knows(world: World) -> None:
    """A guest is refused though named, and so is somebody who cannot be looked up."""
    made = world.add_calls(make_gate([CLEO], break_glass=Approvers(users=(ANA, GUS))))
    assert judge(world, made, V.BREAK_GLASS, ANA) == Permission(why="break-glass, named")
    assert judge(world, made, V.BREAK_GLASS, CLEO) == Denial.NO_BREAK_GLASS
    assert judge(world, made, V.BREAK_GLASS, GUS) == Denial.STRANGER
    world.directory.unknown_people.add(ANA)
    assert judge(world, made, V.BREAK_GLASS, ANA) == Denial.LOOKUP


def test_nobody_decides_about_a_call_that_policy_allows(world: World) -> None:
    """Such a call has no approvers."""
    made = world.add_calls(ALLOWED)
    for verb in (V.APPROVE, V.REJECT, V.EDIT, V.RESOLVE):
        assert judge(world, made, verb, ANA) == Denial.NOT_APPROVER


@pytest.mark.parametrize("requester", [ZOE, GUS, EVE, "UNOBODY01"])
def test_calls_of_a_requester_who_left_can_only_be_rejected(world: World, requester: str) -> None:
    """The requester has to be a full member; one whose look-up fails has not left."""
    made = world.add_calls(ONE, requester=requester)
    assert judge(world, made, V.APPROVE, ANA) == Denial.REQUESTER_GONE
    assert judge(world, made, V.REJECT, ANA) == Permission(why="named")
    world.directory.unknown_people.add(BEN)
    assert judge(world, world.add_calls(ONE), V.APPROVE, ANA) == Denial.LOOKUP


@pytest.mark.parametrize("vote", [make_vote("UOLD00001"), make_vote(CLEO, for_person="UOLD00001")])
def test_nobody_may_approve_beside_a_vote_of_a_vanished_id(world: World, vote: Vote) -> None:
    """The id may have been their own before; a delegate may have voted for it."""
    both = make_gate([ANA, "UOLD00001"], [DAN])
    made = world.add_calls(both, votes=[vote])
    assert judge(world, made, V.APPROVE, DAN) == Denial.ID_GONE


@pytest.mark.parametrize("verb", sorted(set(CallVerb) - {V.WITHDRAW}))  # requesters withdraw
def test_a_delegate_may_decide_but_not_edit_or_break_glass(world: World, verb: CallVerb) -> None:
    """Edits are one's own, and so is what needs no approval."""
    world.add_delegation(ANA, DAN)
    found = judge(world, world.add_calls(ONE), verb, DAN)
    if verb in (V.EDIT, V.BREAK_GLASS):
        assert found == Denial("not_approver" if verb is V.EDIT else "no_break_glass")
    else:
        assert found == Permission(0, f"for {ANA}: named", delegator=ANA)


def test_a_delegate_who_is_an_approver_votes_as_themselves(world: World) -> None:
    """Their own right comes first."""
    world.add_delegation(CLEO, ANA)
    made = world.add_calls(make_gate([ANA, CLEO]))
    assert judge(world, made, V.APPROVE, ANA) == Permission(0, "named")
    assert judge(world, made, V.REJECT, ANA) == Permission(why="named")


@pytest.mark.parametrize("stranger", [GUS, EVE, ZOE])
def test_strangers_may_not_decide_as_delegates(world: World, stranger: str) -> None:
    """Strangers are guests, people of other companies and people who left."""
    world.add_delegation(ANA, stranger)
    made = world.add_calls(ONE)
    for verb in (V.APPROVE, V.REJECT, V.RESOLVE):
        assert judge(world, made, verb, stranger) == Denial.STRANGER


def test_a_delegate_is_refused_while_the_giver_cannot_be_looked_up(world: World) -> None:
    """A giver who may not decide gives nothing."""
    world.add_delegation(ANA, DAN)
    world.directory.unknown_people.add(ANA)
    assert judge(world, world.add_calls(ONE), V.REJECT, DAN) == Denial.LOOKUP
    world.add_delegation(GUS, CLEO)
    assert judge(world, world.add_calls(ONE), V.REJECT, CLEO) == Denial.NOT_APPROVER


def test_delegates_may_not_decide_their_own_requests_or_edits(world: World) -> None:
    """The giver could."""
    world.add_delegation(ANA, DAN)
    own, edited = world.add_calls(ONE, requester=DAN), world.add_calls(ONE, editors=[DAN])
    for made in (own, edited):
        for verb in (V.APPROVE, V.REJECT, V.RESOLVE):
            assert judge(world, made, verb, DAN) == Denial.NOT_APPROVER


def test_a_delegate_of_two_votes_for_the_one_who_has_not(world: World) -> None:
    """Ana has voted, and Cleo has not."""
    world.add_delegation(ANA, DAN)
    world.add_delegation(CLEO, DAN)
    gate = Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA, CLEO)), quorum=2),))
    found = judge(world, world.add_calls(gate, votes=[make_vote(ANA)]), V.APPROVE, DAN)
    assert found == Permission(0, f"for {CLEO}: named", delegator=CLEO)


def test_only_approvers_who_could_approve_alone_may_remember(world: World) -> None:
    """Ben is the requester, and the second gate has two stages."""
    run = world.add_calls(ONE).run()
    authority = world.permissions.authority
    assert may_approve_alone(authority, run, ONE, ANA) is True
    assert may_approve_alone(authority, run, ONE, BEN) is False
    assert may_approve_alone(authority, run, TWO_STEPS, ANA) is False


def test_offered_reasons_are_not_ones_own_words() -> None:
    """This concerns rejections; an empty text says nothing either."""
    ready = next(iter(REJECTION_REASONS.values()))
    assert is_reason_in_own_words(V.REJECT, "It was paid twice.")
    assert is_reason_in_own_words(V.APPROVE, ready)
    assert not is_reason_in_own_words(V.REJECT, ready)
    assert not is_reason_in_own_words(V.APPROVE, " ")
    assert not is_reason_in_own_words(V.REJECT, "")


@pytest.mark.parametrize(
    ("reasons", "wanted"),
    [
        ("never", set()),
        ("approve", {V.APPROVE}),
        ("reject", {V.REJECT}),
        ("always", {V.APPROVE, V.REJECT}),
    ],
)
def test_the_gate_says_which_decisions_need_a_reason(
    world: World, reasons: str, wanted: set[CallVerb]
) -> None:
    """No decision does where policy asks nobody."""
    call = world.add_calls(make_gate([ANA], reasons=reasons)).call()
    assert {verb for verb in (V.APPROVE, V.REJECT) if needs_reason(call, verb)} == wanted
    assert not needs_reason(world.add_calls(ALLOWED).call(), V.APPROVE)
