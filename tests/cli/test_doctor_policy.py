"""`countersign doctor` on a policy: useless rules, people who cannot decide, public channels."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.checks.check import CheckResult
from bot.checks.people_checks import check_names_used_in_policy, count_requests_by_rule
from bot.checks.slack import SignInAnswer, build_retrying_client, sign_in_to_slack
from bot.cli.doctor.checks import check_rules_against_tools
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.evaluation import PolicyError, parse
from bot.policy.gates import dump_gate
from slack_sandbox.server import Sandbox
from storage import moves
from storage.calls import insert_plan
from storage.models import Call, Plan, Run
from storage.states import CallStatus
from storage.store import ReadOnlyStore, Store

DEFAULTS = '[defaults]\napprovers = ["@shop-leads", "UDAN00001"]\n'


def check_rule(settings: Settings, rule: str) -> list[str]:
    """List the lines about this one rule, checked against the tools."""
    policy = parse(f'{DEFAULTS}[[rule]]\nname = "r"\nverdict = "ask"\n{rule}\n')
    return [str(each) for each in check_rules_against_tools(settings, policy)]


def check_people(settings: Settings, policy: str) -> dict[str, list[CheckResult]]:
    """Check a policy against Slack and the record, and map the results by subject."""
    found: dict[str, list[CheckResult]] = {}
    usual = count_requests_by_rule(ReadOnlyStore(settings.database_url), datetime.now(UTC))
    signed_in = sign_in_to_slack(build_retrying_client(settings), SystemClock())
    assert isinstance(signed_in, SignInAnswer)
    for each in check_names_used_in_policy(parse(policy), signed_in.workspace, usual):
        found.setdefault(each.subject, []).append(each)
    return found


@pytest.mark.parametrize(
    ("rule", "level", "said"),
    [
        (
            'tool = "refund_ordr"',
            "warn",
            "matches no tool (refund_ordr). Unless programs ask for it, correct",
        ),
        (
            'tool = ["refund_order", "refund_ordr*"]',
            "warn",
            "its pattern refund_ordr* matches no tool. Correct the pattern, or remove it "
            "(did you mean",
        ),
        (
            'tool = "refund_order"\neffect = "destructive"',
            "warn",
            "matches no call: refund_order have other effects",
        ),
        ('tool = "refund_order"\nwhen = "args.amuont > 5.0"', "fail", "they lack amuont"),
        (
            'tool = "refund_order"\nwhen = \'args["amuont"] > 5.0\'',
            "fail",
            "(did you mean amount?)",
        ),
        (
            'when = "args.amount > 5.0"',
            "warn",
            "look_up_order lacks amount",
        ),
        (
            'tool = "refund_order"\nwhen = \'count("refunds", "1h") > 1\'',
            "fail",
            "sums up refunds, which is no tool",
        ),
        (
            'tool = "refund_order"\nwhen = \'spent("refund_order", "sum", "1h") > 1.0\'',
            "fail",
            "it sums up sum, which refund_order lacks",
        ),
        (
            'tool = "refund_order"\neditable = ["amuont"]',
            "warn",
            "the field amuont, which no tool it is about has",
        ),
        (
            'tool = "refund_order"\nremember = [{fields = ["orderid"]}]',
            "warn",
            "(did you mean order_id?)",
        ),
    ],
)
def test_a_rule_that_fits_no_tool_or_field_is_reported(
    settings: Settings, rule: str, level: str, said: str
) -> None:
    """The output suggests what is meant."""
    [line] = check_rule(settings, rule)
    assert line.startswith(f"{level:<4}  rule 'r': ")
    assert said in line


@pytest.mark.parametrize(
    "rule",
    [
        'tool = "refund_*"\n'
        'when = \'args.amount > 5.0 && spent("refund_order", "amount", "1d") > 9.0\'',
        'when = "has(args.amount) && args.amount > 5.0"',
        'effect = "destructive"',
        'tool = "schedule_message"\nwhen = "args.at > now || args.at <= now"',
        'tool = "change_address"\n'
        "when = 'args.address.country == \"France\" && args.notify && now.getHours() > 8'",
        'tool = "invite"\n'
        "when = 'args.people.exists(p, p == requester) || requester in groups.finance'",
        'tool = "refund_order"\neditable = ["amount"]\nremember = [{fields = ["order_id"]}]',
        'tool = "post_message"\nwhen = "args.channel == channels.support"',
        'tool = "post_message"\nwhen = "args.channel in [channels.support, channels.random]"',
        'when = "channel == channels.support || requester == people.ana"',
        'tool = "invite"\nwhen = "args.people.exists(p, p == people.ana || p == requester)"',
        'tool = "refund_order"\n'
        'when = \'args.amount / (spent("refund_order", "amount", "1d") - 1) > 2.0\'',
    ],
)
def test_a_rule_that_fits_tools_and_fields_is_fine(settings: Settings, rule: str) -> None:
    """Fields may be missing in some tools if the condition uses has()."""
    [line] = check_rule(settings, rule)
    assert line.startswith("ok    rules: ")


def test_conditions_on_recursive_arguments_can_be_checked(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check makes up values for a tree of arguments with aliases."""
    code = """
from pydantic import BaseModel, Field
from bot.tools import Effect, tool
class Branch(BaseModel):
    size: int = Field(alias="Size")
    branches: list["Branch"] = []
@tool(title="Grow", effect="Grow", does=Effect.WRITE)
def grow(args: Branch, context: object) -> str:
    return ""
"""
    (tmp_path / "tree_tools.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    trees = settings.model_copy(update={"tool_modules": ("tree_tools",)})
    [line] = check_rule(
        trees, 'tool = "grow"\nwhen = "args.size > 5 && args.branches.exists(b, b.size > 3)"'
    )
    assert line.startswith("ok    rules: ")
    [line] = check_rule(trees, 'tool = "grow"\nwhen = "args.size == 1 && args.branches > 3"')
    assert line.startswith("warn  rule 'r': its condition could not be evaluated")


def test_rules_are_not_checked_if_tools_cannot_be_loaded(settings: Settings) -> None:
    """The operator's own module is missing; that is a warning."""
    broken = settings.model_copy(update={"tool_modules": ("no_such_module",)})
    [line] = check_rule(broken, 'tool = "refund_ordr"')
    assert line.startswith("warn  rules: not checked")


def test_a_quorum_that_cannot_be_reached_fails(settings: Settings) -> None:
    """So do stages that need one person twice, unless an escalation adds others."""
    found = check_people(settings, '[defaults]\napprovers = ["@shop-leads"]\nquorum = 3\n')
    assert "needs 3 to approve in 1 step, but only 2 can" in found["rule 'default'"][0].text
    steps = '[defaults]\nstages = [{approvers = ["UCLEO0001"]}, {approvers = ["@finance"]}]\n'
    [check] = check_people(settings, steps)["rule 'default'"]
    assert (check.level, "only 1 can" in check.text) == ("fail", True)
    helped = check_people(
        settings,
        f'{steps}escalation = [{{after = "1m", approvers = ["UANA00001", "UDAN00001"]}}]\n',
    )
    assert "rule 'default'" not in helped


def test_a_quorum_of_all_approvers_is_a_warning(settings: Settings) -> None:
    """None of them could have a request of their own approved."""
    [check] = check_people(settings, '[defaults]\napprovers = ["@shop-leads"]\nquorum = 2\n')[
        "rule 'default'"
    ]
    assert check.level == "warn"
    assert "too few others can approve what UANA00001, UCLEO0001 ask for" in check.text


def test_people_in_escalations_are_checked(settings: Settings) -> None:
    """They are looked up like other approvers."""
    found = check_people(
        settings,
        f'{DEFAULTS}escalation = [{{after = "1m", approvers = ["@nobody", "UGUS00001"]}}]\n',
    )
    assert [found[each][0].level for each in ("approvers @nobody", "approver UGUS00001")] == [
        "fail",
        "fail",
    ]


def test_groups_and_channels_in_conditions_must_exist(settings: Settings) -> None:
    """Otherwise nobody could say whether the rule applies."""
    found = check_people(
        settings,
        f"""{DEFAULTS}
[[rule]]
name = "a"
verdict = "ask"
requester = "@no-such-group"
channel = "#nowhere"
[[rule]]
name = "b"
verdict = "ask"
when = "requester in groups.nobody || requester in groups.finance"
""",
    )
    levels = {about: checks[0].level for about, checks in found.items()}
    assert levels["group @no-such-group"] == levels["channel #nowhere"] == "fail"
    assert (levels["group @nobody"], levels["group @finance"]) == ("warn", "ok")


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("", "anybody can join a public channel"),
        ('channel = "#support"', "the members of #support may decide, and anybody can join"),
        ('channel = ["C0FINANCE", "C0GENERAL"]', "the members of C0GENERAL may decide"),
        ('channel = "C0FINANCE"', ""),
    ],
)
def test_approval_by_a_public_channel_is_a_warning(
    settings: Settings, channel: str, said: str
) -> None:
    """Anybody can join a public channel; a private one is fine."""
    rule = f'[[rule]]\nname = "r"\nverdict = "ask"\napprovers = ["channel"]\n{channel}\n'
    checks = check_people(settings, DEFAULTS + rule).get("rule 'r'", [])
    assert [(each.level, said in each.text) for each in checks] == (
        [("warn", True)] if said else []
    )


def record_calls(settings: Settings, requester: str, times: int, days: int = 1) -> None:
    """Record calls under the default rule."""
    at = datetime.now(UTC) - timedelta(days=days)
    gate = parse(DEFAULTS).default
    assert gate is not None
    store = Store(settings.database_url).open()
    with store.write() as tx:
        run = Run(
            team="T0SANDBOX",
            channel="C0SUPPORT",
            thread_ts=f"{requester}{days}",
            requester=requester,
            created_at=at,
            updated_at=at,
        )
        moves.insert_run(tx, run, at=at)
        plan = Plan(run_id=run.id, turn=1, created_at=at)
        insert_plan(tx, plan)
        for position in range(times):
            call = Call(
                run_id=run.id,
                plan_id=plan.id,
                position=position,
                provider_id=f"c{position}",
                tool="refund_order",
                status=CallStatus.PENDING,
                gate=dump_gate(gate),
                created_at=at,
            )
            moves.insert_call(tx, call, at=at, actor="policy")
    store.close()


def test_a_single_approver_who_asks_for_most_is_named(settings: Settings) -> None:
    """The numbers are from the record of the last 30 days."""
    alone = '[defaults]\napprovers = ["UCLEO0001"]\n'
    assert "only UCLEO0001 may decide" in check_people(settings, alone)["rule 'default'"][0].text
    record_calls(settings, "UCLEO0001", 3)
    record_calls(settings, "UBEN00001", 2)
    record_calls(settings, "UBEN00001", 9, days=40)
    text = check_people(settings, alone)["rule 'default'"][0].text
    assert "UCLEO0001 asked for 3 of the 5 calls under it in 30 days" in text
    record_calls(settings, "UBEN00001", 1, days=2)
    assert "only UCLEO0001 may decide" in check_people(settings, alone)["rule 'default'"][0].text
    assert "rule 'default'" not in check_people(settings, DEFAULTS)


@pytest.mark.parametrize(
    ("policy", "level", "names"),
    [
        ('tool = "*"\nverdict = "allow"', "warn", "post_message, refund_order"),
        ('tool = "refund_*"\nverdict = "allow"', "warn", "approval: refund_order."),
        ('effect = "write"\nverdict = "allow"', "warn", "refund_order"),
        ('tool = "set_topic"\nverdict = "allow"', "ok", "as the rule names them: set_topic"),
        ('effect = "read"\nverdict = "allow"', "", ""),
        ('tool = "*"\nverdict = "ask"', "", ""),
    ],
)
def test_tools_that_a_rule_lets_run_without_approval_are_listed(
    settings: Settings, policy: str, level: str, names: str
) -> None:
    """It is a warning unless the rule names the tool. Reads are not listed."""
    found = [
        str(each)
        for each in check_rules_against_tools(
            settings, parse(f'{DEFAULTS}[[rule]]\nname = "r"\n{policy}\n')
        )
        if "run without approval" in each.text
    ]
    assert len(found) == bool(level)
    assert all(each.startswith(f"{level:<4}  rule 'r': ") and names in each for each in found)


@pytest.mark.parametrize(
    "stricter",
    [
        'tool = "refund_*"\nverdict = "deny"\nreason = "No."',
        'tool = "refund_*"\nverdict = "add"\napprovers = ["@finance"]',
    ],
)
def test_tools_that_another_rule_makes_stricter_are_not_listed(
    settings: Settings, stricter: str
) -> None:
    """The other rule denies them, or adds approvers."""
    policy = f'{DEFAULTS}[[rule]]\nname = "all"\nverdict = "allow"\ntool = "*"\n'
    policy += f'[[rule]]\nname = "s"\n{stricter}\n'
    [told] = [
        each
        for each in check_rules_against_tools(settings, parse(policy))
        if "run without approval" in each.text
    ]
    assert "set_topic" in told.text
    assert "refund_order" not in told.text


OWNED = """
[owners.{field}]
late = ["@shop-leads"]

[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "r"
tool = ["refund_order", "cancel_order"]
verdict = "ask"
approvers = ["owner of args.{field}"]
"""


def test_a_tool_without_the_owners_field_fails(settings: Settings) -> None:
    """Nobody could decide its calls."""
    found = [
        str(each)
        for each in check_rules_against_tools(settings, parse(OWNED.format(field="amount")))
    ]
    assert [each for each in found if "owner of" in each] == [
        "fail  rule 'r': it asks the owner of args.amount, which cancel_order lacks."
        " Nobody could decide: correct the field, or name the tools that have it"
    ]


def test_choices_without_an_owner_are_reported(settings: Settings) -> None:
    """The field has a fixed list of values."""
    policy = parse(OWNED.format(field="reason").replace(', "cancel_order"', ""))
    found = [str(each) for each in check_rules_against_tools(settings, policy)]
    text = "nobody owns damaged, goodwill, other, wrong_item, a possible reason of refund_order"
    assert f"warn  rule 'r': {text}. Nobody could decide about them: name owners in" in found[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("tests.stories.owner_functions:find_owner", "ok    owners of reason: "),
        ("tests.stories.owner_functions:find_ownr", "fail  owners of reason: tests.stories.owner_"),
        ("tests.stories.owner_functions:released", "fail  owners of reason: tests.stories.owner_"),
    ],
)
def test_a_function_that_finds_owners_is_checked_by_importing_it(
    settings: Settings, function: str, said: str
) -> None:
    """Choices without an owner are not reported, as the function may know them."""
    text = OWNED.format(field="reason").replace(', "cancel_order"', "")
    policy = parse(text.replace("late =", f'function = "{function}"\nlate ='))
    found = [str(each) for each in check_rules_against_tools(settings, policy)]
    assert any(each.startswith(said) for each in found), found
    assert not any("nobody owns" in each for each in found)


@pytest.mark.parametrize(
    ("manager", "said"),
    [
        ("ana", "ok    manager: 1 of 2 recent requesters have one"),
        (
            "",
            "fail  manager: none of 2 recent requesters has a person in the profile field",
        ),
    ],
)
def test_the_managers_of_recent_requesters_are_counted(
    settings: Settings, slack: Sandbox, manager: str, said: str
) -> None:
    """If none of them has one, the profile field is probably wrong."""
    slack.person("ben").set_manager(*filter(None, [manager]))
    policy = parse(
        f'[manager]\nfield = "Manager"\n{DEFAULTS}[[rule]]\nname = "r"\nverdict = "ask"\n'
        'approvers = ["manager of requester"]\n'
    )
    signed_in = sign_in_to_slack(build_retrying_client(settings), SystemClock())
    assert isinstance(signed_in, SignInAnswer)
    usual = {"r": Counter({"UBEN00001": 3, "UCLEO0001": 1})}
    found = [str(e) for e in check_names_used_in_policy(policy, signed_in.workspace, usual)]
    slack.person("ben").set_manager()
    assert any(each.startswith(said) for each in found), found
    assert not any("rule 'r'" in each for each in found)  # the manager depends on the requester


def test_break_glass_for_all_approvers_is_a_warning(settings: Settings) -> None:
    """Nobody would be left to review it. The same people may be named or found in Slack."""
    found = check_rule(settings, 'break_glass = ["@shop-leads", "UDAN00001"]')
    assert any("all its approvers may break glass" in each for each in found)
    assert not any(
        "break glass" in each for each in check_rule(settings, 'break_glass = ["@finance"]')
    )
    alike = f'{DEFAULTS}break_glass = ["UANA00001", "UCLEO0001", "UDAN00001"]\n'
    said = [str(each) for results in check_people(settings, alike).values() for each in results]
    assert any("all its approvers may break glass" in each for each in said)


def test_an_empty_break_glass_is_refused() -> None:
    """In [defaults] and in rules; so is any break_glass in a rule that adds."""
    for policy in (
        f"{DEFAULTS}break_glass = []\n",
        f'{DEFAULTS}[[rule]]\nverdict = "ask"\nbreak_glass = []\n',
        f'{DEFAULTS}[[rule]]\nverdict = "add"\nquorum = 2\nbreak_glass = ["UDAN00001"]\n',
    ):
        with pytest.raises(PolicyError, match="break_glass"):
            parse(policy)
