"""`countersign backup`, `restore`, `copy-to`: save, restore or move the record (the database).

`copy-to` moves it from SQLite into PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from bot import __version__
from bot.cli.read_only_core import print_examination
from bot.clock import ForwardOnlyClock, SystemClock
from bot.config.settings import Settings, SettingsError
from bot.replicas.membership import advance_clock_past_stored_times
from bot.signing_key import get_signing_key, open_store
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import DOTENV, CommandError, print_line
from storage import backups, digest
from storage.backend import build_backend, normalize_postgres_url
from storage.migrations import SchemaError
from storage.record import ReadOnlyStore, Store
from storage.record_copies import UnreadableRowsError
from storage.sqlite import lock_database

AS_WRITTEN_SUFFIX = ", as it was when it was written"
_COUNTED_TABLES = (  # each table, and the name of its rows in the singular and the plural
    ("run", "request", "requests"),
    ("call", "call", "calls"),
    ("audit", "row of the audit", "rows of the audit"),
)


def format_row_counts(counts: Mapping[str, int]) -> str:
    """Return how much a record holds: "2 requests, 1 call, 12 rows of the audit", for example."""
    return ", ".join(
        f"{counts[name]} {one if counts[name] == 1 else many}"
        for name, one, many in _COUNTED_TABLES
    )


@contextmanager
def _end_with_sentence(what: str) -> Iterator[None]:
    """Raise CommandError for what fails in this block, with a sentence that begins with `what`."""
    try:
        yield
    except SettingsError:  # it says so itself
        raise
    except (backups.BackupError, SchemaError, UnreadableRowsError, ValueError) as error:
        raise CommandError(f"{what}: {error}.") from None
    except (OSError, DBAPIError, sqlite3.Error) as error:
        raise CommandError(f"{what}: {backups.error_sentence(error)}.") from None


def _add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")
    parser.add_argument(
        "--with-key",
        action="store_true",
        help="put the key into it: anyone who can read the file can then forge the record",
    )


def _run_backup(arguments: argparse.Namespace) -> int:
    """Write a backup, read it again and print what it holds; return 1 if it is damaged."""
    settings, path = Settings.load(os.environ, DOTENV, reading=True), arguments.file
    now, with_key = SystemClock().now(), arguments.with_key
    store = ReadOnlyStore(settings.database_url)
    with _end_with_sentence("Nothing was backed up"), closing(store):
        if trouble := store.describe_read_problem():
            raise backups.BackupError(trouble)
        try:
            key = get_signing_key(settings)
        except (OSError, digest.KeyFileError) as error:
            why = backups.error_sentence(error)
            raise backups.BackupError(f"the record is sealed with the key. {why}") from None
        backup = backups.make_backup(
            store, path, key, at=now, version=__version__, with_key=with_key
        )
    print_line(
        f"Backed up to {path}: {format_row_counts(backup.row_counts)}; {backup.size:,} bytes."
    )
    print_examination(backup.examination, digest.compute_key_id(key), AS_WRITTEN_SUFFIX)
    if with_key:
        print_line("The key is in it: anyone who can read this file can forge the record.")
    else:
        where = "COUNTERSIGN_KEY" if settings.key else digest.key_file_path(settings.database_path)
        print_line(
            f"The key is NOT in it. Keep {where} elsewhere: without it this backup cannot be"
            " checked, and no call that waits in it can ever run."
        )
    return 1 if backup.examination.problems else 0


BACKUP = CommandFunctions(_add_backup_arguments, _run_backup)


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `countersign backup` wrote")


def _run_restore(arguments: argparse.Namespace) -> int:
    """Put a backup in place of the record; raises AlreadyRunningError if the bot is running."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    path: Path = settings.database_path
    with _end_with_sentence("Nothing was restored"):
        if settings.is_shared:
            return _restore_into_server(settings, arguments.file)
        backups.require_place_for_record(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and arguments.file.exists() and path.samefile(arguments.file):
            raise backups.BackupError(f"{path} is the record itself")
        with closing(lock_database(path)):
            return _restore_into_file(settings, arguments.file, path)


def _restore_into_file(settings: Settings, file: Path, path: Path) -> int:
    """Put the backup in place of the database at `path`, which no other process uses."""
    now, real = SystemClock().now(), path.resolve()
    backups.delete_leftover_folders(real)
    with backups.open_working_copy_of_backup(file, real) as working_copy:
        key, lost = _choose_restore_key(settings, working_copy)
        upgrade = working_copy.check_and_upgrade(key, now, lost=lost)
        if settings.key is None:
            digest.write_key_file_if_absent(digest.key_file_path(path), key)
        aside = backups.replace_database_with_backup(working_copy, real, now)
    _print_restore_result(
        upgrade, working_copy.sealing_key_id if lost else "", digest.compute_key_id(key), aside
    )
    return 0


def _restore_into_server(settings: Settings, file: Path) -> int:
    """Put the backup in place of the record on a database server, which no bot uses."""
    now = SystemClock().now()
    with backups.open_working_copy_of_backup(
        file, Path(tempfile.gettempdir()) / file.name
    ) as working_copy:
        key, lost = _choose_restore_key(settings, working_copy)
        upgrade = working_copy.check_and_upgrade(key, now, lost=lost)
        with (
            closing(backups.build_store_in_folder(working_copy.folder, key)) as source,
            closing(Store(settings.database_url, key=key).open()) as target,
        ):
            copy_result = backups.replace_database_contents(
                source, target, None if lost else upgrade.examination.problems, now
            )
    aside = copy_result.kept_schema and f"the schema {copy_result.kept_schema} of the database"
    _print_restore_result(
        upgrade, working_copy.sealing_key_id if lost else "", digest.compute_key_id(key), aside
    )
    return 0


def _print_restore_result(made: backups.Backup, lost: str, key: str, aside: object) -> None:
    """Print what was restored, the ids of signing keys, and where the earlier record is kept."""
    print_line(f"Restored from {made.path}: {format_row_counts(made.row_counts)}.")
    if lost:
        print_line(f"Note: the key {lost} is lost, so changes in the backup cannot be detected.")
    else:
        print_examination(made.examination, key, AS_WRITTEN_SUFFIX)
    if aside:
        print_line(f"The earlier record is kept as {aside}.")
    again = "what waited or ran is posted again for approval, with new buttons"
    print_line(f"Start the bot, or resume the workspace: {again}.")


def _choose_restore_key(
    settings: Settings, working_copy: backups.BackupWorkingCopy
) -> tuple[bytes, bool]:
    """Return the signing key for the restored record, and whether the backup's own key is lost.

    Raises BackupError if the backup's key is neither here nor said to be lost.
    """
    needed, key_path = working_copy.sealing_key_id, digest.key_file_path(settings.database_path)
    lost = bool(needed) and settings.lost_key == needed
    if settings.key is not None or settings.is_shared or key_path.exists():
        mine = get_signing_key(settings)
    elif working_copy.signing_key and needed in digest.list_key_ids(working_copy.signing_key):
        mine = working_copy.signing_key
    elif lost or not needed:
        mine = digest.load_or_create_signing_key(key_path)
    else:
        raise backups.BackupError(
            f"it is sealed with the key {needed}, and there is no key here; put it into {key_path}"
            f" or set COUNTERSIGN_KEY. If it is lost, {_lost_key_hint(needed)}"
        )
    if needed not in {"", *digest.list_key_ids(mine)} and not lost:
        raise backups.BackupError(
            f"it is sealed with the key {needed}, and the key here is "
            f"{digest.compute_key_id(mine)}; put that key into {key_path} or set "
            f"COUNTERSIGN_KEY. If it is lost, {_lost_key_hint(needed)}"
        )
    return mine, lost and needed not in digest.list_key_ids(mine)


def _lost_key_hint(needed: str) -> str:
    return (
        f"COUNTERSIGN_LOST_KEY={needed} restores the backup unchecked, and closes without"
        " running what waits in it"
    )


RESTORE = CommandFunctions(_add_restore_arguments, _run_restore)


def _add_copy_to_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        help="postgresql://user@host/database, without a record in it; the password may also be in"
        " PGPASSWORD or ~/.pgpass",
    )


def _run_copy_to(arguments: argparse.Namespace) -> int:
    """Copy the record to PostgreSQL. Raises AlreadyRunningError, StartupError for a wrong key."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    clock = ForwardOnlyClock(SystemClock())
    with _end_with_sentence("Nothing was moved"):
        if settings.is_shared:
            raise backups.BackupError(
                "the record is already on a server. To move it, run `countersign backup` there and"
                " `countersign restore` with another DATABASE_URL"
            )
        if not settings.database_path.is_file():
            raise backups.BackupError(f"there is no database at {settings.database_path}")
        try:
            server = build_backend(normalize_postgres_url(arguments.url))
        except ValueError as error:
            raise backups.BackupError(f"the address cannot be used: {error}") from None
        with (
            closing(open_store(settings, clock.now(), lambda: "")) as source,
            closing(Store(server, key=source.signing_key).open()) as target,
        ):
            advance_clock_past_stored_times(source, clock)
            copy_result = backups.copy_database_contents(source, target, clock.now())
    _print_move_result(
        settings,
        copy_result,
        target.database.display_name,
        digest.compute_key_id(source.signing_key),
    )
    return 0


def _print_move_result(
    settings: Settings, copy_result: backups.RecordCopyResult, name: str, key: str
) -> None:
    what = (
        "It was already there" if copy_result.was_already_there else "The whole record was copied"
    )
    print_line(f"{what}, in {name}: {format_row_counts(copy_result.row_counts)}.")
    if not copy_result.was_already_there:
        print_examination(copy_result.examination, key, AS_WRITTEN_SUFFIX)
    kept = (
        "its present value"
        if settings.key
        else f"the content of {digest.key_file_path(settings.database_path)}"
    )
    print_line(
        f"Set DATABASE_URL to that address and COUNTERSIGN_KEY to {kept} (its id is {key}), then"
        " start."
    )
    print_line(
        f"To go back: `countersign backup` there, then `countersign restore` here. If you start on"
        f" {settings.database_path} as it is, all open calls are posted for approval again, as it"
        " does not have what was done on the server."
    )


COPY_TO = CommandFunctions(_add_copy_to_arguments, _run_copy_to)
