"""`countersign explain` without Slack, and with the local Slack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from countersign.cli.commands import main
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack

POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "big"
tool = "refund_order"
when = 'args.amount > 100.10 && !(requester in groups.finance)'
verdict = "ask"
stages = [{approvers = ["@shop-leads"], quorum = 2}, {approvers = ["@finance"]}]
post_to = "C0FINANCE"
deadline = "4h"
reminders = ["30m"]
escalation = [{after = "45m", approvers = ["UDAN00001"]}]
reasons = "reject"
veto = 2
run_at = "sat 22:00 Europe/Berlin"
editable = ["amount", "note"]

[[rule]]
name = "posts"
tool = "post_message"
verdict = "ask"
approvers = ["channel"]
self_approval = true
editors = "nobody"
remember = [{fields = ["channel"], where = "everywhere", lasts = "2h", uses = 3}]

[[rule]]
name = "paused"
tool = "cancel_*"
verdict = "deny"
reason = "Ask the office."
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the policy; the shop's tools are on, and there is no Slack."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SLACK_API_URL",
        "OPENAI_API_KEY",
        "DATABASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNTERSIGN_POLICY", "policy.toml")
    monkeypatch.setenv("COUNTERSIGN_SHOP", "shop.db")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[Sandbox]:
    """One local Slack for all tests."""
    with build_local_slack() as server:
        yield server


@pytest.fixture
def slack(server: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The local Slack, with its settings in the environment."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", server.bot_token)
    monkeypatch.setenv("SLACK_API_URL", server.api_url)
    return server


def run_explain(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """Run the command, which has to succeed; return what it prints."""
    assert main(["explain", *line.split()]) == 0
    return capsys.readouterr().out


BIG = "refund_order order_id=1042 reason=late amount=100.11"


def test_every_part_of_a_gate_is_explained(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule and reason, steps and people, place, times, escalation, edits."""
    text = run_explain(capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT")
    assert "Refund 100.11 EUR of order 1042\n" in text
    assert "asked by Ben" in text
    assert "People are asked, by the rule big." in text
    assert "• big applies: its condition is true: args.amount > 100.10" in text
    assert "• 2 rules are about other tools" in text
    assert "Step 1 of 2: 2 different people of @shop-leads (now: Ana Ruiz (UANA00001), Cleo" in text
    assert "Step 2 of 2: one of @finance (now: Cleo" in text
    assert (
        "Nobody approves their own request. 2 rejections end it. A rejection needs a reason."
        in text
    )
    assert "Where: in C0FINANCE; notified: " in text
    assert "When: no answer within 4 hours is a no. Reminders after 30 minutes. " in text
    assert "at night only if the deadline is before their morning." in text
    assert "Starts: at 22:00 on Saturday (Europe/Berlin); what is approved now, " in text
    assert "After 45 minutes without an answer these may decide as well: Dan" in text
    assert (
        "the person who asked may edit amount, note; the person who edits may not approve" in text
    )
    assert "Not known" not in text


LOGIN = """
from pydantic import BaseModel, SecretStr
from bot.tools import Effect, tool

class Login(BaseModel):
    account: str
    password: SecretStr | None = None

@tool(title="Log in", effect="Log in to {account}", does=Effect.WRITE)
def log_in(args: Login, context: object) -> str:
    return ""
"""


def test_a_secret_field_is_not_listed_as_editable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dialog has no input for it, whether it is set or not."""
    (folder / "login_of_ours.py").write_text(LOGIN)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("COUNTERSIGN_TOOLS", "login_of_ours")
    for line in ("log_in account=shop", "log_in account=shop password=hush"):
        assert "may edit account; the person" in run_explain(capsys, line)


def test_time_and_requester_can_be_given(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that depends on the hour can be tried; the requester may be given by @name."""
    night = '[[rule]]\nname = "night"\ntool = "refund_order"\nwhen = "now.getHours() >= 22"\n'
    Path("policy.toml").write_text(f'{POLICY}\n{night}verdict = "deny"\nreason = "Sleep."\n')
    late = run_explain(capsys, f"{BIG} --as @ben --at 2026-11-24T22:00")
    assert "asked by Ben" in late
    assert "It is refused, by the rule night: Sleep." in late
    early = run_explain(capsys, f"{BIG} --as UBEN00001 --at 2026-11-24T23:59+02:00")
    assert "It is refused" not in early
    for nobody in ("@nobody", "@"):
        assert main(["explain", *BIG.split(), "--as", nobody]) == 2
    assert "There is nobody called @nobody." in capsys.readouterr().err


def test_the_freeze_in_force_is_named(slack: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """With its end, at the given time; business hours are taken at that time, too."""
    tables = (
        '[freezes]\nlaunch = { from = 2026-12-01, to = 2026-12-02, zone = "UTC" }\n'
        '[hours]\nzone = "UTC"\nopens = "09:00"\ncloses = "17:00"\n'
    )
    rule = '[[rule]]\nname = "frozen"\ntool = "refund_order"\nverdict = "deny"\nreason = "Later."\n'
    when = 'when = "in_freeze && !in_business_hours"\n'
    Path("policy.toml").write_text(f"{tables}{POLICY}\n{rule}{when}")
    frozen = run_explain(capsys, f"{BIG} --as UBEN00001 --at 2026-12-02T20:00")
    assert "It is refused, by the rule frozen: Later." in frozen
    assert "in_freeze && !in_business_hours (in force: launch)\n" in frozen
    assert "• In force is the freeze launch, until 3 Dec 2026, 00:00 UTC\n" in frozen
    assert "It is refused" not in run_explain(capsys, f"{BIG} --as UBEN00001 --at 2026-12-02T16:00")
    free = run_explain(capsys, f"{BIG} --as UBEN00001 --at 2026-12-03T20:00")
    assert "It is refused" not in free
    assert "(no freeze is in force)\n" in free
    assert "the freeze launch" not in free


def test_the_owner_of_a_value_is_named(slack: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """A value without an owner is named as well, and that the call would be refused."""
    rule = '[[rule]]\nname = "owned"\ntool = "refund_order"\nverdict = "ask"\n'
    Path("policy.toml").write_text(
        f'{POLICY}\n{rule}approvers = ["owner of args.reason"]\n'
        '[owners.reason]\nlate = ["@shop-leads"]\n'
    )
    small = BIG.replace("100.11", "5.00")
    owned = run_explain(capsys, f"{small} --as UBEN00001 --in C0SUPPORT")
    assert "• the owner of args.reason is @shop-leads\n" in owned
    assert "Who decides: one of @shop-leads (now: Ana Ruiz (UANA00001)" in owned
    lost = run_explain(capsys, f"{small.replace('late', 'other')} --as UBEN00001 --in C0SUPPORT")
    assert "• the owner of args.reason is nobody: it is not in [owners.reason]\n" in lost
    assert "Who decides: one of nobody (now: nobody)" in lost
    assert "⚠ This can’t be approved: none of its approvers can be reached." in lost


def test_the_requesters_manager_is_named(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """If there is none, that is said, and that the call would be refused."""
    rule = '[[rule]]\nname = "managed"\ntool = "refund_order"\nverdict = "ask"\n'
    Path("policy.toml").write_text(
        f'{POLICY}\n{rule}approvers = ["manager of requester"]\n[manager]\nfield = "Manager"\n'
    )
    small = BIG.replace("100.11", "5.00")
    slack.person("ben").set_manager("ana")
    managed = run_explain(capsys, f"{small} --as UBEN00001 --in C0SUPPORT")
    assert "• the manager of requester is UANA00001\n" in managed
    assert "Who decides: one of Ana Ruiz (UANA00001) (now: Ana Ruiz (UANA00001)" in managed
    slack.person("ben").set_manager()
    alone = run_explain(capsys, f"{small} --as UBEN00001 --in C0SUPPORT")
    assert "• the manager of requester is nobody: Slack's profile field 'Manager' names no" in alone
    assert "⚠ This can’t be approved: none of its approvers can be reached." in alone


def test_silent_approvers_are_named_as_not_notified(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place names only the others as notified."""
    rule = '[[rule]]\nname = "quiet"\ntool = "refund_order"\nverdict = "ask"\n'
    who = 'approvers = ["UANA00001"]\nsilent = ["@shop-leads", "UDAN00001"]\n'
    Path("policy.toml").write_text(POLICY + rule + who)
    text = run_explain(capsys, f"{BIG.replace('100.11', '5.00')} --as UBEN00001 --in C0SUPPORT")
    ana, dan = "Ana Ruiz (UANA00001)", "Dan Weber (UDAN00001)"
    assert (
        f"Who decides: one of {ana}, also @shop-leads and {dan}, not notified (now: {ana}" in text
    )
    assert f"Where: in the thread where it is asked; notified: {ana}\n" in text


def test_too_few_reachable_approvers_are_warned_about(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """The call itself would be refused for that."""
    (Path("policy.toml")).write_text(POLICY.replace("quorum = 2", "quorum = 5"))
    assert "⚠ This can’t be approved: it needs 6 people to approve it" in run_explain(
        capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT"
    )


def test_amounts_are_compared_exactly(slack: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """100.10 is not more than 100.10: amounts are compared digit by digit."""
    text = run_explain(capsys, f"{BIG.replace('100.11', '100.10')} --as UBEN00001 --in C0SUPPORT")
    assert "• big does not apply: its condition is not true" in text
    assert "People are asked, by no rule: [defaults] apply." in text


def test_conditions_are_evaluated_for_the_given_requester(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cleo is in the group, so another rule applies."""
    text = run_explain(capsys, f"{BIG} --as UCLEO0001 --in #support")
    assert "• big does not apply" in text


def test_channel_members_and_offers_to_remember_are_named(
    slack: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """And that nobody may edit."""
    text = run_explain(
        capsys, "post_message channel=#support text=hi --as UBEN00001 --in C0SUPPORT"
    )
    assert "one of the members of C0SUPPORT (now: " in text
    assert "Ben" in text.split("(now: ")[1]  # self_approval
    assert "May be remembered: the same channel, everywhere, for 2 hours, at most 3 times." in text
    assert "Edits: nobody may edit." in text
    assert "Where: in the thread where it is asked; notified: " in text


def test_denied_and_allowed_calls_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """What only reads runs without any rule."""
    assert "It is refused, by the rule paused: Ask the office." in run_explain(
        capsys, "cancel_order order_id=1 reason=none"
    )
    assert "It runs without asking, by no rule: what only reads is allowed." in run_explain(
        capsys, "look_up_order order_id=1"
    )


def test_a_call_is_explained_without_slack(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """What could not be looked up is named, and no file is made."""
    text = run_explain(capsys, f"{BIG} --as UBEN00001")
    assert "• big not known, so it applies: its condition could not be evaluated" in text
    assert "one of @finance (who that is now is not known: Slack is not configured)" in text
    assert "Not known: @finance. What is not known never allows." in text
    assert "Slack is not configured: no people, groups or channels were looked up." in text
    assert "The record was not read" not in text
    assert "No --in was given: no channel is assumed." in text
    assert [each.name for each in folder.iterdir()] == ["policy.toml"]


def test_an_unknown_sum_makes_a_deny_apply(capsys: pytest.CaptureFixture[str]) -> None:
    """The condition needs the record. A deny applies then."""
    rule = """[[rule]]
name = "daily"
tool = "refund_order"
when = 'spent("refund_order", "amount", "24h") > 500.0'
verdict = "deny"
reason = "Too much."
"""
    Path("policy.toml").write_text(f'[defaults]\napprovers = ["@shop-leads"]\n{rule}')
    text = run_explain(capsys, BIG)
    assert "It is refused, by the rule daily: it is not known" in text
    assert "Not known: what was spent with refund_order." in text
    assert "The record was not read: there is no database at countersign.db." in text


def test_a_token_that_slack_refuses_is_reported(
    slack: Sandbox, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Slack's words; the rest is still explained."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
    text = run_explain(capsys, BIG)
    assert "Slack answers invalid_auth: no people, groups or channels were looked up." in text
    assert "People are asked, by the rule big." in text


def test_another_policy_file_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in that file is reported with its line."""
    Path("new.toml").write_text(
        f'{POLICY}[[rule]]\nname = "stop"\nverdict = "deny"\nreason = "No."\n'
    )
    assert "It is refused, by the rule stop: No." in run_explain(capsys, f"{BIG} --policy new.toml")
    Path("new.toml").write_text("[defaults]\napprovers = []\n")
    assert main(["explain", *BIG.split(), "--policy", "new.toml"]) == 2
    assert "\n  new.toml:2: [defaults] approvers: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("refund_ordr order_id=1", "There is no tool 'refund_ordr'; did you mean refund_order?"),
        ("refund_order order_id", "'order_id' is not an argument; write key=value"),
        ("refund_order order_id=1 order_id=2", "order_id is given twice."),
        ("refund_order order_id=1 reason=late amount=-1", "amount: This should be greater than 0."),
        ("refund_order order_id=1 reason=late amount=NaN", "amount: "),
        (
            "refund_order order_id=1 reason=late amount=1 colour=red",
            "colour: This is not expected here.",
        ),
        ("refund_order order_id=1 reason=late", "amount: A value is needed here."),
        (f"{BIG} --as Ben", "--as takes a user id such as U0123 or an @name"),
        (f"{BIG} --as @ben", "@ben cannot be looked up"),
        (f"{BIG} --at 9999-12-31T23:59", "--at is too far away; name a year from 1900 to 9000."),
        (f"{BIG} --in support", "--in takes a channel id such as C0123 or a #name"),
    ],
)
def test_a_wrong_command_line_is_refused(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says why, with exit code 2; nothing else is printed."""
    assert main(["explain", *line.split()]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_an_unknown_channel_is_refused(slack: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not taken for a channel without members."""
    assert main(["explain", *BIG.split(), "--in", "#nowhere"]) == 2
    assert capsys.readouterr().err == "There is no channel #nowhere that the bot can see.\n"


def test_business_hours_and_additions_are_explained(
    slack: Sandbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Business hours, steps in any order, and what a rule adds."""
    (folder / "policy.toml").write_text("""
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:30"
days = ["mon", "fri"]

[defaults]
stages = [{approvers = ["@shop-leads"]}, {approvers = ["@finance"]}]
any_order = true
business_hours = true
deadline = "4h"

[[rule]]
name = "late"
requester = "UBEN00001"
verdict = "add"
deadline = "2h"
veto = 1

[[rule]]
name = "idle"
tool = "refund_*"
verdict = "add"
veto = 5
""")
    text = run_explain(capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT")
    assert "by no rule: [defaults] apply. late adds to it.\n" in text
    assert "• late adds to it\n• idle fits, but has nothing to add\n" in text
    assert "Step 1 of 2 (in any order): one of @shop-leads" in text
    assert "Step 2 of 2 (in any order): one of @finance" in text
    assert "no answer within 2 hours is a no. Only business hours count: Mon, Fri, 09:00 to" in text
    policy = (folder / "policy.toml").read_text()
    days = policy.replace('"4h"', '"30d"\nreminders = ["24h", "2d"]').partition("[[rule]]")[0]
    (folder / "policy.toml").write_text(days)
    text = run_explain(capsys, f"{BIG} --as UBEN00001 --in C0SUPPORT")
    assert "no answer within 30 business days is a no. " in text
    assert "Reminders after 2 business days, 24 hours. " in text


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (
            "",
            "• all fits, but allows nothing, because this tool needs approval unless a rule names "
            "it\n",
        ),
        (
            'tool = "query"\nrequester = "@gone"\n',
            "• first not known: a group it names could not be looked up\n"
            "• all fits, but allows nothing, because what comes before it is not known\n",
        ),
    ],
)
def test_it_is_explained_why_a_fitting_rule_allows_nothing(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    first: str,
    why: str,
) -> None:
    """Then [defaults] apply although a rule fits."""
    (folder / "shop.sqlite").touch()
    (folder / "databases.toml").write_text(
        '[[database]]\nname = "shop"\nabout = "The shop"\nurl = "sqlite:///shop.sqlite"\n'
    )
    monkeypatch.setenv("COUNTERSIGN_DATABASES", "databases.toml")
    before = f'[[rule]]\nname = "first"\nverdict = "allow"\n{first}' if first else ""
    named = 'tool = "query"\n' if first else ""
    (folder / "policy.toml").write_text(
        '[defaults]\napprovers = ["@shop-leads"]\n'
        f'{before}[[rule]]\nname = "all"\nverdict = "allow"\n{named}'
    )
    text = run_explain(capsys, "query database=shop sql=VALUES(1) --as UBEN00001")
    assert "People are asked, by no rule: [defaults] apply.\n" in text
    assert why in text
    assert "another rule applies" not in text
