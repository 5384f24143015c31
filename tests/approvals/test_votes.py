"""What comes of a click on Approve or Reject: what counts, what the thread and the person hear."""

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
from tests.approvals.world import World, gate_of
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


def both(*people: str) -> Ask:
    """A gate that two of these people have to meet."""
    return Ask(rule="r", stages=(Stage(approvers=Approvers(users=people), quorum=2),))


class Booth:
    """Where people vote, and what is to be read afterwards."""

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
        """Vote on some of the calls; how the delivery was settled."""
        targets = [CallTarget(made.ids[each], 1) for each in only]
        self.votes.cast_votes(self.click(person), targets, verb, reason, remember=remember)
        return self.note()

    def note(self) -> str:
        """How the last delivery was settled."""
        with self.store.read() as tx:
            statement = select(Delivery).where(col(Delivery.seq) == self.delivery.seq)
            return fetch_rows(tx, Delivery, statement)[0].note

    def _text(self, key: str) -> str:
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, f"{key}:{self.delivery.seq}")
        return str(outbox.parse_message_body(row)["text"]) if row else ""

    def said(self) -> str:
        """What the thread was told of the last vote."""
        return self._text("decided")

    def saved(self) -> str:
        """What the thread was told of an approval that is remembered."""
        return self._text("saved")

    def told(self) -> str:
        """What who voted was told alone."""
        return self._text("private")

    def grants(self, made: Seeded) -> list[Grant]:
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
def booth(record: Store) -> Booth:
    """Nobody has voted."""
    return Booth(record)


def test_what_starts_is_told_by_what_comes_of_it(booth: Booth) -> None:
    """The last approval says nothing by itself, to nobody."""
    made = booth.world.asked(gate_of([ANA]))
    assert booth.vote(made, V.APPROVE, ANA) == "approve: 1 counted, 0 did not"
    assert (made.call().status, booth.said(), booth.told()) == (C.APPROVED, "", "")


def test_a_rejection_is_told_to_who_asked(booth: Booth) -> None:
    """With who said no and why; where that is who asked, nobody else is named."""
    made = booth.world.asked(gate_of([ANA, BEN]))
    assert booth.vote(made, V.REJECT, ANA, "twice") == "reject: 1 counted, 0 did not"
    assert booth.said() == notices.call_decision_line(V.REJECT, ANA, [FIRST], "twice", 0, BEN)
    booth.vote(booth.world.asked(gate_of([ANA, BEN])), V.REJECT, BEN, "twice")
    assert booth.said() == notices.call_decision_line(V.REJECT, BEN, [FIRST], "twice")


def test_half_of_a_plan_starts_nothing(booth: Booth) -> None:
    """While the rest waits, the card alone shows what was approved; a rejection is told."""
    made = booth.world.asked(gate_of([ANA]), C.PENDING, C.PENDING, C.REJECTED)
    booth.vote(made, V.APPROVE, ANA)
    assert (booth.said(), made.call().status) == ("", C.APPROVED)
    booth.vote(made, V.APPROVE, ANA, only=[1])
    assert (booth.said(), made.call(1).status) == ("", C.APPROVED)
    other = booth.world.asked(gate_of([ANA]), C.APPROVED, C.PENDING)
    booth.vote(other, V.REJECT, ANA, only=[1])
    assert booth.said() == notices.call_decision_line(V.REJECT, ANA, [SECOND], "", 0, BEN)


def test_one_of_two_approvals_is_told_by_the_card(booth: Booth) -> None:
    """Nothing is posted of it, nor of the first of two stages, and who repeats it is told alone."""
    made = booth.world.asked(both(ANA, CLEO))
    booth.vote(made, V.APPROVE, ANA)
    assert booth.said() == ""
    wanted = made.card().wanted
    assert booth.vote(made, V.APPROVE, ANA) == "approve: 0 counted, 1 did not"
    assert (booth.said(), booth.told()) == ("", sentences.repeated_click_reply("approve"))
    assert made.card().wanted == wanted + 1
    booth.vote(booth.world.asked(gate_of([ANA], [CLEO])), V.APPROVE, ANA)
    assert (booth.said(), booth.told()) == ("", "")


def test_by_whose_right_is_told(booth: Booth) -> None:
    """Who stands in is named with whom they stand in for; with several, without."""
    for giver in (ANA, CLEO):
        booth.world.delegates(giver, DAN)
    made = booth.world.asked(both(ANA, BEN))
    booth.vote(made, V.REJECT, DAN)
    told = {"requester": BEN, "delegator": ANA}
    assert booth.said() == notices.call_decision_line(V.REJECT, DAN, [FIRST], **told)
    made = booth.world.asked(gate_of([ANA]), C.PENDING, C.PENDING, C.PENDING)
    other = {"gate": dump_gate(gate_of([CLEO]))}
    with booth.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == made.ids[1]).values(**other))
    booth.vote(made, V.REJECT, DAN, only=[0, 1])
    assert booth.said() == notices.call_decision_line(V.REJECT, DAN, [FIRST, SECOND], requester=BEN)


def test_who_may_not_hears_it_alone(booth: Booth) -> None:
    """Their vote is refused and written down, and each reason is told once."""
    made = booth.world.asked(gate_of([ANA, BEN]), C.PENDING, C.PENDING)
    assert booth.vote(made, V.APPROVE, BEN, only=[0, 1]) == "approve: 0 counted, 2 did not"
    assert (booth.said(), booth.told()) == ("", sentences.OWN_REQUEST_REPLY)
    assert made.events() == ["decision.refused"] * 2
    assert [made.call(each).status for each in (0, 1)] == [C.PENDING] * 2


def test_a_button_of_nothing(booth: Booth) -> None:
    """A call that is not there, and one that is decided, are told, and the rest counts."""
    made = booth.world.asked(gate_of([ANA]), C.PENDING, C.CANCELLED)
    targets = [CallTarget("nothing", 1), *(CallTarget(each, 1) for each in made.ids)]
    booth.votes.cast_votes(booth.click(ANA), targets, V.APPROVE)
    assert booth.note() == "approve: 1 counted, 2 did not"
    late = sentences.already_decided_reply("", "cancel", None)
    assert booth.told() == f"{sentences.OUTDATED_CARD_REPLY}\n{late}"


def test_words_that_policy_wants(booth: Booth) -> None:
    """Without them it does not count."""
    made = booth.world.asked(gate_of([ANA], reasons="always"))
    assert booth.vote(made, V.APPROVE, ANA) == "approve: 0 counted, 1 did not"
    assert booth.told() == sentences.REASON_REQUIRED_REPLY
    assert booth.vote(made, V.APPROVE, ANA, "checked") == "approve: 1 counted, 0 did not"


def test_what_is_remembered_is_told(booth: Booth) -> None:
    """As it was chosen, and nothing of a rejection."""
    gate = booth.world.gate()
    made = booth.world.asked(gate)
    booth.vote(made, V.APPROVE, ANA, remember=0)
    [grant] = booth.grants(made)
    same = f"Text {'note 0'}"
    assert booth.saved() == notices.approval_saved_notice(grant.until, 2, same)
    assert booth.told() == ""
    rejected = booth.world.asked(gate)
    booth.vote(rejected, V.REJECT, ANA, "no", remember=0)
    assert booth.grants(rejected) == []
    plain = booth.world.asked(gate, C.PENDING, C.PENDING)
    booth.vote(plain, V.APPROVE, ANA)
    assert (booth.grants(plain), booth.saved()) == ([], "")


def test_what_is_remembered_by_itself(booth: Booth) -> None:
    """Where the rule says so, each approval is, also while the rest of its plan waits."""
    gate = booth.world.gate("put")
    put = booth.world.core.tools.tools["put"]
    shown = {"tool": put.name, "schema_digest": put.schema_digest()}
    made = booth.world.asked(gate, C.PENDING, C.PENDING, **shown)
    booth.vote(made, V.APPROVE, ANA)
    [grant] = booth.grants(made)
    same = "Text note 0"
    assert booth.saved() == notices.approval_saved_notice(grant.until, grant.uses, same)


def test_what_takes_several_is_not_remembered(booth: Booth) -> None:
    """Who could not approve it alone is told that it counts this time only."""
    gate = both(ANA, CLEO).model_copy(update={"remember": booth.world.gate().remember})
    made = booth.world.asked(gate)
    assert booth.vote(made, V.APPROVE, ANA, remember=0) == "approve: 1 counted, 1 did not"
    assert booth.told() == sentences.APPROVAL_NOT_SAVED_REPLY


def test_what_the_policy_offers_no_more_is_not_remembered(booth: Booth) -> None:
    """The rule that offered it has changed while the call waited: who chose it is told."""
    made = booth.world.asked(booth.world.gate().model_copy(update={"rule": "an earlier one"}))
    assert booth.vote(made, V.APPROVE, ANA, remember=0) == "approve: 1 counted, 1 did not"
    assert (booth.grants(made), booth.saved()) == ([], "")
    assert booth.told() == sentences.APPROVAL_NOT_SAVED_REPLY


@pytest.mark.parametrize("waiting", [0, 1])
def test_an_editor_who_approves(booth: Booth, waiting: int) -> None:
    """They approve the edited call, where the gate lets editors."""
    gate = gate_of([ANA], editor_counts=True)
    made = booth.world.asked(gate, *[C.PENDING] * (1 + waiting))
    delivery = booth.click(ANA)
    found = booth.votes.admit_editor_as_voter(delivery, made.call(), made.run())
    assert isinstance(found, VoteAdmission)
    assert found.permission.why == "named, own edit allowed"
    with booth.store.write() as tx:
        booth.votes.approve_edited_call(tx, delivery, made.call(), found)
    assert (made.call().status, booth.note()) == (C.APPROVED, "approve: 1 counted, 0 did not")
    strict = booth.world.asked(gate_of([ANA]))
    barred = booth.votes.admit_editor_as_voter(booth.click(ANA), strict.call(), strict.run())
    assert barred == VoteRefusal(strict.call(), Denial("own_edit"), sentences.OWN_EDIT_REPLY)


def test_all_of_a_card(booth: Booth) -> None:
    """Every call that waits on it, if just those waited there when it was drawn."""
    made = booth.world.asked(gate_of([ANA]), C.PENDING, C.CANCELLED, C.PENDING)
    seq, wanted = made.card().seq, made.card().wanted
    assert seq is not None
    shown = calls.compute_card_revision([made.call(0), made.call(2)])
    booth.votes.vote_on_card(booth.click(ANA), CardTarget(made.plan_id, 7, seq), V.REJECT)
    assert (booth.note(), booth.told()) == ("reject all: stale", sentences.OUTDATED_CARD_REPLY)
    assert made.card().wanted == wanted + 1
    booth.votes.vote_on_card(booth.click(ANA), CardTarget(made.plan_id, shown, seq), V.REJECT, "no")
    assert booth.note() == "reject: 2 counted, 0 did not"
    assert [made.call(each).status for each in range(3)] == [C.REJECTED, C.CANCELLED, C.REJECTED]
    assert made.call().decided_at == AT
