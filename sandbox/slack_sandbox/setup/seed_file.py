"""A seed file in TOML: the workspaces, people, channels, groups and apps to begin with.

It reads and checks; nothing is started here. docs/sandbox-seed.toml shows all there is.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from slack_sandbox.setup.manifests import ManifestError, first_problem, read_manifest
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.people import OTHER_TEAM, TEAM, TEAM_NAMES, Channel, Group, Person
from slack_sandbox.workspace.seed import Seed

_HOME = TEAM_NAMES[TEAM]
_NAME = r"^[a-z0-9][a-z0-9._-]*$"


class SeedError(Exception):
    """Raised for a seed file that cannot be used; the text says in one line where and why."""


@dataclass(slots=True)
class SeedApp:
    """An app to install: its manifest, its bot's channels, and secrets to use if any are given."""

    manifest: Json
    channels: list[str] = field(default_factory=list)  # names of the channels that its bot is in
    secrets: dict[str, str] = field(default_factory=dict)  # by field of App


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Workspace(_Row):
    name: str = Field(min_length=1)
    domain: str = Field(pattern=_NAME)


class _Person(_Row):
    name: str = Field(pattern=_NAME)
    real_name: str = ""
    id: str = Field("", pattern=r"^[UW][A-Z0-9]{4,}$")
    email: str = Field("", pattern=r"^\S+@\S+$")
    workspace: str = ""
    guest: Literal["no", "multi-channel", "single-channel"] = "no"
    deactivated: bool = False
    admin: bool = False
    tz: str = "Europe/Berlin"

    @field_validator("tz")
    @classmethod
    def _known_zone(cls, tz: str) -> str:
        try:
            ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"there is no time zone {tz!r}") from None
        return tz


class _Channel(_Row):
    name: str = Field(pattern=r"^[a-z0-9_-]{1,80}$")
    id: str = Field("", pattern=r"^[CG][A-Z0-9]{4,}$")
    private: bool = False
    connect: bool = False  # shared with the second workspace by Slack Connect
    archived: bool = False
    topic: str = Field("", max_length=250)
    members: list[str] = []


class _Group(_Row):
    handle: str = Field(pattern=_NAME)
    id: str = Field("", pattern=r"^S[A-Z0-9]{4,}$")
    name: str = ""
    members: list[str] = []


class _App(_Row):
    manifest: str
    channels: list[str] = []
    # for everything that has no URL in the manifest
    request_url: str = Field("", pattern=r"^https?://\S+$")
    bot_token: str = Field("", pattern=r"^xoxb-\S+$")
    app_token: str = Field("", pattern=r"^xapp-\S+$")
    signing_secret: str = ""
    client_id: str = ""
    client_secret: str = ""


class _File(_Row):
    workspaces: list[_Workspace] = Field(
        [_Workspace(name=_HOME[0], domain=_HOME[1])], min_length=1, max_length=2
    )
    people: list[_Person] = Field(min_length=1)
    channels: list[_Channel] = []
    groups: list[_Group] = []
    apps: list[_App] = []

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        domains = [workspace.domain for workspace in self.workspaces]
        names, channels = (
            [person.name for person in self.people],
            [channel.name for channel in self.channels],
        )
        _once("workspaces", domains)
        _once("people", names)
        _once("channels", channels)
        _once("groups", [group.handle for group in self.groups])
        rows: list[_Person | _Channel | _Group] = [*self.people, *self.channels, *self.groups]
        _once("ids", [row.id for row in rows if row.id])
        for person in self.people:
            _known(f"people, {person.name}", "workspace", [person.workspace or domains[0]], domains)
        for channel in self.channels:
            _known(f"channels, {channel.name}", "person", channel.members, names)
            if channel.connect and len(domains) == 1:
                raise ValueError(
                    f"channels, {channel.name}: connect takes a second workspace to share it with"
                )
        for group in self.groups:
            _known(f"groups, {group.handle}", "person", group.members, names)
        for app in self.apps:
            _known(f"apps, {app.manifest}", "channel", app.channels, channels)
        return self


def _once(what: str, names: list[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{what}: {name!r} is there {times} times")


def _known(place: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{place}: there is no {what} {name!r}")


def read_seed(path: Path) -> tuple[Seed, list[SeedApp]]:
    """Return the workspace that a seed file describes, and the apps to install.

    Raises SeedError for a file that cannot be used.
    """
    try:
        file = _File.model_validate(tomllib.loads(path.read_text("utf-8")))
        return _seed(file), [_app(app, path.parent) for app in file.apps]
    except OSError as error:
        raise SeedError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise SeedError(f"{path}: {first_problem(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ManifestError) as error:
        raise SeedError(f"{path}: {error}") from None


def _seed(file: _File) -> Seed:
    of_domain = {
        w.domain: team for w, team in zip(file.workspaces, (TEAM, OTHER_TEAM), strict=False)
    }
    teams = {
        of_domain[workspace.domain]: (workspace.name, workspace.domain)
        for workspace in file.workspaces
    }
    people = [_person(row, number, of_domain) for number, row in enumerate(file.people, 1)]
    user = {person.name: person.id for person in people}
    creator = next((person.id for person in people if person.is_admin), people[0].id)
    channels = [
        Channel(
            row.id or f"C{number:08}",
            row.name,
            "group" if row.private else "channel",
            [user[name] for name in row.members],
            is_ext_shared=row.connect,
            is_archived=row.archived,
            topic=row.topic,
            creator=creator,
        )
        for number, row in enumerate(file.channels, 1)
    ]
    groups = [
        Group(
            row.id or f"S{number:08}",
            row.handle,
            row.name or row.handle,
            [user[name] for name in row.members],
        )
        for number, row in enumerate(file.groups, 1)
    ]
    return Seed(people, channels, groups, teams)


def _person(row: _Person, number: int, of_domain: dict[str, str]) -> Person:
    offset = datetime.now(ZoneInfo(row.tz)).utcoffset()
    return Person(
        row.name,
        row.id or f"U{number:08}",
        row.real_name or row.name.capitalize(),
        of_domain[row.workspace] if row.workspace else TEAM,
        is_restricted=row.guest != "no",
        is_ultra_restricted=row.guest == "single-channel",
        deleted=row.deactivated,
        is_admin=row.admin,
        tz=row.tz,
        tz_offset=int(offset.total_seconds()) if offset else 0,
        email=row.email,
    )


def _app(row: _App, folder: Path) -> SeedApp:
    manifest = read_manifest(folder / row.manifest)
    if row.request_url:
        with_urls(manifest, row.request_url)
    given = row.model_dump(
        include={"bot_token", "app_token", "signing_secret", "client_id", "client_secret"}
    )
    return SeedApp(manifest, row.channels, {name: value for name, value in given.items() if value})


def with_urls(manifest: Json, url: str) -> None:
    """Switch a manifest to HTTP: `url` wherever it names no request URL of its own."""
    settings = manifest.setdefault("settings", {})
    settings["socket_mode_enabled"] = False
    settings.setdefault("event_subscriptions", {}).setdefault("request_url", url)
    interactivity = settings.setdefault("interactivity", {"is_enabled": True})
    interactivity.setdefault("request_url", url)
    interactivity.setdefault("message_menu_options_url", url)
    for command in manifest.get("features", {}).get("slash_commands", []):
        command.setdefault("url", url)
