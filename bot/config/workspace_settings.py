"""The settings of an installation that serves many workspaces, and of one workspace among them."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from bot.config.connection_settings import MISSING
from bot.config.environment import DotenvError, read_dotenv_file
from storage.backend import is_postgres_url
from storage.digest import KEY_MIN_CHARS, list_current_and_older_keys, parse_signing_key

WORKSPACE_ID_PATTERN = re.compile("[TE][A-Z0-9]{1,30}")  # of a workspace or an organisation
WORKSPACE_SETTINGS_FILE = "settings.env"  # in the workspace's folder; its own settings
WORKSPACE_POLICY_FILE = "policy.toml"  # in the same folder
WORKSPACE_DATABASE_FILE = "countersign.db"  # in the same folder, unless the record is in PostgreSQL
# variables that are the same for all workspaces
SHARED_VARIABLES_PATTERN = re.compile(
    "SLACK_.*|DATABASE_URL|COUNTERSIGN_(CLIENT_.*|WORKSPACES?|URL|HTTP|TOKEN_KEYS|TRACES|LOG.*"
    "|KEEP_REMOVED_DAYS|OTHER_CONNECTIONS|POLICY)"
)
FILE_VARIABLES = ("COUNTERSIGN_DATABASES", "COUNTERSIGN_SERVERS", "COUNTERSIGN_SHOP")
CONFLICTING_SETTING_ERROR = (
    "{0}: do not set it together with COUNTERSIGN_CLIENT_ID, which is for many workspaces: {1}"
)


class OrganisationSettings(BaseModel):
    """The settings of serving many workspaces."""

    client_id: str | None = Field(
        None,
        title="COUNTERSIGN_CLIENT_ID",
        pattern=r"^[!-~]+$",
        description="The app's Client ID at Slack. If set, people install the bot in any number"
        " of workspaces, at COUNTERSIGN_URL/slack/install.",
    )
    client_secret: SecretStr = Field(
        MISSING,
        title="COUNTERSIGN_CLIENT_SECRET",
        description="The app's Client Secret at Slack: Basic Information.",
    )
    workspaces: Path = Field(
        Path("workspaces"),
        title="COUNTERSIGN_WORKSPACES",
        description="The folder with a folder for each workspace: its settings, policy and record.",
    )
    workspace: str | None = Field(
        None,
        title="COUNTERSIGN_WORKSPACE",
        pattern=f"^{WORKSPACE_ID_PATTERN.pattern}$",
        description="Which workspace a command is about, T… (or E… for a whole organisation).",
    )
    token_keys: SecretStr | None = Field(
        None,
        title="COUNTERSIGN_TOKEN_KEYS",
        description="The keys that the workspaces' tokens are encrypted with, as id:secret, the "
        "one in use first; unset: a key file in COUNTERSIGN_WORKSPACES.",
    )
    keep_removed_days: int = Field(
        30,
        title="COUNTERSIGN_KEEP_REMOVED_DAYS",
        ge=0,
        le=3650,
        description="After how many days the record of a workspace that removed the bot is"
        " deleted.",
    )


def describe_organisation_problems(
    values: Mapping[str, Any], *, reading: bool = False
) -> Iterator[str]:
    """Yield a sentence for each setting that is missing or useless for serving many workspaces.

    `reading`: whether the settings are for a command that only reads one workspace's record.
    """
    if "client_id" not in values:
        if "client_secret" in values:
            yield "COUNTERSIGN_CLIENT_ID: is missing beside COUNTERSIGN_CLIENT_SECRET"
        return
    if reading and "workspace" not in values:
        yield (
            "COUNTERSIGN_WORKSPACE: is missing; it says which workspace the command is about. "
            "`countersign workspaces list` shows them"
        )
    for name in ("client_secret", "url"):
        if name not in values:
            yield f"COUNTERSIGN_{name.upper()}: is missing beside COUNTERSIGN_CLIENT_ID"
    if values.get("slack_bot_token") not in (None, MISSING):
        yield CONFLICTING_SETTING_ERROR.format("SLACK_BOT_TOKEN", "each gets a token of its own")
    database = str(values.get("database_url", ""))
    if database and not is_postgres_url(database):
        own = "each has a file of its own in COUNTERSIGN_WORKSPACES"
        yield CONFLICTING_SETTING_ERROR.format(
            "DATABASE_URL", f"{own}. Or name a PostgreSQL database"
        )
    if is_postgres_url(database) and "token_keys" not in values:
        yield "COUNTERSIGN_TOKEN_KEYS: is missing; with PostgreSQL no file holds the keys"


def read_workspace_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables for the workspace that COUNTERSIGN_WORKSPACE names, and problems.

    `variables`: those of the installation, returned unchanged if no workspace is named. The
    workspace's `settings.env` overrides them; its record, policy and address are its own.
    """
    workspace = variables.get("COUNTERSIGN_WORKSPACE", "")
    if not WORKSPACE_ID_PATTERN.fullmatch(workspace):
        return dict(variables), []  # any value but "" is reported by the setting's own check
    folder = Path(variables.get("COUNTERSIGN_WORKSPACES", "workspaces")) / workspace
    own_settings, problems = _read_own_settings(folder)
    installation_only = ("COUNTERSIGN_CLIENT_ID", "COUNTERSIGN_CLIENT_SECRET", "COUNTERSIGN_HTTP")
    merged = {
        name: value for name, value in variables.items() if name not in installation_only
    } | own_settings
    if (folder / WORKSPACE_POLICY_FILE).is_file():
        merged["COUNTERSIGN_POLICY"] = str(folder / WORKSPACE_POLICY_FILE)
    if "COUNTERSIGN_URL" in merged:
        merged["COUNTERSIGN_URL"] = f"{merged['COUNTERSIGN_URL'].rstrip('/')}/w/{workspace}"
    database = merged.get("DATABASE_URL", "")
    if is_postgres_url(database):
        sign = "&" if "?" in database else "?"
        merged["DATABASE_URL"] = f"{database}{sign}schema={get_schema_name(workspace)}"
    else:
        merged["DATABASE_URL"] = f"sqlite:///{folder / WORKSPACE_DATABASE_FILE}"
    # a record moved here brings the key that it was signed with
    if "COUNTERSIGN_KEY" in merged and "COUNTERSIGN_KEY" not in own_settings:
        merged["COUNTERSIGN_KEY"] = _derive_keys(merged["COUNTERSIGN_KEY"], workspace)
    return merged, problems


def get_schema_name(workspace: str) -> str:
    """Return the schema that holds a workspace's record in a database of PostgreSQL."""
    return f"countersign_{workspace.lower()}"


def _read_own_settings(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return what `settings.env` in a workspace's folder sets, and what is wrong in it."""
    path = folder / WORKSPACE_SETTINGS_FILE
    try:
        said = read_dotenv_file(path)
    except DotenvError as error:
        return {}, [str(error)]
    found = {name: value.strip() for name, value in said.items() if value.strip()}
    shared = [name for name in sorted(found) if SHARED_VARIABLES_PATTERN.fullmatch(name)]
    found |= {name: str(folder / found[name]) for name in found.keys() & FILE_VARIABLES}
    return found, [f"{name}: is one for all workspaces; take it out of {path}" for name in shared]


def _derive_keys(keys: str, workspace: str) -> str:
    """Return a workspace's own signing keys, made from the installation's, in the same order."""
    try:
        known = list_current_and_older_keys(parse_signing_key(keys))
    except ValueError:
        return keys[: KEY_MIN_CHARS - 1]  # too short, so that it is refused with the usual message
    about = f"countersign workspace {workspace}".encode()
    return ",".join(hmac.new(each, about, hashlib.sha256).hexdigest() for each in known)
