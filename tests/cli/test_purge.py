"""`countersign purge` beside a stopped bot, and other commands after it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from countersign.cli.commands import main
from storage.sqlite import lock_database
from tests.cli.test_audit import read_column


@pytest.fixture(autouse=True)
def mark_messages_sent(record: Path) -> None:
    """Mark all messages as sent, so that nothing is waiting for Slack."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE message SET status = 'sent'")


PURGE_COMMAND = ["purge", "--older-than", "90d"]


def test_old_requests_are_purged(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output counts them. The record is sound, and other commands still work."""
    assert main(PURGE_COMMAND) == 0
    assert capsys.readouterr().out == "Purged what was said in 1 request.\n"
    assert main(["audit", "verify"]) == 0
    assert "the payload of 1 request was purged" in capsys.readouterr().out
    [call] = {each for each in read_column(record, "call_id") if each}
    assert main(["audit", "show", call]) == 0
    assert "as shown" not in capsys.readouterr().out
    assert main(["show", call]) == 0
    assert "as shown" not in capsys.readouterr().out
    assert main(["policy", "replay", "--since", "9999d"]) == 0
    assert main(["report", "--since", "9999d"]) == 0
    assert "UANA00001" in capsys.readouterr().out
    assert main(PURGE_COMMAND) == 0
    assert capsys.readouterr().out == "Purged what was said in 0 requests.\n"


def test_a_report_works_after_a_refused_call_was_purged(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a call has no gate, and the reason has been purged."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE call SET status = 'refused', gate = '{}', note = 'policy: no'")
    assert main(PURGE_COMMAND) == 0
    capsys.readouterr()
    assert main(["report", "--since", "9999d"]) == 0
    assert capsys.readouterr().err == ""


def test_a_purge_makes_the_file_smaller(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output says by how much."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE delivery SET body = json_object('words', hex(zeroblob(400000)))")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = record.stat().st_size
    assert main(PURGE_COMMAND) == 0
    assert record.stat().st_size < 0.6 * before
    assert "bytes smaller" in capsys.readouterr().out


def test_younger_requests_are_not_purged(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No request is as old as the given age."""
    assert main(["purge", "--older-than", "9999d"]) == 0
    assert "in 0 requests" in capsys.readouterr().out
    assert any(read_column(record, "payload"))


def test_an_age_below_ninety_days_is_refused(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules may count calls that are that old."""
    with pytest.raises(SystemExit) as ended:
        main(["purge", "--older-than", "89d"])
    assert ended.value.code == 2
    assert "rules may count calls that are that old" in capsys.readouterr().err


def test_nothing_is_purged_beside_a_running_bot(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running bot purges its record itself."""
    with lock_database(record):
        assert main(PURGE_COMMAND) == 1
    assert "already running" in capsys.readouterr().err
    assert any(read_column(record, "payload"))


def test_a_purge_without_a_record_creates_none(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is wrong, and the error has it."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///elsewhere.db")
    assert main(PURGE_COMMAND) == 1
    assert "no database at elsewhere.db" in capsys.readouterr().err
    assert not Path("elsewhere.db").exists()
