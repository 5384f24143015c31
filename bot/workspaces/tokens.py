"""Encrypts the workspaces' tokens for the record of installations, and decrypts them.

AES-256-GCM, with several keys by id: the first encrypts, all decrypt. What is encrypted is bound to
its workspace and key, so it cannot be moved to another row. No token is in a repr or an error.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from bot.config.settings import Settings
from bot.config.startup import StartupError
from storage import digest
from storage.installations import Installation, InstallationRecord

INSTALLATIONS_FILE_NAME = "installations.db"  # in the workspaces' folder
log = logging.getLogger("countersign.workspaces")
KEY_SETTING = "COUNTERSIGN_TOKEN_KEYS"
_KEY_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)
_NONCE_BYTES = 12  # the standard size for AES-GCM
_KEY_PURPOSE = b"countersign installation tokens"


class TokenKeyError(ValueError):
    """Raised if the keys cannot be used, or do not decrypt a token; says what to do."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A workspace's bot token, with the one that renews it where tokens expire."""

    bot: SecretStr
    refresh: SecretStr | None = None


class TokenCipher:
    """Encrypts and decrypts tokens with the keys of this installation."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets` by their ids; the first encrypts. TokenKeyError if they cannot be used."""
        for number, (key_id, secret) in enumerate(secrets.items(), 1):
            # the id is not quoted: a wrong one may be the secret
            if not _KEY_ID_PATTERN.fullmatch(key_id) or not secret:
                raise TokenKeyError(
                    f"{KEY_SETTING}: write id:secret,id:secret with ids such as 2026-11"
                )
            if len(secret) < digest.KEY_MIN_CHARS:
                short = (
                    f"the secret of key {number} is shorter than {digest.KEY_MIN_CHARS} characters"
                )
                raise TokenKeyError(f"{KEY_SETTING}: {short}")
        self._ciphers = {key_id: AESGCM(_derive_key(each)) for key_id, each in secrets.items()}
        self.key_id = next(iter(secrets))  # id of the key that encrypts

    @classmethod
    def parse(cls, setting: SecretStr) -> Self:
        """Return the cipher for "id:secret,id:secret"; TokenKeyError if it cannot be read."""
        pairs = [each.strip().partition(":") for each in setting.get_secret_value().split(",")]
        if len({key_id.strip() for key_id, _, _ in pairs}) < len(pairs):
            raise TokenKeyError(f"{KEY_SETTING} has two keys with the same id")
        return cls({key_id.strip(): secret.strip() for key_id, _, secret in pairs})

    def seal(self, workspace: str, tokens: Tokens) -> bytes:
        """Return the tokens encrypted for that workspace, with the key `key_id`."""
        held = {"bot": tokens.bot.get_secret_value()}
        if tokens.refresh is not None:
            held["refresh"] = tokens.refresh.get_secret_value()
        nonce, bound = os.urandom(_NONCE_BYTES), _bind(workspace, self.key_id)
        return nonce + self._ciphers[self.key_id].encrypt(nonce, json.dumps(held).encode(), bound)

    def open(self, installation: Installation) -> Tokens:
        """Return the tokens of an installation; TokenKeyError if no key decrypts them."""
        workspace, key_id = installation.workspace, installation.token_key
        if not key_id:
            raise TokenKeyError(f"{workspace} has no token: the bot was uninstalled there")
        if key_id not in self._ciphers:
            raise TokenKeyError(
                f"the token of {workspace} is encrypted with the key {key_id}, which is not among"
                f" those of {KEY_SETTING}; add it after the others, or install the bot there again"
            )
        sealed, bound = installation.sealed_tokens, _bind(workspace, key_id)
        try:
            text = self._ciphers[key_id].decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound
            )
        except (InvalidTag, ValueError):  # ValueError: it is too short
            raise TokenKeyError(
                f"the token of {workspace} is not what was encrypted with the key {key_id}: that"
                " key has another secret now, or the record was changed by hand. Put the key back,"
                " or install the bot there again"
            ) from None
        return Tokens(**{name: SecretStr(token) for name, token in json.loads(text).items()})

    def reseal_all(self, record: InstallationRecord) -> int:
        """Encrypt all stored tokens with the first key; return how many still have another key.

        The bot may be running. Tokens still have another key if a process with older settings
        stored them meanwhile, or if no key decrypts them, which is logged. Once the number is 0,
        the older keys are no longer needed.
        """
        for each in self._list_sealed_under_other_keys(record):
            try:
                sealed = self.seal(each.workspace, self.open(each))
            except TokenKeyError as error:
                log.error("%s", error)
            else:
                record.replace_sealed_tokens(each, sealed, self.key_id)
        return len(self._list_sealed_under_other_keys(record))

    def _list_sealed_under_other_keys(self, record: InstallationRecord) -> list[Installation]:
        return [each for each in record.list() if each.token_key not in ("", self.key_id)]


def _derive_key(secret: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=_KEY_PURPOSE).derive(secret.encode())


def _bind(workspace: str, key_id: str) -> bytes:
    return json.dumps([_KEY_PURPOSE.decode(), workspace, key_id]).encode()


def open_installation_record(settings: Settings) -> InstallationRecord:
    """Return the record of installations that the settings name, open; raises SchemaError."""
    own = f"sqlite:///{settings.workspaces / INSTALLATIONS_FILE_NAME}"
    return InstallationRecord(settings.database_url if settings.is_shared else own).open()


def open_token_cipher(settings: Settings, record: InstallationRecord) -> TokenCipher:
    """Return the cipher with the keys of the setting, or of the key file beside the record.

    The file is made at the first start; further lines may hold older keys. Raises StartupError, and
    OSError if the file cannot be read or written.
    """
    try:
        if settings.token_keys is not None:
            return TokenCipher.parse(settings.token_keys)
        assert record.path is not None  # with a database server, the setting is required
        key = digest.load_or_create_signing_key(digest.key_file_path(record.path))
    except (TokenKeyError, digest.KeyFileError) as error:
        raise StartupError([str(error)], ()) from None
    secrets = digest.list_current_and_older_keys(key)
    return TokenCipher({digest.compute_key_id(each): each.decode() for each in secrets})
