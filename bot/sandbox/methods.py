"""Facts about the Web API methods the sandbox answers: scopes, error codes, rate tiers. Pure tables, no I/O."""

from __future__ import annotations

CHANNEL_KINDS = ("channels", "groups", "im", "mpim")  # public, private, direct, group direct: how scopes are named


def scope_for(method: str, kind: str) -> tuple[str, ...]:
    """The scopes of which one is needed to use `method` on a conversation of `kind` (one of CHANNEL_KINDS).

    Methods whose scopes do not depend on the kind of conversation give the same for each. KeyError for a method
    the sandbox does not know, ValueError for a kind that does not exist.
    """
    if kind not in CHANNEL_KINDS:
        raise ValueError(f"no such kind of conversation: {kind}")
    scopes = SCOPES[method]
    return tuple(scope for scope in scopes if scope.split(":")[0] == kind) or scopes


def _each(right: str) -> tuple[str, ...]:
    return tuple(f"{kind}:{right}" for kind in CHANNEL_KINDS)


_CHAT = ("chat:write",)
_MANAGE = ("channels:manage", "groups:write", "im:write", "mpim:write")

# Any one of these suffices; where they name a kind of conversation, the one for that kind. () needs a token only.
SCOPES: dict[str, tuple[str, ...]] = {
    "auth.test": (),
    "apps.connections.open": ("connections:write",),  # of the app-level token
    "chat.postMessage": _CHAT,  # and chat:write.public in public channels the bot is not in
    "chat.update": _CHAT,
    "chat.delete": _CHAT,
    "chat.postEphemeral": _CHAT,
    "chat.scheduleMessage": _CHAT,
    "chat.getPermalink": (),
    "chat.startStream": _CHAT,
    "chat.appendStream": _CHAT,
    "chat.stopStream": _CHAT,
    "conversations.open": _MANAGE,
    "conversations.info": _each("read"),
    "conversations.members": _each("read"),
    "conversations.history": _each("history"),
    "conversations.replies": _each("history"),
    "conversations.list": _each("read"),
    "conversations.create": (*_MANAGE, "channels:write"),
    "conversations.invite": (*_MANAGE, "channels:write.invites", "groups:write.invites"),
    "conversations.setTopic": (*_MANAGE, *_each("write.topic")),
    "conversations.join": ("channels:join",),
    "users.info": ("users:read",),
    "users.list": ("users:read",),
    "usergroups.list": ("usergroups:read",),
    "usergroups.users.list": ("usergroups:read",),
    "views.open": (),
    "views.push": (),
    "views.update": (),
    "views.publish": (),
    "assistant.threads.setStatus": _CHAT,
    "assistant.threads.setSuggestedPrompts": ("assistant:write",),
    "agents.sessions.setStatus": _CHAT,
    "agents.sessions.rename": _CHAT,
    "bots.info": ("users:read",),
    "team.info": ("team:read",),
}

_TIER = {1: 1, 2: 20, 3: 50, 4: 100}  # requests a minute
_SPECIAL = 600  # tier 5: "several hundred"; a channel takes about one message a second besides

_TIERS = {
    2: (
        "chat.startStream",
        "chat.stopStream",
        "conversations.list",
        "conversations.create",
        "conversations.setTopic",
        "users.list",
        "usergroups.list",
        "usergroups.users.list",
    ),
    4: (
        "chat.postEphemeral",
        "chat.appendStream",
        "conversations.members",
        "users.info",
        "views.open",
        "views.push",
        "views.update",
        "views.publish",
        "assistant.threads.setSuggestedPrompts",
    ),
    5: ("auth.test", "chat.postMessage", "chat.getPermalink", "assistant.threads.setStatus"),
}
_TIER_OF = {method: tier for tier, methods in _TIERS.items() for method in methods}

TIERS: dict[str, int] = {method: _TIER.get(_TIER_OF.get(method, 3), _SPECIAL) for method in SCOPES}

# Error codes. What any method may answer first, then what each adds.


def _codes(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ANYWHERE = _codes(
    "invalid_auth not_authed missing_scope not_allowed_token_type token_revoked account_inactive ratelimited",
    "internal_error fatal_error service_unavailable request_timeout invalid_arguments invalid_form_data",
    "invalid_post_type unknown_method",
)
_TEXT = (
    "channel_not_found no_text invalid_blocks invalid_blocks_format msg_blocks_too_long too_many_attachments "
    "markdown_text_conflict message_limit_exceeded "
)
_METADATA = "metadata_too_large invalid_metadata_format invalid_metadata_schema "
_POST = _TEXT + "not_in_channel is_archived restricted_action "
_STREAM = (
    "channel_not_found not_in_channel is_archived no_text invalid_blocks invalid_chunks msg_blocks_too_long "
    "msg_blocks_too_many channel_type_not_supported message_limit_exceeded restricted_action rate_limited "
    "messages_tab_disabled "
) + _METADATA
_RUNNING_STREAM = _STREAM + "message_not_found message_not_owned_by_app message_not_in_streaming_state "
_TRIGGER = "view_too_large duplicate_external_id exchanged_trigger_id expired_trigger_id invalid_trigger_id "
_READ = "channel_not_found invalid_cursor "
_SESSION = "channel_not_found feature_disabled not_authorized thread_ts_required thread_ts_not_allowed "
_PLACE = "channel_not_found is_archived method_not_supported_for_channel_type "

_OWN: dict[str, str] = {
    "auth.test": "",
    "apps.connections.open": "forbidden_team insecure_request missing_args",
    "chat.postMessage": _POST
    + _METADATA
    + "cannot_reply_to_message invalid_thread_ts messages_tab_disabled rate_limited",
    "chat.update": _TEXT
    + _METADATA
    + "msg_too_long message_not_found cant_update_message edit_window_closed block_mismatch "
    "streaming_state_conflict is_inactive",
    "chat.delete": "channel_not_found message_not_found cant_delete_message",
    "chat.postEphemeral": _POST + "msg_too_long messages_tab_disabled user_not_in_channel cannot_reply_to_message",
    "chat.scheduleMessage": _POST
    + _METADATA
    + "msg_too_long rate_limited invalid_time time_in_past time_too_far restricted_too_many",
    "chat.getPermalink": "channel_not_found message_not_found",
    "chat.startStream": _STREAM + "missing_recipient_team_id missing_recipient_user_id user_not_found team_not_found "
    "invalid_thread_ts",
    "chat.appendStream": _RUNNING_STREAM + "stopped_by_user",
    "chat.stopStream": _RUNNING_STREAM + "stopped_by_user invalid_blocks_format",
    "conversations.open": "channel_not_found user_not_found user_disabled user_not_visible users_list_not_supplied "
    "not_enough_users too_many_users invalid_user_combination method_not_supported_for_channel_type",
    "conversations.info": "channel_not_found",
    "conversations.members": _READ + "invalid_limit fetch_members_failed method_not_supported_for_channel_type",
    "conversations.history": _READ + "not_in_channel invalid_ts_latest invalid_ts_oldest",
    "conversations.replies": _READ + "not_in_channel thread_not_found invalid_ts_latest invalid_ts_oldest",
    "conversations.list": "invalid_cursor invalid_limit invalid_types",
    "conversations.create": "name_taken invalid_name invalid_name_required invalid_name_punctuation "
    "invalid_name_maxlength invalid_name_specials restricted_action",
    "conversations.invite": _PLACE + "not_in_channel already_in_channel cant_invite cant_invite_self no_user "
    "user_not_found user_is_restricted ura_max_channels invitee_cant_see_channel no_external_invite_permission",
    "conversations.setTopic": _PLACE + "not_in_channel too_long user_is_restricted",
    "conversations.join": _PLACE + "too_many_members",
    "users.info": "user_not_found user_not_visible",
    "users.list": "invalid_cursor limit_required",
    "usergroups.list": "plan_upgrade_required",
    "usergroups.users.list": "no_such_subteam plan_upgrade_required",
    "views.open": _TRIGGER,
    "views.push": _TRIGGER + "not_found push_limit_reached",
    "views.update": "view_too_large duplicate_external_id not_found hash_conflict",
    "views.publish": "view_too_large duplicate_external_id hash_conflict not_enabled",
    "assistant.threads.setStatus": "channel_not_found invalid_thread_ts",
    "assistant.threads.setSuggestedPrompts": "channel_not_found invalid_thread_ts message_not_found not_agent_app",
    "agents.sessions.setStatus": _SESSION + "invalid_status user_not_found",
    "agents.sessions.rename": _SESSION + "session_not_found invalid_name name_taken is_archived",
    "bots.info": "bot_not_found",
    "team.info": "team_not_found",
}
ERRORS: dict[str, frozenset[str]] = {method: ANYWHERE | _codes(own) for method, own in _OWN.items()}
