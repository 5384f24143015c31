"""Keys of a running bot, made and revoked as `countersign key` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bot.cli.bot_connection import post_to_bot
from storage.backend import socket_path


class NewKey(NamedTuple):
    """A new key, and the secret of its webhook."""

    key: str
    webhook_secret: str


def make_key(record: Path, name: str, person: str, tools: Sequence[str], **more: Any) -> NewKey:
    """Have the bot on this record make a key that asks for `tools` as `person`."""
    wanted = {"name": name, "person": person, "tools": list(tools), **more}
    return NewKey(**post_to_bot(socket_path(record), "/v1/keys", wanted))


def revoke_key(record: Path, name: str) -> None:
    """Have the bot on this record revoke the key."""
    post_to_bot(socket_path(record), "/v1/keys/revoke", {"name": name})
