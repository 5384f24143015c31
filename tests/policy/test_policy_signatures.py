"""What a policy says of signatures: where they are asked for, and that only they count there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.evaluation import parse
from bot.policy.gates import (
    Approvers,
    Ask,
    PasskeyTerms,
    combine_gates,
    dump_gate,
    load_gate,
)
from bot.policy.tally import Ballot, tally_ballots
from storage.states import CallVerb, VoteOutcome
from tests.policy.builders import asks, ballot, ballots, facts, problems

LEADS = '[defaults]\napprovers = ["@leads"]\n'
SIGNED = LEADS + 'signature = "passkey"\n'
PAY = '[[rule]]\ntool = "refund_order"\nverdict = "ask"\n'


def signatures(text: str) -> list[str]:
    """What each stage of a refund asks for."""
    gate = parse(text).get_gate(facts())
    assert isinstance(gate, Ask)
    return [stage.signature for stage in gate.stages]


STAGES = 'stages = [{approvers = ["@a"]}, {approvers = ["@b"], signature = "%s"}]\n'
ADD = '[[rule]]\nverdict = "add"\n'
POLICIES = {
    "nowhere": (LEADS, [""]),
    "by default": (SIGNED, ["passkey"]),
    "by default, for a rule's own people": (SIGNED + PAY + 'approvers = ["@a"]\n', ["passkey"]),
    "not in a rule": (SIGNED + PAY + 'signature = "none"\n', [""]),
    "in a rule": (LEADS + PAY + 'signature = "passkey"\n', ["passkey"]),
    "in a stage": (LEADS + PAY + STAGES % "passkey", ["", "passkey"]),
    "but in a stage": (SIGNED + PAY + STAGES % "none", ["passkey", ""]),
    "in all stages": (LEADS + PAY + STAGES % "none" + 'signature = "passkey"\n', ["passkey", ""]),
    "added": (LEADS + PAY + STAGES % "none" + ADD + 'signature = "passkey"\n', ["passkey"] * 2),
    "added with a step": (
        LEADS + ADD + 'stages = [{approvers = ["@a"], signature = "passkey"}]\n',
        ["", "passkey"],
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_where_signatures_are_asked_for(name: str) -> None:
    """In the defaults, a rule, a stage, or by a rule that adds."""
    text, wanted = POLICIES[name]
    assert signatures(text) == wanted


BAD = {
    "removed by an addition": (ADD + 'signature = "none"\n', "can only say passkey"),
    "with a remembered approval": (
        PAY + 'signature = "passkey"\nremember = [{}]\n',
        "nothing is remembered",
    ),
    "once": (
        '[[rule]]\ntool = "x"\nverdict = "once"\nsignature = "passkey"\n',
        "nothing is remembered",
    ),
    "another kind": (PAY + 'signature = "pen"\n', "write 'passkey' or 'none'"),
    "for what is allowed": (
        '[[rule]]\ntool = "x"\nverdict = "allow"\nsignature = "passkey"\n',
        "means nothing",
    ),
    "no model": ('[passkeys]\nmodels = ["YubiKey"]\n', "an AAGUID"),
    "too many days": ("[passkeys]\ndays = 4000\n", "write 3650 or less"),
    "alarm for whoever asked": ('[passkeys]\nalarm = ["requester"]\n', "people and groups only"),
    "an unknown way": ('[passkeys]\nenrol = "email"\n', "'countersigned' or 'self'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    """With the line and what to do."""
    text, why = BAD[name]
    assert any(why in each for each in problems(LEADS + text)), problems(LEADS + text)


def test_which_passkeys_count() -> None:
    """By default any, for a year, and others approve a new one."""
    assert parse(LEADS).passkeys == PasskeyTerms()
    model = "ee882879-721c-4913-9775-3dfcce97072a"
    maker = 'roots = "-----BEGIN CERTIFICATE-----"'
    terms = parse(
        f'[passkeys]\nenrol = "self"\nmodels = ["{model}"]\n{maker}\ndays = 0\n'
        'alarm = ["guards"]\n[approvers]\nguards = ["@security"]\n' + LEADS
    ).passkeys
    assert (terms.enrol, terms.days) == ("self", 0)
    assert terms.alarm == Approvers(groups=("security",))
    assert terms.allows_model(model, attested=True)
    assert not terms.allows_model(model, attested=False)
    assert not terms.allows_model("0" * 8, attested=True)


def test_nothing_is_remembered_where_a_signature_is_asked_for() -> None:
    """Also not by the defaults' offers, or where a rule adds it."""
    for more in ('remember = [{}]\nsignature = "passkey"\n', "remember = [{}]\n" + ADD):
        text = LEADS + more + ('signature = "passkey"\n' if ADD in more else "")
        gate = parse(text).get_gate(facts())
        assert isinstance(gate, Ask)
        assert (gate.remember, gate.once, gate.wants_signature) == ((), None, True)


def test_a_policy_without_signatures_means_what_it_meant() -> None:
    """Its digest, its rules' digests and its gates are those of earlier builds."""
    text = LEADS + PAY + STAGES.replace(', signature = "%s"', "")
    policy = parse(text)
    gate = policy.get_gate(facts())
    assert isinstance(gate, Ask)
    assert "signature" not in dump_gate(gate)
    assert "signature" not in policy.model_dump_json(exclude={"passkeys"})
    assert (
        policy.digest
        == parse("[passkeys]\n" + LEADS + PAY + STAGES.replace(', signature = "%s"', "")).digest
    )
    assert policy.digest != parse("[passkeys]\ndays = 9\n" + LEADS).digest


def signed_everywhere(gate: Ask) -> Ask:
    stages = tuple(each.model_copy(update={"signature": "passkey"}) for each in gate.stages)
    return gate.model_copy(update={"stages": stages})


def sign(votes: list[Ballot]) -> list[Ballot]:
    return [replace(each, is_signed=True) for each in votes]


@given(asks, ballots)
def test_signed_votes_count_as_others_do(gate: Ask, votes: list[Ballot]) -> None:
    """Where all are signed, it makes no difference that they have to be."""
    assert tally_ballots(signed_everywhere(gate), sign(votes)) == tally_ballots(gate, votes)


@given(asks, ballots, st.integers(0, 3))
def test_votes_that_nobody_has_signed_do_not_count(gate: Ask, votes: list[Ballot], at: int) -> None:
    """Not in the stages that ask for it; rejections count ever."""
    stages = list(gate.stages)
    at %= len(stages)
    stages[at] = stages[at].model_copy(update={"signature": "passkey"})
    asked = gate.model_copy(update={"stages": tuple(stages)})
    found = tally_ballots(asked, votes)
    assert found.approved[at] == ()
    assert found.outcome is not VoteOutcome.APPROVED
    assert found.rejected == tally_ballots(asked, sign(votes)).rejected or found.rejected


@given(asks, asks)
def test_two_gates_ask_for_what_either_asks_for(shown: Ask, now: Ask) -> None:
    """In the order that they are met in."""
    both = combine_gates(signed_everywhere(shown), now)
    assert both.wants_signature
    assert all(stage.signature for stage in both.stages[: len(shown.stages)])
    assert load_gate(dump_gate(both)) == both


def test_breaking_glass_has_to_be_signed() -> None:
    """Where any stage asks for signatures."""
    gate = parse(SIGNED + 'break_glass = ["U0123"]\n').get_gate(facts())
    assert isinstance(gate, Ask)
    alone = replace(ballot("A", 0), verb=CallVerb.BREAK_GLASS)
    assert tally_ballots(gate, [alone]).outcome is VoteOutcome.OPEN
    assert tally_ballots(gate, sign([alone])).outcome is VoteOutcome.APPROVED
