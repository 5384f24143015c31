"""Doctor's checks of MCP servers, rules, databases, the app token, tools, monitoring and HTTP.

Each returns or yields results; none changes anything.
"""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatchcase
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from sqlalchemy.exc import DBAPIError

from bot import signing_key
from bot.approvals.form_requests import misfitting
from bot.checks import inspection
from bot.checks.check import PATIENCE, Check, fail, ok, warn
from bot.checks.slack import UNREACHABLE, reason
from bot.cli.read_only_core import NotLookedUp
from bot.config.connection_settings import USUAL, Endpoint, Transport, listening_error_text
from bot.config.entry_points import OURS
from bot.config.settings import Settings
from bot.mcp.server_file import ChangeKind, Definitions, LockError, Server, find_changes, read_lock
from bot.monitoring.exporters import METRICS, TRACES, is_installed, missing
from bot.policy.evaluation import Policy
from bot.runs.surfaces import PartKind, SurfacesError, surface_classes
from bot.slack.socket import GREETED
from bot.slack.socket_client import Hello, SocketClient
from bot.toolbox import ToolsError, load_families, make_tools
from bot.tools import ToolError
from bot.tools.database.catalog import Catalog
from bot.tools.database.config import Database
from bot.tools.database.postgres_rights import RightsError
from bot.tools.database.sources import open_sources
from countersign.cli.console import harmless
from storage import calls
from storage.digest import KeyFileError, key_path, read_key
from storage.migrations import SchemaError
from storage.sqlite_connections import foreign_file_sentence, is_foreign
from storage.store import ReadOnly, unfit_reason, version

# The check of the MCP servers: each is asked for its current tools, and no tool is called.


def check_servers(settings: Settings) -> Iterator[Check]:
    """Check that each MCP server can be reached and its tools are still as they were accepted."""
    file = settings.servers
    if file is None:
        return
    try:
        from bot.mcp.server_connection import UnreachableError, look_up_tools
    except ModuleNotFoundError:
        yield fail("servers", "mcp is missing", "pip install 'countersign-bot[mcp]'")
        return
    try:
        accepted = read_lock(file.lock)
    except LockError as error:
        yield fail("servers", str(error), "Accept the tools again: `countersign mcp accept`")
        return
    for server in file.servers:
        try:
            found = {
                name: each for name, each in look_up_tools(server).items() if server.uses(name)
            }
        except UnreachableError as error:
            about, why = f"server {server.name}", harmless(str(error))
            yield warn(about, f"it cannot be reached ({why})", "Its calls fail until it can")
            continue
        yield from _compared(server, accepted.get(server.name, {}), found)


def _compared(server: Server, accepted: Definitions, found: Definitions) -> Iterator[Check]:
    about, remedy = f"server {server.name}", f"Look at it: `countersign mcp accept {server.name}`"
    names: dict[ChangeKind, list[str]] = {}
    for each in find_changes(accepted, found):
        names.setdefault(each.kind, []).append(each.name)
    off = [*names.get(ChangeKind.CHANGED, ()), *names.get(ChangeKind.GONE, ())]
    if off:
        some = harmless(", ".join(off))
        yield warn(about, f"not what was accepted, so switched off: {some}", remedy)
    if new := names.get(ChangeKind.NEW):
        yield warn(about, f"not accepted, so not used: {harmless(', '.join(new))}", remedy)
    hints = "its hints count" if server.trusted else "not trusted: all of it counts as destructive"
    yield ok(about, f"{len(accepted) - len(off)} accepted tools; {hints}")


# The check of the policy's rules against the tools that these settings turn on.


def check_rules(settings: Settings, policy: Policy) -> Iterator[Check]:
    """Check that each rule is about an existing tool, and report what runs without approval."""
    try:
        tools = make_tools(settings, None, NotLookedUp("rules are compared without Slack"))
    except ToolsError as error:
        yield warn(
            "rules",
            f"not compared with the tools: {error}",
            "Correct what is wrong with them first",
        )
        return
    misfits = misfitting(policy, tools)
    yield from (fail("templates", each, "Countersign does not start with it") for each in misfits)
    for each in inspection.check_rules(tools, policy):
        if not (misfits and each.about == "rules"):
            yield each


# The check of the databases that the agent may use: each is opened as a tool would open it, and
# nothing in it is changed.


def check_databases(settings: Settings) -> Iterator[Check]:
    """Check each of the agent's databases: reachable, few rights, not the bot's own.

    Reports its tables and secret columns, too.
    """
    for source in open_sources(settings.databases, settings.database_path).values():
        database = source.database
        about = f"database {database.name}"
        try:
            with source.open(writes=not database.read_only) as session:
                catalog, version, changeable = (
                    session.catalog,
                    session.version(),
                    session.changeable(),
                )
        except RightsError as error:
            yield fail(about, str(error), " ".join(["Run as its owner:", *error.remedy]))
            continue
        except ToolError as error:
            remedy = (
                "Correct it in COUNTERSIGN_DATABASES, or give the role and the file what they need"
            )
            yield fail(about, str(error), remedy)
            continue
        secret = sum(len(table.secret) for table in catalog.tables.values())
        can = "read and changed" if changeable and not database.read_only else "read"
        text = f"{version}, {len(catalog.tables)} tables, {secret} secret columns; it can be {can}"
        if catalog.tables:
            yield ok(about, text)
        else:
            yield warn(about, text, "Nothing can be seen there")
        if not (changeable or database.read_only):
            yield warn(
                about,
                "the role may change nothing there",
                "Say read_only = true, or give it rights",
            )
        yield from _secrets(about, database, catalog)


def _secrets(about: str, database: Database, catalog: Catalog) -> Iterator[Check]:
    """Warn of secret patterns that match no column; report other columns that are never read."""
    there = [
        f"{table.name}.{each.name}".lower()
        for table in catalog.tables.values()
        for each in table.columns
    ]
    for pattern in database.secret:
        if not any(fnmatchcase(name, pattern.lower()) for name in there):
            yield warn(about, f"no column is named {pattern}", "Correct or remove it under secret")
    named = [
        f"{table.name}.{each.name}"
        for table in catalog.tables.values()
        for each in table.columns
        if catalog.column_key(each) in table.secret
        and not any(
            fnmatchcase(f"{table.name}.{each.name}".lower(), pattern.lower())
            for pattern in database.secret
        )
    ]
    if named:
        some = ", ".join(sorted(named)[:5]) + (f" and {len(named) - 5} more" * (len(named) > 5))
        yield ok(about, f"not named under secret, and never read all the same: {some}")


# The check of the app-level token: whether Socket Mode opens, and for the bot's own app.

_APP_IN_TOKEN = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")  # as Slack makes them


def check_app_token(client: WebClient, settings: Settings, own_app: str) -> Check:
    """Check that the app-level token opens Socket Mode and belongs to the bot's own app.

    `own_app`: the app's id, "" if it is unknown. If the token itself names that app, the connection
    is left unused: a bot that is running would miss what Slack delivers there.
    """
    token = settings.slack_app_token.get_secret_value()
    try:
        client.apps_connections_open(app_token=token)
        named = _APP_IN_TOKEN.match(token)
        is_own = not own_app or (named is not None and named[1] == own_app)
        app = own_app if is_own else greeted_app(client, token)
    except (SlackApiError, *UNREACHABLE) as error:
        remedy = "Make an app-level token with connections:write, and turn Socket Mode on"
        return fail("app token", reason(error), remedy)
    if own_app and app and app != own_app:
        text = f"it is of the app {app}, and the bot token of the app {own_app}"
        return fail("app token", text, "Take both tokens from one app's page at Slack")
    if not app:
        text = "Socket Mode opens; of which app the token is was not told"
        return ok("app token", text)
    return ok("app token", f"Socket Mode opens, for the app {app}")


def greeted_app(client: WebClient, token: str) -> str:
    """Connect with an app-level token until Slack's first message, and return the app id in it.

    "" if it names none, or none comes in time. Raises what slack_sdk raises if no connection opens.
    """
    said: Queue[Hello] = Queue()
    socket = SocketClient(
        token,
        client.logger,
        client,
        proxy=client.proxy,
        deal=lambda _client, _request: None,
        greeted=said.put,
    )
    try:
        socket.connect()
        return said.get(timeout=GREETED).app
    except Empty:
        return ""
    finally:
        socket.close()


ROOM_FAIL, ROOM_WARN = 50, 500  # free disk, megabytes


def check_tools(settings: Settings) -> Iterator[Check]:
    """Check that the tools can be built as at a start, including the operator's own."""
    try:
        tools = make_tools(settings, None, NotLookedUp("tools are looked at without Slack"))
    except ToolsError as error:
        remedy = "Correct that setting, or install the module where Countersign runs"
        yield fail("tools", str(error), remedy)
    else:
        added = [f"{each.name} of {each.source}" for each in load_families() if each.source != OURS]
        yield ok("tools", f"{len(tools.tools)} are on{_with(added)}")


def check_surfaces(kind: PartKind) -> Check:
    """Check that every installed surface or source can be loaded, and list all of them."""
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
    """Check that the bot's database is sound and can be written, and that its disk has room."""
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
    """Check the server, schema and key of a shared database, without the lock that writers take."""
    store = ReadOnly(settings.database_url)
    name = store.database.name
    try:
        store.database.open(exclusive=False)
        schema = version(store)
        if wrong := unfit_reason(store, schema):
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
    for each in signing_key.unknown_key_sentences(waiting, key, settings.lost_key, store.path):
        yield fail("key", each.removeprefix("COUNTERSIGN_KEY: "))


def _makeable(path: Path, folder: Path) -> Check:
    """Check that a database file can be made in `folder`.

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
    """Check the database file's integrity and its write lock, which is released at once."""
    try:
        if is_foreign(path):
            return fail("database", foreign_file_sentence(path))
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
        if wrong := unfit_reason(store, version(store)):
            return fail("database", wrong)
    return ok("database", f"{path} is sound and can be written")


def _keys(settings: Settings, path: Path) -> Iterator[Check]:
    """Check the key file, and that waiting calls were shown under the key that a start would use.

    Yields failures only.
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
    for each in signing_key.unknown_key_sentences(waiting, key, settings.lost_key, kept):
        yield fail("key", each.removeprefix("COUNTERSIGN_KEY: "))


def check_watching(settings: Settings) -> Iterator[Check]:
    """Check that metrics and traces can be made, if the settings want them."""
    if settings.http is not None or settings.transport is Transport.HTTP:
        there = ok(METRICS, "counted, and shown at /metrics")
        yield there if is_installed(METRICS) else warn(METRICS, missing(METRICS))
    if settings.traces is not None:
        there = ok(TRACES, f"sent to {settings.traces}")
        yield there if is_installed(TRACES) else fail(TRACES, missing(TRACES))


# The checks of the HTTP side: what it needs, where it listens, and the bot that listens there.

PACKAGES = ("starlette", "uvicorn", "fastapi", "standardwebhooks")
HTTP_PATIENCE = 5.0  # seconds for a bot to answer
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask what listens everywhere
LISTENING = "http address"


def check_http(settings: Settings) -> Iterator[Check]:
    """Check the HTTP side if the settings want one: its secret, packages and address."""
    if settings.slack_signing_secret.get_secret_value():
        text = "is there; only a request of Slack's shows whether it is the right one"
        yield ok("signing secret", text)
    elif settings.http is None:
        return
    if lacking := [each for each in PACKAGES if find_spec(each) is None]:
        remedy = "pip install 'countersign-bot[serve]'"
        yield fail("http", f"{' and '.join(lacking)} is not installed", remedy)
    yield _address(settings.http or USUAL, settings.transport)


def _address(address: Endpoint, transport: Transport) -> Check:
    """Check that a bot answers at the address, or else that a start could listen there."""
    where = f"{address.host}:{address.port}"
    try:
        said = _asked(address)
    except (OSError, HTTPException):
        return _free(address, where)
    if said is None:
        return fail(LISTENING, f"{where} is another program's", "Name another in COUNTERSIGN_HTTP")
    if said:
        return warn(LISTENING, f"the bot at {where} is not ready: {said}", "See to what it names")
    way = "Slack's requests" if transport is Transport.HTTP else "health"
    return ok(LISTENING, f"a bot is ready at {where}, for {way}")


def _asked(address: Endpoint) -> str | None:
    """Return what the bot at the address says is wrong, "" for nothing; None if it is no bot."""
    host = ANYWHERE.get(address.host, address.host)
    connection = HTTPConnection(host, address.port, timeout=HTTP_PATIENCE)
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


def _free(address: Endpoint, where: str) -> Check:
    """Check that a start could listen at the address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        text = f"{where} cannot be listened to ({listening_error_text(error)})"
        return fail(LISTENING, text, "Name another in COUNTERSIGN_HTTP")
    return ok(LISTENING, f"{where} is free")
