"""`countersign policy suggest`: the rules that recorded decisions suggest, and why not others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Judgement, Policy, parse
from bot.policy.gates import Allow, Ask
from countersign.cli.commands import main
from storage.states import CallStatus, CallVerb
from tests.explain.decided import ANA, BEN, CLEO, Decided, asked_by, write_decided
from tests.records import settings_of, store_of
from tests.storage.builders import AT

DEFAULTS = '[defaults]\napprovers = ["@shop-leads"]\n'
REFUNDS = f"""{DEFAULTS}
[[rule]]
name = "refunds"
tool = "refund_*"
channel = "C0SUPPORT"
verdict = "ask"
deadline = "4h"
"""
APPROVE, REJECT = CallVerb.APPROVE, CallVerb.REJECT
REJECTED = {"status": CallStatus.REJECTED, "votes": ((CLEO, REJECT, 30),)}
Suggest = Callable[[str, Sequence[Decided]], str]


def make_refund(amount: float, who: str = ANA, day: int = 0, **changed: Any) -> Decided:
    """Make a refund of this amount that somebody approved after a minute."""
    given = {"order_id": 1042, "amount": f"{amount}", "reason": "late", "note": None}
    votes = ((who, APPROVE, 60),)
    at, gate = AT + timedelta(days=day), asked_by("refunds")
    return replace(Decided("refund_order", given, votes=votes, at=at, gate=gate), **changed)


def make_twenty_refunds(**changed: Any) -> list[Decided]:
    """Make refunds of 10 to 29, approved by Ana and Cleo in turn, one a day."""
    return [make_refund(10 + n, (ANA, CLEO)[n % 2], n, **changed) for n in range(20)]


@pytest.fixture
def suggest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Suggest:
    """A function that writes a policy and a record, runs the command and returns the output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login_tools.py").write_text(
        "from tests.stories.fakes import FakeTools\nlogin = FakeTools().tools[5]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    set_ = {"COUNTERSIGN_POLICY": "policy.toml", "COUNTERSIGN_SHOP": str(tmp_path / "shop.db")}
    monkeypatch.delenv("SLACK_BOT_TOKEN", raising=False)
    for name, value in (set_ | {"COUNTERSIGN_TOOLS": "login_tools"}).items():
        monkeypatch.setenv(name, value)

    def run(policy: str, calls: Sequence[Decided]) -> str:
        path = tmp_path / "record.db"
        for name, value in settings_of(path).items():
            monkeypatch.setenv(name, value)
        store = store_of(path)
        store.open()
        write_decided(store, calls)
        store.close()
        Path("policy.toml").write_text(policy)
        assert main(["policy", "suggest", "--since", "9999d"]) == 0
        told = capsys.readouterr().out
        Path("suggested.toml").write_text(told)
        assert main(["policy", "check", "--policy", "suggested.toml"]) == 0, capsys.readouterr()
        assert Path("policy.toml").read_text() == policy
        capsys.readouterr()
        return told

    return run


def test_amounts_that_were_always_approved_are_suggested_to_run(
    suggest: Suggest, capsys: pytest.CaptureFixture[str]
) -> None:
    """The suggested rule comes with its evidence, its place and its effect on past calls."""
    told = suggest(REFUNDS, [*make_twenty_refunds(), make_refund(40, **REJECTED), make_refund(50)])
    [rule] = parse(told).rules
    assert (rule.tools, rule.effects, rule.channels) == (
        ("refund_order",),
        ("write",),
        ("C0SUPPORT",),
    )
    assert rule.when == 'args.amount >= 0 && args.amount <= 29 && args.reason in ["late"]'
    assert isinstance(rule.gate, Allow)
    assert "# 20 calls, amount 10 to 29; decided by 2 people from 2026-03-02 to 2026-03-21." in told
    assert "# Would have run unasked: 20 calls (Refund 29.00 EUR of order 1042;" in told
    assert "Would have been refused: nothing. Not limited by it: note, order_id." in told
    assert "# It belongs above the rule 'refunds'." in told
    cases = [
        f"""
[[case]]
name = "{amount}"
tool = "refund_order"
requester = "{BEN}"
channel = "C0SUPPORT"
at = 2026-03-02T12:00:00Z
args = {{order_id = 1042, amount = "{amount}", reason = "late"}}
expect = "{expected}"
"""
        for amount, expected in (("29.00", "allow"), ("29.01", "ask"))
    ]
    Path("cases.toml").write_text("".join(cases))
    assert main(["policy", "test", "cases.toml", "--policy", "suggested.toml"]) == 0
    assert "2 ok, 0 wrong" in capsys.readouterr().out


WHOLE = """
[approvers]
money = ["@shop-leads"]

[conditions]
large = "args.amount > 5.0"

[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:00"
calendar = "DE"

[freezes]
new_year = { from = 2026-12-19, to = 2027-01-03 }
easter = { from = 2027-03-26, to = 2027-03-29 }

[owners.order_id]
1042 = ["money"]

[[rule]]
name = "refunds"
tool = "refund_*"
when = "conditions.large && !freezes.new_year"
verdict = "ask"
approvers = ["money"]
business_hours = true

[[rule]]
name = "frozen"
when = "freezes.easter"
verdict = "deny"
reason = "It is Easter."

[[rule]]
name = "rest"
verdict = "ask"
approvers = ["owner of args.order_id", "money"]
"""


def test_a_suggestion_has_all_that_it_needs_of_the_policy(suggest: Suggest) -> None:
    """Names are replaced; parts of the policy that it does not need are left out."""
    told = suggest(WHOLE, make_twenty_refunds())
    [rule] = parse(told).rules
    assert rule.when.startswith("((args.amount > 5.0) && !freezes.new_year) && args.amount >= 0")
    assert "new_year" in told
    assert "easter" not in told
    assert "zone" in told  # the freeze uses the zone of the hours
    assert parse(told).default


def test_one_approver_over_more_than_a_month_is_enough(suggest: Suggest) -> None:
    """Within thirty days it takes two approvers."""
    alone = [make_refund(10 + n, ANA, 2 * n) for n in range(20)]
    assert 'verdict = "allow"' in suggest(REFUNDS, alone)


CANCEL = {"order_id": 1042, "reason": "asked for", "restock": True}
STRICT = f'{REFUNDS}\n[[rule]]\nname = "all"\nverdict = "add"\napprovers = ["@finance"]\n'
SUM = REFUNDS.replace(
    "verdict",
    'when = \'spent("refund_order", "amount", "24h") + args.amount > 0.0\'\nverdict',
)


@pytest.mark.parametrize(
    ("policy", "calls", "why"),
    [
        (REFUNDS, make_twenty_refunds()[:19], "19 calls were approved unchanged, and it takes 20"),
        (
            REFUNDS,
            [make_refund(10, day=n) for n in range(20)],
            "one person approved all, within 30 days",
        ),
        (
            REFUNDS,
            [*make_twenty_refunds(), make_refund(15, **REJECTED)],
            "5 calls were approved unchanged below amount 15, which was not",
        ),
        (
            REFUNDS,
            [*make_twenty_refunds(), make_refund(9, editor=CLEO)],
            "0 calls were approved unchanged below",
        ),
        (
            REFUNDS,
            [*make_twenty_refunds(), make_refund(9, status=CallStatus.FAILED)],
            "below amount 9, which was",
        ),
        (
            REFUNDS,
            [*make_twenty_refunds(), make_refund(9, status=CallStatus.EXPIRED, votes=())],
            "below amount 9",
        ),
        (
            REFUNDS,
            [*make_twenty_refunds(), make_refund(9, **REJECTED, gate=asked_by("default"))],
            "it would have let through 1 call (Refund 9.00 EUR of order 1042)",
        ),
        (
            DEFAULTS,
            [
                make_refund(n, tool="cancel_order", arguments=CANCEL, does="destructive")
                for n in range(30)
            ],
            "what cannot be undone is always asked",
        ),
        (DEFAULTS, make_twenty_refunds(), "the policy has no such rule that asks"),
        (STRICT, make_twenty_refunds(), "another rule decides, or it is not known without Slack"),
        (SUM, make_twenty_refunds(), "another rule decides, or it is not known without Slack"),
    ],
)
def test_the_output_says_why_no_calls_are_suggested_to_run(
    suggest: Suggest, policy: str, calls: Sequence[Decided], why: str
) -> None:
    """It has the reason, and no rule that allows anything."""
    told = suggest(policy, calls)
    assert why in told
    assert 'verdict = "allow"' not in told


def test_remembering_is_suggested_for_a_call_approved_five_times(suggest: Suggest) -> None:
    """The approvals are for one person and the same call."""
    five = [make_refund(70, day=n) for n in range(5)]
    told = suggest(REFUNDS, [*five, make_refund(80, **REJECTED)])
    [rule] = parse(told).rules
    assert rule.requesters == (BEN,)
    assert isinstance(rule.gate, Ask)
    assert (rule.gate.deadline, rule.gate.remember[0].where) == (4 * 3600, "everywhere")
    assert "Would have run unasked, if saved: 4 calls (Refund 70.00 EUR of order 1042)." in told


@pytest.mark.parametrize(
    "calls", [4 * [make_refund(70)], [*5 * [make_refund(70)], make_refund(70, **REJECTED)]]
)
def test_remembering_is_not_suggested_after_fewer_or_a_rejection(
    suggest: Suggest, calls: Sequence[Decided]
) -> None:
    """The output says how many approvals it takes."""
    told = suggest(REFUNDS, calls)
    assert "no call was approved 5 times for one person and never otherwise" in told
    assert "[[rule]]" not in told


TWO = REFUNDS.replace('deadline = "4h"', "quorum = 2")
BOTH_APPROVE = ((ANA, APPROVE, 60), (CLEO, APPROVE, 90))
SECOND_REJECTS = {"status": CallStatus.REJECTED, "votes": ((ANA, APPROVE, 60), (CLEO, REJECT, 90))}
QUORUM_2 = {"gate": asked_by("refunds", 2)}


def test_fewer_approvers_are_suggested_if_the_second_never_differs(suggest: Suggest) -> None:
    """Rejections by the first approver do not matter."""
    first = make_refund(99, **QUORUM_2, **REJECTED)
    told = suggest(TWO, [*make_twenty_refunds(votes=BOTH_APPROVE, **QUORUM_2), first])
    fewer = next(rule for rule in parse(told).rules if rule.name.startswith("ask fewer"))
    assert isinstance(fewer.gate, Ask)
    assert fewer.gate.required_approvers == 1
    assert "Would have run after 1 of 2: 20 calls" in told


def test_fewer_approvers_are_not_suggested_if_the_second_differed(suggest: Suggest) -> None:
    """The output names the call that one approver would have let through."""
    told = suggest(
        TWO,
        [
            *make_twenty_refunds(votes=BOTH_APPROVE, **QUORUM_2),
            make_refund(99, **QUORUM_2, **SECOND_REJECTS),
        ],
    )
    assert "fewer would have let through 1 call (Refund 99.00 EUR of order 1042)" in told
    assert "ask fewer" not in told


def test_one_more_approver_is_suggested_after_many_rejections(suggest: Suggest) -> None:
    """Here 9 of 29 calls were rejected or edited."""
    bad = [make_refund(99, **REJECTED) for _ in range(5)] + [
        make_refund(98, editor=CLEO) for _ in range(4)
    ]
    told = suggest(REFUNDS, [*make_twenty_refunds(), *bad])
    more = next(rule for rule in parse(told).rules if rule.name.startswith("ask more"))
    assert isinstance(more.gate, Ask)
    assert more.gate.required_approvers == 2
    assert "5 rejected, 4 edited, of 29 decided" in told
    assert "Would have waited for one more person: 24 calls" in told


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([*make_twenty_refunds(), *[make_refund(99, **REJECTED)] * 8], ""),
        (
            [make_refund(10, CLEO, n, **(REJECTED if n % 2 else {})) for n in range(20)],
            "many were rejected or edited, but nobody else decides",
        ),
    ],
)
def test_one_more_approver_is_not_suggested_after_few_rejections(
    suggest: Suggest, calls: Sequence[Decided], why: str
) -> None:
    """Nor is it suggested if only one person decides."""
    told = suggest(REFUNDS, calls)
    assert "ask more" not in told
    assert why in told


def test_secrets_are_masked_in_suggestions(suggest: Suggest) -> None:
    """The call has a password."""
    given = {"account": "shop", "password": "hunter22"}
    told = suggest(DEFAULTS, 6 * [Decided("login", given, at=AT)])
    assert "Log in to shop with ••••••••" in told
    assert "hunter22" not in told


SMALL = REFUNDS.replace("verdict", "when = 'args.amount < 100.0'\nverdict", 1)
OWN = f"""{SMALL}
[[rule]]
name = "own"
when = 'args.all(name, name != "order") && requester != "U0"'
verdict = "ask"
"""


@pytest.mark.parametrize(("policy", "most"), [(SMALL, 20), (OWN, 400)])
def test_calls_that_no_rule_distinguishes_are_judged_once(
    suggest: Suggest, monkeypatch: pytest.MonkeyPatch, policy: str, most: int
) -> None:
    """400 refunds have 20 amounts; only a rule that reads all arguments needs all 400."""
    judged, judge_call = list[Facts](), Policy.judge_call

    def judge_and_count(policy: Policy, facts: Facts) -> Judgement:
        judged.append(facts)
        return judge_call(policy, facts)

    monkeypatch.setattr(Policy, "judge_call", judge_and_count)
    alike = [
        replace(each, arguments=each.arguments | {"order_id": order})
        for order in range(1, 21)
        for each in make_twenty_refunds()
    ]
    assert "Would have run unasked: 400 calls" in suggest(policy, alike)
    assert len(judged) == most


def test_calls_that_no_longer_fit_their_tool_are_left_out(suggest: Suggest) -> None:
    """One tool is gone, one call lacks arguments. The output counts them."""
    told = suggest(DEFAULTS, [Decided("gone", {}), Decided("refund_order", {"order_id": 1})])
    assert "Left out: 2 calls whose tool" in told


def test_without_decisions_nothing_is_suggested(suggest: Suggest) -> None:
    """The output is still a valid policy."""
    assert "[[rule]]" not in suggest(REFUNDS, [])
