"""`countersign forget` and `countersign export` beside a stopped bot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countersign.cli.commands import main
from tests.cli.test_audit import read_column
from tests.cli.test_purge import mark_messages_sent  # noqa: F401 - a fixture: Slack has been told all

BEN = "UBEN00001"


def test_forget_without_yes_only_counts(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is erased."""
    assert main(["forget", BEN]) == 0
    assert " 1 request:" in capsys.readouterr().out
    assert any(read_column(record, "payload"))


def test_forget_removes_the_words_from_the_file(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is rewritten. `audit verify` finds it sound and says whose words were erased."""
    assert b"as shown" in record.read_bytes()
    assert main(["forget", BEN, "--yes"]) == 0
    for file in record.parent.glob(f"{record.name}*"):
        assert b"as shown" not in file.read_bytes(), file
    capsys.readouterr()
    assert main(["audit", "verify"]) == 0
    assert f"what {BEN} asked and wrote was erased" in capsys.readouterr().out
    [run] = {each for each in read_column(record, "run_id") if each}
    assert main(["audit", "show", run]) == 0
    assert "run.purged" in capsys.readouterr().out


def test_requests_that_were_erased_are_not_counted_again(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look after the erasure finds nothing left to erase."""
    assert main(["forget", BEN, "--yes"]) == 0
    assert "in 1 request and " in capsys.readouterr().out
    assert main(["forget", BEN]) == 0
    assert "  0 requests: " in capsys.readouterr().out


def test_forgetting_an_approver_keeps_the_requesters_words(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The approver wrote nothing."""
    assert main(["forget", "UANA00001", "--yes"]) == 0
    assert "in 0 requests and 0 votes" in capsys.readouterr().out
    assert any(read_column(record, "payload"))


def test_a_handle_cannot_be_forgotten_without_slack(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error asks for the id; export needs it, too."""
    for command in ("forget", "export"):
        assert main([command, "@ben"]) == 1
        assert "give the id, U…" in capsys.readouterr().err


def test_the_export_of_an_unknown_person_is_empty(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the same keys, without rows."""
    assert main(["export", "UNOBODY01"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["person", "at", "asked", "elsewhere", "emptied_with"]
    assert not any(found["asked"].values())
    assert not any(found["elsewhere"].values())
