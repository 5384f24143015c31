"""Error codes of Web API methods: what any method may answer, and what each adds. Data only.

They are what the sandbox answers by itself and what a test may ask it to answer; each is one of
Slack's reference for the method, or the test that compares them says why.
"""

from __future__ import annotations


def _codes(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ANYWHERE = _codes(
    "invalid_auth not_authed missing_scope not_allowed_token_type token_revoked token_expired "
    "account_inactive",
    "ratelimited internal_error fatal_error service_unavailable request_timeout access_denied "
    "accesslimited",
    "ekm_access_denied enterprise_is_restricted org_login_required team_added_to_org "
    "two_factor_setup_required",
    "no_permission method_deprecated deprecated_endpoint unknown_method is_bot",
    "invalid_arguments invalid_arg_name invalid_array_arg invalid_charset invalid_form_data "
    "invalid_post_type",
    "missing_post_type invalid_json json_not_object",
)
_TEXT = (
    "channel_not_found no_text invalid_attachments invalid_blocks invalid_blocks_format "
    "msg_blocks_too_long too_many_attachments markdown_text_conflict message_limit_exceeded "
)
_METADATA = "metadata_too_large invalid_metadata_format invalid_metadata_schema "
_POST = _TEXT + "not_in_channel is_archived restricted_action "
_STREAM = (
    "channel_not_found not_in_channel is_archived no_text invalid_blocks invalid_chunks "
    "msg_blocks_too_long msg_blocks_too_many channel_type_not_supported message_limit_exceeded "
    "restricted_action rate_limited messages_tab_disabled msg_too_long invalid_attachments "
    "cannot_provide_both_markdown_text_and_chunks "
) + _METADATA
_RUNNING_STREAM = (
    _STREAM + "message_not_found message_not_owned_by_app message_not_in_streaming_state "
    "streaming_mode_mismatch "
)
_TRIGGER = (
    "view_too_large duplicate_external_id exchanged_trigger_id expired_trigger_id "
    "invalid_trigger_id "
)
_READ = "channel_not_found invalid_cursor "
_SESSION = (
    "channel_not_found feature_disabled not_authorized thread_ts_required thread_ts_not_allowed "
)
_PLACE = "channel_not_found is_archived method_not_supported_for_channel_type "
_NAME = (
    "name_taken invalid_name invalid_name_required invalid_name_punctuation "
    "invalid_name_maxlength invalid_name_specials "
)
_ENTITY = "invalid_auth invalid_app_id invalid_trigger_id "
_BOOKMARK = "channel_not_found permission_denied not_implemented "
_PIN = "channel_not_found bad_timestamp message_not_found no_item_specified restricted_action "
_REACTION = "channel_not_found bad_timestamp message_not_found no_item_specified "
_GROUP = "permission_denied missing_argument "
_PAGES = (
    "invalid_cursor invalid_limit invalid_types missing_argument "
    "method_not_supported_for_channel_type"
)

_CHAT: dict[str, str] = {
    "chat.appendStream": _RUNNING_STREAM + "stopped_by_user",
    "chat.delete": "channel_not_found message_not_found cant_delete_message",
    "chat.deleteScheduledMessage": "channel_not_found invalid_scheduled_message_id bad_token",
    "chat.getPermalink": "channel_not_found message_not_found",
    "chat.meMessage": "channel_not_found not_in_channel is_archived no_text msg_too_long "
    "messages_tab_disabled rate_limited",
    "chat.postEphemeral": _POST
    + "msg_too_long messages_tab_disabled user_not_in_channel cannot_reply_to_message "
    "invalid_thread_ts",
    "chat.postMessage": _POST
    + _METADATA
    + "cannot_reply_to_message invalid_thread_ts messages_tab_disabled msg_too_long rate_limited",
    "chat.scheduleMessage": _POST
    + _METADATA
    + "msg_too_long rate_limited invalid_thread_ts messages_tab_disabled invalid_time "
    "time_in_past time_too_far restricted_too_many",
    "chat.scheduledMessages.list": "invalid_channel invalid_cursor invalid_token",
    "chat.startStream": _STREAM
    + "missing_recipient_team_id missing_recipient_user_id user_not_found team_not_found "
    "invalid_thread_ts",
    "chat.stopStream": _RUNNING_STREAM + "stopped_by_user invalid_blocks_format invalid_status",
    "chat.unfurl": "cannot_find_channel cannot_find_message cannot_unfurl_message "
    "cannot_unfurl_url cannot_parse_attachment cannot_prompt invalid_source invalid_unfurl_id "
    "invalid_unfurls_format missing_channel missing_ts missing_unfurl_id missing_source "
    "missing_unfurls",
    "chat.update": _TEXT
    + _METADATA
    + "msg_too_long message_not_found cant_update_message edit_window_closed block_mismatch "
    "streaming_state_conflict is_inactive file_not_found update_failed",
}

_CONVERSATIONS: dict[str, str] = {
    "conversations.archive": "channel_not_found already_archived cant_archive_general "
    "not_in_channel method_not_supported_for_channel_type restricted_action",
    "conversations.close": "channel_not_found method_not_supported_for_channel_type not_permitted",
    "conversations.create": _NAME + "restricted_action cannot_create_channel",
    "conversations.history": _READ + "not_in_channel invalid_ts_latest invalid_ts_oldest",
    "conversations.info": "channel_not_found",
    "conversations.invite": _PLACE
    + "not_in_channel already_in_channel cant_invite cant_invite_self no_user user_not_found "
    "user_is_restricted ura_max_channels invitee_cant_see_channel no_external_invite_permission "
    "org_user_not_in_team",
    "conversations.join": _PLACE + "too_many_members",
    "conversations.kick": "channel_not_found cant_kick_from_general cant_kick_self not_in_channel "
    "user_not_found method_not_supported_for_channel_type restricted_action",
    "conversations.leave": _PLACE + "cant_leave_general last_member",
    "conversations.list": _PAGES,
    "conversations.mark": "channel_not_found invalid_timestamp not_in_channel",
    "conversations.members": _READ
    + "invalid_limit fetch_members_failed method_not_supported_for_channel_type",
    "conversations.open": "channel_not_found user_not_found user_disabled user_not_visible "
    "users_list_not_supplied not_enough_users too_many_users invalid_user_combination "
    "method_not_supported_for_channel_type",
    "conversations.rename": _PLACE + _NAME + "not_in_channel not_authorized",
    "conversations.replies": _READ
    + "not_in_channel thread_not_found invalid_ts_latest invalid_ts_oldest",
    "conversations.setPurpose": _PLACE + "not_in_channel too_long user_is_restricted",
    "conversations.setTopic": _PLACE + "not_in_channel too_long user_is_restricted",
    "conversations.unarchive": "channel_not_found method_not_supported_for_channel_type "
    "not_archived",
}

_THINGS: dict[str, str] = {
    "bookmarks.add": _BOOKMARK
    + "invalid_bookmark_type invalid_link invalid_emoji too_many_bookmarks invalid_parent_type",
    "bookmarks.edit": _BOOKMARK + "not_found invalid_link invalid_emoji",
    "bookmarks.list": "channel_not_found not_implemented",
    "bookmarks.remove": _BOOKMARK + "not_found",
    "emoji.list": "",
    "files.completeUploadExternal": "channel_not_found not_in_channel posting_to_channel_denied "
    "file_not_found channels_limit_exceeded invalid_channel invalid_blocks invalid_blocks_format "
    "msg_blocks_too_long invalid_attachments file_type_not_allowed file_update_failed",
    "files.delete": "file_not_found file_deleted cant_delete_file delete_not_allowed "
    "file_deleting_disabled",
    "files.getUploadURLExternal": "missing_argument alt_txt_too_large snippet_too_large "
    "file_upload_size_restricted storage_limit_reached file_uploads_disabled "
    "file_type_not_allowed unknown_snippet_type",
    "files.info": "file_not_found file_deleted not_visible",
    "files.list": "user_not_found unknown_type missing_argument",
    "pins.add": _PIN + "already_pinned not_in_channel not_pinnable too_many_pins",
    "pins.list": "channel_not_found restricted_action",
    "pins.remove": _PIN + "no_pin not_pinned",
    "reactions.add": _REACTION
    + "invalid_name already_reacted too_many_emoji too_many_reactions is_archived no_access "
    "not_reactable thread_locked",
    "reactions.get": _REACTION + "file_not_found",
    "reactions.list": "user_not_found invalid_cursor",
    "reactions.remove": _REACTION
    + "invalid_name no_reaction no_access file_not_found thread_locked",
}

_PEOPLE: dict[str, str] = {
    "bots.info": "bot_not_found",
    "dnd.teamInfo": "no_users_provided user_not_visible",
    "team.info": "team_not_found",
    "usergroups.create": _GROUP
    + "missing_subteam_name name_already_exists handle_already_exists bad_handle forbidden_handle "
    "name_too_long description_too_long invalid_channel_provided plan_upgrade_required "
    "paid_teams_only",
    "usergroups.disable": _GROUP + "no_such_subteam",
    "usergroups.enable": _GROUP + "no_such_subteam",
    "usergroups.list": "plan_upgrade_required",
    "usergroups.update": _GROUP
    + "paid_teams_only no_such_subteam name_already_exists handle_already_exists bad_handle "
    "forbidden_handle name_too_long description_too_long invalid_channel_provided",
    "usergroups.users.list": "no_such_subteam plan_upgrade_required",
    "usergroups.users.update": _GROUP
    + "no_users_provided invalid_users no_such_subteam plan_upgrade_required "
    "subteam_max_users_exceeded",
    "users.conversations": _PAGES,
    "users.getPresence": "user_not_found",
    "users.info": "user_not_found user_not_visible",
    "users.list": "invalid_cursor limit_required",
    "users.lookupByEmail": "users_not_found",
    "users.profile.get": "user_not_found",
    "users.setPresence": "invalid_presence",
}

_APPS: dict[str, str] = {
    "agents.sessions.rename": _SESSION + "session_not_found invalid_name name_taken is_archived",
    "agents.sessions.setStatus": _SESSION + "invalid_status user_not_found",
    "api.test": "",
    "apps.connections.open": "forbidden_team insecure_request missing_args",
    "apps.manifest.validate": "invalid_manifest invalid_app invalid_app_id",
    "apps.uninstall": "invalid_client_id bad_client_secret client_id_token_mismatch",
    "assistant.threads.setStatus": "channel_not_found invalid_thread_ts",
    "assistant.threads.setSuggestedPrompts": "channel_not_found invalid_thread_ts "
    "message_not_found not_agent_app",
    "assistant.threads.setTitle": "channel_not_found invalid_thread_ts",
    "auth.revoke": "not_bearer_token",
    "auth.teams.list": "invalid_cursor invalid_limit",
    "auth.test": "",
    "entity.acknowledgeCommentAction": _ENTITY + "missing_comment_data not_allowed",
    "entity.presentComments": _ENTITY + "missing_delete_action_id user_auth_url_missing",
    "entity.presentDetails": _ENTITY
    + "invalid_metadata user_auth_url_missing entity_metadata_does_not_match_trigger",
    "functions.completeError": "function_execution_not_found execution_not_in_running_state",
    "functions.completeSuccess": "function_execution_not_found execution_not_in_running_state "
    "parameter_validation_failed",
    "oauth.v2.access": "invalid_client_id bad_client_secret invalid_code bad_redirect_uri "
    "invalid_grant_type invalid_refresh_token no_scopes oauth_authorization_url_mismatch",
    "oauth.v2.exchange": "invalid_client_id bad_client_secret invalid_token "
    "token_rotation_not_enabled authorization_not_found token_already_exchanged",
    "views.open": _TRIGGER,
    "views.publish": "view_too_large duplicate_external_id hash_conflict not_enabled "
    "missing_profile_id",
    "views.push": _TRIGGER + "not_found push_limit_reached",
    "views.update": "view_too_large duplicate_external_id not_found hash_conflict",
}

ERRORS: dict[str, frozenset[str]] = {
    method: ANYWHERE | _codes(own)
    for table in (_CHAT, _CONVERSATIONS, _THINGS, _PEOPLE, _APPS)
    for method, own in table.items()
}
