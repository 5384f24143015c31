"""Keys of a running bot, made and revoked as `countersign key` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bot.cli.bot_connection import post_to_bot
from storage.backend import socket_path


class NewKey(NamedTuple):
    """A key that was made."""

    key: str
    webhook_secret: str


def make_key(record: Path, name: str, person: str, tools: Sequence[str], **more: Any) -> NewKey:
    """Have the bot on this record make one: as whom it asks, and for what."""
    wanted = {"name": name, "person": person, "tools": list(tools), **more}
    return NewKey(**post_to_bot(socket_path(record), "/v1/keys", wanted))


def revoke_key(record: Path, name: str) -> None:
    """Have it be good no more."""
    post_to_bot(socket_path(record), "/v1/keys/revoke", {"name": name})
