"""`countersign report`: the record in numbers, beside the bot or after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.main import main
from tests.runs.fakes import ANA

ALL = ["report", "--since", "9999d"]


def test_the_record_in_numbers(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One call that Ana approved: a line for its tool, one for her, one for the day."""
    assert main(ALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["note", "1", "1"] for line in lines)
    assert any(line.split()[:2] == [ANA, "1"] for line in lines)
    assert any(line.startswith("2026-03-02  █") for line in lines)


def test_what_is_older_is_left_out(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The call of long ago is in no report of the last hour."""
    assert main(["report", "--since", "1h"]) == 0
    assert "Nobody was asked about anything." in capsys.readouterr().out


def test_an_odd_time_is_refused(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The usage says how a duration is written."""
    with pytest.raises(SystemExit) as ended:
        main(["report", "--since", "soon"])
    assert ended.value.code == 2
    assert "write it as 12h or 30d" in capsys.readouterr().err


def test_no_record_is_no_report(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no database, the command says so and fails."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///elsewhere.db")
    assert main(ALL) == 1
    assert "There is nothing to report: there is no database" in capsys.readouterr().err
