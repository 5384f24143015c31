"""`countersign forget` and `export` beside a stopped bot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countersign.cli.commands import main
from tests.cli.test_audit import column
from tests.cli.test_purge import told  # noqa: F401 - a fixture: Slack has been told all

BEN = "UBEN00001"


def test_first_it_is_only_listed(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would go is counted, and all is still there."""
    assert main(["forget", BEN]) == 0
    assert " 1 request:" in capsys.readouterr().out
    assert any(column(record, "payload"))


def test_the_bytes_are_gone(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole file is written anew; `verify` says whose words were erased, and finds it sound."""
    assert b"as shown" in record.read_bytes()
    assert main(["forget", BEN, "--yes"]) == 0
    for file in record.parent.glob(f"{record.name}*"):
        assert b"as shown" not in file.read_bytes(), file
    capsys.readouterr()
    assert main(["audit", "verify"]) == 0
    assert f"what {BEN} asked and wrote was erased" in capsys.readouterr().out
    [run] = {each for each in column(record, "run_id") if each}
    assert main(["audit", "show", run]) == 0
    assert "run.purged" in capsys.readouterr().out


def test_somebody_else_keeps_all(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who approved without a word wrote nothing in it."""
    assert main(["forget", "UANA00001", "--yes"]) == 0
    assert "in 0 requests and 0 votes" in capsys.readouterr().out
    assert any(column(record, "payload"))


def test_a_name_needs_slack(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Slack a handle is nobody, and an id is taken as it is."""
    for command in ("forget", "export"):
        assert main([command, "@ben"]) == 1
        assert "give the id, U…" in capsys.readouterr().err


def test_nothing_is_exported_of_a_stranger(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same shape, without rows."""
    assert main(["export", "UNOBODY01"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["person", "at", "asked", "elsewhere", "emptied_with"]
    assert not any(found["asked"].values())
    assert not any(found["elsewhere"].values())
