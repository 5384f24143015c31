"""`countersign report`: the record in numbers, and as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from countersign.cli.commands import main
from tests.missing import missing
from tests.runs.fakes import ANA

ALL = ["report", "--since", "9999d"]


def test_the_report_counts_by_tool_person_and_day(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record has one call, which Ana approved."""
    assert main(ALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["note", "1", "1"] for line in lines)
    assert any(line.split()[:2] == [ANA, "1"] for line in lines)
    assert any(line.startswith("2026-03-02  █") for line in lines)


def test_older_calls_are_left_out_of_a_report(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is about the last hour."""
    assert main(["report", "--since", "1h"]) == 0
    assert "Nobody was asked about anything." in capsys.readouterr().out


def test_an_invalid_duration_is_refused(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The usage says how to write one."""
    with pytest.raises(SystemExit) as ended:
        main(["report", "--since", "soon"])
    assert ended.value.code == 2
    assert "write it as 12h or 30d" in capsys.readouterr().err


def test_a_report_without_a_record_fails(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says that there is no database."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///elsewhere.db")
    assert main(ALL) == 1
    assert "The record cannot be read: there is no database" in capsys.readouterr().err


def test_a_picture_is_written_and_the_table_printed(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is a PNG, and the last line says where it is."""
    assert main([*ALL, "--picture", "decided.PNG"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("2026-03-02  █") for line in lines)
    assert lines[-1] == "The picture is in decided.PNG."
    assert (tmp_path / "decided.PNG").read_bytes().startswith(b"\x89PNG")


def test_no_picture_is_made_if_nothing_was_decided(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output says so, and there is no file."""
    assert main(["report", "--since", "1h", "--picture", "none.png"]) == 0
    assert "No picture was made: nothing was decided" in capsys.readouterr().out
    assert not (tmp_path / "none.png").exists()


def test_a_picture_that_cannot_be_written_is_reported(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder does not exist. The table is printed, and the exit code is 1."""
    assert main([*ALL, "--picture", "nowhere/decided.png"]) == 1
    said = capsys.readouterr()
    assert "2026-03-02" in said.out
    assert said.err == (
        "The picture cannot be written to nowhere/decided.png: No such file or directory.\n"
    )


def test_another_kind_of_picture_is_refused(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usage says that it has to be a PNG."""
    with pytest.raises(SystemExit) as ended:
        main([*ALL, "--picture", "decided.svg"])
    assert ended.value.code == 2
    assert "the picture is a PNG: write it as decided.png" in capsys.readouterr().err


def test_without_matplotlib_only_the_table_is_printed(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what to install, and the exit code is 1."""
    missing(monkeypatch, "matplotlib", "bot.explain.report_picture")
    assert main([*ALL, "--picture", "decided.png"]) == 1
    said = capsys.readouterr()
    assert "2026-03-02" in said.out
    assert said.err == "The picture needs matplotlib: pip install 'countersign-bot[report]'\n"
    assert not Path("decided.png").exists()
