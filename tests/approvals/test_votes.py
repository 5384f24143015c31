"""What follows a click on Approve or Reject: what counts, what the thread and the person hear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from sqlalchemy import select, update
from sqlmodel import col

from bot.approvals.dialog_access import DialogAccessChecker
from bot.approvals.signed_votes import SignatureRequester
from bot.approvals.votes import VoteAdmission, VoteHandler, VoteRefusal
from bot.cards import notices, sentences
from bot.cards.button_codec import CallTarget, CardTarget
from bot.policy.authority import Denial
from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage import calls, inbox, outbox
from storage.grants import Grant
from storage.models import Call, Delivery
from storage.states import CallStatus, CallVerb
from storage.store import Store
from storage.transaction import fetch_rows
from tests.approvals.world import World, make_gate
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.storage.builders import AT, Seeded, click

C, V = CallStatus, CallVerb
FIRST, SECOND = "note “note 0”", "note “note 1”"
NUMBERS = count(1)
OFFERS = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
verdict = "ask"
remember = [{uses = 2}]

[[rule]]
tool = "put"
verdict = "once"
editable = []
"""


def make_gate_of_two(*people: str) -> Ask:
    """A gate that needs approvals of two of these people."""
    return Ask(rule="r", stages=(Stage(approvers=Approvers(users=people), quorum=2),))


class VotingWorld:
    """A world in which people vote, with what is to be read afterwards."""

    def __init__(self, store: Store) -> None:
        self.world = World(store, OFFERS)
        self.store, core = store, self.world.core
        permissions, links = core.build_permission_checker(), core.build_signing_links()
        access = DialogAccessChecker(store, core.clock, permissions)
        signed = SignatureRequester(links, core.policy, core.tools, access)
        self.votes = VoteHandler(permissions, core.build_grant_manager(), signed)
        self.delivery = Delivery(key="", kind="action", team="", user="")

    def click(self, person: str) -> Delivery:
        """Store a click of this person's."""
        key = f"click {next(NUMBERS)}"
        with self.store.write() as tx:
            inbox.insert_delivery(tx, click(key, "approve", "", person))
            [self.delivery] = [each for each in inbox.list_new_deliveries(tx) if each.key == key]
        return self.delivery

    def vote(
        self,
        made: Seeded,
        verb: CallVerb,
        person: str,
        reason: str = "",
        *,
        only: Sequence[int] = (0,),
        remember: int | None = None,
    ) -> str:
        """Vote on some of the calls; return how the delivery was settled."""
        targets = [CallTarget(made.ids[each], 1) for each in only]
        self.votes.cast_votes(self.click(person), targets, verb, reason, remember=remember)
        return self.get_note()

    def get_note(self) -> str:
        """How the last delivery was settled."""
        with self.store.read() as tx:
            statement = select(Delivery).where(col(Delivery.seq) == self.delivery.seq)
            return fetch_rows(tx, Delivery, statement)[0].note

    def _get_text(self, key: str) -> str:
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, f"{key}:{self.delivery.seq}")
        return str(outbox.parse_message_body(row)["text"]) if row else ""

    def get_thread_notice(self) -> str:
        """What the thread was told about the last vote."""
        return self._get_text("decided")

    def get_saved_notice(self) -> str:
        """What the thread was told about an approval that is remembered."""
        return self._get_text("saved")

    def get_private_reply(self) -> str:
        """What the voter alone was told."""
        return self._get_text("private")

    def list_grants(self, made: Seeded) -> list[Grant]:
        """What was remembered of the first call."""
        with self.store.read() as tx:
            return fetch_rows(tx, Grant, select(Grant).where(col(Grant.call_id) == made.ids[0]))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all tests of this file."""
    opened = store_of(tmp_path_factory.mktemp("votes") / "countersign.db").open()
    yield opened
    opened.close()


@pytest.fixture
def voting(record: Store) -> VotingWorld:
    """A world without votes."""
    return VotingWorld(record)


def test_the_last_approval_posts_nothing_by_itself(voting: VotingWorld) -> None:
    """The call's outcome is posted later."""
    made = voting.world.add_calls(make_gate([ANA]))
    assert voting.vote(made, V.APPROVE, ANA) == "approve: 1 counted, 0 did not"
    assert (made.call().status, voting.get_thread_notice(), voting.get_private_reply()) == (
        C.APPROVED,
        "",
        "",
    )


def test_a_rejection_is_told_to_the_requester_with_its_reason(voting: VotingWorld) -> None:
    """If the requester rejects the call, nobody else is mentioned."""
    made = voting.world.add_calls(make_gate([ANA, BEN]))
    assert voting.vote(made, V.REJECT, ANA, "twice") == "reject: 1 counted, 0 did not"
    assert voting.get_thread_notice() == notices.call_decision_line(
        V.REJECT, ANA, [FIRST], "twice", 0, BEN
    )
    voting.vote(voting.world.add_calls(make_gate([ANA, BEN])), V.REJECT, BEN, "twice")
    assert voting.get_thread_notice() == notices.call_decision_line(V.REJECT, BEN, [FIRST], "twice")


def test_an_approved_call_waits_for_the_rest_of_its_plan(voting: VotingWorld) -> None:
    """Only the card shows the approval meanwhile; a rejection is posted."""
    made = voting.world.add_calls(make_gate([ANA]), C.PENDING, C.PENDING, C.REJECTED)
    voting.vote(made, V.APPROVE, ANA)
    assert (voting.get_thread_notice(), made.call().status) == ("", C.APPROVED)
    voting.vote(made, V.APPROVE, ANA, only=[1])
    assert (voting.get_thread_notice(), made.call(1).status) == ("", C.APPROVED)
    other = voting.world.add_calls(make_gate([ANA]), C.APPROVED, C.PENDING)
    voting.vote(other, V.REJECT, ANA, only=[1])
    assert voting.get_thread_notice() == notices.call_decision_line(
        V.REJECT, ANA, [SECOND], "", 0, BEN
    )


def test_one_of_two_approvals_is_shown_only_by_the_card(voting: VotingWorld) -> None:
    """The first of two stages is neither posted; repeating a vote gets a private reply."""
    made = voting.world.add_calls(make_gate_of_two(ANA, CLEO))
    voting.vote(made, V.APPROVE, ANA)
    assert voting.get_thread_notice() == ""
    wanted = made.card().wanted
    assert voting.vote(made, V.APPROVE, ANA) == "approve: 0 counted, 1 did not"
    assert (voting.get_thread_notice(), voting.get_private_reply()) == (
        "",
        sentences.repeated_click_reply("approve"),
    )
    assert made.card().wanted == wanted + 1
    voting.vote(voting.world.add_calls(make_gate([ANA], [CLEO])), V.APPROVE, ANA)
    assert (voting.get_thread_notice(), voting.get_private_reply()) == ("", "")


def test_a_delegates_rejection_names_the_giver(voting: VotingWorld) -> None:
    """With several givers, none is named."""
    for giver in (ANA, CLEO):
        voting.world.add_delegation(giver, DAN)
    made = voting.world.add_calls(make_gate_of_two(ANA, BEN))
    voting.vote(made, V.REJECT, DAN)
    told = {"requester": BEN, "delegator": ANA}
    assert voting.get_thread_notice() == notices.call_decision_line(V.REJECT, DAN, [FIRST], **told)
    made = voting.world.add_calls(make_gate([ANA]), C.PENDING, C.PENDING, C.PENDING)
    other = {"gate": dump_gate(make_gate([CLEO]))}
    with voting.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == made.ids[1]).values(**other))
    voting.vote(made, V.REJECT, DAN, only=[0, 1])
    assert voting.get_thread_notice() == notices.call_decision_line(
        V.REJECT, DAN, [FIRST, SECOND], requester=BEN
    )


def test_a_refused_vote_is_audited_and_told_in_private(voting: VotingWorld) -> None:
    """Each reason is told once."""
    made = voting.world.add_calls(make_gate([ANA, BEN]), C.PENDING, C.PENDING)
    assert voting.vote(made, V.APPROVE, BEN, only=[0, 1]) == "approve: 0 counted, 2 did not"
    assert (voting.get_thread_notice(), voting.get_private_reply()) == (
        "",
        sentences.OWN_REQUEST_REPLY,
    )
    assert made.events() == ["decision.refused"] * 2
    assert [made.call(each).status for each in (0, 1)] == [C.PENDING] * 2


def test_a_vote_on_missing_or_decided_calls_still_counts_for_others(voting: VotingWorld) -> None:
    """The voter is told which did not count."""
    made = voting.world.add_calls(make_gate([ANA]), C.PENDING, C.CANCELLED)
    targets = [CallTarget("nothing", 1), *(CallTarget(each, 1) for each in made.ids)]
    voting.votes.cast_votes(voting.click(ANA), targets, V.APPROVE)
    assert voting.get_note() == "approve: 1 counted, 2 did not"
    late = sentences.already_decided_reply("", "cancel", None)
    assert voting.get_private_reply() == f"{sentences.OUTDATED_CARD_REPLY}\n{late}"


def test_a_vote_without_a_required_reason_does_not_count(voting: VotingWorld) -> None:
    """The voter is told to give one."""
    made = voting.world.add_calls(make_gate([ANA], reasons="always"))
    assert voting.vote(made, V.APPROVE, ANA) == "approve: 0 counted, 1 did not"
    assert voting.get_private_reply() == sentences.REASON_REQUIRED_REPLY
    assert voting.vote(made, V.APPROVE, ANA, "checked") == "approve: 1 counted, 0 did not"


def test_a_remembered_approval_is_posted_as_it_was_chosen(voting: VotingWorld) -> None:
    """A rejection is never remembered."""
    gate = voting.world.get_gate()
    made = voting.world.add_calls(gate)
    voting.vote(made, V.APPROVE, ANA, remember=0)
    [grant] = voting.list_grants(made)
    same = f"Text {'note 0'}"
    assert voting.get_saved_notice() == notices.approval_saved_notice(grant.until, 2, same)
    assert voting.get_private_reply() == ""
    rejected = voting.world.add_calls(gate)
    voting.vote(rejected, V.REJECT, ANA, "no", remember=0)
    assert voting.list_grants(rejected) == []
    plain = voting.world.add_calls(gate, C.PENDING, C.PENDING)
    voting.vote(plain, V.APPROVE, ANA)
    assert (voting.list_grants(plain), voting.get_saved_notice()) == ([], "")


def test_verdict_once_remembers_each_approval(voting: VotingWorld) -> None:
    """It does while the rest of the plan waits, too."""
    gate = voting.world.get_gate("put")
    put = voting.world.core.tools.tools["put"]
    shown = {"tool": put.name, "schema_digest": put.schema_digest()}
    made = voting.world.add_calls(gate, C.PENDING, C.PENDING, **shown)
    voting.vote(made, V.APPROVE, ANA)
    [grant] = voting.list_grants(made)
    same = "Text note 0"
    assert voting.get_saved_notice() == notices.approval_saved_notice(grant.until, grant.uses, same)


def test_an_approval_that_needs_others_is_not_remembered(voting: VotingWorld) -> None:
    """The voter is told that it counts this time only."""
    gate = make_gate_of_two(ANA, CLEO).model_copy(
        update={"remember": voting.world.get_gate().remember}
    )
    made = voting.world.add_calls(gate)
    assert voting.vote(made, V.APPROVE, ANA, remember=0) == "approve: 1 counted, 1 did not"
    assert voting.get_private_reply() == sentences.APPROVAL_NOT_SAVED_REPLY


def test_an_offer_the_policy_has_dropped_is_not_remembered(voting: VotingWorld) -> None:
    """The rule has changed while the call waited; the voter is told."""
    made = voting.world.add_calls(
        voting.world.get_gate().model_copy(update={"rule": "an earlier one"})
    )
    assert voting.vote(made, V.APPROVE, ANA, remember=0) == "approve: 1 counted, 1 did not"
    assert (voting.list_grants(made), voting.get_saved_notice()) == ([], "")
    assert voting.get_private_reply() == sentences.APPROVAL_NOT_SAVED_REPLY


def test_an_approval_by_a_delegate_is_not_saved(voting: VotingWorld) -> None:
    """They use another person's right, and could not approve the next such call by their own."""
    voting.world.add_delegation(ANA, DAN)
    made = voting.world.add_calls(voting.world.get_gate())
    assert voting.vote(made, V.APPROVE, DAN, remember=0) == "approve: 1 counted, 1 did not"
    assert (voting.list_grants(made), voting.get_saved_notice()) == ([], "")
    assert voting.get_private_reply() == sentences.APPROVAL_NOT_SAVED_REPLY


@pytest.mark.parametrize("waiting", [0, 1])
def test_an_editor_approves_the_edited_call_if_the_gate_allows(
    voting: VotingWorld, waiting: int
) -> None:
    """Another gate refuses it with a reply."""
    gate = make_gate([ANA], editor_counts=True)
    made = voting.world.add_calls(gate, *[C.PENDING] * (1 + waiting))
    delivery = voting.click(ANA)
    found = voting.votes.admit_editor_as_voter(delivery, made.call(), made.run())
    assert isinstance(found, VoteAdmission)
    assert found.permission.why == "named, own edit allowed"
    with voting.store.write() as tx:
        voting.votes.approve_edited_call(tx, delivery, made.call(), found)
    assert (made.call().status, voting.get_note()) == (C.APPROVED, "approve: 1 counted, 0 did not")
    strict = voting.world.add_calls(make_gate([ANA]))
    barred = voting.votes.admit_editor_as_voter(voting.click(ANA), strict.call(), strict.run())
    assert barred == VoteRefusal(strict.call(), Denial.OWN_EDIT, sentences.OWN_EDIT_REPLY)


def test_a_vote_on_a_card_needs_the_calls_it_was_drawn_with(voting: VotingWorld) -> None:
    """Every call that waits on it gets the vote."""
    made = voting.world.add_calls(make_gate([ANA]), C.PENDING, C.CANCELLED, C.PENDING)
    seq, wanted = made.card().seq, made.card().wanted
    assert seq is not None
    shown = calls.compute_card_revision([made.call(0), made.call(2)])
    voting.votes.vote_on_card(voting.click(ANA), CardTarget(made.plan_id, 7, seq), V.REJECT)
    assert (voting.get_note(), voting.get_private_reply()) == (
        "reject all: stale",
        sentences.OUTDATED_CARD_REPLY,
    )
    assert made.card().wanted == wanted + 1
    voting.votes.vote_on_card(
        voting.click(ANA), CardTarget(made.plan_id, shown, seq), V.REJECT, "no"
    )
    assert voting.get_note() == "reject: 2 counted, 0 did not"
    assert [made.call(each).status for each in range(3)] == [C.REJECTED, C.CANCELLED, C.REJECTED]
    assert made.call().decided_at == AT
