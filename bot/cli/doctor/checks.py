"""The checks that need no Slack: tools, database, disk, what watches.

Each yields lines; none changes anything.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from bot import signing_key
from bot.checks.check import PATIENCE, Check, fail, ok, warn
from bot.cli.readonly.directory import NotLookedUp
from bot.config.connection_settings import Transport
from bot.config.entry_points import OURS
from bot.config.settings import Settings
from bot.surfaces.registry import PartKind, SurfacesError, surface_classes
from bot.toolbox import ToolsError, families, toolbox
from bot.watch.exporters import METRICS, TRACES, is_installed, missing
from storage import calls
from storage.digest import KeyFileError, key_path, read_key
from storage.migrations import SchemaError
from storage.read_only import ReadOnly
from storage.sqlite_connections import foreign, is_foreign
from storage.store import unfit, version

ROOM_FAIL, ROOM_WARN = 50, 500  # free disk, megabytes


def check_tools(settings: Settings) -> Iterator[Check]:
    """Whether the tools can be put together as at a start, the operator's own among them."""
    try:
        tools = toolbox(settings, None, NotLookedUp("tools are looked at without Slack"))
    except ToolsError as error:
        remedy = "Correct that setting, or install the module where Countersign runs"
        yield fail("tools", str(error), remedy)
    else:
        added = [f"{each.name} of {each.source}" for each in families() if each.source != OURS]
        yield ok("tools", f"{len(tools.tools)} are on{_with(added)}")


def check_surfaces(kind: PartKind) -> Check:
    """Whether every surface or source that is installed can be loaded, and which there are."""
    name = f"{kind}s"
    try:
        found = surface_classes(kind)
    except SurfacesError as error:
        return fail(name, str(error), "Mend that package, or uninstall it")
    added = [f"{each.name} of {each.source}" for each in found if each.source != OURS]
    own = ["Slack", *(each.name for each in found if each.source == OURS)]
    return ok(name, f"{', '.join(own)}{_with(added)}")


def _with(added: list[str]) -> str:
    return f", with {', '.join(added)}" if added else ""


def check_database(settings: Settings) -> Iterator[Check]:
    """Whether the record is sound and can be written, and its disk has room."""
    if settings.is_shared:
        yield from _on_a_server(settings)
        return
    path = settings.database_path.absolute()
    folder = next(each for each in path.parents if each.exists())
    if path.exists():
        yield _sound(path)
    else:
        yield _makeable(path, folder)
    yield from _keys(settings, path)
    room = shutil.disk_usage(folder).free // 1_000_000
    text = f"{room} MB free beside the database"
    if room >= ROOM_WARN:
        yield ok("disk", text)
    else:
        yield (fail if room < ROOM_FAIL else warn)("disk", text, "Make room")


def _on_a_server(settings: Settings) -> Iterator[Check]:
    """Whether the server answers and its database will do; the lock of writers is left alone."""
    store = ReadOnly(settings.database_url)
    name = store.database.name
    try:
        store.database.open(exclusive=False)
        schema = version(store)
        if wrong := unfit(store, schema):
            yield fail("database", wrong)
            return
        with store.read() as tx:
            waiting = calls.open_by_key(tx) if schema else {}
    except SchemaError as error:
        yield fail("database", str(error))
        return
    except DBAPIError as error:
        remedy = "See that the server runs, and that the role in DATABASE_URL may use the database"
        yield fail("database", f"{name}: {str(error.orig).strip()}", remedy)
        return
    finally:
        store.close()
    yield ok("database", f"{name} answers")
    if settings.key is None:
        yield fail("key", "COUNTERSIGN_KEY is not set", "Set it, the same for every process")
        return
    key = settings.signing_key or b""
    for each in signing_key.strangers(waiting, key, settings.lost_key, store.path):
        yield fail("key", each.removeprefix("COUNTERSIGN_KEY: "))


def _makeable(path: Path, folder: Path) -> Check:
    """Whether `folder` takes new files.

    Trying is the only answer that holds for every file system.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return fail(
            "database",
            f"{path} cannot be made, since {folder} cannot be written to",
            "Change its owner, or DATABASE_URL",
        )
    return ok("database", f"{path} will be made at the first start")


def _sound(path: Path) -> Check:
    """Open the file as it is: integrity, then the write lock, which is given back at once."""
    try:
        if is_foreign(path):
            return fail("database", foreign(path))
        with closing(
            sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE)
        ) as database:
            (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.Error as error:
        remedy = (
            "See that the file is an SQLite database, that Countersign owns it,"
            " and that nothing else holds it"
        )
        return fail("database", f"{path}: {error}", remedy)
    if found != "ok":
        return fail(
            "database",
            f"{path} is damaged: {found}",
            "Stop Countersign and put a backup back with `countersign restore FILE`",
        )
    with closing(ReadOnly(path)) as store:
        if wrong := unfit(store, version(store)):
            return fail("database", wrong)
    return ok("database", f"{path} is sound and can be written")


def _keys(settings: Settings, path: Path) -> Iterator[Check]:
    """Whether there is a key in the key file, and what waits was shown under the one a start uses.

    Nothing where there are no such rows.
    """
    kept = key_path(path)
    try:
        key = settings.signing_key or (read_key(kept) if kept.exists() else b"")
    except (KeyFileError, OSError) as error:
        yield fail("key", str(error), "Put the right one back, or set COUNTERSIGN_KEY")
        return
    try:
        with closing(
            sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
        ) as database:
            rows = database.execute(
                "SELECT key_id, count(*) FROM call"
                " WHERE status IN ('pending', 'approved') GROUP BY key_id"
            )
            waiting = {str(key): int(count) for key, count in rows}
    except sqlite3.Error:  # no database of ours, or one that another look has found damaged
        return
    for each in signing_key.strangers(waiting, key, settings.lost_key, kept):
        yield fail("key", each.removeprefix("COUNTERSIGN_KEY: "))


def check_watching(settings: Settings) -> Iterator[Check]:
    """Look at metrics and traces, where the settings want them."""
    if settings.http is not None or settings.transport is Transport.HTTP:
        there = ok(METRICS, "counted, and shown at /metrics")
        yield there if is_installed(METRICS) else warn(METRICS, missing(METRICS))
    if settings.traces is not None:
        there = ok(TRACES, f"sent to {settings.traces}")
        yield there if is_installed(TRACES) else fail(TRACES, missing(TRACES))
