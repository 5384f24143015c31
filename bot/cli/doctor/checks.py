"""Doctor's checks of MCP servers, rules, databases, tools, monitoring and HTTP.

Each returns or yields results; none changes anything.
"""

from __future__ import annotations

import shutil
import socket
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from bot.approvals.form_catalog import list_template_problems
from bot.checks.check import (
    CHECK_TIMEOUT_SECONDS,
    CheckResult,
    build_failure_result,
    build_ok_result,
    build_warning_result,
)
from bot.checks.inspection import check_policy_rules
from bot.cli.read_only_core import FailingSlackDirectory
from bot.config.connection_settings import (
    DEFAULT_ADDRESS,
    ListeningAddress,
    Transport,
    describe_listening_error,
)
from bot.config.settings import Settings
from bot.mcp import server_file
from bot.monitoring.exporters import (
    METRICS_EXTRA,
    TRACES_EXTRA,
    is_extra_installed,
    missing_extra_text,
)
from bot.policy.evaluation import Policy
from bot.runs.surfaces import EntryPointKind, SurfaceError, load_surface_classes
from bot.signing_key import unknown_signing_key_sentences
from bot.toolbox import ToolsError, build_tool_registry, load_tool_families
from bot.tools import Registry, ToolError
from bot.tools.database.catalog import Catalog
from bot.tools.database.config import Database
from bot.tools.database.postgres_rights import ExcessiveRoleRightsError
from bot.tools.database.sources import build_sources
from countersign.cli.console import escape_control_characters
from countersign.durations import format_count
from storage.calls import count_open_calls_by_signing_key
from storage.digest import KeyFileError, key_file_path, read_key_file
from storage.migrations import newest
from storage.sqlite import is_free
from storage.sqlite_connections import describe_file_problem, foreign_file_sentence, is_foreign_file
from storage.store import ReadOnlyStore, SchemaError, describe_unusable_schema, find_schema_revision


def check_mcp_servers(settings: Settings) -> Iterator[CheckResult]:
    """Check that each MCP server can be reached and its tools are still as they were accepted."""
    file = settings.servers
    if file is None:
        return
    try:
        from bot.mcp.server_connection import fetch_tool_definitions
        from countersign.mcp_client.connection import ServerNotReachedError
    except ModuleNotFoundError:
        remedy = "pip install 'countersign-bot[mcp]'"
        yield build_failure_result("servers", "mcp is missing", remedy)
        return
    try:
        accepted = server_file.read_accepted_tools(file.accepted_tools_path)
    except server_file.AcceptedToolsFileError as error:
        remedy = "Accept the tools again: `countersign mcp accept`"
        yield build_failure_result("servers", str(error), remedy)
        return
    for server in file.servers:
        try:
            offered = fetch_tool_definitions(server)
        except ServerNotReachedError as error:
            text = f"it cannot be reached ({escape_control_characters(str(error))})"
            remedy = "Its calls fail until it can be reached"
            yield build_warning_result(f"server {server.name}", text, remedy)
            continue
        selected = {name: each for name, each in offered.items() if server.is_tool_selected(name)}
        yield from _check_server_tools(server, accepted.get(server.name, {}), selected)


def _check_server_tools(
    server: server_file.Server, accepted: server_file.Definitions, found: server_file.Definitions
) -> Iterator[CheckResult]:
    about, remedy = f"server {server.name}", f"Review it: `countersign mcp accept {server.name}`"
    names = defaultdict[server_file.ToolChangeKind, list[str]](list)
    for each in server_file.list_tool_changes(accepted, found):
        names[each.kind].append(each.name)
    off = names[server_file.ToolChangeKind.CHANGED] + names[server_file.ToolChangeKind.GONE]
    if off:
        some = escape_control_characters(", ".join(off))
        yield build_warning_result(
            about, f"changed or gone since they were accepted, so switched off: {some}", remedy
        )
    if new := names[server_file.ToolChangeKind.NEW]:
        yield build_warning_result(
            about, f"not accepted, so not used: {escape_control_characters(', '.join(new))}", remedy
        )
    hints = (
        "its hints are used" if server.trusted else "not trusted: all tools count as destructive"
    )
    yield build_ok_result(about, f"{len(accepted) - len(off)} accepted tools; {hints}")


def build_tools_without_slack(settings: Settings) -> Registry:
    """Return the tools that these settings turn on, unable to call Slack; raises ToolsError."""
    return build_tool_registry(
        settings, None, FailingSlackDirectory("the tools check does not call Slack")
    )


def check_rules_against_tools(settings: Settings, policy: Policy) -> Iterator[CheckResult]:
    """Check that each rule is about an existing tool, and report what runs without approval."""
    try:
        tools = build_tools_without_slack(settings)
    except ToolsError as error:
        remedy = "Correct the tools first"
        yield build_warning_result("rules", f"not checked against the tools: {error}", remedy)
        return
    misfits = list_template_problems(policy, tools)
    yield from (
        build_failure_result("templates", each, "Countersign does not start with it")
        for each in misfits
    )
    for each in check_policy_rules(tools, policy):
        if not (misfits and each.subject == "rules"):
            yield each


def check_agent_databases(settings: Settings) -> Iterator[CheckResult]:
    """Check each of the agent's databases: reachable, few rights, not the bot's own.

    Reports its tables and secret columns, too.
    """
    if (shop := settings.shop_path) and not shop.is_file():
        remedy = "Correct COUNTERSIGN_SHOP, or leave it out: it is for the demo's shop"
        yield build_failure_result("database of the shop", f"there is no file {shop}", remedy)
    for source in build_sources(settings.databases, settings.database_path).values():
        database = source.database
        about = f"database {database.name}"
        try:
            with source.open(writes=not database.read_only) as session:
                catalog, version = session.catalog, session.describe_server_and_role()
                changeable = session.can_change_tables()
        except ToolError as error:
            remedy = (
                "Correct it in COUNTERSIGN_DATABASES, or give the role and the file what they need"
            )
            if isinstance(error, ExcessiveRoleRightsError):
                remedy = " ".join(["Run as its owner:", *error.remedy])
            yield build_failure_result(about, str(error), remedy)
            continue
        secret = sum(len(table.secret) for table in catalog.tables.values())
        can = "read and changed" if changeable and not database.read_only else "read"
        tables = format_count(len(catalog.tables), "table")
        columns = format_count(secret, "secret column")
        text = f"{version}, {tables}, {columns}; it can be {can}"
        if catalog.tables:
            yield build_ok_result(about, text)
        else:
            yield build_warning_result(about, text, "There is no table to read")
        if not (changeable or database.read_only):
            remedy = "Set read_only = true, or grant the role rights"
            yield build_warning_result(about, "the role may not change anything there", remedy)
        yield from _check_secret_columns(about, database, catalog)


def _check_secret_columns(
    subject: str, database: Database, catalog: Catalog
) -> Iterator[CheckResult]:
    """Warn of patterns for secret columns that match none; list other columns never read."""
    is_secret = {
        f"{table.name}.{each.name}": catalog.fold_column_name(each) in table.secret
        for table in catalog.tables.values()
        for each in table.columns
    }
    named: set[str] = set()
    for pattern in database.secret:
        fits = {name for name in is_secret if fnmatchcase(name.lower(), pattern.lower())}
        named |= fits
        if not fits:
            remedy = "Correct or remove it under secret"
            yield build_warning_result(subject, f"no column is named {pattern}", remedy)
    others = sorted(name for name, secret in is_secret.items() if secret and name not in named)
    if others:
        some = ", ".join(others[:5]) + (f" and {len(others) - 5} more" * (len(others) > 5))
        yield build_ok_result(subject, f"not listed under secret, but never read either: {some}")


DISK_FAILURE_MEGABYTES = 50  # less free disk is a failure; below the next, a warning
DISK_WARNING_MEGABYTES = 500


def check_tools_can_be_built(settings: Settings) -> Iterator[CheckResult]:
    """Check that the tools can be built as at a start, including the operator's own."""
    try:
        tools = build_tools_without_slack(settings)
    except ToolsError as error:
        remedy = "Correct that setting, or install the module where Countersign runs"
        yield build_failure_result("tools", str(error), remedy)
    else:
        added = [
            f"{each.name} of {each.source}" for each in load_tool_families() if not each.is_ours
        ]
        yield build_ok_result("tools", f"{len(tools.tools)} available{_additions_note(added)}")


def check_surfaces() -> Iterator[CheckResult]:
    """Check that each installed surface (where people decide) and source of calls can be loaded.

    All of them are listed.
    """
    for kind in EntryPointKind:
        name = f"{kind}s"
        try:
            surface_classes = load_surface_classes(kind)
        except SurfaceError as error:
            yield build_failure_result(name, str(error), "Fix that package, or uninstall it")
            continue
        added = [f"{each.name} of {each.source}" for each in surface_classes if not each.is_ours]
        own = ["Slack", *(each.name for each in surface_classes if each.is_ours)]
        yield build_ok_result(name, f"{', '.join(own)}{_additions_note(added)}")


def _additions_note(added: list[str]) -> str:
    return f", with {', '.join(added)}" if added else ""


def check_bot_database(settings: Settings) -> Iterator[CheckResult]:
    """Check that the bot's database is sound and can be written, and that its disk has room."""
    if settings.is_shared:
        yield from _check_shared_database(settings)
        return
    path = settings.database_path.absolute()
    folder = next(each for each in path.parents if each.exists())
    if path.exists():
        yield _check_database_file(path)
    else:
        yield _check_new_database_file(path, folder)
    yield from _check_signing_key(settings, path)
    room = shutil.disk_usage(folder).free // 1_000_000
    text = f"{room} MB free beside the database"
    if room >= DISK_WARNING_MEGABYTES:
        yield build_ok_result("disk", text)
    else:
        build_result = (
            build_failure_result if room < DISK_FAILURE_MEGABYTES else build_warning_result
        )
        yield build_result("disk", text, "Free some disk space")


# whether this role may make the tables, in our schema if there is one
_SELECT_MAY_CREATE = """
    SELECT coalesce(
        has_schema_privilege(current_schema(), 'CREATE'),
        has_database_privilege(current_database(), 'CREATE')
    )
"""


def _check_shared_database(settings: Settings) -> Iterator[CheckResult]:
    """Check the server, schema and key of a shared database, without the lock that writers take."""
    store = ReadOnlyStore(settings.database_url)
    name = store.database.display_name
    try:
        store.database.open(exclusive=False)
        schema = find_schema_revision(store)
        if wrong := describe_unusable_schema(store, schema):
            yield build_failure_result("database", wrong)
            return
        with store.read() as tx:
            waiting = count_open_calls_by_signing_key(tx) if schema else {}
            may_create = schema or tx.exec_driver_sql(_SELECT_MAY_CREATE).scalar()
    except SchemaError as error:
        yield build_failure_result("database", str(error))
        return
    except DBAPIError as error:
        remedy = (
            "Check that the server runs, and that the role in DATABASE_URL may use the database"
        )
        yield build_failure_result("database", f"{name}: {str(error.orig).strip()}", remedy)
        return
    finally:
        store.close()
    if may_create:
        yield build_ok_result("database", f"{name} answers")
    else:
        remedy = "GRANT CREATE ON DATABASE … TO its role: the first start makes a schema"
        yield build_failure_result("database", f"{name}: the role may not make its tables", remedy)
    if settings.key is None:
        remedy = "Set it to the same value for every process"
        yield build_failure_result("key", "COUNTERSIGN_KEY is not set", remedy)
        return
    yield from _check_waiting_calls(settings, waiting, settings.signing_key or b"", None)


def _check_new_database_file(path: Path, folder: Path) -> CheckResult:
    """Check that a database file can be made in `folder`.

    Trying it is the only check that works on every file system.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return build_failure_result(
            "database",
            f"{path} cannot be created: {folder} is not writable",
            "Change its owner, or DATABASE_URL",
        )
    return build_ok_result("database", f"{path} is created at the first start")


def _check_database_file(path: Path) -> CheckResult:
    """Check the database file's integrity and its write lock, which is released at once."""
    if wrong := describe_file_problem(path):
        return build_failure_result("database", wrong, "Name a file in DATABASE_URL")
    try:
        if is_foreign_file(path):
            return build_failure_result("database", foreign_file_sentence(path))
        with closing(
            sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=CHECK_TIMEOUT_SECONDS)
        ) as database:
            (integrity,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.Error as error:
        remedy = (
            "Check that the file is an SQLite database, that Countersign owns it,"
            " and that nothing else holds it"
        )
        return build_failure_result("database", f"{path}: {error}", remedy)
    if integrity != "ok":
        return build_failure_result(
            "database",
            f"{path} is damaged: {integrity}",
            "Stop Countersign and restore a backup with `countersign restore FILE`",
        )
    with closing(ReadOnlyStore(path)) as store:
        current = find_schema_revision(store)
        if wrong := describe_unusable_schema(store, current):
            return build_failure_result("database", wrong)
    size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    if current not in (None, newest()) and free < size:
        needed = f"{size // 1_000_000} MB, and {free // 1_000_000} MB are free"
        why = f"{path} has the older schema {current}, and the start copies it first: {needed}"
        return build_failure_result("database", why, "Free some disk space")
    if path.stat().st_nlink > 1:
        return build_warning_result(
            "database",
            f"{path} has a second name (a hard link); a process that opens that one damages it",
            "Remove the other name, or make a copy of it",
        )
    return build_ok_result("database", f"{path} is sound and can be written")


def _check_signing_key(settings: Settings, path: Path) -> Iterator[CheckResult]:
    """Check the key file, and that waiting calls belong to the signing key that a start would use.

    Yields failures only.
    """
    key_path = key_file_path(path)
    try:
        key = settings.signing_key or (read_key_file(key_path) if key_path.exists() else b"")
    except (KeyFileError, OSError) as error:
        remedy = "Put back the right key file, or set COUNTERSIGN_KEY"
        yield build_failure_result("key", str(error), remedy)
        return
    try:
        with closing(ReadOnlyStore(path)) as store, store.read() as tx:
            waiting = count_open_calls_by_signing_key(tx)
    except SQLAlchemyError:  # not our database, or another check reports the damage
        return
    yield from _check_waiting_calls(settings, waiting, key, key_path)


def _check_waiting_calls(
    settings: Settings, waiting: Mapping[str, int], key: bytes, key_file: Path | None
) -> Iterator[CheckResult]:
    """Yield a failure for each signing key that waiting calls need and that is not known here."""
    for each in unknown_signing_key_sentences(waiting, key, settings.lost_key, key_file):
        yield build_failure_result("key", each.removeprefix("COUNTERSIGN_KEY: "))


def check_monitoring(settings: Settings) -> Iterator[CheckResult]:
    """Check that the packages for metrics and traces are installed, if the settings want them."""
    if settings.http is not None or settings.transport is Transport.HTTP:
        if is_extra_installed(METRICS_EXTRA):
            yield build_ok_result(METRICS_EXTRA, "counted, and shown at /metrics")
        else:
            yield build_warning_result(METRICS_EXTRA, missing_extra_text(METRICS_EXTRA))
    if settings.traces is not None:
        if is_extra_installed(TRACES_EXTRA):
            yield build_ok_result(TRACES_EXTRA, f"sent to {settings.traces}")
        else:
            yield build_failure_result(TRACES_EXTRA, missing_extra_text(TRACES_EXTRA))


HTTP_PACKAGES = ("starlette", "uvicorn", "fastapi", "standardwebhooks")
HTTP_TIMEOUT_SECONDS = 5.0
LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask what listens everywhere
HTTP_ADDRESS_SUBJECT = "http address"


def check_http_settings(settings: Settings) -> Iterator[CheckResult]:
    """Check what serving HTTP needs, if the settings want it: the secret, packages and address."""
    if settings.slack_signing_secret.get_secret_value():
        text = "is set; only a request from Slack shows whether it is the right one"
        yield build_ok_result("signing secret", text)
    elif settings.http is None:
        return
    if lacking := [each for each in HTTP_PACKAGES if find_spec(each) is None]:
        remedy = "pip install 'countersign-bot[serve]'"
        yield build_failure_result("http", f"{' and '.join(lacking)} is not installed", remedy)
    yield _check_http_address(settings, settings.http or DEFAULT_ADDRESS)


def _check_http_address(settings: Settings, address: ListeningAddress) -> CheckResult:
    """Check that the bot answers at the address, or else that a start could listen there."""
    where = f"{address.host}:{address.port}"
    try:
        readiness = _ask_bot_readiness(address)
    except (OSError, HTTPException):
        return _check_address_is_free(address, where)
    # the file of one of many workspaces is free while nobody writes there
    own_file = None if settings.is_shared or settings.workspace else settings.database_path
    is_other_bot = own_file is not None and is_free(own_file)
    if readiness is None or is_other_bot:
        remedy = "Choose another address in COUNTERSIGN_HTTP"
        who = (
            "another program" if readiness is None else f"a bot that does not work with {own_file}"
        )
        return build_failure_result(HTTP_ADDRESS_SUBJECT, f"{where} is used by {who}", remedy)
    if readiness:
        text = f"the bot at {where} is not ready: {readiness}"
        return build_warning_result(HTTP_ADDRESS_SUBJECT, text, "Fix what it names")
    way = "Slack's requests" if settings.transport is Transport.HTTP else "health"
    return build_ok_result(HTTP_ADDRESS_SUBJECT, f"a bot is ready at {where}, for {way}")


def _ask_bot_readiness(address: ListeningAddress) -> str | None:
    """Return what the bot at the address says is wrong, "" for nothing; None if it is no bot."""
    host = LOOPBACK_BY_WILDCARD.get(address.host, address.host)
    connection = HTTPConnection(host, address.port, timeout=HTTP_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        first, *lines = answer.read(10_000).decode(errors="replace").splitlines() or [""]
    finally:
        connection.close()
    if first not in ("ready", "not ready"):
        return None
    if answer.status == HTTPStatus.OK:
        return ""
    return "; ".join(each for each in lines if not each.endswith(": ok")) or first


def _check_address_is_free(address: ListeningAddress, where: str) -> CheckResult:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        text = f"{where} cannot be listened to ({describe_listening_error(error)})"
        return build_failure_result(
            HTTP_ADDRESS_SUBJECT, text, "Choose another address in COUNTERSIGN_HTTP"
        )
    return build_ok_result(HTTP_ADDRESS_SUBJECT, f"{where} is free")
