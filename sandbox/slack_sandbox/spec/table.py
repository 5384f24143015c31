"""The table of Web API methods: scopes, rate tier, required arguments, format, who may call.

Data only. Scopes, tiers and arguments follow Slack's method reference; where the sandbox differs,
the test that compares them says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# as scopes name public channels, private channels, direct messages and group direct messages
CHANNEL_KINDS = ("channels", "groups", "im", "mpim")
# the token that a method takes: xoxb-, xapp-, a configuration token, or none needed
Caller = Literal["bot", "app", "config", "anyone"]
SPECIAL = 5  # tier of methods with limits of their own


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one method."""

    # any one is enough; if named by kind of conversation, the one for that kind. () needs none
    scopes: tuple[str, ...]
    tier: int  # 1 to 4, or SPECIAL
    required: tuple[str, ...]  # arguments that must be given
    json: bool = True  # whether a JSON body is accepted
    caller: Caller = "bot"


def _each(right: str) -> tuple[str, ...]:
    return tuple(f"{kind}:{right}" for kind in CHANNEL_KINDS)


_CHAT = ("chat:write",)
_WRITE = ("channels:manage", "groups:write", "im:write", "mpim:write")
_MANAGE = (*_WRITE, "channels:write")
_TOPIC = (*_WRITE, *_each("write.topic"))
_READ, _HISTORY = _each("read"), _each("history")
_ASSISTANT, _PEOPLE = ("assistant:write",), ("users:read",)
_BOOKMARKS, _FILES_READ, _FILES = ("bookmarks:write",), ("files:read",), ("files:write",)
_PINS, _REACTIONS = ("pins:write",), ("reactions:write",)
_GROUPS_READ, _GROUPS = ("usergroups:read",), ("usergroups:write",)


def _row(
    scopes: tuple[str, ...],
    tier: int,
    required: str = "",
    *,
    json: bool = True,
    caller: Caller = "bot",
) -> Facts:
    return Facts(scopes, tier, tuple(required.split()), json, caller)


TABLE: dict[str, Facts] = {
    "agents.sessions.rename": _row(_CHAT, 3, "channel_id title"),
    "agents.sessions.setStatus": _row(_CHAT, 3, "channel_id status"),
    "api.test": _row((), 4, caller="anyone"),
    "apps.connections.open": _row(("connections:write",), 3, caller="app"),
    "apps.manifest.validate": _row((), 3, "manifest", caller="config"),
    "apps.uninstall": _row((), 1, "client_id client_secret", json=False),
    "assistant.threads.setStatus": _row(_CHAT, SPECIAL, "channel_id thread_ts status"),
    "assistant.threads.setSuggestedPrompts": _row(_ASSISTANT, 4, "channel_id prompts"),
    "assistant.threads.setTitle": _row(_ASSISTANT, 4, "channel_id thread_ts title"),
    "auth.revoke": _row((), 3, json=False),
    "auth.teams.list": _row((), 2),
    "auth.test": _row((), SPECIAL),
    "bookmarks.add": _row(_BOOKMARKS, 2, "title type"),
    "bookmarks.edit": _row(_BOOKMARKS, 2),
    "bookmarks.list": _row(("bookmarks:read",), 3),
    "bookmarks.remove": _row(_BOOKMARKS, 2),
    "bots.info": _row(_PEOPLE, 3, json=False),
    "chat.appendStream": _row(_CHAT, 4, "channel ts"),
    "chat.delete": _row(_CHAT, 3, "channel ts"),
    "chat.deleteScheduledMessage": _row(_CHAT, 3, "channel scheduled_message_id"),
    "chat.getPermalink": _row((), SPECIAL, "channel message_ts", json=False),
    "chat.meMessage": _row(_CHAT, 3, "channel text"),
    "chat.postEphemeral": _row(_CHAT, 4, "channel user"),
    # for public channels without the bot, chat:write.public as well
    "chat.postMessage": _row(_CHAT, SPECIAL, "channel"),
    "chat.scheduleMessage": _row(_CHAT, 3, "channel post_at"),
    "chat.scheduledMessages.list": _row((), 3),
    "chat.startStream": _row(_CHAT, 2, "channel"),
    "chat.stopStream": _row(_CHAT, 2, "channel ts"),
    "chat.unfurl": _row(("links:write",), 3),
    "chat.update": _row(_CHAT, 3, "channel ts"),
    "conversations.archive": _row(_MANAGE, 2, "channel"),
    "conversations.close": _row(_MANAGE, 2, "channel"),
    "conversations.create": _row(_MANAGE, 2, "name"),
    "conversations.history": _row(_HISTORY, 3, "channel"),
    "conversations.info": _row(_READ, 3, "channel", json=False),
    "conversations.invite": _row(
        (*_WRITE, "channels:write.invites", "groups:write.invites"), 3, "channel users"
    ),
    "conversations.join": _row(("channels:join",), 3, "channel"),
    "conversations.kick": _row(("channels:manage", "groups:write"), 3, "channel"),
    "conversations.leave": _row(_MANAGE, 3, "channel"),
    "conversations.list": _row(_READ, 2, json=False),
    "conversations.mark": _row(_MANAGE, 3, "channel ts"),
    "conversations.members": _row(_READ, 4, "channel", json=False),
    "conversations.open": _row(_WRITE, 3),
    "conversations.rename": _row(_MANAGE, 2, "channel name"),
    "conversations.replies": _row(_HISTORY, 3, "channel ts", json=False),
    "conversations.setPurpose": _row(_TOPIC, 2, "channel purpose"),
    "conversations.setTopic": _row(_TOPIC, 2, "channel topic"),
    "conversations.unarchive": _row(_MANAGE, 2, "channel"),
    "dnd.teamInfo": _row(("dnd:read",), 2, "users", json=False),
    "emoji.list": _row(("emoji:read",), 2, json=False),
    "entity.acknowledgeCommentAction": _row((), 3, "trigger_id"),
    "entity.presentComments": _row((), 3, "trigger_id comments"),
    "entity.presentDetails": _row((), 3, "trigger_id"),
    "files.completeUploadExternal": _row(_FILES, 4, "files"),
    "files.delete": _row(_FILES, 3, "file"),
    "files.getUploadURLExternal": _row(_FILES, 4, "filename length", json=False),
    "files.info": _row(_FILES_READ, 4, "file", json=False),
    "files.list": _row(_FILES_READ, 3, json=False),
    "functions.completeError": _row((), 3, "function_execution_id error"),
    "functions.completeSuccess": _row((), 3, "function_execution_id outputs"),
    "oauth.v2.access": _row((), SPECIAL, json=False, caller="anyone"),
    "oauth.v2.exchange": _row((), 3, "client_id client_secret", json=False, caller="anyone"),
    "pins.add": _row(_PINS, 2, "channel"),
    "pins.list": _row(("pins:read",), 2, "channel", json=False),
    "pins.remove": _row(_PINS, 2, "channel"),
    "reactions.add": _row(_REACTIONS, 3, "channel name timestamp"),
    "reactions.get": _row(("reactions:read",), 3, json=False),
    "reactions.list": _row(("reactions:read",), 2, json=False),
    "reactions.remove": _row(_REACTIONS, 2, "name"),
    "team.info": _row(("team:read",), 3),
    "usergroups.create": _row(_GROUPS, 2, "name"),
    "usergroups.disable": _row(_GROUPS, 2, "usergroup"),
    "usergroups.enable": _row(_GROUPS, 2, "usergroup"),
    "usergroups.list": _row(_GROUPS_READ, 2, json=False),
    "usergroups.update": _row(_GROUPS, 2, "usergroup"),
    "usergroups.users.list": _row(_GROUPS_READ, 2, "usergroup", json=False),
    "usergroups.users.update": _row(_GROUPS, 2, "usergroup users"),
    "users.conversations": _row(_READ, 3, json=False),
    "users.getPresence": _row(_PEOPLE, 3, json=False),
    "users.info": _row(_PEOPLE, 4, "user", json=False),
    "users.list": _row(_PEOPLE, 2, json=False),
    "users.lookupByEmail": _row(("users:read.email",), 3, "email", json=False),
    "users.profile.get": _row(("users.profile:read",), 4, json=False),
    "users.setPresence": _row(("users:write",), 2, "presence"),
    "views.open": _row((), 4, "view"),
    "views.publish": _row((), 4, "user_id view"),
    "views.push": _row((), 4, "view"),
    "views.update": _row((), 4, "view"),
}

# Slack's own error codes for missing arguments; all others give invalid_arguments.
WORDS_FOR_MISSING: dict[tuple[str, str], str] = {
    ("chat.meMessage", "text"): "no_text",
    ("conversations.create", "name"): "invalid_name_required",
    ("conversations.rename", "name"): "invalid_name_required",
    ("conversations.invite", "users"): "no_user",
    ("dnd.teamInfo", "users"): "no_users_provided",
    ("reactions.add", "timestamp"): "no_item_specified",
    ("usergroups.create", "name"): "missing_subteam_name",
    ("usergroups.users.update", "users"): "no_users_provided",
}
# arguments that may be empty, which clears the present value
MAY_BE_EMPTY = frozenset({"topic", "purpose", "status"})
