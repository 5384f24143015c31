"""`countersign verify`: what it says of each decision; none of its options is ignored."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from client.tests.test_receipts import JWK, VOTE, build_statement, sign_statement
from countersign import receipts
from countersign.cli.commands import main

DELEGATE = VOTE | {"person": "UDAN00001", "for": "UANA00001"}


def build_line(**content: Any) -> str:
    """A line of a file of receipts."""
    return json.dumps({"decision": sign_statement(build_statement(**content)), "end": None})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files, and the file of the keys."""
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text(json.dumps(JWK))
    return tmp_path


def verify(text: str, *options: str) -> int:
    Path("r").write_text(text)
    return main(["verify", "r", "--key", "keys", "--record", *options])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "Approved by UANA00001 on 2026-11-26T12:00:00+00:00: Refund 40.00"),
        ({"votes": [DELEGATE]}, "Approved by UDAN00001 for UANA00001 on 2026-"),
        ({"decision": "rejected", "votes": [VOTE | {"verb": "reject"}]}, "Rejected by UANA00001 "),
        (
            {"decision": "break_glass", "votes": [VOTE | {"verb": "break_glass"}]},
            "Run without approval by UANA00001 on 2026-",
        ),
        (
            {"decision": "granted", "grantedBy": "UCLEO0001", "votes": [], "decidedAt": None},
            "Allowed by a saved approval of UCLEO0001: Refund",
        ),
        (
            {"decision": "allowed", "votes": [], "decidedAt": None},
            "Allowed by the policy, without asking: Refund",
        ),
        ({"decision": "cancelled"}, "Cancelled on 2026-"),
    ],
)
def test_verify_says_what_was_decided_and_by_whom(
    content: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a sentence for each kind of decision."""
    assert verify(build_line(**content)) == 0
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ("slack", ""),
        ("terminal", " (at the bot's terminal)"),
        ("added", " (neither in Slack nor at the terminal)"),
    ],
)
def test_verify_says_which_votes_are_not_slacks_word(
    evidence: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind the voter's id."""
    assert verify(build_line(votes=[VOTE | {"evidence": evidence}])) == 0
    assert capsys.readouterr().out.startswith(f"Approved by UANA00001{said} on 2026-")


def test_verify_says_that_an_end_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """Then there is no time of an end."""
    decision = sign_statement(build_statement())
    keys = receipts.read_public_keys(json.dumps(JWK))
    named = {"sha256": receipts.verify_receipt(json.dumps(decision), keys).digest}
    said = {"decision": named, "status": "unknown", "endedAt": None, "note": ""}
    end = sign_statement(
        build_statement() | {"predicateType": receipts.END_KIND, "predicate": said}
    )
    assert verify(json.dumps({"decision": decision, "end": end})) == 0
    assert "How it ended: unknown\n" in capsys.readouterr().out
    assert verify(json.dumps(end)) == 1
    assert "does not say what was decided" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("null", "The file of arguments is not a JSON object."),
        (
            '{"amount": "400.00", "amount": "40.00"}',
            "In the file of arguments a name is given twice.",
        ),
        ('{"x": NaN}', "In the file of arguments a number is not finite."),
        # how deep Python can go depends on its version
        ('{"x": ' + "[" * 600 + "]" * 600 + "}", "nested too deeply|are not the ones"),
        ('{"x": ' + "[" * 9000 + "]" * 9000 + "}", "arguments is not JSON|nested too deeply"),
        ('{"x": "\\ud800"}', "not Unicode"),
    ],
)
def test_odd_files_of_arguments_are_refused(
    text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once null meant that nothing was checked, and the last of two values counted."""
    Path("a").write_text(text)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)  # the limit of a command
    try:
        code = verify(build_line(), "--arguments", "a")
    finally:
        sys.setrecursionlimit(before)
    found = capsys.readouterr().err
    assert re.search(why, found)
    # what cannot be read keeps the receipt from being checked; other arguments make it not valid
    assert code == (2 if "file of arguments" in found else 1)


@pytest.mark.parametrize("decision", ["approved", "granted", "break_glass", "rejected"])
def test_given_tool_and_arguments_are_checked_for_every_decision(
    decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An auditor's tool and arguments, even if nobody approved."""
    Path("a").write_text('{"amount": "400.00"}')
    assert verify(build_line(decision=decision), "--tool", "cancel_order") == 1
    assert verify(build_line(decision=decision), "--arguments", "a") == 1
    told = capsys.readouterr().err
    assert "What was approved is refund_order, not cancel_order." in told
    assert "The arguments are not the ones that were approved." in told


def test_each_receipt_of_a_file_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid one is named, and the others are still checked."""
    wrong = json.dumps({"decision": sign_statement(build_statement(decidedAt=7)), "end": None})
    assert verify(f"{build_line()}\n\n{wrong}\n{build_line(decision='expired')}\n") == 1
    told = capsys.readouterr()
    assert (
        told.err == "Receipt 2 of 3 is not valid. The receipt does not say when it was decided.\n"
    )
    assert [each[:8] for each in told.out.splitlines()[::2]] == ["Approved", "Expired "]
    assert verify(f"{build_line()}\n{{\n") == 1
    assert capsys.readouterr().err == "Line 2 is not JSON.\n"
    assert verify("{\n") == 1
    assert capsys.readouterr().err == "The receipt is not JSON.\n"
