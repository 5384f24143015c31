"""`countersign workspaces`: list and manage the workspaces where OAuth installed the bot.

Everything here is done in the record of installations, whether or not the bot is running; a running
bot acts on it within seconds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial

from bot.cards.slack_text import format_in_utc
from bot.checks.check import print_checks
from bot.cli.doctor.doctor import run_all_checks
from bot.clock import SystemClock
from bot.config.connection_settings import DEFAULT_ADDRESS
from bot.config.environment import DotenvError, read_environment_variables
from bot.config.settings import Settings
from bot.replicas.shared_clock import open_installations_clock
from bot.workspaces import tokens
from bot.workspaces.oauth_client import OAuthClient, OAuthError
from countersign.cli import console
from countersign.durations import format_count
from storage.installations import Installation, InstallationRecord
from storage.states import InstallationState

ACTIONS = ("list", "show", "pause", "resume", "remove", "doctor", "keys")
UNINSTALLED_ERROR_CODES = ("account_inactive", "token_revoked")  # for an uninstalled app's token
SINGLE_WORKSPACE_ERROR = "COUNTERSIGN_CLIENT_ID is not set: there is only one workspace"
ONE_KEY_IN_USE_NOTICE = (
    "All tokens are encrypted with the first key. No other key is in use any more."
)
OTHER_KEYS_IN_USE_ERROR = "Tokens that are still encrypted with another key: {0}. Keep that key."
NO_INSTALLATIONS_NOTICE = (
    "The bot is not installed in any workspace yet. People install it at {0}/slack/install."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the action, and the workspace that it is about."""
    parser.add_argument(
        "what",
        choices=ACTIONS,
        help="keys: encrypt all tokens with the first of COUNTERSIGN_TOKEN_KEYS",
    )
    parser.add_argument("workspace", nargs="?", default="", help="id of the workspace, T… or E…")


def run(arguments: argparse.Namespace) -> int:
    """Run the typed action (list, pause, remove, …) on workspaces; returns the exit code."""
    what, workspace = arguments.what, arguments.workspace
    if what in ("list", "keys") and workspace:
        raise console.UsageError(f"{what} applies to all workspaces; leave out {workspace}")
    if what not in ("list", "keys", "doctor") and not workspace:
        raise console.UsageError(f"{what} needs a workspace's id; `list` shows them")
    with suppress(DotenvError):  # the settings report it
        if "COUNTERSIGN_CLIENT_ID" not in read_environment_variables(os.environ, console.DOTENV):
            raise console.UsageError(SINGLE_WORKSPACE_ERROR)
    # all workspaces, even if the shell's COUNTERSIGN_WORKSPACE chooses one for other commands
    settings = Settings.load(
        {**os.environ, "COUNTERSIGN_WORKSPACE": ""}, console.DOTENV, transport=None
    )
    with closing(tokens.open_installation_record(settings)) as record:
        return _Workspaces(settings, record).run(what, workspace)


class _Workspaces:
    """The actions of `countersign workspaces`, which read and change the installations' record."""

    def __init__(self, settings: Settings, record: InstallationRecord) -> None:
        self._settings, self._record = settings, record
        self._now = open_installations_clock(record, SystemClock()).now()

    def run(self, what: str, workspace: str) -> int:
        """Run one action, such as list or pause; returns the exit code."""
        match what:
            case "list":
                console.print_lines(self._format_list())
                return 0
            case "keys":
                if left := self._open_cipher().reseal_all(self._record):
                    return console.print_error(OTHER_KEYS_IN_USE_ERROR.format(left))
                console.print_line(ONE_KEY_IN_USE_NOTICE)
                return 0
            case "doctor" if not workspace:
                rows = self._record.list()
                active = (each for each in rows if each.state is InstallationState.ACTIVE)
                return max(map(self._check, active), default=0)
        row = self._record.get(workspace)
        if row is None:
            return console.print_error(f"The bot is not installed in {workspace}.")
        match what:
            case "show":
                console.print_lines(self._format_details(row))
                return 0
            case "pause":
                return self._set_state(row, InstallationState.PAUSED)
            case "resume":
                return self._set_state(row, InstallationState.ACTIVE)
            case "remove":
                return self._remove(row)
        return self._check(row)

    def _open_cipher(self) -> tokens.TokenCipher:
        return tokens.open_token_cipher(self._settings, self._record)

    def _format_list(self) -> Iterator[str]:
        rows = self._record.list()
        for each in rows:
            name = console.escape_control_characters(each.name)
            yield f"{each.workspace:<12} {each.state:<8} {name}"
        if not rows:
            yield NO_INSTALLATIONS_NOTICE.format(str(self._settings.url).rstrip("/"))

    def _format_details(self, row: Installation) -> Iterator[str]:
        kind = ", a whole organisation" if row.is_org_wide else ""
        yield f"{row.workspace}  {console.escape_control_characters(row.name)}{kind}"
        yield f"    {row.state}, installed by {row.installed_by} {format_in_utc(row.installed_at)}"
        yield f"    may use {row.scopes.replace(',', ', ')}"
        for sentence, at in (
            ("its token expires", row.token_expires_at),
            ("it was removed", row.removed_at),
            ("nothing to do before", row.due_at),
        ):
            if at is not None:
                yield f"    {sentence} {format_in_utc(at)}"
        if row.is_org_wide:
            granted = self._record.list_granted_workspaces(row.workspace)
            yield f"    serves {', '.join(granted) or 'none of its workspaces yet'}"
        yield f"    its policy, settings and record: {self._settings.workspaces / row.workspace}"

    def _set_state(self, row: Installation, state: InstallationState) -> int:
        if row.state is InstallationState.REMOVED:
            return console.print_error(f"The bot was uninstalled in {row.workspace}.")
        done = self._record.set_state(row.workspace, state, self._now)
        word = "active"
        if state is InstallationState.PAUSED:
            word = "paused: what is waiting there is kept, but new messages are not read"
        console.print_line(f"{row.workspace} is {word}." if done else f"It is already {state}.")
        return 0

    def _remove(self, row: Installation) -> int:
        """Uninstall the bot in a workspace, at Slack as well."""
        secret = self._settings.client_secret
        slack = OAuthClient(str(self._settings.client_id), secret, self._settings.slack_api_url)
        uninstalled_note = ""
        try:
            slack.uninstall(self._open_cipher().open(row).bot)
        except (OAuthError, tokens.TokenKeyError) as error:
            if not isinstance(error, OAuthError) or error.code not in UNINSTALLED_ERROR_CODES:
                return console.print_error(f"Nothing was done: {error}.")
            uninstalled_note = ", and had already been uninstalled at Slack"
        self._record.set_state(row.workspace, InstallationState.REMOVED, self._now)
        days = format_count(self._settings.keep_removed_days, "day")
        done = f"{row.workspace} is removed{uninstalled_note}. Its data is deleted in {days}."
        console.print_line(done)
        return 0

    def _check(self, row: Installation) -> int:
        """Run all checks of `countersign doctor` for a workspace; returns the exit code."""
        console.print_line(f"{row.workspace}  {console.escape_control_characters(row.name)}")
        try:
            token = self._open_cipher().open(row).bot.get_secret_value()
        except tokens.TokenKeyError as error:
            return console.print_error(f"Nothing was checked: {error}.")
        environ = {**os.environ, "COUNTERSIGN_WORKSPACE": row.workspace, "SLACK_BOT_TOKEN": token}
        listening = self._settings.http or DEFAULT_ADDRESS
        granted = partial(self._record.list_granted_workspaces, row.workspace)
        list_granted = granted if row.is_org_wide else None
        checks = run_all_checks(environ, console.DOTENV, SystemClock(), listening, list_granted)
        return print_checks(checks, console.print_line)
