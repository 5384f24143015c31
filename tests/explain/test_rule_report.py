"""The report on each rule, checked against a record made by hand."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from countersign.cli.commands import main
from storage.states import CallStatus, CallVerb
from tests.explain.decided import ANA, BEN, CLEO, Decided, asked_by, write_decided
from tests.records import settings_of, store_of
from tests.storage.builders import AT

POLICY = """
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:00"

[defaults]
approvers = ["@shop-leads"]
business_hours = true

[[rule]]
name = "refunds"
tool = "refund_*"
verdict = "ask"

[[rule]]
name = "cancel"
tool = "cancel_order"
verdict = "ask"

[[rule]]
name = "never"
channel = "C0OTHER"
verdict = "ask"
"""
APPROVE, REJECT = CallVerb.APPROVE, CallVerb.REJECT


def build_refund(amount: str, *votes: tuple[str, CallVerb, float], **more: Any) -> Decided:
    """A refund of this amount, with these votes."""
    given = {"order_id": 1042, "amount": amount, "reason": "late", "note": None}
    return Decided("refund_order", given, votes=votes, gate=asked_by("refunds"), **more)


HAND_MADE = [
    build_refund("10.00", (ANA, APPROVE, 2)),
    build_refund("50.00", (ANA, APPROVE, 60), opened=(ANA,)),
    build_refund("30.5", (CLEO, APPROVE, 600), opened=(ANA,), at=AT + timedelta(hours=3)),
    build_refund("20.00", (CLEO, APPROVE, 120), editor=CLEO, opened=(CLEO,)),
    Decided(
        "cancel_order",
        {"order_id": 7, "reason": "asked for", "restock": True},
        CallStatus.REJECTED,
        ((CLEO, REJECT, 10),),
        gate=asked_by("cancel"),
        does="destructive",
    ),
    Decided("refund_order", {}, CallStatus.EXPIRED, (), gate=asked_by("cancel")),
]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record, and the environment of a command beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLACK_BOT_TOKEN", raising=False)
    settings = settings_of(tmp_path / "record.db") | {"COUNTERSIGN_POLICY": "policy.toml"}
    for name, value in (settings | {"COUNTERSIGN_SHOP": str(tmp_path / "shop.db")}).items():
        monkeypatch.setenv(name, value)
    store = store_of(tmp_path / "record.db")
    store.open()
    write_decided(store, HAND_MADE)
    store.close()
    Path("policy.toml").write_text(POLICY)
    return tmp_path


def test_the_report_has_numbers_for_each_rule(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who decided, how fast, after Review or not, which amounts; and which rules never applied."""
    assert main(["report", "--since", "9999d", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    refunds, cancel = told["rules"]
    assert refunds["counts"]["tool"] == "refunds"
    assert refunds["counts"]["fates"] == {
        "approved": 4,
        "rejected": 0,
        "expired": 0,
        "closed": 0,
        "waiting": 0,
    }
    assert (
        refunds["approvals"],
        refunds["alone"],
        refunds["hasty"],
        refunds["counts"]["edited"],
    ) == (
        4,
        2,
        1,
        1,
    )
    assert refunds["counts"]["speed"] == {"median": 90, "slow": 600}
    assert refunds["approvers"] == [[ANA, 2], [CLEO, 2]]
    assert refunds["amounts"] == {"refund_order.amount": ["10.00", "50.00"]}
    assert (cancel["counts"]["fates"]["rejected"], cancel["counts"]["fates"]["expired"]) == (1, 1)
    assert told["unused"] == ["never"]
    assert told["zone"] == "Europe/Berlin"
    assert {hour: count for hour, count in enumerate(told["hours"]) if count} == {13: 4, 16: 1}
    alone = {each["person"]: each["alone"] for each in told["approvers"]}
    assert alone == {ANA: 1, CLEO: 1}


def test_the_report_of_rules_is_in_plain_words(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table and sentences."""
    assert main(["report", "--since", "9999d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["refunds", "4", "4"] for line in lines)
    assert "votes by the hour of the day (Europe/Berlin)" in lines
    assert any(line.startswith("13:00  █") for line in lines)
    assert lines[-4:] == [
        "Approved with one click on the card, without Review or Edit: 2 of 4."
        " Votes in under 3 s: 1.",
        "Most votes come between 13:00 and 14:00 (Europe/Berlin).",
        "All 4 calls of rule refunds were approved: by UANA00001 (2), UCLEO0001 (2);"
        " Refund an order: Amount (EUR) 10.00 to 50.00; 1 edited; half within 90 s, nine of ten"
        " within 10 min.",
        "Rules that applied to nothing: never.",
    ]


def test_calls_that_no_rule_matched_are_named_as_such(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such calls follow the policy's defaults, which are no rule of that name."""
    path, gate = recorded / "another.db", asked_by("default")
    monkeypatch.setenv("DATABASE_URL", settings_of(path)["DATABASE_URL"])
    with closing(store_of(path).open()) as store:
        write_decided(store, [Decided("note", {}, votes=((CLEO, APPROVE, 60),), gate=gate)])
    assert main(["report", "--since", "9999d"]) == 0
    said = capsys.readouterr().out
    assert "The only call that no rule matched was approved: by UCLEO0001 (1)" in said
    assert "rule default" not in said


def test_picture_and_json_exclude_each_other(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only one of the two can be requested."""
    with pytest.raises(SystemExit):
        main(["report", "--json", "--picture", "x.png"])
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_rule_that_refused_a_call_counts_as_used(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record has the reason of a refusal."""
    refused = Decided("refund_order", {}, CallStatus.REFUSED, (), gate="{}", requester=BEN)
    store = store_of(recorded / "record.db")
    store.open()
    write_decided(store, [refused], first=100, note="policy: Not today.")
    store.close()
    rule = '[[rule]]\nname = "closed"\ntool = "refund_*"\nverdict = "deny"\nreason = "Not today."\n'
    Path("policy.toml").write_text(POLICY + rule)
    assert main(["report", "--since", "9999d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unused"] == ["never"]
