"""manifest.yml fits Slack's schema, and the methods and events that the code uses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
KINDS = ("channels", "groups", "im", "mpim")

# Scopes needed, for methods where Slack accepts one of several.
CHOSEN = {
    # it works in all four kinds of conversation
    "conversations.replies": {f"{kind}:history" for kind in KINDS},
    "conversations.history": {f"{kind}:history" for kind in KINDS},
    "conversations.info": {f"{kind}:read" for kind in KINDS},
    "users.conversations": {"groups:read"},  # private channels
    "conversations.list": {"channels:read", "groups:read"},  # it lists channels only
    "conversations.members": {f"{kind}:read" for kind in KINDS},
    "conversations.open": {"im:write"},  # DMs with one person
    "conversations.create": {"channels:manage", "groups:write"},
    "conversations.invite": {"channels:manage", "groups:write"},
    "conversations.setTopic": {"channels:manage", "groups:write"},
}
# Scopes that Slack requires to deliver an event.
HEARD = {
    "app_mention": {"app_mentions:read"},
    "member_joined_channel": {"channels:read", "groups:read"},
    "member_left_channel": {"channels:read", "groups:read"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
    "message.mpim": {"mpim:history"},
    "subteam_members_changed": {"usergroups:read"},
    "subteam_updated": {"usergroups:read"},
    "user_change": {"users:read"},
}
# chat.postMessage in a public channel without joining it; the slash command;
# and dnd.teamInfo, which the reference beside the project leaves out
BEYOND_METHODS = {"chat:write.public", "commands", "dnd:read"}
# behind WebClient.files_upload_v2
UPLOAD = {"files.getUploadURLExternal", "files.completeUploadExternal"}
# behind WebClient.chat_stream
STREAM = {"chat.startStream", "chat.appendStream", "chat.stopStream"}


def fixture(name: str) -> dict[str, Any]:
    """Read a shared fixture; skip the test if it is not beside the project."""
    path = FIXTURES / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the project")
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def read_manifest() -> dict[str, Any]:
    """The manifest as it would be pasted into Slack."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "manifest.yml").read_text("utf-8"))
    return loaded


def list_called_methods(methods: dict[str, Any]) -> set[str]:
    """The Web API methods that the code outside the sandbox calls, as Slack names them."""
    named = {method.replace(".", "_"): method for method in methods}
    found: set[str] = set()
    for path in (ROOT / "bot").rglob("*.py"):
        if "sandbox" in path.parts:
            continue
        source = path.read_text("utf-8")
        found |= {named[name] for name in re.findall(r"\.(\w+)\b", source) if name in named}
        found |= {name for name in re.findall(r"""["']([\w.]+)["']""", source) if name in methods}
        found |= {named[name] for name in re.findall(r"""["'](\w+)["']""", source) if name in named}
        found |= STREAM if ".chat_stream(" in source else set()
        found |= UPLOAD if ".files_upload_v2(" in source else set()
    return found


def test_the_manifest_fits_slacks_schema() -> None:
    """Slack's own JSON schema finds no error."""
    validator = jsonschema.Draft7Validator(fixture("manifest.schema.2.0.0.json"))
    assert [each.message for each in validator.iter_errors(read_manifest())] == []


def test_the_app_is_an_agent_in_socket_mode() -> None:
    """People can write to it in its DM, and it has a Home tab."""
    features, settings = read_manifest()["features"], read_manifest()["settings"]
    assert features["app_home"] == {
        "home_tab_enabled": True,
        "messages_tab_enabled": True,
        "messages_tab_read_only_enabled": False,
    }
    assert features["agent_view"]["agent_description"]
    assert 1 <= len(features["agent_view"]["suggested_prompts"]) <= 4
    assert settings["socket_mode_enabled"] is True
    assert settings["interactivity"] == {"is_enabled": True}


def test_the_shortcuts_are_those_the_code_answers() -> None:
    """One works anywhere, one on a message."""
    from bot.cards.action_names import ShortcutId

    found = {each["callback_id"]: each["type"] for each in read_manifest()["features"]["shortcuts"]}
    assert found == {ShortcutId.ASK: "global", ShortcutId.ASK_ABOUT: "message"}


def test_the_slash_command_is_the_one_the_code_answers() -> None:
    """Its hint names subcommands that exist."""
    from bot.slack.command_answers import SLASH_COMMAND, SUBCOMMANDS

    [command] = read_manifest()["features"]["slash_commands"]
    assert command["command"] == SLASH_COMMAND
    assert command["should_escape"] is False  # names and quotation marks arrive as they were typed
    assert {each.strip().split()[0] for each in command["usage_hint"].split("|")} <= set(
        SUBCOMMANDS
    )


def test_the_events_are_those_the_code_listens_to() -> None:
    """No more and no fewer."""
    from bot.slack.listeners import SUBSCRIBED_EVENTS

    events = read_manifest()["settings"]["event_subscriptions"]["bot_events"]
    assert sorted(events) == sorted(SUBSCRIBED_EVENTS)


def test_the_scopes_are_exactly_those_needed() -> None:
    """By the Web API methods that the code calls and the events that it listens to."""
    methods = fixture("slack_methods.json")
    needed = set(BEYOND_METHODS)
    for method in list_called_methods(methods):
        offered = set(methods[method].get("bot_scopes") or ())
        chosen = CHOSEN.get(method, offered)
        assert chosen <= offered, f"{method} takes none of these scopes"
        assert method in CHOSEN or len(offered) <= 1, (
            f"say in CHOSEN which of its scopes {method} needs"
        )
        needed |= chosen
    for event in read_manifest()["settings"]["event_subscriptions"]["bot_events"]:
        needed |= HEARD.get(event, set())
    assert sorted(read_manifest()["oauth_config"]["scopes"]["bot"]) == sorted(needed)
