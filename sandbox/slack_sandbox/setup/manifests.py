"""App manifests in YAML or JSON: reading, refusing what is malformed, naming the unknown.

It checks form and the limits of Slack's manifest reference; what an app may do with its scopes is
decided elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    ValidationError,
)

from slack_sandbox.spec.facts import SCOPES
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import events

# Scopes that no method or event of the sandbox needs: for commands, e-mail addresses, posts to
# other channels, and posts under another name.
_EXTRA_SCOPES = {
    "chat:write.public",
    "chat:write.customize",
    "commands",
    "incoming-webhook",
    "users:read.email",
}
KNOWN_SCOPES = (
    events.SCOPES | {scope for needed in SCOPES.values() for scope in needed} | _EXTRA_SCOPES
)

_Url = Annotated[StrictStr, StringConstraints(pattern=r"^https?://\S+$")]


class _Part(BaseModel):
    """A part of a manifest.

    Keys that are not named here are let through, as Slack adds some now and then.
    """

    model_config = ConfigDict(extra="allow")


class _BotUser(_Part):
    display_name: StrictStr = Field(min_length=1, max_length=80)
    always_online: StrictBool = False


class _Command(_Part):
    command: StrictStr = Field(max_length=32, pattern=r"^/\S+$")
    description: StrictStr = Field(min_length=1, max_length=2000)
    url: _Url | None = None
    usage_hint: StrictStr = Field("", max_length=1000)
    should_escape: StrictBool = False


class _Shortcut(_Part):
    name: StrictStr = Field(min_length=1, max_length=24)
    type: Literal["global", "message"]
    callback_id: StrictStr = Field(min_length=1, max_length=255)
    description: StrictStr = Field(min_length=1, max_length=150)


class _Features(_Part):
    bot_user: _BotUser | None = None
    slash_commands: list[_Command] = Field([], max_length=50)
    shortcuts: list[_Shortcut] = Field([], max_length=10)
    app_home: dict[str, Any] | None = None
    agent_view: dict[str, Any] | None = None


class _Scopes(_Part):
    bot: list[StrictStr] = Field([], max_length=255)
    user: list[StrictStr] = Field([], max_length=255)


class _OAuth(_Part):
    scopes: _Scopes = _Scopes()
    redirect_urls: list[_Url] = []


class _Subscriptions(_Part):
    request_url: _Url | None = None
    bot_events: list[StrictStr] = Field([], max_length=100)


class _Interactivity(_Part):
    is_enabled: StrictBool = False
    request_url: _Url | None = None
    message_menu_options_url: _Url | None = None


class _Settings(_Part):
    event_subscriptions: _Subscriptions | None = None
    interactivity: _Interactivity | None = None
    socket_mode_enabled: StrictBool = False
    token_rotation_enabled: StrictBool = False


class _Display(_Part):
    name: StrictStr = Field(min_length=1, max_length=35)


class _Manifest(_Part):
    display_information: _Display | None = None
    features: _Features = _Features()
    oauth_config: _OAuth = _OAuth()
    settings: _Settings = _Settings()


class ManifestError(Exception):
    """Raised for a manifest that cannot be used; the text says in one line which and why."""


def _yaml(text: str) -> Any:
    """Parse YAML, with libyaml if PyYAML has it, which is ten times as fast."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, loader)  # noqa: S506 - safe, both


def read_manifest(path: Path) -> Json:
    """The manifest in a YAML or JSON file; ManifestError for one that Slack would not take."""
    try:
        text = path.read_text("utf-8")
        manifest: Any = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ManifestError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(manifest, dict):
        raise ManifestError(
            f"{path}: a manifest is a mapping with features, oauth_config and settings"
        )
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        raise ManifestError(f"{path}: {first_problem(error)}") from None
    return manifest


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, with its place, on one line."""
    problem = error.errors()[0]
    place = "".join(
        f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]
    )
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place.removeprefix('.')}: {problem['msg']}{more}"


def unknown(manifest: Json) -> list[str]:
    """Return a line for each scope or event in a manifest that the sandbox does not have."""
    parsed = _Manifest.model_validate(manifest)
    scopes = [scope for scope in parsed.oauth_config.scopes.bot if scope not in KNOWN_SCOPES]
    subscriptions = parsed.settings.event_subscriptions
    odd = (
        [event for event in subscriptions.bot_events if event not in events.KNOWN_EVENTS]
        if subscriptions
        else []
    )
    return [
        *(f"the sandbox has no use for the scope {scope}" for scope in scopes),
        *(f"the sandbox never sends the event {event}" for event in odd),
    ]


def full_manifest() -> Json:
    """The manifest of an app that may do all that the sandbox knows."""
    return {
        "features": {
            "bot_user": {"display_name": "countersign"},
            "agent_view": {"suggested_prompts": []},
            "app_home": {"home_tab_enabled": True, "messages_tab_enabled": True},
        },
        "oauth_config": {"scopes": {"bot": sorted(KNOWN_SCOPES - {"connections:write"})}},
        "settings": {"event_subscriptions": {"bot_events": sorted(events.KNOWN_EVENTS)}},
    }
