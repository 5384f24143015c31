"""The database of installations: the Slack workspaces that one deployment of the bot serves.

A small database beside the workspaces' own records, with tables of its own. It holds tokens only
encrypted (`bot.workspaces.tokens`), and nothing of what is asked in a workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    LargeBinary,
    delete,
    event,
    insert,
    inspect,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import registry
from sqlmodel import Field, create_engine

from storage import columns, postgres_session, sqlite_connections
from storage.backend import is_postgres_url, parse_database_url
from storage.migrations import SchemaError
from storage.sqlite import create_private_file, restrict_file_permissions
from storage.states import (
    INSTALLATION_TRANSITIONS,
    IllegalStatusChangeError,
    InstallationState,
    require_allowed_status_change,
)

TABLES_SCHEMA = "countersign_installations"  # the schema that holds the tables on PostgreSQL
TABLES_VERSION = 1  # a later version must come with the statements that upgrade to it
# A workspace wakes at least once a day, to purge and to read its policy anew. A later due time was
# written by a clock that was ahead, and counts as due now.
MAX_SLEEP = timedelta(days=1)
_LOCK_ID = 3  # second number of this record's advisory lock; see `ADVISORY_LOCK_CLASS`
_REGISTRY = registry()


class _Row(columns.Row, registry=_REGISTRY):
    """The base class of the rows in the database of installations.

    A workspace's record has none of these tables.
    """


class Installation(_Row, table=True):
    """One workspace, or one organisation on Enterprise Grid, in which the bot was installed."""

    __tablename__ = "installation"
    workspace: str = Field(primary_key=True)  # T…, or E… for a whole organisation
    enterprise: str = ""  # E… of the organisation it belongs to
    name: str = ""
    is_org_wide: bool = False
    state: InstallationState = columns.enum_column(InstallationState, InstallationState.ACTIVE)
    paused_at: datetime | None = columns.time_column(nullable=True)  # kept while it is REMOVED
    scopes: str = columns.text_column("")  # separated by commas, sorted
    bot_user: str = ""
    bot_id: str = ""
    url: str = ""  # the workspace's address at Slack, https://….slack.com/
    app_id: str = ""
    # empty once it is removed
    sealed_tokens: bytes = Field(default=b"", sa_type=LargeBinary, repr=False)
    token_key: str = ""  # id of the key that encrypted them
    token_revision: int = 1  # grows with each new token: a process with an older one reads it again
    token_expires_at: datetime | None = columns.time_column(nullable=True)
    # until then one process renews the token or, after a failure, nobody tries again
    renewal_until: datetime | None = columns.time_column(nullable=True)
    renewal_failures: int = 0
    installed_at: datetime = columns.time_column()
    installed_by: str = ""  # Slack user id
    removed_at: datetime | None = columns.time_column(nullable=True)
    # when a sleeping workspace must be woken
    due_at: datetime | None = columns.time_column(nullable=True, index=True)
    owner: str = ""  # the replica that works for the workspace
    owner_url: str = ""  # where that replica is reached
    owner_until: datetime | None = columns.time_column(nullable=True)


class GrantedWorkspace(_Row, table=True):
    """A workspace to which an organisation-wide installation was given access."""

    __tablename__ = "granted_workspace"
    workspace: str = Field(primary_key=True)
    enterprise: str = Field(index=True)


class OAuthState(_Row, table=True):
    """The one-time OAuth state of somebody who is installing the bot in a workspace."""

    __tablename__ = "oauth_state"
    state_hash: str = Field(primary_key=True)
    browser_hash: str  # of a cookie in the browser that must come back
    expires_at: datetime = columns.time_column(index=True)


class _SchemaVersion(_Row, table=True):
    __tablename__ = "installations_schema"
    version: int = Field(primary_key=True)


# typed as `Any`: mypy takes their columns for plain values
_row: Any = Installation
_granted: Any = GrantedWorkspace
_state: Any = OAuthState
_version: Any = _SchemaVersion
_REMOVED = InstallationState.REMOVED
# not overwritten when the bot is installed again
_COLUMNS_KEPT_ON_REINSTALL = frozenset(
    {"workspace", "state", "paused_at", "token_revision", "owner", "owner_url"}
)
_COLUMNS_KEPT_ON_REINSTALL |= frozenset({"owner_until", "due_at"})


class InstallationRecord:
    """The database of installations, which several processes may use; safe for threads.

    Each function is one transaction. Times are UTC.
    """

    def __init__(self, url: str) -> None:
        """Set the database: sqlite:///….db, a file of its own, or a PostgreSQL address."""
        self._is_postgres = is_postgres_url(url)
        parsed = parse_database_url(url)
        # key files are named after it; None on a server
        self.path = None if self._is_postgres else Path(parsed.database or "")
        if self._is_postgres:
            self._engine = create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                hide_parameters=True,  # errors are logged, and must not show values
                pool_pre_ping=True,  # a restarted server has ended all sessions
                max_overflow=5,  # besides the five that the pool keeps
                connect_args=postgres_session.CONNECTION_PARAMETERS,
            )
            event.listen(self._engine, "connect", _prepare_postgres_connection)
        else:
            self._engine = create_engine(
                parsed, hide_parameters=True, connect_args={"check_same_thread": False}
            )
            prepare = sqlite_connections.prepare_connection
            event.listen(self._engine, "connect", lambda raw, _: prepare(raw))
            event.listen(self._engine, "begin", _begin_on_sqlite)

    def open(self) -> InstallationRecord:
        """Create the file or tables that are missing, check the tables' version, and return self.

        Raises SchemaError for a newer version and for a file of another kind.
        """
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            create_private_file(self.path)
            restrict_file_permissions(self.path)
        with self.write() as connection:
            if self._is_postgres:
                _lock_postgres(connection)
                _create_postgres_schema(connection)
            there = set(inspect(connection).get_table_names())
            if there and _version.__tablename__ not in there:
                raise SchemaError(f"{self._display_name} is not a record of installations")
            _REGISTRY.metadata.create_all(connection)
            found_version = connection.execute(select(_version.version)).scalar_one_or_none()
            if found_version is None:
                connection.execute(insert(_version).values(version=TABLES_VERSION))
            elif found_version > TABLES_VERSION:
                raise SchemaError(
                    f"{self._display_name} was written by a newer Countersign (installations"
                    f" {found_version}); upgrade this one"
                )
        return self

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @property
    def _display_name(self) -> str:
        shown = self._engine.url.set(drivername="postgresql", query={})
        return str(self.path or f"{shown.render_as_string(hide_password=True)} ({TABLES_SCHEMA})")

    def read(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that only reads."""
        return self._engine.begin()

    def write(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that may write; on SQLite it takes the write lock before it reads."""
        return self._engine.execution_options(writes=True).begin()

    # Installations.

    def get(self, workspace: str) -> Installation | None:
        """Return the installation with that id (T… or E…); None if there is none."""
        with self.read() as connection:
            return _find(connection, workspace)

    def list(self) -> Sequence[Installation]:
        """Return all installations, the removed ones as well, by id."""
        with self.read() as connection:
            return _select(connection, order_by=_row.workspace)

    def insert_or_update_installation(self, installation: Installation) -> Installation:
        """Store a new installation, or the new tokens and scopes of a known one; return its row.

        A PAUSED installation stays PAUSED. A removed one gets back the state from before its
        removal. For a known installation, the state, owner and due time in `installation` are
        ignored.
        """
        values = columns.get_column_values(installation)
        with self.write() as connection:
            if self._is_postgres:
                _lock_postgres(connection)  # a row that does not exist yet cannot be locked
            old = _find(connection, installation.workspace, lock=True)
            if old is None:
                connection.execute(insert(_row).values(**values))
            else:
                changed_values = {
                    name: value
                    for name, value in values.items()
                    if name not in _COLUMNS_KEPT_ON_REINSTALL
                }
                if old.state is _REMOVED:
                    back = InstallationState.PAUSED if old.paused_at else InstallationState.ACTIVE
                    require_allowed_status_change(INSTALLATION_TRANSITIONS, old.state, back)
                    changed_values["state"] = back
                changed_values |= {"token_revision": old.token_revision + 1, "removed_at": None}
                changed_values |= {"renewal_until": None, "renewal_failures": 0}
                _update(connection, installation.workspace, **changed_values)
            stored = _find(connection, installation.workspace)
        assert stored is not None
        return stored

    def set_state(
        self,
        workspace: str,
        state: InstallationState,
        at: datetime,
        *,
        installed_until: datetime | None = None,
    ) -> bool:
        """Set an installation's state; False if it has that state already or does not exist.

        REMOVED deletes the tokens. `installed_until`: an installation made after this time is left
        unchanged (returns False), because the news is about an earlier one.

        Raises IllegalStatusChangeError for a REMOVED installation: only a new installation brings
        it back.
        """
        with self.write() as connection:
            old = _find(connection, workspace, lock=True)
            is_late = old and installed_until and old.installed_at > installed_until
            if old is None or old.state is state or is_late:
                return False
            if old.state is _REMOVED:
                raise IllegalStatusChangeError(f"{workspace} was removed, and has no token")
            require_allowed_status_change(INSTALLATION_TRANSITIONS, old.state, state)
            values: dict[str, Any] = {"state": state}
            if state is _REMOVED:
                values |= {"removed_at": at, "sealed_tokens": b"", "token_key": ""}
                values |= {"token_expires_at": None, "renewal_until": None, "due_at": None}
                values["token_revision"] = old.token_revision + 1
                connection.execute(delete(_granted).where(_granted.enterprise == workspace))
            else:
                values["paused_at"] = at if state is InstallationState.PAUSED else None
            return _update(connection, workspace, **values)

    def set_due(self, workspace: str, due_at: datetime | None) -> bool:
        """Set when the bot must next begin to work for a sleeping workspace; None: at once."""
        with self.write() as connection:
            return _update(connection, workspace, due_at=due_at)

    def purge_removed(self, workspace: str, before: datetime, empty: Callable[[str], None]) -> bool:
        """Call `empty` and delete the row of a workspace that was removed before `before`.

        Nobody can install the bot there meanwhile. If the process dies in between, `empty` is
        called again. The row of a workspace that the operator had paused is kept, so that it is
        paused again when the bot is installed again. Returns whether `empty` was called.
        """
        with self.write() as connection:
            if self._is_postgres:  # the server would end the idle session while `empty` works
                connection.execute(text("SET LOCAL idle_in_transaction_session_timeout TO 0"))
            old = _find(connection, workspace, lock=True)
            if old is None or old.removed_at is None or old.removed_at >= before:
                return False
            empty(workspace)
            if old.paused_at:
                return _update(connection, workspace, removed_at=None)
            delete_statement = delete(_row).where(_row.workspace == workspace)
            return connection.execute(delete_statement).rowcount == 1

    # Organisations: which of their workspaces the bot serves.

    def grant_workspaces(self, enterprise: str, workspaces: Collection[str]) -> None:
        """Note that an organisation-wide installation serves these workspaces."""
        self._replace_grants(enterprise, workspaces, _granted.workspace.in_(workspaces))

    def set_granted_workspaces(self, enterprise: str, workspaces: Collection[str]) -> None:
        """Note that an organisation-wide installation serves these workspaces and no others."""
        old = or_(_granted.enterprise == enterprise, _granted.workspace.in_(workspaces))
        self._replace_grants(enterprise, workspaces, old)

    def _replace_grants(self, enterprise: str, workspaces: Collection[str], old: Any) -> None:
        with self.write() as connection:
            if self._is_postgres:
                _lock_postgres(connection)  # a row that does not exist yet cannot be locked
            connection.execute(delete(_granted).where(old))
            for each in sorted(set(workspaces)):
                connection.execute(insert(_granted).values(workspace=each, enterprise=enterprise))

    def revoke_workspaces(self, enterprise: str, workspaces: Collection[str]) -> None:
        """Note that an organisation-wide installation serves these workspaces no longer."""
        mine = (_granted.enterprise == enterprise, _granted.workspace.in_(workspaces))
        with self.write() as connection:
            connection.execute(delete(_granted).where(*mine))

    def list_granted_workspaces(self, enterprise: str) -> Sequence[str]:
        """Return the workspaces that an organisation-wide installation serves."""
        query = select(_granted.workspace).where(_granted.enterprise == enterprise)
        with self.read() as connection:
            return connection.execute(query.order_by(_granted.workspace)).scalars().all()

    def list_workspaces_of_bot(self, bot: str) -> Sequence[str]:
        """Return the ids of installations, unless removed, whose bot has this bot id or user id."""
        mine, there = or_(_row.bot_id == bot, _row.bot_user == bot), _row.state != _REMOVED
        with self.read() as connection:
            found = _select(connection, mine, there)
        return [each.workspace for each in found]

    def find_workspace_of(self, team: str, enterprise: str = "") -> str | None:
        """Return the id of the installation that serves a team; None if none does.

        A team's own installation comes first, then its organisation's if that was given access to
        the team. Without a `team`, it is the organisation's own installation. PAUSED ones are
        returned too, REMOVED ones are not.
        """
        there = _row.state != _REMOVED
        with self.read() as connection:
            if team and _select(connection, _row.workspace == team, there):
                return team
            query = select(_granted.enterprise).where(_granted.workspace == team)
            found = connection.execute(query).scalar_one_or_none() if team else enterprise
            if not found or enterprise not in ("", found):
                return None
            org = (_row.workspace == found, there, _row.is_org_wide)
            return found if _select(connection, *org) else None

    # Renewing tokens, and changing keys.

    def claim_rotation(self, row: Installation, until: datetime) -> Installation | None:
        """Reserve the renewal of an installation's token until `until`; None if another was faster.

        `row`: the installation as the caller read it. Pass the returned row to
        `store_rotated_tokens` or `postpone_rotation`.
        """
        free = (
            _row.state != _REMOVED,
            _row.token_expires_at == row.token_expires_at,
            _row.renewal_until.is_not_distinct_from(row.renewal_until),
        )
        with self.write() as connection:
            won = _update(connection, row.workspace, free, renewal_until=until)
            return _find(connection, row.workspace) if won else None

    def store_rotated_tokens(
        self,
        claimed: Installation,
        sealed_tokens: bytes,
        token_key: str,
        expires_at: datetime | None,
    ) -> Installation | None:
        """Store an installation's renewed tokens; None if it was installed anew or removed."""
        with self.write() as connection:
            stored = _update(
                connection,
                claimed.workspace,
                (_row.token_revision == claimed.token_revision,),
                sealed_tokens=sealed_tokens,
                token_key=token_key,
                token_expires_at=expires_at,
                token_revision=claimed.token_revision + 1,
                renewal_until=None,
                renewal_failures=0,
            )
            return _find(connection, claimed.workspace) if stored else None

    def postpone_rotation(self, claimed: Installation, until: datetime) -> None:
        """Note that renewing a token failed, and when the next attempt may be made."""
        same = (_row.token_revision == claimed.token_revision,)
        failures = claimed.renewal_failures + 1
        with self.write() as connection:
            values = {"renewal_until": until, "renewal_failures": failures}
            _update(connection, claimed.workspace, same, **values)

    def replace_sealed_tokens(self, old: Installation, sealed: bytes, token_key: str) -> bool:
        """Store the same tokens encrypted with another key; False if they have changed."""
        same = (_row.token_revision == old.token_revision, _row.token_key == old.token_key)
        with self.write() as connection:
            values = {"sealed_tokens": sealed, "token_key": token_key}
            return _update(connection, old.workspace, same, **values)

    # OAuth states of people who are installing the bot.

    def add_oauth_state(self, state: OAuthState, now: datetime) -> None:
        """Store the OAuth state of somebody who begins to install the bot; delete expired ones."""
        with self.write() as connection:
            connection.execute(delete(_state).where(_state.expires_at <= now))
            connection.execute(insert(_state).values(**columns.get_column_values(state)))

    def consume_oauth_state(self, state_hash: str, browser_hash: str, now: datetime) -> bool:
        """Use up this browser's OAuth state; False if it is expired, used or another's."""
        mine = (
            _state.state_hash == state_hash,
            _state.browser_hash == browser_hash,
            _state.expires_at > now,
        )
        with self.write() as connection:
            return connection.execute(delete(_state).where(*mine)).rowcount == 1


def _select(connection: Connection, *where: Any, order_by: Any = None) -> Sequence[Installation]:
    query = select(_row).where(*where).order_by(order_by)
    return [Installation(**each) for each in connection.execute(query).mappings()]


def _find(connection: Connection, workspace: str, *, lock: bool = False) -> Installation | None:
    query = select(_row).where(_row.workspace == workspace)
    query = query.with_for_update() if lock else query  # SQLite ignores it: its one lock suffices
    found = connection.execute(query).mappings().one_or_none()
    return None if found is None else Installation(**found)


def _update(connection: Connection, workspace: str, where: Any = (), **values: Any) -> bool:
    statement = update(_row).where(_row.workspace == workspace, *where).values(**values)
    return connection.execute(statement).rowcount == 1


def _begin_on_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")


def _prepare_postgres_connection(connection: Any, _record: object) -> None:
    for each in (f"SET search_path TO {TABLES_SCHEMA}", *postgres_session.SESSION_SETTINGS):
        connection.execute(each)
    connection.commit()


def _lock_postgres(connection: Connection) -> None:
    """Let no other process create the tables or insert an installation during the transaction."""
    lock = f"SELECT pg_advisory_xact_lock({postgres_session.ADVISORY_LOCK_CLASS}, {_LOCK_ID})"
    connection.execute(text(lock))


def _create_postgres_schema(connection: Connection) -> None:
    there = text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
    # not IF NOT EXISTS: it needs the right to create schemas even if this one exists
    if connection.execute(there, {"name": TABLES_SCHEMA}).first() is None:
        connection.execute(text(f"CREATE SCHEMA {TABLES_SCHEMA}"))
