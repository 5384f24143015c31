"""`countersign restore` and the key of a backup: on another machine, or lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from countersign.cli.commands import main
from storage.digest import compute_key_id
from tests.cli.test_backup import Output, count_rows, list_names, read_key

OTHER = "another-key-of-at-least-32-characters"


@pytest.fixture
def elsewhere(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the record on another machine, which has the backup and no key."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copyfile("policy.toml", folder / "policy.toml")
    monkeypatch.chdir(folder)
    return folder / "countersign.db"


def test_a_restore_on_another_machine_needs_the_key(
    elsewhere: Path, backup: Path, capsys: Output
) -> None:
    """Without the key nothing is restored; with the key in its file the whole record is."""
    key = read_key(backup)
    needed = compute_key_id(key.encode())
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert f"it is sealed with the key {needed}, and there is no key here" in told
    assert f"COUNTERSIGN_LOST_KEY={needed}" in told
    assert list_names(elsewhere.parent) == {"policy.toml"}
    elsewhere.with_name("countersign.db.key").write_text(key)
    assert main(["restore", str(backup)]) == 0
    told = capsys.readouterr().out
    assert "Sound: " in told
    assert "is kept as" not in told
    assert count_rows(elsewhere) == count_rows(backup)


def test_a_backup_is_not_restored_under_another_key(
    elsewhere: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Both keys are named by their ids. If the key is declared lost, nothing is checked."""
    needed = compute_key_id(read_key(backup).encode())
    monkeypatch.setenv("COUNTERSIGN_KEY", OTHER)
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert f"with the key {needed}, and the key here is {compute_key_id(OTHER.encode())}" in told
    monkeypatch.setenv("COUNTERSIGN_LOST_KEY", needed)
    assert main(["restore", str(backup)]) == 0
    told = capsys.readouterr().out
    assert f"the key {needed} is lost, so changes in the backup cannot be detected" in told
    assert "Sound" not in told
    assert not elsewhere.with_name("countersign.db.key").exists()


def test_a_backup_with_its_key_can_be_restored_alone(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The key is written to its file, not into the record. The backup comes with a warning."""
    key = read_key(record)
    assert main(["backup", "--with-key", "b.db"]) == 0
    assert "anyone who can read this file can forge the record" in capsys.readouterr().out
    backup = record.with_name("b.db")
    assert key.encode() in backup.read_bytes()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'elsewhere' / 'countersign.db'}")
    assert main(["restore", str(backup)]) == 0
    there = tmp_path / "elsewhere" / "countersign.db"
    kept = there.with_name("countersign.db.key")
    assert (kept.read_text(), oct(kept.stat().st_mode & 0o777)) == (key, "0o600")
    assert key.encode() not in there.read_bytes()
