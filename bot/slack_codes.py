"""What each error code of Slack's Web API means for the code that made the request.

From Slack's reference of the methods that are used here. An unlisted code does not count as a
refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from slack_sdk.errors import SlackApiError


def list_granted_scopes(headers: Mapping[str, str]) -> set[str] | None:
    """Return the scopes of the token that an answer of Slack's is for; None if it names none."""
    found = {str(key).lower(): value for key, value in headers.items()}.get("x-oauth-scopes")
    return None if found is None else set(filter(None, map(str.strip, found.split(","))))


class ErrorMeaning(StrEnum):
    """What an error code of Slack's says about the request that it answers."""

    FINAL = "final"  # not done, and never will be: the same call gets the same answer
    PASSING = "passing"  # not done now, but the same call may succeed later
    TOKEN = "token"  # noqa: S105 - no secret; not done: the bot is not let in, whatever it asks
    UNKNOWN = "unknown"  # it may have been done


ERROR_CODE_PATTERN = re.compile(r"[a-z][a-z0-9_]*")  # any other text is no error code of Slack's
HTTP_TOO_MANY_REQUESTS = 429
HTTP_SERVER_ERROR = 500  # below it, an answer with an error code comes from Slack itself
RATE_LIMITED_CODES = frozenset({"ratelimited", "rate_limited"})
TEMPORARY_ERROR_CODES = RATE_LIMITED_CODES | frozenset(
    [
        "accesslimited",
        "external_channel_migrating",
        "message_limit_exceeded",
        "streaming_state_conflict",
        "team_added_to_org",
    ]
)
TOKEN_ERROR_CODES = frozenset(
    [
        "account_inactive",
        "app_access_restricted",
        "ekm_access_denied",
        "invalid_auth",
        "not_authed",
        "invalid_token",
        "org_login_required",
        "token_expired",
        "token_revoked",
        "two_factor_setup_required",
    ]
)
# Slack failed while it worked on the request.
UNKNOWN_OUTCOME_CODES = frozenset(
    [
        "fatal_error",
        "fetch_members_failed",
        "file_update_failed",
        "internal_error",
        "list_record_comment_fetch_failed",
        "messaging_processing_failed",
        "request_timeout",
        "service_unavailable",
        "update_failed",
    ]
)
MISSING_SCOPE = "missing_scope"
# Without these methods the bot can post nothing: messages wait until the app has the scope.
MESSAGE_METHODS = frozenset(
    {"chat.postEphemeral", "chat.postMessage", "chat.stopStream", "chat.update"}
)
_PERMANENT_ERROR_CODES_TEXT = """
    access_denied already_in_channel already_reacted alt_txt_too_large app_cannot_join_channel
    as_user_not_supported attachment_payload_limit_exceeded bad_timestamp block_mismatch
    blocked_file_type bot_not_found bots_not_found cannot_create_channel cannot_dm_bot
    cannot_reply_to_message cant_broadcast_message cant_delete_message cant_invite
    cant_invite_self cant_update_message canvas_disabled_file_team canvas_disabled_user_team
    canvas_globally_disabled channel_is_limited_access channel_not_found
    channel_type_not_supported channels_limit_exceeded deprecated_endpoint draft_already_deleted
    draft_already_sent draft_has_conflict draft_not_found duplicate_channel_not_found
    duplicate_external_id duplicate_message_not_found edit_window_closed
    enterprise_is_restricted exchanged_trigger_id expired_trigger_id feature_disabled
    file_comment_not_found file_deleted file_is_deleted file_not_found file_share_limit_reached
    file_type_not_allowed file_upload_size_restricted file_uploads_disabled
    file_uploads_except_images_disabled forbidden_team hash_conflict insecure_request
    invalid_arg_name invalid_arguments invalid_array_arg invalid_attachments invalid_blocks
    invalid_blocks_format invalid_channel invalid_charset invalid_chunks invalid_cursor
    invalid_form_data invalid_json invalid_limit invalid_metadata invalid_metadata_filter_keys
    invalid_metadata_format invalid_metadata_schema invalid_name invalid_name_maxlength
    invalid_name_punctuation invalid_name_required invalid_name_specials invalid_post_type
    invalid_status invalid_team invalid_thread_ts invalid_time invalid_trigger_id
    invalid_ts_latest invalid_ts_oldest invalid_types invalid_user_combination
    invitee_cant_see_channel is_archived is_bot is_inactive json_not_object limit_required
    markdown_text_conflict max_file_sharing_exceeded message_not_found
    message_not_in_streaming_state message_not_owned_by_app messages_tab_disabled
    metadata_must_be_sent_from_app metadata_too_large method_deprecated
    method_not_supported_for_channel_type missing_args missing_argument missing_charset
    missing_file_data missing_post_type missing_profile_id missing_recipient_team_id
    missing_recipient_user_id msg_blocks_too_long msg_blocks_too_many msg_too_long name_taken
    no_access no_channel no_dual_broadcast_content_update no_external_invite_permission
    no_item_specified no_permission no_reaction no_such_subteam no_text no_user not_agent_app
    not_allowed not_allowed_token_type not_authorized not_enabled not_enough_users not_found
    not_implemented not_in_channel not_reactable not_subscribed_to_message_stream_stopped
    not_visible org_user_not_in_team plan_upgrade_required posting_to_channel_denied
    push_limit_reached reserved_username restricted_action
    restricted_action_non_threadable_channel restricted_action_read_only_channel
    restricted_action_thread_locked restricted_action_thread_only_channel restricted_too_many
    send_on_behalf_not_allowed slack_connect_blocked_file_type
    slack_connect_canvas_sharing_blocked slack_connect_clip_sharing_blocked
    slack_connect_file_link_sharing_blocked slack_connect_file_upload_sharing_blocked
    slack_connect_lists_sharing_blocked snippet_too_large stopped_by_user storage_limit_reached
    streaming_mode_mismatch subteams_disabled superfluous_charset team_access_not_granted
    team_not_found template_not_visible thread_locked thread_not_found thread_ts_not_allowed
    thread_ts_required time_in_past time_too_far too_long too_many_attachments
    too_many_contact_cards too_many_emoji too_many_reactions too_many_users
    unable_to_share_files unknown_method
    unknown_snippet_type unknown_subtype upgrade_required ura_max_channels user_disabled
    user_is_bot user_is_restricted user_not_found user_not_in_channel user_not_visible
    users_list_not_supplied users_not_found view_too_large
"""
PERMANENT_ERROR_CODES = frozenset(_PERMANENT_ERROR_CODES_TEXT.split())


def classify_error_code(code: str, *, status: int = 200, method: str = "") -> ErrorMeaning:
    """Return what an error means, given its code, its HTTP status and the method called.

    An unlisted code, or none of Slack's, leaves it unknown whether Slack did what was asked.
    """
    if status == HTTP_TOO_MANY_REQUESTS:
        return ErrorMeaning.PASSING
    if status >= HTTP_SERVER_ERROR or not ERROR_CODE_PATTERN.fullmatch(code):
        return ErrorMeaning.UNKNOWN
    if code == MISSING_SCOPE:
        return ErrorMeaning.PASSING if method in MESSAGE_METHODS else ErrorMeaning.FINAL
    listed = (
        (TOKEN_ERROR_CODES, ErrorMeaning.TOKEN),
        (TEMPORARY_ERROR_CODES, ErrorMeaning.PASSING),
        (PERMANENT_ERROR_CODES, ErrorMeaning.FINAL),
    )
    return next((meaning for codes, meaning in listed if code in codes), ErrorMeaning.UNKNOWN)


def extract_error_code(error: SlackApiError) -> str:
    """Return the error code in Slack's answer; "" if there is none.

    For an answer that is not JSON, such as a proxy's page, slack_sdk puts the whole of it there.
    """
    told = getattr(error.response, "data", error.response)
    found = told.get("error") if isinstance(told, dict) else None
    return found if isinstance(found, str) and ERROR_CODE_PATTERN.fullmatch(found) else ""


def describe_error_answer(error: SlackApiError) -> str:
    """Return Slack's error code, or what an answer without one may be, to end with a full stop."""
    code = extract_error_code(error)
    return f"Slack answers {code}" if code else "A proxy answers for Slack, or Slack is down"
