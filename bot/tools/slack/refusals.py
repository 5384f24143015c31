"""What Slack's refusals mean: certainly nothing happened, in a sentence, or nobody knows.

It calls nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slack_sdk.errors import SlackApiError, SlackRequestError

from bot.slack_codes import CODE, LIMITED, TOKEN, TOO_MANY, Meaning, code_of, meaning_of
from bot.tools import ToolError

if TYPE_CHECKING:
    from slack_sdk.web import SlackResponse

# what slack_sdk raises where an answer is no text, no JSON object, or none at all
UNREADABLE = ValueError, LookupError, AttributeError, SlackRequestError
SENTENCES = {
    "not_in_channel": "The bot is not in {channel}; somebody there has to invite it first.",
    "channel_not_found": "There is no {channel} that the bot can see.",
    "is_archived": "{channel} is archived.",
    "method_not_supported_for_channel_type": "That cannot be done in {channel}.",
    "name_taken": "There is a channel {channel} already; it may be private or archived.",
    "msg_too_long": "The message is too long for Slack.",
    "too_long": "The topic is too long for Slack.",
    "already_in_channel": "Somebody of them is in {channel} already.",
    "cant_invite": "One of them cannot be invited to {channel}.",
    "cant_invite_self": "The bot cannot invite itself.",
    "user_is_restricted": "A guest cannot be invited to {channel} by the bot.",
    "ura_max_channels": "A single-channel guest is in another channel already.",
    "no_external_invite_permission": "The bot may not invite people of other companies.",
    "org_user_not_in_team": "One of them is not in this workspace.",
    "user_not_found": "Slack does not know one of them.",
    "time_in_past": "That time is over.",
    "time_too_far": "Slack schedules at most 120 days ahead.",
    "restricted_too_many": "Too many messages are scheduled for {channel} around that time.",
    "messages_tab_disabled": "Messages cannot be sent there.",
    "access_denied": "The workspace's settings do not allow the bot to do that.",
    "no_permission": "The workspace's settings do not allow the bot to do that.",
    "cannot_create_channel": "The workspace's settings do not allow the bot to create channels.",
}
STEMS = {
    "restricted_action": "The settings of {channel} do not allow that.",
    "invalid_name": "Slack does not take {channel} as a channel's name.",
    "slack_connect_": "Slack does not allow that in a channel shared with another company.",
}


def act(doing: str, channel: str, call: Callable[[], SlackResponse]) -> SlackResponse:
    """Slack's answer to a call that changes something; `doing` and `channel` are for the sentences.

    Raises ToolError when Slack refused, so that nothing happened; ConnectionError when its answer
    leaves that open. What the connection itself raises rises as it is.
    """
    try:
        return call()
    except SlackApiError as error:
        status, code = int(error.response.status_code), code_of(error)
        if meaning_of(code, status=status) is Meaning.UNKNOWN:
            told = code if CODE.fullmatch(code) else f"HTTP {status}"
            raise ConnectionError(
                f"Slack answered {told} while {doing}; whether it happened is not known."
            ) from error
        raise ToolError(_sentence(error, code, status, channel)) from error
    except UNREADABLE as error:
        raise ConnectionError(f"Slack's answer while {doing} cannot be read.") from error


def _sentence(error: SlackApiError, code: str, status: int, channel: str) -> str:
    if status == TOO_MANY or code in LIMITED:
        seconds = error.response.headers.get("Retry-After")
        return f"Slack asks to slow down; try again in {seconds or 'some'} seconds."
    if code == "missing_scope":
        return f"The bot lacks the Slack permission {error.response.get('needed') or 'for that'}."
    if code in TOKEN:
        return f"Slack no longer lets the bot in ({code})."
    stems = (text for stem, text in STEMS.items() if code.startswith(stem))
    return SENTENCES.get(code, next(stems, f"Slack refused ({code}).")).format(channel=channel)
