"""What the commands about backups have in common: the key in use, and what a record amounts to."""

from __future__ import annotations

from collections.abc import Mapping

from bot.config.settings import Settings
from countersign.cli.console import complain, say
from storage.digest import KeyFileError, key_path, read_key
from storage.examination import Examination

_TOLD = (  # of which tables, and what a row of each is called
    ("run", "request", "requests"),
    ("call", "call", "calls"),
    ("audit", "row of the audit", "rows of the audit"),
)


def key_in_use(settings: Settings) -> bytes:
    """The key that the bot works with; OSError or ValueError where there is none."""
    if settings.signing_key is not None:
        return settings.signing_key
    if settings.is_shared:
        raise KeyFileError("COUNTERSIGN_KEY must be set")
    return read_key(key_path(settings.database_path))


def amount(counts: Mapping[str, int]) -> str:
    """How much is in a record: "2 requests, 1 call, 12 rows of the audit"."""
    return ", ".join(
        f"{counts[name]} {one if counts[name] == 1 else many}" for name, one, many in _TOLD
    )


def say_found(found: Examination, key: str) -> None:
    """Say what reading all of it has shown, under the key with that id."""
    for each in found.remarks:
        say(f"Note: {each}.")
    for each in found.problems:
        complain(f"NOT SOUND, as it was when it was written: {each}.")
    if not found.problems:
        say(f"Sound: {found.head.seq} rows under the key {key}.")
