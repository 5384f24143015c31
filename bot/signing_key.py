"""Opens the record with its signing key, and checks that this key signed the waiting calls.

A call that was shown under another key could never run, so the bot does not start while one waits.
No call is dropped silently: the operator puts the old key back, or declares it lost, and then the
calls that were shown under it are closed without running.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bot import __version__
from bot.agent import outputs
from bot.config.settings import Settings, SettingsError
from bot.config.startup import StartupError
from storage import audit_log, calls, digest, endings, moves
from storage.record import Store
from storage.states import CallStatus

log = logging.getLogger("countersign.keys")
POLICY_DIGEST_DIGITS = 16  # the audit row about reading the policy has all of them
KEY_LOST_NOTE = "it was shown under a key that is lost"


def get_signing_key(settings: Settings) -> bytes:
    """Return the key that the bot works with.

    Raises OSError or KeyFileError where its file has none, SettingsError where the setting has to.
    """
    if settings.signing_key is not None:
        return settings.signing_key
    if settings.is_shared:
        raise SettingsError(["COUNTERSIGN_KEY: is missing. Set it to the one that the bot has."])
    return digest.read_key_file(digest.key_file_path(settings.database_path))


def open_store(
    settings: Settings,
    now: datetime,
    policy: Callable[[], str],
    audit_listener: Callable[[Sequence[audit_log.AuditLine]], None] = audit_log.log_audit_lines,
    *,
    exclusive: bool = True,
) -> Store:
    """Open the record with its signing key, and check which keys signed the waiting calls.

    `policy` returns the digest of the policy in force; the audit keeps its first digits.
    `audit_listener` is called with the audit's rows once they are committed.

    Raises StartupError if the key cannot be used or an unknown key made calls that still wait,
    and what `Store.open` raises.
    """
    key = settings.signing_key

    def under() -> dict[str, str]:
        return {
            "policy": policy()[:POLICY_DIGEST_DIGITS],
            "model": settings.openai_model,
            "version": __version__,
        }

    try:
        store = Store(settings.database_url, key=key, under=under, audit_listener=audit_listener)
        store.open(exclusive=exclusive)
    except digest.KeyFileError as error:
        remedy = "put back the right key file, or set COUNTERSIGN_KEY"
        if settings.is_shared:
            remedy = "set COUNTERSIGN_KEY, the same for every process"
        raise StartupError([f"{error}; {remedy}"], ()) from error
    try:
        _check_signing_keys(settings, store, now)
    except BaseException:
        store.close()
        raise
    return store


def _check_signing_keys(settings: Settings, store: Store, now: datetime) -> None:
    """Raise StartupError if an unknown key signed waiting calls; close those of a lost key."""
    with store.read() as tx:
        open_under = calls.count_open_calls_by_signing_key(tx)
    key_file = None if settings.is_shared else digest.key_file_path(store.path)
    if wrong := unknown_signing_key_sentences(
        open_under, store.signing_key, settings.lost_key, key_file
    ):
        raise StartupError(wrong, ())
    if settings.lost_key in open_under.keys() - digest.list_key_ids(store.signing_key):
        _close_calls_of_lost_key(store, settings.lost_key, now)


def unknown_signing_key_sentences(
    open_under: Mapping[str, int], key: bytes, lost: str | None, key_file: Path | None
) -> list[str]:
    """Return a sentence for each unknown key (by id) that signed calls that still wait.

    Known are `key`, the older keys beside it, and the `lost` one. An empty `key` means that there
    is none. `key_file` is None for PostgreSQL, where keys are in the settings alone.
    """
    or_in_file = f", or a second line in {key_file}" if key_file else ""
    known_key_ids = digest.list_key_ids(key) if key else set()
    own_id = digest.compute_key_id(key) if key else "(none)"
    problem_sentences = []
    for unknown_id in sorted(open_under.keys() - {*known_key_ids, lost}):
        call_count = open_under[unknown_id]
        wait = (
            "1 call still waits that was"
            if call_count == 1
            else f"{call_count} calls still wait that were"
        )
        problem_sentences.append(
            f"COUNTERSIGN_KEY: {wait} shown under the key {unknown_id}, and the key now in use is"
            f" {own_id}. Put the old key after the new one (COUNTERSIGN_KEY=new,old{or_in_file})"
            f" until they are decided or cancelled; if it is lost,"
            f" COUNTERSIGN_LOST_KEY={unknown_id} closes them at the start without running them"
        )
    return problem_sentences


def _close_calls_of_lost_key(store: Store, lost: str, now: datetime) -> None:
    """Close the calls shown under a lost key without running them.

    The model gets an output for each, and their runs go on.
    """
    output = outputs.invalidated_output(KEY_LOST_NOTE)
    with store.write() as tx:
        for call in calls.list_open_calls_of_signing_key(tx, lost):
            at, actor, note = now, "system", KEY_LOST_NOTE
            if not endings.give_up_rerun(tx, call, at=at, actor=actor):
                moves.change_call_status(
                    tx, call, CallStatus.INVALIDATED, at=at, actor=actor, output=output, note=note
                )
            moves.resume_run_if_unblocked(tx, call.run_id, at=now, actor="system")
            log.warning(
                "run %s call %s: closed without running: %s", call.run_id, call.id, KEY_LOST_NOTE
            )
