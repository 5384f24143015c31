"""Signatures in a policy: where they are required, and that only signed approvals count there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, PasskeyTerms, combine_gates, dump_gate, load_gate
from bot.policy.tally import Ballot, tally_ballots
from storage.states import CallVerb, VoteOutcome
from tests.policy.builders import asks, ballots, list_problems, make_ballot, make_facts

LEADS = '[defaults]\napprovers = ["@leads"]\n'
SIGNED = LEADS + 'signature = "passkey"\n'
PAY = '[[rule]]\ntool = "refund_order"\nverdict = "ask"\n'


def list_signatures(text: str) -> list[str]:
    """What signature each stage of a refund requires."""
    gate = parse(text).get_gate(make_facts())
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
def test_signatures_are_required_by_defaults_rules_or_stages(name: str) -> None:
    """Rules that add may require them, too."""
    text, wanted = POLICIES[name]
    assert list_signatures(text) == wanted


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
def test_signature_settings_that_make_no_sense_are_refused(name: str) -> None:
    """The refusal says what to do."""
    text, why = BAD[name]
    assert any(why in each for each in list_problems(LEADS + text)), list_problems(LEADS + text)


def test_any_passkey_counts_for_a_year_by_default() -> None:
    """Another person approves a new one; [passkeys] can change all of it."""
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


def test_signed_approvals_are_not_remembered() -> None:
    """Neither the defaults' offers nor a signature that a rule adds change that."""
    for more in ('remember = [{}]\nsignature = "passkey"\n', "remember = [{}]\n" + ADD):
        text = LEADS + more + ('signature = "passkey"\n' if ADD in more else "")
        gate = parse(text).get_gate(make_facts())
        assert isinstance(gate, Ask)
        assert (gate.remember, gate.once, gate.wants_signature) == ((), None, True)


def test_a_policy_without_signatures_keeps_its_digests() -> None:
    """The texts of its gates stay the same as well."""
    text = LEADS + PAY + STAGES.replace(', signature = "%s"', "")
    policy = parse(text)
    gate = policy.get_gate(make_facts())
    assert isinstance(gate, Ask)
    assert "signature" not in dump_gate(gate)
    assert "signature" not in policy.model_dump_json(exclude={"passkeys"})
    assert (
        policy.digest
        == parse("[passkeys]\n" + LEADS + PAY + STAGES.replace(', signature = "%s"', "")).digest
    )
    assert policy.digest != parse("[passkeys]\ndays = 9\n" + LEADS).digest


def require_signatures(gate: Ask) -> Ask:
    stages = tuple(each.model_copy(update={"signature": "passkey"}) for each in gate.stages)
    return gate.model_copy(update={"stages": stages})


def sign_votes(votes: list[Ballot]) -> list[Ballot]:
    return [replace(each, is_signed=True) for each in votes]


@given(asks, ballots)
def test_signed_votes_count_like_unsigned_ones(gate: Ask, votes: list[Ballot]) -> None:
    """Where all are signed, the requirement makes no difference."""
    assert tally_ballots(require_signatures(gate), sign_votes(votes)) == tally_ballots(gate, votes)


@given(asks, ballots, st.integers(0, 3))
def test_unsigned_approvals_do_not_count_where_required(
    gate: Ask, votes: list[Ballot], at: int
) -> None:
    """Rejections always count."""
    stages = list(gate.stages)
    at %= len(stages)
    stages[at] = stages[at].model_copy(update={"signature": "passkey"})
    asked = gate.model_copy(update={"stages": tuple(stages)})
    found = tally_ballots(asked, votes)
    assert found.approved[at] == ()
    assert found.outcome is not VoteOutcome.APPROVED
    assert found.rejected == tally_ballots(asked, sign_votes(votes)).rejected or found.rejected


@given(asks, asks)
def test_combined_gates_require_the_signatures_of_either(shown: Ask, now: Ask) -> None:
    """Stages stay in their order."""
    both = combine_gates(require_signatures(shown), now)
    assert both.wants_signature
    assert all(stage.signature for stage in both.stages[: len(shown.stages)])
    assert load_gate(dump_gate(both)) == both


def test_break_glass_must_be_signed_if_any_stage_requires_it() -> None:
    """It does not count unsigned."""
    gate = parse(SIGNED + 'break_glass = ["U0123"]\n').get_gate(make_facts())
    assert isinstance(gate, Ask)
    alone = replace(make_ballot("A", 0), verb=CallVerb.BREAK_GLASS)
    assert tally_ballots(gate, [alone]).outcome is VoteOutcome.OPEN
    assert tally_ballots(gate, sign_votes([alone])).outcome is VoteOutcome.APPROVED
