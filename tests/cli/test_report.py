"""`countersign report`: the record in numbers, beside the bot or after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from countersign.cli.commands import main
from tests.missing import missing
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
    assert "The record cannot be read: there is no database" in capsys.readouterr().err


def test_the_picture_is_written_beside_the_table(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is a PNG, and the lines end with where it is."""
    assert main([*ALL, "--picture", "decided.PNG"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("2026-03-02  █") for line in lines)
    assert lines[-1] == "The picture is in decided.PNG."
    assert (tmp_path / "decided.PNG").read_bytes().startswith(b"\x89PNG")


def test_nothing_decided_is_no_picture(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, and leaves no file."""
    assert main(["report", "--since", "1h", "--picture", "none.png"]) == 0
    assert "No picture was made: nothing was decided" in capsys.readouterr().out
    assert not (tmp_path / "none.png").exists()


def test_a_picture_that_cannot_be_written_is_told(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no such folder, the table stands and the command fails."""
    assert main([*ALL, "--picture", "nowhere/decided.png"]) == 1
    said = capsys.readouterr()
    assert "2026-03-02" in said.out
    assert said.err == (
        "The picture cannot be written to nowhere/decided.png: No such file or directory.\n"
    )


def test_another_kind_of_picture_is_refused(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usage says what to write."""
    with pytest.raises(SystemExit) as ended:
        main([*ALL, "--picture", "decided.svg"])
    assert ended.value.code == 2
    assert "the picture is a PNG: write it as decided.png" in capsys.readouterr().err


def test_without_matplotlib_there_is_the_table(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what to install, draws nothing, and prints the table as ever."""
    missing(monkeypatch, "matplotlib", "bot.explain.report_picture")
    assert main([*ALL, "--picture", "decided.png"]) == 1
    said = capsys.readouterr()
    assert "2026-03-02" in said.out
    assert said.err == "The picture needs matplotlib: pip install 'countersign-bot[report]'\n"
    assert not Path("decided.png").exists()
