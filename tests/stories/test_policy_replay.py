"""`countersign policy replay` over recorded calls: what another policy would have decided."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.cli.read_only_core import PlainMentionStyle
from bot.demo.model_server import Turn
from bot.explain.replay import PolicyReplay
from bot.policy.evaluation import CurrentPolicy, parse
from countersign.cli.commands import main
from storage.models import Call
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, later, now_at, open_modal, press, reject, typed
from tests.stories.test_modes import mode

OLD = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "closed"
tool = "wipe"
verdict = "deny"
reason = "Not today."
"""


@pytest.fixture(scope="module")
def recorded_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot in which Ben asked for three refunds, a read and a wipe.

    Ana approved one refund, one is open and one expired.
    """
    harness = Harness(tmp_path_factory.mktemp("replay"), FakeTools().tools, OLD)

    def request_call(tool: str, arguments: dict[str, object]) -> str:
        harness.settle()
        harness.planner.clear_script()
        return ask(harness, (tool, arguments))

    def build_refund(amount: str) -> dict[str, object]:
        return {"order_id": 1042, "amount": amount, "reason": "late"}

    expired = request_call("refund_order", build_refund("30.00"))
    harness.card(SUPPORT, expired)
    harness.clock.advance(3700)
    harness.said(SUPPORT, expired, "That is all.")
    approved = request_call("refund_order", build_refund("10.00"))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, approved)["ts"], "approve")
    harness.said(SUPPORT, approved, "That is all.")
    harness.card(SUPPORT, request_call("refund_order", build_refund("20.00")))
    for tool, arguments in (("look_up_order", {"order_id": 1042}), ("wipe", {"text": "all"})):
        harness.said(SUPPORT, request_call(tool, arguments), "That is all.")
    harness.settle()
    yield harness
    harness.close()


Replay = Callable[[str], str]


@pytest.fixture
def replay(
    recorded_harness: Harness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Replay:
    """Runs the command with a policy, and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kit_tools.py").write_text(
        "from tests.stories.fakes import FakeTools\nwipe = FakeTools().tools[3]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = recorded_harness.settings()
    for name in [each for each in os.environ if each.startswith(("SLACK_", "COUNTERSIGN_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "SLACK_BOT_TOKEN": recorded_harness.slack.bot_token,
        "SLACK_API_URL": recorded_harness.slack.api_url,
        "DATABASE_URL": settings.database_url,
        "COUNTERSIGN_SHOP": str(settings.shop_path),
        "COUNTERSIGN_TOOLS": "kit_tools",
        "COUNTERSIGN_POLICY": str(settings.policy_path),
    }.items():
        monkeypatch.setenv(name, value)

    def run(policy: str) -> str:
        Path("new.toml").write_text(policy)
        assert main(["policy", "replay", "--policy", "new.toml"]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.file
def test_the_same_policy_decides_the_same(replay: Replay, recorded_harness: Harness) -> None:
    """Also the refused one, and nothing is written to the database."""
    path = recorded_harness.folder / "countersign.db"
    before = path.read_bytes()
    text = replay(OLD)
    assert "5 calls recorded since" in text
    assert "0 would have been decided differently, 5 the same; 0 not known." in text
    assert path.read_bytes() == before


def test_the_replay_lists_calls_allowed_refused_and_asked_now(replay: Replay) -> None:
    """Each kind of difference has a heading with its number of calls, and the rule of each."""
    text = replay(
        """
[defaults]
approvers = ["@shop-leads"]
[[rule]]
name = "small"
tool = "refund_order"
when = "args.amount <= 10.00"
verdict = "allow"
[[rule]]
name = "large"
tool = "refund_order"
when = "args.amount >= 30.00"
verdict = "deny"
reason = "Too much."
"""
    )
    assert "3 would have been decided differently, 2 the same; 0 not known." in text
    assert "Would have run without asking (1):" in text
    assert (
        "refund_order, Ben Okafor (UBEN00001): Refund 10.00 EUR of order 1042 — "
        "was asked, now allowed by" in text
    )
    assert "was asked, now refused by rule 'large': Too much." in text
    assert "Would have been asked (1):" in text
    assert "Wipe “all” — was refused, now asked by rule 'default'" in text


def test_the_replay_tells_other_people_quorums_and_terms_apart(replay: Replay) -> None:
    """It also says where Ana's approval alone would not have been enough."""
    closed = OLD.partition("[[rule]]")[2]
    others = replay(f'[defaults]\napprovers = ["@finance"]\n[[rule]]{closed}')
    assert "Would have gone to other people (3):" in others
    assert others.count("those who approved it would not have been enough") == 1
    more = replay(f'[defaults]\napprovers = ["@shop-leads"]\nquorum = 2\n[[rule]]{closed}')
    assert "Would have taken another quorum or other steps (3):" in more
    assert (
        "was 1 in 1, now 2 in 1, by rule 'default'; "
        "those who approved it would not have been enough" in more
    )
    terms = replay(f'[defaults]\napprovers = ["@shop-leads"]\nveto = 2\n[[rule]]{closed}')
    assert "Would have been asked under other terms (3):" in terms
    assert "not have been enough" not in terms
    signed = '[passkeys]\n[defaults]\napprovers = ["@shop-leads"]\nsignature = "passkey"\n'
    signed = replay(f"{signed}[[rule]]{closed}")
    assert "Would have been asked under other terms (3):" in signed
    assert signed.count("signature, by rule 'default'") == 3
    assert signed.count("those who approved it would not have been enough") == 1


def test_a_spending_limit_is_replayed_with_the_sums_of_then(replay: Replay) -> None:
    """They leave out the expired refund and those proposed later."""
    limited = f"""{OLD}
[[rule]]
name = "daily"
tool = "refund_order"
when = 'spent("refund_order", "amount", "24h") + args.amount >= 30.00'
verdict = "deny"
reason = "Enough."
"""
    text = replay(limited)
    assert "Would have been refused (2):" in text  # 30.00 by itself, and 20.00 after 10.00
    assert "Refund 10.00" not in text
    assert "2 would have been decided differently" in replay(limited.replace(">= 30.00", "> 29.99"))
    assert "0 would have been decided differently" in replay(limited.replace(">= 30.00", "> 30.00"))


def test_calls_that_cannot_be_replayed_are_counted_with_the_reason(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule depends on a group, but Slack cannot be asked; and a tool no longer exists."""
    rule = "[[rule]]\ntool = 'refund_*'\nwhen = 'requester in groups.finance'\nverdict = 'allow'\n"
    policy = OLD + rule
    assert "0 would have been decided differently, 5 the same" in replay(policy)
    monkeypatch.delenv("SLACK_BOT_TOKEN")
    monkeypatch.delenv("COUNTERSIGN_TOOLS")
    text = replay(policy)
    assert "0 would have been decided differently, 1 the same; 4 not known." in text
    assert "• 3: whether the rule 'rule 2' applies: its condition could not be evaluated" in text
    assert "• 1: the tool wipe no longer exists" in text
    assert "Slack is not configured: no people, groups or channels were looked up." in text


def test_earlier_calls_are_left_out_but_count_in_sums(recorded_harness: Harness) -> None:
    """The report begins at the third of five calls."""
    core = recorded_harness.app.core
    limit = 'when = \'spent("refund_order", "amount", "24h") + args.amount >= 30.00\''
    rule = f'[[rule]]\ntool = "refund_order"\n{limit}\nverdict = "deny"\nreason = "Enough."\n'
    since = sorted(call.created_at for call in recorded_harness.all(Call))[2]
    sources = replace(core.build_policy_fact_sources(), policy=CurrentPolicy(parse(OLD + rule)))
    text = "\n".join(
        PolicyReplay(
            sources, core.authority, core.tools, PlainMentionStyle(core.directory)
        ).build_report_lines(since)
    )
    assert text.startswith("3 calls recorded since")
    assert "Would have been refused (1):" in text


@pytest.mark.parametrize("since", ["soon", "0d", "-1d", "30"])
def test_a_bad_duration_is_refused(
    replay: Replay, since: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with exit code 2 and says how to write one."""
    assert callable(replay)
    with pytest.raises(SystemExit) as ended:
        main(["policy", "replay", f"--since={since}"])
    assert ended.value.code == 2
    assert "is not a duration; write it as 12h or 30d" in capsys.readouterr().err


def test_without_a_database_the_replay_fails(
    replay: Replay, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and no database is created."""
    assert callable(replay)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///none.db")
    assert main(["policy", "replay"]) == 1
    assert capsys.readouterr().err.startswith(
        "The record cannot be read: there is no database at none.db"
    )
    assert not Path("none.db").exists()


def test_rules_with_verdict_add_are_replayed(replay: Replay) -> None:
    """The report names them; if one cannot be evaluated, the call counts as not known."""
    adds = '[[rule]]\nname = "two"\ntool = "refund_order"\nverdict = "add"\n'
    text = replay(f'{OLD}{adds}approvers = ["@finance"]\n')
    assert "Would have gone to other people (3):" in text
    assert "by rule 'default' and rule 'two'" in text
    text = replay(
        f'{OLD}{adds}requester = "@nobody-knows"\nveto = 1\nquorum = 1\napprovers = ["@finance"]\n'
    )
    assert "• 3: whether the rule 'two' applies: a group it names could not be looked up" in text
    text = replay(f'{OLD}{adds}reminders = ["10m"]\n')
    assert "Would have been asked under other terms (3):" in text
    assert "reminders, by rule 'default' and rule 'two'" in text


def test_calls_are_replayed_in_their_channels_mode_of_then(tmp_path: Path) -> None:
    """One call was proposed in strict mode, one in observe mode; the channel is in ask mode now."""
    policy = f"""{OLD}
[[rule]]
name = "free"
tool = "put"
verdict = "allow"
"""
    with closing(Harness(tmp_path, FakeTools().tools, policy)) as harness:
        mode(harness, "strict", "ana", "strict")
        harness.card(SUPPORT, ask(harness, ("put", {"text": "one"})))
        mode(harness, "observe", "ana", "observe")
        harness.settle()
        harness.planner.clear_script()
        harness.said(SUPPORT, ask(harness, ("put", {"text": "two"})), "That is all.")
        mode(harness, "ask", "ana", "ask")
        same = build_report(harness, policy)
        others = build_report(harness, policy.replace("@shop-leads", "@finance"))
    assert "0 would have been decided differently, 2 the same; 0 not known." in same
    assert "Would have gone to other people (1):" in others
    assert "1 would have been decided differently, 1 the same; 0 not known." in others


def test_an_edited_call_is_replayed_under_both_of_its_rules(tmp_path: Path) -> None:
    """An edit to a smaller amount still needs the approvers that the larger amount needed."""
    policy = """
[defaults]
approvers = ["@shop-leads"]
[[rule]]
name = "large"
tool = "refund_order"
when = "args.amount > 30.0"
verdict = "ask"
approvers = ["@finance"]
deadline = "3h"
"""
    build_refund = {"order_id": 1031, "amount": "40.00", "reason": "damaged"}
    with closing(Harness(tmp_path, FakeTools().tools, policy)) as harness:
        thread = ask(harness, ("refund_order", build_refund))
        card = harness.card(SUPPORT, thread)
        open_modal(harness, "ben", SUPPORT, card, "edit")
        assert harness.person("ben").submit(typed(amount="20"))["outcome"] == "closed"
        harness.said(SUPPORT, thread, "✏️")
        same = build_report(harness, policy)
        others = build_report(harness, policy.replace("30.0", "50.0"))
        denied = build_report(
            harness,
            policy.replace("> 30.0", "<= 20.0")
            .replace('"ask"', '"deny"\nreason = "Too little."')
            .replace('approvers = ["@finance"]\ndeadline = "3h"\n', ""),
        )
    assert "0 would have been decided differently, 1 the same; 0 not known." in same
    assert "Would have gone to other people (1):" in others
    assert "Refund 20.00 EUR of order 1031 — was asked, now refused by rule 'large'" in denied


LATE = """
[defaults]
approvers = ["@shop-leads"]
deadline = "4h"
[[rule]]
name = "late"
when = "now.getHours() >= 17"
verdict = "ask"
approvers = ["@finance"]
"""
BEFORE_FIVE = datetime(2026, 11, 24, 16, tzinfo=UTC)


def test_an_edit_is_replayed_at_its_own_time(tmp_path: Path) -> None:
    """It was asked before five, and edited after it, so both rules have asked about it."""
    with closing(Harness(tmp_path, FakeTools().tools, LATE, begin=BEFORE_FIVE)) as harness:
        thread = ask(harness, ("note", {"text": "one"}))
        card = harness.card(SUPPORT, thread)
        later(harness, 3700)
        open_modal(harness, "ben", SUPPORT, card, "edit")
        assert harness.person("ben").submit(typed(text="two"))["outcome"] == "closed"
        harness.said(SUPPORT, thread, "✏️")
        same = build_report(harness, LATE)
    assert "0 would have been decided differently, 1 the same; 0 not known." in same


def test_a_call_that_was_asked_again_later_is_not_told(tmp_path: Path) -> None:
    """Approved before five, it would have started after it, and another rule asked about it."""
    with closing(Harness(tmp_path, FakeTools().tools, LATE, begin=BEFORE_FIVE)) as harness:
        thread = ask(harness, ("note", {"text": "one"}), ("put", {"text": "two"}))
        card = harness.card(SUPPORT, thread)
        press(harness, "ana", SUPPORT, card, "approve")
        harness.settle()  # the card no longer has the buttons of what was approved
        later(harness, 3700)
        reject(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "no")
        harness.slack.wait(lambda: harness.calls_in(thread)[0].revision == 2)
        same = build_report(harness, LATE)
    assert "0 would have been decided differently, 1 the same; 1 not known." in same
    assert "• 1: asked or run again later, by the policy of then" in same


def test_a_call_after_a_rejection_is_replayed_without_offers(tmp_path: Path) -> None:
    """After a rejection nothing may be remembered, and the replay shows no difference for it."""
    policy = f"""{OLD}
[[rule]]
name = "may be remembered"
tool = "note"
verdict = "ask"
remember = [{{ fields = ["text"] }}]
"""
    with closing(Harness(tmp_path, FakeTools().tools, policy)) as harness:
        first, second = (Turn(calls=[("note", {"text": text})]) for text in ("one", "two"))
        harness.planner.script(first, second)
        thread = harness.person("ben").say(SUPPORT, "@bot please")
        reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "no")
        harness.slack.wait(lambda: len(harness.calls_in(thread)) == 2)
        same = build_report(harness, policy)
    assert "0 would have been decided differently, 2 the same; 0 not known." in same


def build_report(harness: Harness, policy: str) -> str:
    """Replay the calls of the last day under this policy, and return the report."""
    core = harness.app.core
    sources = replace(core.build_policy_fact_sources(), policy=CurrentPolicy(parse(policy)))
    words = PlainMentionStyle(core.directory)
    made = PolicyReplay(sources, core.authority, core.tools, words)
    return "\n".join(made.build_report_lines(harness.clock.now() - timedelta(days=1)))
