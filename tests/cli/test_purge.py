"""`countersign purge`: beside a stopped bot, with an age, and what the other commands then say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from countersign.cli.commands import main
from storage.sqlite import lock_database
from tests.cli.test_audit import column


@pytest.fixture(autouse=True)
def told(record: Path) -> None:
    """Slack has been told all that there was to tell."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE message SET status = 'sent'")


OLD = ["purge", "--older-than", "90d"]


def test_old_requests_are_purged(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says how many; the record is still whole, and told of without what was said."""
    assert main(OLD) == 0
    assert capsys.readouterr().out == "Purged what was said in 1 request.\n"
    assert main(["audit", "verify"]) == 0
    assert "the payload of 1 request was purged" in capsys.readouterr().out
    [call] = {each for each in column(record, "call_id") if each}
    assert main(["audit", "show", call]) == 0
    assert "as shown" not in capsys.readouterr().out
    assert main(["show", call]) == 0
    assert "as shown" not in capsys.readouterr().out
    assert main(["policy", "replay", "--since", "9999d"]) == 0
    assert main(["report", "--since", "9999d"]) == 0
    assert "UANA00001" in capsys.readouterr().out
    assert main(OLD) == 0
    assert capsys.readouterr().out == "Purged what was said in 0 requests.\n"


def test_a_purged_refusal_hinders_no_report(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that policy refused has no gate, and why it was refused is gone with the rest."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE call SET status = 'refused', gate = '{}', note = 'policy: no'")
    assert main(OLD) == 0
    capsys.readouterr()
    assert main(["report", "--since", "9999d"]) == 0
    assert capsys.readouterr().err == ""


def test_the_file_gets_smaller(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the purge freed is given back to the disk, and it says how much."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE delivery SET body = json_object('words', hex(zeroblob(400000)))")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = record.stat().st_size
    assert main(OLD) == 0
    assert record.stat().st_size < 0.6 * before
    assert "bytes smaller" in capsys.readouterr().out


def test_young_requests_are_left_alone(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is as old as that."""
    assert main(["purge", "--older-than", "9999d"]) == 0
    assert "in 0 requests" in capsys.readouterr().out
    assert any(column(record, "payload"))


def test_what_rules_may_count_stays(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Less than ninety days is refused, with the reason."""
    with pytest.raises(SystemExit) as ended:
        main(["purge", "--older-than", "89d"])
    assert ended.value.code == 2
    assert "rules may count calls that are that old" in capsys.readouterr().err


def test_beside_a_bot_nothing_is_purged(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bot that holds the record does it by itself."""
    with lock_database(record):
        assert main(OLD) == 1
    assert "already running" in capsys.readouterr().err
    assert any(column(record, "payload"))


def test_without_a_record_none_is_made(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong path is told, and no database appears there."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///elsewhere.db")
    assert main(OLD) == 1
    assert "no database at elsewhere.db" in capsys.readouterr().err
    assert not Path("elsewhere.db").exists()
