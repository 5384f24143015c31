"""Tokens are encrypted for their workspace, with keys that can change."""

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


def make_cipher(*keys: str) -> TokenCipher:
    """Make a cipher with these keys, as written in the setting."""
    return TokenCipher.parse(SecretStr(",".join(keys)))


def make_installation(
    by: TokenCipher, workspace: str = TEAM, tokens: Tokens = TOKENS
) -> Installation:
    """Make an installation with these tokens."""
    found = by.seal(workspace, tokens)
    return installed(workspace, sealed_tokens=found, token_key=by.key_id)


def test_encrypted_tokens_can_be_decrypted(record: InstallationRecord) -> None:
    """They are read from the record, with and without a refresh token."""
    only = Tokens(SecretStr(BOT))
    for workspace, tokens in (("T1", TOKENS), ("T2", only)):
        stored = record.insert_or_update_installation(
            make_installation(make_cipher(OLD), workspace, tokens)
        )
        assert make_cipher(NEW, OLD).open(stored) == tokens
    assert make_cipher(OLD).seal("T1", only) != make_cipher(OLD).seal("T1", only)


def test_encrypted_tokens_are_bound_to_their_workspace() -> None:
    """Tokens in another workspace's row, or changed by a bit, are refused."""
    row = make_installation(make_cipher(OLD))
    row.workspace = "T0OTHER"
    changed = make_installation(make_cipher(OLD))
    changed.sealed_tokens = changed.sealed_tokens[:-1] + bytes([changed.sealed_tokens[-1] ^ 1])
    short = make_installation(make_cipher(OLD))
    short.sealed_tokens = b"x"
    renamed = make_installation(make_cipher(OLD))
    renamed.token_key = "new"
    same = make_cipher(OLD, "new:" + "o" * 32)
    for each in (row, changed, short, renamed):
        with pytest.raises(TokenKeyError, match="is not what was encrypted"):
            same.open(each)


def test_the_error_about_a_missing_key_says_what_to_do() -> None:
    """It names the key and the workspace."""
    with pytest.raises(TokenKeyError, match=f"of {TEAM} .* key old, .* add it after the others"):
        make_cipher(NEW).open(make_installation(make_cipher(OLD)))
    with pytest.raises(TokenKeyError, match="was uninstalled"):
        make_cipher(NEW).open(installed(sealed_tokens=b"", token_key=""))


def test_all_tokens_can_be_moved_to_the_first_key(
    record: InstallationRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """After that they need no old key. A token that was renewed meanwhile is not overwritten.

    Tokens that no key decrypts are counted, and do not stop the others.
    """
    for workspace in ("T1", "T2"):
        record.insert_or_update_installation(make_installation(make_cipher(OLD), workspace))
    [stale, _] = record.list()
    both = make_cipher(NEW, OLD)
    assert both.reseal_all(record) == 0
    for row in record.list():
        assert make_cipher(NEW).open(row) == TOKENS
        assert row.token_revision == 1  # it is the same token
    renewed = Tokens(SecretStr("xoxb-renewed"))
    record.insert_or_update_installation(make_installation(make_cipher(OLD), "T1", renewed))
    assert not record.replace_sealed_tokens(stale, b"of the old token", "new")
    record.insert_or_update_installation(
        make_installation(make_cipher("lost:" + "l" * 32), "T0LOST")
    )
    assert both.reseal_all(record) == 1
    assert "the token of T0LOST is encrypted with the key lost" in caplog.text
    [_, first, _] = record.list()
    assert make_cipher(NEW).open(first) == renewed


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
def test_unusable_token_keys_are_refused(setting: str, why: str) -> None:
    """The message says what is wrong, and shows nothing that may be the secret."""
    with pytest.raises(TokenKeyError, match=why) as refused:
        TokenCipher.parse(SecretStr(setting))
    assert "sss" not in str(refused.value)
    assert "tooshort" not in str(refused.value)


def test_token_keys_are_in_a_file_beside_the_record(file_record: InstallationRecord) -> None:
    """Without the setting it is created on first start; older keys are on further lines."""
    path = file_record.path
    assert path is not None
    unset = Settings.model_construct(token_keys=None)
    row = make_installation(open_token_cipher(unset, file_record))
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


def test_tokens_are_not_readable_in_texts_or_rows(record: InstallationRecord) -> None:
    """Neither in a repr nor in the stored row."""
    by = make_cipher(OLD)
    stored = record.insert_or_update_installation(make_installation(by))
    said = f"{TOKENS!r} {TOKENS} {by!r} {by.seal(TEAM, TOKENS)!r} {stored!r} {by.open(stored)!r}"
    for secret in (BOT, REFRESH, "o" * 32):
        assert secret not in said
        assert secret.encode() not in stored.sealed_tokens
    assert "sealed_tokens" not in repr(stored)
