"""Who may do what to a call that waits: by its gate, its votes, and who decides for whom."""

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
from tests.approvals.world import World, gate_of, voted
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, CLEO, DAN, EVE, GUS, ZOE
from tests.storage.builders import ALLOWED, AT, Seeded

ONE = gate_of([ANA])
TWO_STEPS = gate_of([ANA, BEN], [DAN])
V = CallVerb


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all tests of this file."""
    opened = store_of(tmp_path_factory.mktemp("permissions") / "countersign.db").open()
    yield opened
    opened.close()


@pytest.fixture
def world(record: Store) -> World:
    """Nobody decides for anybody, and Slack knows everybody."""
    with record.write() as tx:
        tx.execute(delete(Delegation))
    return World(record)


def verdict(world: World, made: Seeded, verb: CallVerb, person: str, **how: bool) -> Verdict:
    """What holds for this person now."""
    return world.permissions.judge_action(verb, made.call(), made.run(), person, at=AT, **how)


def test_steps_are_approved_in_order(world: World) -> None:
    """The second step waits for the first, and its people may say no before."""
    fresh = world.asked(TWO_STEPS)
    assert verdict(world, fresh, V.APPROVE, ANA) == Permission(0, "named")
    assert verdict(world, fresh, V.APPROVE, DAN) == Denial("not_yet")
    assert verdict(world, fresh, V.REJECT, DAN) == Permission(why="named")
    begun = world.asked(TWO_STEPS, votes=[voted(ANA)])
    assert verdict(world, begun, V.APPROVE, DAN) == Permission(1, "named")
    assert verdict(world, begun, V.APPROVE, ANA) == Denial("not_yet")


def test_steps_without_an_order(world: World) -> None:
    """Each may approve where somebody is missing, and not where enough have."""
    made = world.asked(gate_of([ANA, CLEO], [DAN, CLEO], any_order=True), votes=[voted(ANA)])
    assert verdict(world, made, V.APPROVE, DAN) == Permission(1, "named")
    assert verdict(world, made, V.APPROVE, CLEO) == Permission(1, "named", also=(0,))
    assert verdict(world, world.asked(ONE), V.APPROVE, CLEO) == Denial("not_approver")


def test_what_was_read_with_the_call_counts(world: World) -> None:
    """Votes that were handed in are not read again."""
    made = world.asked(TWO_STEPS)
    known = CallEditorsAndVotes(frozenset({DAN}), (voted(ANA),))
    found = world.permissions.judge_action(
        V.APPROVE, made.call(), made.run(), DAN, at=AT, involved=known
    )
    assert found == Denial("own_edit")


def test_who_edited_does_not_approve(world: World) -> None:
    """Not in the step that is theirs, either."""
    made = world.asked(TWO_STEPS, votes=[voted(ANA)], editors=[DAN])
    assert verdict(world, made, V.APPROVE, DAN) == Denial("own_edit")


def test_who_says_what_became_of_it(world: World) -> None:
    """Whoever could have approved it in any step; not who asked, nor who edited it."""
    made = world.asked(TWO_STEPS, editors=[ANA])
    found = {who: verdict(world, made, V.RESOLVE, who) for who in (ANA, BEN, DAN, CLEO)}
    assert found == {
        ANA: Denial("own_edit"),
        BEN: Denial("own_request"),
        DAN: Permission(why="named"),
        CLEO: Denial("not_approver"),
    }


def test_who_asked_may_send_it_back(world: World) -> None:
    """They may have the plan made anew, as its approvers may, and not reject it; a guest may not
    even that, nor anybody else.
    """
    made = world.asked(ONE)
    assert verdict(world, made, V.SEND_BACK, BEN) == Permission(why="requester")
    assert verdict(world, made, V.REJECT, BEN) == Denial("not_approver")
    assert verdict(world, made, V.SEND_BACK, ANA) == Permission(why="named")
    assert verdict(world, made, V.SEND_BACK, DAN) == Denial("not_approver")
    theirs = world.asked(ONE, requester=GUS)
    assert verdict(world, theirs, V.SEND_BACK, GUS) == Denial("stranger")


def test_an_editor_approves_only_where_that_counts(world: World) -> None:
    """Whose edit is just being stored has edited it, and votes on the old revision are void."""
    made = world.asked(ONE, editors=[CLEO])
    assert verdict(world, made, V.APPROVE, ANA) == Permission(why="named")
    assert verdict(world, made, V.APPROVE, ANA, fresh_editor=True) == Denial("own_edit")
    lenient = world.asked(gate_of([ANA], [ANA, DAN], editor_counts=True), votes=[voted(DAN)])
    found = verdict(world, lenient, V.APPROVE, ANA, fresh_editor=True)
    assert found == Permission(0, "named, own edit allowed")


def test_nothing_is_decided_that_is_not_asked(world: World) -> None:
    """What policy allows has no approvers."""
    made = world.asked(ALLOWED)
    for verb in (V.APPROVE, V.REJECT, V.EDIT, V.RESOLVE):
        assert verdict(world, made, verb, ANA) == Denial("not_approver")


@pytest.mark.parametrize("requester", [ZOE, GUS, EVE, "UNOBODY01"])
def test_nobody_approves_for_who_has_left(world: World, requester: str) -> None:
    """Without who asked, a full member, it can be rejected only; not known is not left."""
    made = world.asked(ONE, requester=requester)
    assert verdict(world, made, V.APPROVE, ANA) == Denial("requester_gone")
    assert verdict(world, made, V.REJECT, ANA) == Permission(why="named")
    world.directory.lost.add(BEN)
    assert verdict(world, world.asked(ONE), V.APPROVE, ANA) == Denial("lookup")


@pytest.mark.parametrize("vote", [voted("UOLD00001"), voted(CLEO, for_person="UOLD00001")])
def test_nobody_votes_beside_an_id_that_is_gone(world: World, vote: Vote) -> None:
    """It may be theirs under another id, also where a delegate voted for it."""
    both = gate_of([ANA, "UOLD00001"], [DAN])
    made = world.asked(both, votes=[vote])
    assert verdict(world, made, V.APPROVE, DAN) == Denial("id_gone")


@pytest.mark.parametrize("verb", sorted(set(CallVerb) - {V.WITHDRAW}))  # who asked does that
def test_what_a_stand_in_may(world: World, verb: CallVerb) -> None:
    """All that decides; edits are one's own, and so is what needs no approval."""
    world.delegates(ANA, DAN)
    found = verdict(world, world.asked(ONE), verb, DAN)
    if verb in (V.EDIT, V.BREAK_GLASS):
        assert found == Denial("not_approver" if verb is V.EDIT else "no_break_glass")
    else:
        assert found == Permission(0, f"for {ANA}: named", delegator=ANA)


def test_ones_own_right_comes_first(world: World) -> None:
    """An approver who also decides for another votes as themselves."""
    world.delegates(CLEO, ANA)
    made = world.asked(gate_of([ANA, CLEO]))
    assert verdict(world, made, V.APPROVE, ANA) == Permission(0, "named")
    assert verdict(world, made, V.REJECT, ANA) == Permission(why="named")


@pytest.mark.parametrize("stranger", [GUS, EVE, ZOE])
def test_no_stranger_stands_in(world: World, stranger: str) -> None:
    """Guests, other companies' people and those who left decide for nobody."""
    world.delegates(ANA, stranger)
    made = world.asked(ONE)
    for verb in (V.APPROVE, V.REJECT, V.RESOLVE):
        assert verdict(world, made, verb, stranger) == Denial("stranger")


def test_a_stand_in_whose_giver_is_not_known(world: World) -> None:
    """Where Slack does not answer about the giver that is said; who may not gives nothing."""
    world.delegates(ANA, DAN)
    world.directory.lost.add(ANA)
    assert verdict(world, world.asked(ONE), V.REJECT, DAN) == Denial("lookup")
    world.delegates(GUS, CLEO)
    assert verdict(world, world.asked(ONE), V.REJECT, CLEO) == Denial("not_approver")


def test_nobody_stands_in_for_their_own(world: World) -> None:
    """Neither for what they asked for nor for what they have edited."""
    world.delegates(ANA, DAN)
    own, edited = world.asked(ONE, requester=DAN), world.asked(ONE, editors=[DAN])
    for made in (own, edited):
        for verb in (V.APPROVE, V.REJECT, V.RESOLVE):
            assert verdict(world, made, verb, DAN) == Denial("not_approver")


def test_a_stand_in_speaks_for_who_is_silent(world: World) -> None:
    """Of two givers, for the one who has not voted yet."""
    world.delegates(ANA, DAN)
    world.delegates(CLEO, DAN)
    gate = Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA, CLEO)), quorum=2),))
    found = verdict(world, world.asked(gate, votes=[voted(ANA)]), V.APPROVE, DAN)
    assert found == Permission(0, f"for {CLEO}: named", delegator=CLEO)


def test_whose_approval_may_be_remembered(world: World) -> None:
    """Only that of who could approve alone."""
    run = world.asked(ONE).run()
    authority = world.permissions.authority
    assert may_approve_alone(authority, run, ONE, ANA) is True
    assert may_approve_alone(authority, run, ONE, BEN) is False
    assert may_approve_alone(authority, run, TWO_STEPS, ANA) is False


def test_ready_reasons_are_not_ones_own_words() -> None:
    """A rejection with one of the offered reasons says no more than it; silence says nothing."""
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
def test_which_decisions_need_words(world: World, reasons: str, wanted: set[CallVerb]) -> None:
    """As the gate says, and none where nobody is asked."""
    call = world.asked(gate_of([ANA], reasons=reasons)).call()
    assert {verb for verb in (V.APPROVE, V.REJECT) if needs_reason(call, verb)} == wanted
    assert not needs_reason(world.asked(ALLOWED).call(), V.APPROVE)
