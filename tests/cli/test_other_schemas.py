"""A record whose schema this version cannot use is refused by every command."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from countersign.cli.commands import main
from storage.store import Store

pytestmark = pytest.mark.file
CHANGES = {
    "newer": ("UPDATE alembic_version SET version_num = '8888'", "newer Countersign"),
    "unknown": ("UPDATE alembic_version SET version_num = '0000'", "another Countersign"),
    "column lost": ("ALTER TABLE run DROP COLUMN error", "column run.error is missing"),
    "table lost": ("DROP TABLE attempt", "table attempt is missing"),
    "no number": ("DELETE FROM alembic_version", "does not say which schema"),
}
COMMANDS = (
    ["doctor"],
    ["audit", "verify"],
    ["audit", "show", "x"],
    ["audit", "export"],
    ["pending"],
    ["show", "x"],
    ["report"],
    ["purge", "--older-than", "365d"],
    ["backup", "copy.db"],
    ["restore", "odd.db"],
    ["copy-to", "postgresql://nobody@127.0.0.1:1/none"],
    ["key", "list"],
    ["policy", "replay"],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a record."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "DATABASE_URL": "sqlite:///countersign.db",
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_APP_TOKEN": "xapp-1",
        "SLACK_API_URL": "http://127.0.0.1:1/api/",
        "OPENAI_API_KEY": "sk-none",
        "COUNTERSIGN_OPERATOR": "UANA00001",
        "COUNTERSIGN_POLICY": "policy.toml",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "policy.toml").write_text('[defaults]\napprovers = ["U0ANA0001"]\n', "utf-8")
    for name in ("countersign.db", "odd.db"):
        Store(f"sqlite:///{name}").open().close()
    (tmp_path / "odd.db.key").replace(tmp_path / "countersign.db.key")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("change", CHANGES)
def test_a_record_with_another_schema_is_refused_in_a_sentence(
    change: str, command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says why; there is no traceback."""
    sql, said = CHANGES[change]
    changed = "odd.db" if command[0] == "restore" else "countersign.db"
    with closing(sqlite3.connect(folder / changed)) as raw:
        raw.execute(sql)
        raw.commit()
    assert main(command) != 0
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert "Traceback" not in told.out + told.err
