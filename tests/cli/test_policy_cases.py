"""`countersign policy test` and `policy check`, as in CI: without Slack, tokens or a record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.policy.policy_file import ASK_KEYS
from countersign.cli.commands import main
from tests.pages import ROOT, blocks_in, section
from tests.policy.recipes import RECIPES

POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "full days"
tool = "refund_order"
when = 'spent("refund_order", "amount", "24h") + args.amount > 500.0'
verdict = "ask"
approvers = ["@finance"]
deadline = "4h"

[[rule]]
name = "contractors"
requester = "@contractors"
effect = "write"
verdict = "add"
approvers = ["@staff"]

[[rule]]
name = "small refunds"
tool = "refund_order"
when = "args.amount <= 50.0"
verdict = "allow"

[[rule]]
name = "late wipes"
tool = "wipe"
when = 'channel == channels.ops && client == "" && now.getHours("Europe/Berlin") >= 20'
verdict = "deny"
reason = "Not by night."
"""
FACTS = """
at = 2026-11-24T12:00:00Z

[people]
ben = "UBEN00001"
dan = "UDAN00001"

[groups]
contractors = ["@dan"]

[channels]
ops = "C0OPS0001"

[[tool]]
name = "wipe"
effect = "destructive"
"""
REFUND = 'tool = "refund_order"\nargs = { order_id = 1042, amount = "%s", reason = "late" }\n'
BEN = 'requester = "@ben"\n'
EARLIER = '{ tool = "refund_order", args = { order_id = 7, amount = "460.00", reason = "late" }, '
CASES = f"""{FACTS}
[[case]]
name = "small refunds run"
{REFUND % "50.00"}{BEN}expect = "allow"
rule = "small refunds"

[[case]]
name = "others ask the leads"
{REFUND % "50.01"}{BEN}expect = "ask"
rule = "default"
approvers = ["@shop-leads"]
quorum = 1
deadline = "1h"
self_approval = false

[[case]]
name = "more than 500 a day asks finance"
{REFUND % "41.00"}{BEN}earlier = [{EARLIER}ago = "23h" }}]
expect = "ask"
approvers = ["@finance"]

[[case]]
name = "long ago, or somebody else's, does not count"
{REFUND % "41.00"}{BEN}earlier = [
  {EARLIER}ago = "1d" }},
  {EARLIER}ago = "1h", requester = "@dan" }},
]
expect = "allow"

[[case]]
name = "contractors ask staff"
{REFUND % "1.00"}requester = "@dan"
expect = "ask"
approvers = ["@staff"]

[[case]]
name = "no wipe by night"
tool = "wipe"
{BEN}channel = "#ops"
at = 2026-11-24T21:00:00+01:00
expect = "deny"
reason = "Not by night."

[[case]]
name = "a wipe by day"
tool = "wipe"
requester = "UBEN00001"
channel = "#ops"
at = 2026-11-24T19:59:00+01:00
expect = "ask"
"""
Ended = tuple[int, str, str]


@pytest.fixture
def run_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """A function that runs `policy …` with two files; returns the exit code and the output.

    Slack and the record cannot be reached.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "OPENAI_API_KEY", "COUNTERSIGN_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNTERSIGN_SHOP", "shop.db")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:x@127.0.0.1:1/none")
    monkeypatch.setenv("SLACK_API_URL", "http://127.0.0.1:1/api/")

    def run(words: str, policy: str = POLICY, cases: str = CASES) -> Ended:
        Path("policy.toml").write_text(policy)
        Path("cases.toml").write_text(cases)
        code = main(["policy", *words.split(), "--policy", "policy.toml"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


TEST_COMMAND = "test cases.toml"


def test_a_policy_passes_if_all_cases_are_as_expected(
    run_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is not needed, and not used."""
    code, out, _ = run_command(TEST_COMMAND)
    assert (code, out.count("ok   ")) == (0, 7), out
    assert out.splitlines()[-1].startswith("7 ok, 0 wrong; policy.toml, ")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    assert run_command(TEST_COMMAND)[:2] == (code, out)


def test_an_edit_that_loosens_a_rule_fails_a_case(run_command: Callable[..., Ended]) -> None:
    """The output has the case with its line, both verdicts, and the rule."""
    code, out, _ = run_command(TEST_COMMAND, POLICY.replace("<= 50.0", "<= 5000.0"))
    assert code == 1
    line = CASES.splitlines().index('name = "others ask the leads"')
    assert f"WRONG others ask the leads (cases.toml:{line})" in out
    assert "expected ask, and policy says allow" in out
    assert "It runs without asking, by the rule small refunds." in out
    assert "• small refunds applies: its condition is true: args.amount <= 5000.0" in out
    assert "6 ok, 1 wrong" in out


@pytest.mark.parametrize(
    ("was", "now", "key", "expected", "said"),
    [
        ('"@shop-leads"]', '"@shop-leads", "channel"]', "approvers", "@shop-leads", "channel"),
        ('"@shop-leads"]', '"@shop-leads"]\nquorum = 2', "quorum", "1", "2"),
        ('"@shop-leads"]', '"@shop-leads"]\ndeadline = "2d"', "deadline", "1 hour", "2 days"),
        ('"@shop-leads"]', '"@a"]\nself_approval = true', "self_approval", "false", "true"),
    ],
)
def test_each_term_of_an_expected_approval_is_compared(
    run_command: Callable[..., Ended], was: str, now: str, key: str, expected: str, said: str
) -> None:
    """People are still asked, but on other terms."""
    code, out, _ = run_command(TEST_COMMAND, POLICY.replace(was, now))
    assert code == 1
    [line] = [each for each in out.splitlines() if each.startswith(f"      {key}: ")]
    assert line.startswith(f"      {key}: expected {expected}, and policy says ")
    assert line.endswith(said)


OTHER = {  # for each key a value that the default rule does not have
    "approvers": '["@others"]',
    "quorum": "3",
    "silent": '["@others"]',
    "stages": '[{ approvers = ["@shop-leads"], quorum = 2 }]',
    "any_order": "true",
    "veto": "2",
    "post_to": '"approvers"',
    "deadline": '"2h"',
    "business_hours": "true",
    "good_for": '"1h"',
    "run_at": '"22:00 UTC"',
    "signature": '"passkey"',
    "reminders": '["10m"]',
    "escalation": '[{ after = "10m", approvers = ["@others"] }]',
    "urgent": "true",
    "self_approval": "true",
    "editors": '"nobody"',
    "editor_counts": "true",
    "editable": '["amount"]',
    "reasons": '"always"',
    "break_glass": '["@others"]',
    "remember": "[{ uses = 3 }]",
    "rule": '"other"',
    "added": '["other"]',
}


def test_every_key_of_a_rule_that_asks_can_be_expected() -> None:
    """The table above has all of them."""
    assert set(OTHER) == ASK_KEYS | {"rule", "added"}


@pytest.mark.parametrize("key", OTHER)
def test_every_expected_key_is_compared(run_command: Callable[..., Ended], key: str) -> None:
    """A case that expects another value is wrong."""
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\n{key} = {OTHER[key]}\n'
    code, out, _ = run_command(TEST_COMMAND, cases=FACTS + case)
    assert (code, f"      {key}: expected " in out) == (1, True), out


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("quorum = 1", "quorums = 1", "case 2 quorums: unknown key (did you mean quorum?)"),
        ('name = "wipe"\n', 'name = "wipe"\nrisks = "low"\n', "unknown key (did you mean risk?)"),
        ("[people]", "[peoples]", "unknown key (did you mean people?)"),
        ('ago = "23h"', 'agos = "23h"', "unknown key (did you mean ago?)"),
        ("amount =", "amont =", "refund_order does not take this"),
        ('requester = "@dan"', 'requester = "@dann"', "under [people] (did you mean dan?)"),
        ('["@dan"]', '["@dann"]', "[groups] contractors: @dann is not under [people]"),
        ('channel = "#ops"', 'channel = "#opps"', "under [channels] (did you mean ops?)"),
        ('tool = "wipe"', 'tool = "wippe"', "There is no tool 'wippe'; did you mean wipe?"),
        ("at = 2026-11-24T12:00:00Z", "", "case 1 at: is missing"),
        ("at = 2026-11-24T12:00:00Z", "at = 9999-12-31T23:59:59Z", "at: is too far away; name"),
        ("at = 2026-11-24T19:59:00", "at = 0001-01-01T00:00:00", "at: is too far away"),
        ('expect = "allow"', 'expect = "alow"', "write 'allow', 'deny' or 'ask'"),
        ('expect = "allow"', 'expect = "allow"\nquorum = 2', "case 1 quorum: has no effect with"),
        ('expect = "deny"', 'expect = "ask"', "reason: has no effect with"),
        ('ago = "23h"', 'ago = "yesterday"', 'write ago = "2h"'),
        ('name = "wipe"', 'name = "refund_order"', "refund_order is installed, with effect write"),
        ('"a wipe by day"', '"no wipe by night"', "is used twice; give each case its own"),
        ("[people]", "[people", "this is not TOML"),
    ],
)
def test_a_mistake_in_the_file_of_cases_is_refused(
    run_command: Callable[..., Ended], was: str, now: str, said: str
) -> None:
    """The error suggests the nearest name, if one is close."""
    assert was in CASES
    code, out, err = run_command(TEST_COMMAND, cases=CASES.replace(was, now))
    assert (code, out) == (2, "")
    assert said in err


def test_a_file_without_cases_is_refused(run_command: Callable[..., Ended]) -> None:
    """So are a missing file and an invalid policy."""
    assert run_command(TEST_COMMAND, cases=FACTS)[0] == 2
    assert run_command("test nowhere.toml")[0] == 2
    assert run_command(TEST_COMMAND, policy="[[rule]]")[0] == 2


def test_a_group_that_the_file_lacks_makes_cases_wrong(run_command: Callable[..., Ended]) -> None:
    """Nothing is guessed about a group that a rule asks for."""
    rule = '[[rule]]\ntool = "wipe"\nrequester = "@interns"\nverdict = "deny"\nreason = "No."\n'
    code, out, _ = run_command(TEST_COMMAND, POLICY + rule)
    assert code == 1
    assert "a rule asks for interns, which the file does not name under [groups]" in out


def test_an_owner_is_expected_by_name(run_command: Callable[..., Ended]) -> None:
    """The owner is in the policy's table; a value without an owner makes the case wrong."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[owners.reason]\nlate = ["@leads"]\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["owner of args.reason"]\n'
    )
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = ["@leads"]\n'
    assert run_command(TEST_COMMAND, policy, FACTS + case)[0] == 0
    code, out, _ = run_command(TEST_COMMAND, policy, FACTS + case.replace('"late"', '"other"'))
    assert code == 1
    assert "approvers: expected @leads, and policy says nobody" in out
    assert "• the owner of args.reason is nobody: it is not in [owners.reason]" in out


def test_owners_found_by_a_function_have_to_be_in_the_file(
    run_command: Callable[..., Ended],
) -> None:
    """The function is not called; a value that the file lacks makes the case wrong."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[owners.reason]\nfunction = "acme.x:find"\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["owner of args.reason"]\n'
    )
    facts = FACTS + '[owners.reason]\nlate = ["@leads"]\n'
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = ["@leads"]\n'
    assert run_command(TEST_COMMAND, policy, facts + case)[0] == 0
    code, out, _ = run_command(TEST_COMMAND, policy, FACTS + case)
    assert code == 1
    assert "a rule asks for the owner of args.reason, which the file does not name" in out


def test_a_requesters_manager_has_to_be_in_the_file(run_command: Callable[..., Ended]) -> None:
    """The file has the manager by the requester's id."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[manager]\nfield = "Manager"\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["manager of requester"]\n'
    )
    facts = FACTS + '[owners."manager of requester"]\nUBEN00001 = ["UANA00001"]\n'
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = %s\n'
    code, out, _ = run_command(TEST_COMMAND, policy, facts + case % '["UANA00001"]')
    assert code == 0, out
    code, out, _ = run_command(TEST_COMMAND, policy, FACTS + case % '["UANA00001"]')
    assert (code, "a rule asks for the manager of requester, which the file" in out) == (1, True)


def test_silent_approvers_are_expected_separately(run_command: Callable[..., Ended]) -> None:
    """They have a key of their own, beside `approvers`."""
    policy = POLICY.replace('approvers = ["@shop-leads"]', 'approvers = ["@a"]\nsilent = ["@b"]', 1)
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\napprovers = ["@a"]\n'
    assert run_command(TEST_COMMAND, policy, FACTS + case + 'silent = ["@b"]\n')[0] == 0
    code, out, _ = run_command(TEST_COMMAND, policy, FACTS + case + 'silent = ["@c"]\n')
    assert (code, "silent: expected @c, and policy says @b" in out) == (1, True), out


def test_policy_check_works_without_slack(run_command: Callable[..., Ended]) -> None:
    """It finds unknown tools and fields."""
    sound = POLICY.partition('[[rule]]\nname = "late wipes"')[0]
    code, out, _ = run_command("check", sound)
    assert code == 0, out
    assert "ok    policy: policy.toml: 3 rules" in out
    code, out, _ = run_command("check", POLICY)
    assert (code, "it denies wipe, which is no tool (line " in out) == (1, True)
    code, out, _ = run_command("check", sound.replace("args.amount <=", "args.amuont <="))
    assert (code, "they lack amuont" in out) == (1, True)
    assert run_command("check", "[[rule]]")[0] == 2


@pytest.mark.parametrize("words", ["test", "check cases.toml", f"{TEST_COMMAND} --since 1d"])
def test_arguments_that_would_be_ignored_are_refused(
    run_command: Callable[..., Ended], words: str
) -> None:
    """Some belong to another policy command; `test` needs a file."""
    with pytest.raises(SystemExit, match="2"):
        run_command(words)


def test_the_documented_cases_pass_with_the_cookbooks_policy(
    run_command: Callable[..., Ended],
) -> None:
    """The example in docs/policy.md is for the first policy of the cookbook."""
    cases = blocks_in(section(ROOT / "docs" / "policy.md", "Testing a policy"), "toml")[0]
    code, out, _ = run_command(TEST_COMMAND, RECIPES["Refunds with a daily limit"], cases)
    assert (code, out.splitlines()[-1].startswith("2 ok, 0 wrong")) == (0, True), out


STAGE = '{{ approvers = ["@shop-leads"], signature = "{}" }}'


@pytest.mark.parametrize(
    ("expected", "code"),
    [(("passkey", "none", "passkey"), 0), (("passkey", "none", "none"), 1)],
)
def test_signatures_are_compared_stage_by_stage(
    run_command: Callable[..., Ended], expected: tuple[str, ...], code: int
) -> None:
    """Two of three stages have to be signed."""
    now, wanted = (
        f"stages = [{', '.join(map(STAGE.format, signs))}]"
        for signs in (("passkey", "none", "passkey"), expected)
    )
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\n{wanted}\n'
    policy = POLICY.replace('approvers = ["@shop-leads"]', now, 1)
    ended, out, _ = run_command(TEST_COMMAND, policy, cases=FACTS + case)
    assert ended == code, out
