"""Files that people write may begin with a byte order mark, as some editors and Excel make one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.config.startup import read_policy
from bot.mcp.server_file import read_server_file
from bot.tools.database.config import read_databases
from countersign.cli.commands import main

POLICY = '[defaults]\napprovers = ["@leads"]\n'
OWNED = f"""{POLICY}
[owners.word]
file = "owners.csv"
[[rule]]
tool = "note"
verdict = "ask"
approvers = ["owner of args.word"]
"""
DATABASES = '[[database]]\nname = "shop"\nabout = "The shop"\nurl = "sqlite:///shop.db"\n'
SERVERS = '[[server]]\nname = "notes"\ncommand = "notes"\n'
CASES = (
    'at = 2026-11-24T12:00:00Z\n[[case]]\nname = "one"\ntool = "set_topic"\nexpect = "ask"\n'
    'args = { channel = "C0SUPPORT", topic = "x" }\nrequester = "UBEN00001"\n'
)


def read_policy_and_owners(path: Path) -> object:
    """Read the policy and its file of owners, which has the mark as well."""
    path.with_name("owners.csv").write_text("key,owners\none,@leads\n", "utf-8-sig")
    return read_policy(path).owners


def try_cases(path: Path) -> object:
    """Whether `policy test` passes with these cases."""
    path.with_name("policy.toml").write_text(POLICY, "utf-8-sig")
    return main(["policy", "test", str(path), "--policy", str(path.with_name("policy.toml"))]) == 0


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("policy.toml", OWNED, read_policy_and_owners),
        ("cases.toml", CASES, try_cases),
        ("databases.toml", DATABASES, lambda path: read_databases(path, {})[0].about),
        ("servers.toml", SERVERS, lambda path: read_server_file(path, {}).servers),
    ],
)
def test_a_byte_order_mark_in_a_file_is_ignored(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    read: Callable[[Path], object],
) -> None:
    """Each kind of file reads the same with and without one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    found = []
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(text, encoding)
        found.append(read(path))
    assert found[0] == found[1]
    assert found[0]
