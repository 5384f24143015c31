"""Applies what ends an installation or changes its access, and deletes what is left of it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import SecretStr
from slack_bolt.request.internals import (
    extract_enterprise_id,
    extract_is_enterprise_install,
    extract_team_id,
)
from sqlalchemy.exc import SQLAlchemyError

from bot.clock import Clock, get_machine_time
from bot.config.settings import Settings
from bot.config.workspace_settings import get_schema_name
from bot.slack_codes import TOKEN_ERROR_CODES
from bot.workspaces.oauth_client import OAuthClient, OAuthError
from bot.workspaces.tokens import TokenCipher, TokenKeyError
from storage.backend import drop_schema
from storage.installations import Installation, InstallationRecord
from storage.states import InstallationState

log = logging.getLogger("countersign.workspaces")
ACCESS_EVENTS = frozenset({"team_access_granted", "team_access_revoked"})
REMOVAL_EVENTS = ACCESS_EVENTS | {"app_uninstalled", "tokens_revoked"}
LATE_EVENT_AGE = timedelta(seconds=30)  # an older event may arrive after a later one
EVENT_TIME_TOLERANCE = timedelta(seconds=5)  # Slack's times are whole seconds: either may be first


class InstallationChanges:
    """Applies what Slack says of installations to their record. Any thread."""

    def __init__(
        self, record: InstallationRecord, cipher: TokenCipher, oauth: OAuthClient, clock: Clock
    ) -> None:
        self._record, self._cipher, self._oauth, self._clock = record, cipher, oauth, clock

    def handle_event(self, payload: dict[str, Any]) -> None:
        """Take in that an installation ended, or which workspaces one of an organisation serves."""
        now = get_machine_time(self._clock)
        changed = apply_installation_event(self._record, payload, now, self._is_token_void)
        row = changed and self._record.get(changed)
        if row and is_late_access_event(payload, now):
            with suppress(TokenKeyError):  # then the event's content counts; the log says why
                token = self._cipher.open(row).bot
                follow_granted_workspaces(self._record, self._oauth, row.workspace, token)
        if changed is not None and payload["event"]["type"] == "team_access_granted":
            self.end_replaced_installations(changed)

    def end_replaced_installations(self, enterprise: str) -> None:
        """Remove single workspaces' installations that an organisation-wide one has replaced.

        Their tokens are void.
        """
        for each in self._record.list_granted_workspaces(enterprise):
            row = self._record.get(each)
            if row is None or row.state is InstallationState.REMOVED:
                continue
            if self._is_token_void(row):
                log.error(
                    "%s: its own token is no longer valid, %s serves it now", each, enterprise
                )
                self._record.set_state(each, InstallationState.REMOVED, self._clock.now())

    def _is_token_void(self, row: Installation) -> bool:
        """Return whether Slack refuses an installation's token; False if that is not known."""
        try:
            self._oauth.find_bot_id_and_url(self._cipher.open(row).bot)
        except TokenKeyError as error:
            log.error("workspace %s: %s", row.workspace, error)
        except OAuthError as error:
            return error.code in TOKEN_ERROR_CODES
        return False


def apply_installation_event(
    record: InstallationRecord,
    payload: Mapping[str, Any],
    now: datetime,
    is_token_void: Callable[[Installation], bool],
) -> str | None:
    """Apply Slack's event that an installation changed; return its id, None if none changed.

    `payload`: the whole delivery, as Slack sends it. A delivery that comes late does not remove
    what was installed after it, and one that comes twice changes nothing. `is_token_void` asks
    Slack whether the token still works; it is called if event and installation are seconds apart.
    """
    event, body = payload.get("event") or {}, dict(payload)
    enterprise = extract_enterprise_id(body) or ""
    team = extract_team_id(body) or ""
    is_org_wide = extract_is_enterprise_install(body) or not team.startswith("T")
    workspace = enterprise if is_org_wide else team
    happened = event.get("type")
    if happened in ACCESS_EVENTS:
        if record.get(enterprise) is None:
            return None
        is_granted = happened == "team_access_granted"
        change = record.grant_workspaces if is_granted else record.revoke_workspaces
        change(enterprise, [str(each) for each in event.get("team_ids") or ()])
        return enterprise
    row, removed = record.get(workspace), InstallationState.REMOVED
    if row is None or row.state is removed:
        return None
    if happened == "tokens_revoked":
        if row.bot_user not in (event.get("tokens") or {}).get("bot", ()):
            return None  # a person's token, which the bot does not use
    elif happened != "app_uninstalled":
        return None
    sent = payload.get("event_time")
    until = datetime.fromtimestamp(sent, UTC) if isinstance(sent, int) else now
    if abs(row.installed_at - until) < EVENT_TIME_TOLERANCE:
        if not is_token_void(row):
            return None
        until = row.installed_at
    if not record.set_state(workspace, removed, now, installed_until=until):
        return None
    log.warning("workspace %s: the bot was uninstalled there", workspace)
    return workspace


def is_late_access_event(payload: Mapping[str, Any], now: datetime) -> bool:
    """Return whether this is an event about access that may be out of date.

    Slack sends an event again, after minutes too, until it is acknowledged in time.
    """
    sent = payload.get("event_time")
    is_old = isinstance(sent, int) and now - datetime.fromtimestamp(sent, UTC) > LATE_EVENT_AGE
    return is_old and (payload.get("event") or {}).get("type") in ACCESS_EVENTS


def follow_granted_workspaces(
    record: InstallationRecord, oauth: OAuthClient, enterprise: str, token: SecretStr
) -> None:
    """Store which workspaces an organisation-wide installation serves, as Slack says now."""
    try:
        teams = oauth.list_granted_teams(token)
    except OAuthError as error:
        said = "organisation %s: its workspaces cannot be listed (%s); those on record count"
        log.warning(said, enterprise, error)
    else:
        record.set_granted_workspaces(enterprise, teams)


def empty_removed_workspaces(
    record: InstallationRecord, now: datetime, keep_days: int, delete: Callable[[str], None]
) -> None:
    """Delete the data of the workspaces that were removed `keep_days` ago.

    `delete` removes a workspace's folder or schema, and may be called again for one that is gone.
    Where it raises OSError or SQLAlchemyError the workspace is left for the next time.
    """
    before = now - timedelta(days=keep_days)
    for row in record.list():
        if row.removed_at is None or row.removed_at >= before:
            continue
        try:
            if record.purge_removed(row.workspace, before, delete):
                log.warning("workspace %s: its data was deleted, as it was removed", row.workspace)
        except (OSError, SQLAlchemyError) as error:
            log.error("workspace %s: its data could not be deleted: %s", row.workspace, error)


def delete_workspace_data(settings: Settings, workspace: str) -> None:
    """Delete all that is kept of a workspace: its folder, and its schema on a server.

    Raises OSError and the database's errors; does nothing if they are gone already.
    """
    if settings.is_shared:
        drop_schema(settings.database_url, get_schema_name(workspace))
    folder = settings.workspaces / workspace
    if folder.exists():
        # with a server, it holds only settings, and may be on a read-only file system
        shutil.rmtree(folder, ignore_errors=settings.is_shared)
