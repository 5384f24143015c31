"""Tokens are encrypted for their workspace, by keys that change; nobody reads them anywhere."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.workspaces.tokens import TokenCipher, TokenKeyError, Tokens, open_token_cipher
from storage.installations import Installation, InstallationRecord
from tests.workspaces.builders import TEAM, installed

OLD, NEW = "old:" + "o" * 32, "new:" + "n" * 40
BOT, REFRESH = "xoxe.xoxb-1-of-acme-and-secret", "xoxe-1-renews-it"
TOKENS = Tokens(SecretStr(BOT), SecretStr(REFRESH))


def cipher(*keys: str) -> TokenCipher:
    """The cipher for these keys, as the setting has them."""
    return TokenCipher.parse(SecretStr(",".join(keys)))


def sealed(by: TokenCipher, workspace: str = TEAM, tokens: Tokens = TOKENS) -> Installation:
    """An installation with these tokens."""
    found = by.seal(workspace, tokens)
    return installed(workspace, sealed_tokens=found, token_key=by.key_id)


def test_what_was_sealed_opens(record: InstallationRecord) -> None:
    """By way of the record, with and without a token that renews it."""
    only = Tokens(SecretStr(BOT))
    for workspace, tokens in (("T1", TOKENS), ("T2", only)):
        stored = record.insert_or_update_installation(sealed(cipher(OLD), workspace, tokens))
        assert cipher(NEW, OLD).open(stored) == tokens
    assert cipher(OLD).seal("T1", only) != cipher(OLD).seal("T1", only)


def test_bound_to_its_workspace() -> None:
    """Tokens moved to another workspace's row, or changed by a bit, are refused."""
    row = sealed(cipher(OLD))
    row.workspace = "T0OTHER"
    changed = sealed(cipher(OLD))
    changed.sealed_tokens = changed.sealed_tokens[:-1] + bytes([changed.sealed_tokens[-1] ^ 1])
    short = sealed(cipher(OLD))
    short.sealed_tokens = b"x"
    renamed = sealed(cipher(OLD))
    renamed.token_key = "new"
    same = cipher(OLD, "new:" + "o" * 32)
    for each in (row, changed, short, renamed):
        with pytest.raises(TokenKeyError, match="is not what was encrypted"):
            same.open(each)


def test_a_key_that_is_gone() -> None:
    """The message names the key and the workspace, and what to do."""
    with pytest.raises(TokenKeyError, match=f"of {TEAM} .* key old, .* add it after the others"):
        cipher(NEW).open(sealed(cipher(OLD)))
    with pytest.raises(TokenKeyError, match="was uninstalled"):
        cipher(NEW).open(installed(sealed_tokens=b"", token_key=""))


def test_all_move_to_the_first_key(
    record: InstallationRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """Resealed, they open without the old key; a token renewed meanwhile is not overwritten.

    What no key opens holds up no other, and is counted.
    """
    for workspace in ("T1", "T2"):
        record.insert_or_update_installation(sealed(cipher(OLD), workspace))
    [stale, _] = record.list()
    both = cipher(NEW, OLD)
    assert both.reseal_all(record) == 0
    for row in record.list():
        assert cipher(NEW).open(row) == TOKENS
        assert row.token_revision == 1  # it is the same token
    renewed = Tokens(SecretStr("xoxb-renewed"))
    record.insert_or_update_installation(sealed(cipher(OLD), "T1", renewed))
    assert not record.replace_sealed_tokens(stale, b"of the old token", "new")
    record.insert_or_update_installation(sealed(cipher("lost:" + "l" * 32), "T0LOST"))
    assert both.reseal_all(record) == 1
    assert "the token of T0LOST is encrypted with the key lost" in caplog.text
    [_, first, _] = record.list()
    assert cipher(NEW).open(first) == renewed


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("s" * 40, "write id:secret"),
        ("s" * 32 + ":", "write id:secret"),
        ("s" * 40 + ":one", "write id:secret"),
        ("s" * 31 + "t:one", "secret of key 1 is shorter than 32"),
        (f"{NEW},old:tooshort", "secret of key 2 is shorter than 32"),
        (f"{NEW},new:{'s' * 32}", "two keys with the same id"),
        ("", "write id:secret"),
    ],
)
def test_keys_that_cannot_be_used(setting: str, why: str) -> None:
    """The message says what is wrong, and shows nothing of what may be the secret."""
    with pytest.raises(TokenKeyError, match=why) as refused:
        TokenCipher.parse(SecretStr(setting))
    assert "sss" not in str(refused.value)
    assert "tooshort" not in str(refused.value)


def test_a_key_file_beside_the_record(file_record: InstallationRecord) -> None:
    """Without the setting it is made on first start; an older key stands on a further line."""
    path = file_record.path
    assert path is not None
    unset = Settings.model_construct(token_keys=None)
    row = sealed(open_token_cipher(unset, file_record))
    key_file = Path(f"{path}.key")
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert open_token_cipher(unset, file_record).open(row) == TOKENS
    key_file.write_text("n" * 32 + "\n" + key_file.read_text())
    again = open_token_cipher(unset, file_record)
    assert again.key_id != row.token_key
    assert again.open(row) == TOKENS
    key_file.write_text("short")
    with pytest.raises(StartupError, match="at least 32 characters"):
        open_token_cipher(unset, file_record)
    given = Settings.model_construct(token_keys=SecretStr(OLD))
    assert open_token_cipher(given, file_record).key_id == "old"


def test_nobody_reads_them(record: InstallationRecord) -> None:
    """Neither in a repr nor in the row as it is stored."""
    by = cipher(OLD)
    stored = record.insert_or_update_installation(sealed(by))
    said = f"{TOKENS!r} {TOKENS} {by!r} {by.seal(TEAM, TOKENS)!r} {stored!r} {by.open(stored)!r}"
    for secret in (BOT, REFRESH, "o" * 32):
        assert secret not in said
        assert secret.encode() not in stored.sealed_tokens
    assert "sealed_tokens" not in repr(stored)
