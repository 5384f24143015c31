"""`countersign policy test` and `policy check`, as CI runs them over a policy that is kept in git.

There is no Slack, no token and no record.
"""

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
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Type `policy …` beside these two files: the exit code, and what was printed.

    Whatever there is of Slack or the record cannot be reached.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "OPENAI_API_KEY", "COUNTERSIGN_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNTERSIGN_SHOP", "shop.db")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:x@127.0.0.1:1/none")
    monkeypatch.setenv("SLACK_API_URL", "http://127.0.0.1:1/api/")

    def typing(words: str, policy: str = POLICY, cases: str = CASES) -> Ended:
        Path("policy.toml").write_text(policy)
        Path("cases.toml").write_text(cases)
        code = main(["policy", *words.split(), "--policy", "policy.toml"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return typing


TEST = "test cases.toml"


def test_a_policy_that_does_what_it_should_passes(
    typed: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a token, and with one that is not used."""
    code, out, _ = typed(TEST)
    assert (code, out.count("ok   ")) == (0, 7), out
    assert out.splitlines()[-1].startswith("7 ok, 0 wrong; policy.toml, ")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    assert typed(TEST)[:2] == (code, out)


def test_an_edit_that_opens_a_gate_fails(typed: Callable[..., Ended]) -> None:
    """The case is named with its line, what was expected, what policy says, and by which rule."""
    code, out, _ = typed(TEST, POLICY.replace("<= 50.0", "<= 5000.0"))
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
def test_each_term_is_compared(
    typed: Callable[..., Ended], was: str, now: str, key: str, expected: str, said: str
) -> None:
    """Where people are still asked, and others, fewer, later or in other ways."""
    code, out, _ = typed(TEST, POLICY.replace(was, now))
    assert code == 1
    [line] = [each for each in out.splitlines() if each.startswith(f"      {key}: ")]
    assert line.startswith(f"      {key}: expected {expected}, and policy says ")
    assert line.endswith(said)


OTHER = {
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
    """None is left out of the table above."""
    assert set(OTHER) == ASK_KEYS | {"rule", "added"}


@pytest.mark.parametrize("key", OTHER)
def test_no_key_is_read_and_not_compared(typed: Callable[..., Ended], key: str) -> None:
    """A case that expects another value of it is wrong."""
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\n{key} = {OTHER[key]}\n'
    code, out, _ = typed(TEST, cases=FACTS + case)
    assert (code, f"      {key}: expected " in out) == (1, True), out


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("quorum = 1", "quorums = 1", "case 2 quorums: unknown key (is quorum meant?)"),
        ('name = "wipe"\n', 'name = "wipe"\nrisks = "low"\n', "unknown key (is risk meant?)"),
        ("[people]", "[peoples]", "unknown key (is people meant?)"),
        ('ago = "23h"', 'agos = "23h"', "unknown key (is ago meant?)"),
        ("amount =", "amont =", "refund_order does not take this"),
        ('requester = "@dan"', 'requester = "@dann"', "under [people] (is dan meant?)"),
        ('["@dan"]', '["@dann"]', "[groups] contractors: @dann is not under [people]"),
        ('channel = "#ops"', 'channel = "#opps"', "under [channels] (is ops meant?)"),
        ('tool = "wipe"', 'tool = "wippe"', "There is no tool 'wippe'; is wipe meant?"),
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
def test_what_could_not_be_tried_is_refused(
    typed: Callable[..., Ended], was: str, now: str, said: str
) -> None:
    """With the line, and the nearest name where one is close."""
    assert was in CASES
    code, out, err = typed(TEST, cases=CASES.replace(was, now))
    assert (code, out) == (2, "")
    assert said in err


def test_a_file_without_cases_is_refused(typed: Callable[..., Ended]) -> None:
    """So are a file that is not there, and a policy that is none."""
    assert typed(TEST, cases=FACTS)[0] == 2
    assert typed("test nowhere.toml")[0] == 2
    assert typed(TEST, policy="[[rule]]")[0] == 2


def test_a_group_that_the_file_lacks_is_wrong(typed: Callable[..., Ended]) -> None:
    """Nobody is guessed to be, or not to be, in a group that a rule has begun to ask for."""
    rule = '[[rule]]\ntool = "wipe"\nrequester = "@interns"\nverdict = "deny"\nreason = "No."\n'
    code, out, _ = typed(TEST, POLICY + rule)
    assert code == 1
    assert "a rule asks for interns, which the file does not name under [groups]" in out


def test_an_owner_is_expected_by_name(typed: Callable[..., Ended]) -> None:
    """As the table has it; without an owner it is wrong to expect one."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[owners.reason]\nlate = ["@leads"]\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["owner of args.reason"]\n'
    )
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = ["@leads"]\n'
    assert typed(TEST, policy, FACTS + case)[0] == 0
    code, out, _ = typed(TEST, policy, FACTS + case.replace('"late"', '"other"'))
    assert code == 1
    assert "approvers: expected @leads, and policy says nobody" in out
    assert "• the owner of args.reason is nobody: it is not in [owners.reason]" in out


def test_owners_found_by_a_function_are_named_in_the_file(typed: Callable[..., Ended]) -> None:
    """The function is not called; a value that the file does not name makes the case wrong."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[owners.reason]\nfunction = "acme.x:find"\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["owner of args.reason"]\n'
    )
    facts = FACTS + '[owners.reason]\nlate = ["@leads"]\n'
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = ["@leads"]\n'
    assert typed(TEST, policy, facts + case)[0] == 0
    code, out, _ = typed(TEST, policy, FACTS + case)
    assert code == 1
    assert "a rule asks for the owner of args.reason, which the file does not name" in out


def test_a_manager_is_named_in_the_file(typed: Callable[..., Ended]) -> None:
    """By the requester's id."""
    policy = (
        '[defaults]\napprovers = ["@shop-leads"]\n[manager]\nfield = "Manager"\n'
        '[[rule]]\ntool = "refund_order"\nverdict = "ask"\napprovers = ["manager of requester"]\n'
    )
    facts = FACTS + '[owners."manager of requester"]\nUBEN00001 = ["UANA00001"]\n'
    case = f'[[case]]\nname = "one"\n{REFUND % "5.00"}{BEN}expect = "ask"\napprovers = %s\n'
    code, out, _ = typed(TEST, policy, facts + case % '["UANA00001"]')
    assert code == 0, out
    code, out, _ = typed(TEST, policy, FACTS + case % '["UANA00001"]')
    assert (code, "a rule asks for the manager of requester, which the file" in out) == (1, True)


def test_silent_approvers_are_expected_apart(typed: Callable[..., Ended]) -> None:
    """They are none of the `approvers`, and have a key of their own."""
    policy = POLICY.replace('approvers = ["@shop-leads"]', 'approvers = ["@a"]\nsilent = ["@b"]', 1)
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\napprovers = ["@a"]\n'
    assert typed(TEST, policy, FACTS + case + 'silent = ["@b"]\n')[0] == 0
    code, out, _ = typed(TEST, policy, FACTS + case + 'silent = ["@c"]\n')
    assert (code, "silent: expected @c, and policy says @b" in out) == (1, True), out


def test_check_needs_no_slack(typed: Callable[..., Ended]) -> None:
    """A sound policy is; one for a tool or a field that is not there is not."""
    sound = POLICY.partition('[[rule]]\nname = "late wipes"')[0]
    code, out, _ = typed("check", sound)
    assert code == 0, out
    assert "ok    policy: policy.toml: 3 rules" in out
    code, out, _ = typed("check", POLICY)
    assert (code, "it denies wipe, which is no tool (line " in out) == (1, True)
    code, out, _ = typed("check", sound.replace("args.amount <=", "args.amuont <="))
    assert (code, "they lack amuont" in out) == (1, True)
    assert typed("check", "[[rule]]")[0] == 2


@pytest.mark.parametrize("words", ["test", "check cases.toml", f"{TEST} --since 1d"])
def test_words_that_do_not_go_together(typed: Callable[..., Ended], words: str) -> None:
    """What would be ignored is refused."""
    with pytest.raises(SystemExit, match="2"):
        typed(words)


def test_the_documented_cases_are_right_about_the_cookbook(typed: Callable[..., Ended]) -> None:
    """The example tries the first policy of the cookbook."""
    cases = blocks_in(section(ROOT / "docs" / "policy.md", "Testing a policy"), "toml")[0]
    code, out, _ = typed(TEST, RECIPES["Refunds with a daily limit"], cases)
    assert (code, out.splitlines()[-1].startswith("2 ok, 0 wrong")) == (0, True), out


STAGE = '{{ approvers = ["@shop-leads"], signature = "{}" }}'


@pytest.mark.parametrize(
    ("expected", "code"),
    [(("passkey", "none", "passkey"), 0), (("passkey", "none", "none"), 1)],
)
def test_each_stage_is_signed_as_expected(
    typed: Callable[..., Ended], expected: tuple[str, ...], code: int
) -> None:
    """Which stages have to be signed is compared stage by stage."""
    now, wanted = (
        f"stages = [{', '.join(map(STAGE.format, signs))}]"
        for signs in (("passkey", "none", "passkey"), expected)
    )
    case = f'[[case]]\nname = "one"\n{REFUND % "99.00"}{BEN}expect = "ask"\n{wanted}\n'
    policy = POLICY.replace('approvers = ["@shop-leads"]', now, 1)
    ended, out, _ = typed(TEST, policy, cases=FACTS + case)
    assert ended == code, out
