"""The entry for Slack's deliveries: store each, acknowledge it, wake the loop; nothing else.

There are two exceptions because of Slack's rules: a dialog is opened at once from rows, as its
trigger is valid for three seconds, and a submitted dialog is checked before it is acknowledged, so
that errors appear at its fields.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from slack_bolt import App, BoltRequest, BoltResponse
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient
from sqlalchemy.exc import DBAPIError

from bot.approvals.dialog_access import DialogRefusal
from bot.cards import button_codec, sentences, views
from bot.cards.action_names import OVERFLOW_MENU_ACTION_ID, Action
from bot.cards.answers import render_notice_sentence
from bot.cards.field_layout import WHOLE_FORM
from bot.clock import Clock
from bot.identity import Identity
from bot.policy.authority import LookupFailedError
from bot.signals import Signals
from bot.slack.client import SlackClient
from bot.slack.dialogs import DialogHandler, build_refusal_of_submission
from storage import inbox
from storage.database_errors import error_text
from storage.record import Delivery, Store
from storage.states import DeliveryKind

if TYPE_CHECKING:
    from bot.slack.slash_commands import SlashCommandHandler

# The Bolt app that receives Slack's deliveries.


def build_bolt_app(me: Identity, posting: SlackClient) -> App:
    """Return a Bolt app that only receives deliveries."""
    logging.getLogger("slack_bolt.App").addFilter(_is_not_about_token)
    return App(
        name="countersign",  # without a name Bolt searches the whole stack for one, which is slow
        # authorize gives the token; Bolt takes only settings from this client, never calls Slack
        client=WebClient(base_url=posting.base_url, ssl=posting.ssl, retry_handlers=[]),
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None,
            team_id=me.team,
            bot_token=posting.token,
            bot_id=me.bot,
            bot_user_id=me.user,
        ),
        token_verification_enabled=False,
        ignoring_self_events_enabled=False,  # `is_own_event` has looked already
        listener_executor=ThreadPoolExecutor(20, thread_name_prefix="listener"),
    )


def _is_not_about_token(record: logging.LogRecord) -> bool:
    """Return False for Bolt's warnings that SLACK_BOT_TOKEN is unused: the bot itself uses it."""
    return "`token`" not in record.getMessage()


# Tells the author of a message to the bot that it could not be stored, once for each message.

log = logging.getLogger("countersign.listeners")
MAX_REMEMBERED_MESSAGES = 1_000


class StorageFailureNotifier:
    """Tells authors that their message could not be stored; thread-safe, waits for Slack."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def notify_author(self, error: Exception, body: dict[str, Any]) -> None:
        """Tell the author of this payload's message that the database could not store it.

        Nothing is said for other errors, other payloads, and messages whose author has been told.
        """
        event = body.get("event") or {}
        if not isinstance(error, DBAPIError) or not _is_message_to_bot(event):
            return
        if not self._is_first_failure(event):
            return
        text = sentences.MESSAGE_NOT_STORED_REPLY
        channel, thread_ts = event["channel"], event.get("thread_ts")
        message: dict[str, Any] = {
            "channel": channel,
            "text": text,
            "blocks": render_notice_sentence(text),
        }
        try:
            if channel.startswith("D"):
                self._client.chat_postMessage(**message, thread_ts=thread_ts)
            else:
                self._client.chat_postEphemeral(**message, user=event["user"], thread_ts=thread_ts)
        except Exception as failed:  # noqa: BLE001  # the log has what matters already
            log.warning("nobody was told that a message was not stored: %s", error_text(failed))

    def _is_first_failure(self, event: dict[str, Any]) -> bool:
        """Return whether this is the first report for a message; Slack delivers one repeatedly."""
        key = str(event["channel"]), str(event["ts"])
        with self._lock:
            if key in self._told:
                return False
            self._told[key] = None
            if len(self._told) > MAX_REMEMBERED_MESSAGES:
                self._told.popitem(last=False)
        return True


def _is_message_to_bot(event: dict[str, Any]) -> bool:
    """Return whether the event alone shows that a person has written to the bot itself."""
    if (
        event.get("subtype") not in views.HUMAN_MESSAGE_SUBTYPES
        or event.get("bot_id")
        or not event.get("user")
    ):
        return False
    return event.get("type") == "app_mention" or event.get("channel_type") == "im"


SUBSCRIBED_EVENTS: frozenset[str] = frozenset(
    {
        "agent_session_stopped",
        "app_home_opened",
        "app_mention",
        "app_uninstalled",
        "channel_created",
        "channel_id_changed",
        "channel_rename",
        "channel_shared",
        "group_rename",
        "member_joined_channel",
        "member_left_channel",
        "message.channels",
        "message.groups",
        "message.im",
        "message.mpim",
        "subteam_created",
        "subteam_members_changed",
        "subteam_updated",
        "tokens_revoked",
        "user_change",
    }
)
# seconds that a dialog may spend on look-ups before the person is asked to try again
SUBMIT_TIMEOUT_SECONDS = 1.5
OTHER_WORKSPACE_SECONDS = 0.7  # more, for a person who acts from another workspace
RATE_LIMITED_TYPE = "app_rate_limited"  # Slack says that it holds events back; contains no event
SHORTCUT_TYPES = ("shortcut", "message_action")
UNSTORED_ACTIONS = (  # clicks that are not stored
    button_codec.DIALOG_ACTIONS
    | button_codec.LOOK_ACTIONS
    | button_codec.HOME_PAGE_ACTIONS
    | {Action.OPEN_PAGE}
)
OPEN_TIMEOUT_SECONDS = 2.2  # a dialog's trigger expires after three
# parts of a payload that are not stored: used only at once, or about how Slack sent it
_UNSTORED_PAYLOAD_KEYS = frozenset(
    {
        "api_app_id",
        "authorizations",
        "context_enterprise_id",
        "context_team_id",
        "enterprise",
        "event_context",
        "is_enterprise_install",
        "response_url",
        "token",
    }
)
_BUTTON_STYLE_KEYS = frozenset({"confirm", "placeholder", "style", "text"})
T = TypeVar("T")


class SlackListeners:
    """The bot's listeners, which it registers on a Bolt app."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        team: str,
        signals: Signals,
        *,
        bot_user: str,
        app: App,
        client: WebClient,
        dialogs: DialogHandler,
        commands: SlashCommandHandler,
        may_act: Callable[[str, str], bool],
    ) -> None:
        """`team`: the workspace whose deliveries are accepted; `client` opens dialogs.

        `may_act(person, workspace)` returns whether a person of another workspace is accepted
        all the same.
        """
        self._arrivals = inbox.DeliveryGroupWriter(
            store, clock.now, lambda each: signals.own_delivery_keys.add(each.key)
        )
        self._team, self._bot_user = team, bot_user
        self._may_act = may_act
        self._signals = signals
        self._client = client
        self._dialogs = dialogs
        self._commands = commands
        self._checks = ThreadPoolExecutor(8, thread_name_prefix="check")
        self._unstored = StorageFailureNotifier(client)
        app.middleware(self._handle_delivery)
        # a menu's choices get here only if they open a dialog; what is submitted there is stored
        for name in (*sorted(button_codec.DIALOG_ACTIONS), OVERFLOW_MENU_ACTION_ID):
            app.action(name)(self._handle_dialog_click)
        app.action(Action.OPEN_PAGE)(lambda ack: ack())
        app.view(re.compile(".*"))(self._handle_submission)
        app.view_closed(re.compile(".*"))(self._handle_closed_dialog)
        commands.register_listeners(app)
        app.error(self._handle_error)

    def close(self) -> None:
        """Stop checking dialogs and answering commands."""
        self._commands.close()
        self._checks.shutdown(wait=False, cancel_futures=True)

    def _handle_delivery(
        self, body: dict[str, Any], next: Callable[[], BoltResponse]
    ) -> BoltResponse | None:
        """Store a delivery before it is acknowledged, and drop those of other workspaces.

        Clicks of outsiders on cards in a shared channel are stored, too: the loop tells these
        people why their click does not count. Stored and dropped deliveries are acknowledged here,
        as Bolt looks for a listener's acknowledgement only every ten milliseconds.
        """
        delivery = parse_delivery(body, self._team)
        if delivery is None:
            self._rewrite_accepted_workspace(body)
        team = delivery.team if delivery else self._find_workspace(body)
        clicked = delivery is not None and delivery.kind is DeliveryKind.ACTION
        if team != self._team and not clicked:
            log.warning("dropped a delivery of another workspace")
        elif body.get("type") == RATE_LIMITED_TYPE:
            log.error("Slack holds events back: there were too many within an hour")
        elif delivery is None:
            return next()
        elif delivery.kind is DeliveryKind.MESSAGE and not views.may_be_for_bot(
            body["event"], self._bot_user
        ):
            pass  # acknowledged, but not stored
        else:
            self.store_delivery(delivery)
        return BoltResponse(status=200)

    def _find_workspace(self, body: dict[str, Any]) -> str | None:
        """Return the sender's workspace of a payload that is not stored.

        Returns this bot's own for payloads whose handlers check the workspace, such as dialogs.
        """
        if "command" in body:
            team: str | None = body.get("team_id")
            return team
        return (
            views.get_sender_workspace_id(body)
            if body.get("type") in SHORTCUT_TYPES
            else self._team
        )

    def _rewrite_accepted_workspace(self, body: dict[str, Any]) -> None:
        """Replace the sender's workspace by the bot's, for an accepted person of its organisation.

        Clicks that are stored are checked by the loop, in the same way.
        """
        team = body.get("team_id", "") if "command" in body else views.get_sender_workspace_id(body)
        person = body.get("user_id") or (body.get("user") or {}).get("id")
        if not person or not team or team == self._team:
            return
        check = self._checks.submit(self._is_accepted_person, str(person), str(team))
        if not _wait_for_result(check, False, OTHER_WORKSPACE_SECONDS):
            return
        if "command" in body:
            body["team_id"] = self._team
        else:
            body["team"] = {**(body.get("team") or {}), "id": self._team}

    def _is_accepted_person(self, person: str, team: str) -> bool:
        try:
            return self._may_act(person, team)
        except LookupFailedError as error:
            log.warning("%s acts from another workspace and is ignored: %s", person, error)
            return False

    def store_delivery(self, delivery: Delivery) -> None:
        """Store a delivery and wake the loop; do nothing if it is stored already."""
        if self._arrivals.commit_delivery(delivery):
            if delivery.kind in inbox.CLICK_KINDS:
                self._dialogs.end_viewing(delivery.user)
                self._signals.decisions.hold_other_work()
            self._signals.work.notify()

    def _handle_dialog_click(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        """Open the dialog of a button, if this person may use it."""
        ack()
        slow = DialogRefusal(sentences.LOOKUP_FAILED_REPLY)
        check = self._checks.submit(self._dialogs.prepare_dialog, body)
        found = _wait_for_result(check, slow, OPEN_TIMEOUT_SECONDS)
        self._dialogs.open_or_refuse_dialog(self._client, body, found)

    def _handle_submission(self, ack: Callable[..., None], body: dict[str, Any]) -> None:
        """Check a submitted dialog: answer with errors at its fields, or store and close it."""
        slow = {WHOLE_FORM: sentences.LOOKUP_FAILED_REPLY}
        check = self._checks.submit(self._dialogs.validate_submission, body)
        errors = _wait_for_result(check, slow, SUBMIT_TIMEOUT_SECONDS)
        if errors:
            ack(**build_refusal_of_submission(body["view"], errors))
            return
        if views.get_sender_workspace_id(body) == self._team:
            self.store_delivery(_build_submission_delivery(body))
        else:  # the dialog has no field to show an error at
            log.warning("dropped a dialog of another workspace")
        ack()

    def _handle_closed_dialog(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        self._dialogs.end_viewing(body["user"]["id"])

    def _handle_error(self, error: Exception, request: BoltRequest) -> None:
        """Log the error and return nothing, so that Bolt answers 500 and does not acknowledge."""
        log.error("listener failed (%s): %s", request.mode, error, exc_info=error)
        with suppress(RuntimeError):  # the pool is stopping
            self._checks.submit(self._unstored.notify_author, error, request.body)


def _wait_for_result(check: Future[T], late: T, seconds: float) -> T:
    """Return the check's result, or `late` after so many seconds; the check itself goes on."""
    try:
        return check.result(timeout=seconds)
    except NotInTime:
        return late


def parse_delivery(body: dict[str, Any], team: str) -> Delivery | None:
    """Return a payload as an inbox row; None if it is not to be stored here.

    None is for clicks that open a dialog or only show something, commands, and submissions before
    their check.
    """
    if body.get("type") == "event_callback":
        return _build_event_delivery(body)
    if body.get("type") == "block_actions" and not is_answered_without_storing(body["actions"][0]):
        return _build_click_delivery(body, team)
    return None


def is_answered_without_storing(action: dict[str, Any]) -> bool:
    """Return whether this click only opens a dialog or shows something to the person."""
    found = button_codec.decode_clicked_element(action)
    return (
        found.action if isinstance(found, button_codec.Click) else found.name
    ) in UNSTORED_ACTIONS


def _build_event_delivery(body: dict[str, Any]) -> Delivery:
    event, team = body["event"], views.get_receiving_workspace_id(body)
    is_message = event.get("type") in ("message", "app_mention")
    # null is the same as no value
    user, channel, ts = (event.get(each) or "" for each in ("user", "channel", "ts"))
    key = f"event:{body['event_id']}"
    if is_message and event.get("subtype") in views.HUMAN_MESSAGE_SUBTYPES and ts:
        # a mention comes twice, as app_mention and as message, but is one request
        key = f"msg:{team}:{channel}:{ts}"
    return Delivery(
        key=key,
        kind=DeliveryKind.MESSAGE if is_message else DeliveryKind.EVENT,
        team=team,
        user=user if isinstance(user, str) else user.get("id", ""),
        channel=channel if isinstance(channel, str) else channel.get("id", ""),
        thread_ts=event.get("thread_ts") or ts,
        body=_serialize_event(body),
    )


def _build_click_delivery(body: dict[str, Any], team: str) -> Delivery:
    container, message = body.get("container") or {}, body.get("message") or {}
    action = body["actions"][0]
    clicked = [
        action.get("action_ts"),
        action["action_id"],
        button_codec.get_clicked_element_value(action),
    ]
    same = [team, body["user"]["id"], container, *clicked]
    threads = (message.get("thread_ts"), container.get("thread_ts"), container.get("message_ts"))
    return Delivery(
        key="action:" + hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest(),
        kind=DeliveryKind.ACTION,
        team=views.get_sender_workspace_id(body),
        user=body["user"]["id"],
        channel=(body.get("channel") or {}).get("id", ""),
        thread_ts=next(filter(None, threads), ""),
        body=_serialize_interaction(body),
    )


def _build_submission_delivery(body: dict[str, Any]) -> Delivery:
    view = body["view"]
    channel, thread_ts = button_codec.get_thread_from_metadata(view)
    same = [view["id"], view.get("hash"), body["user"]["id"], view["state"]]
    return Delivery(
        key="submission:" + hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest(),
        kind=DeliveryKind.SUBMISSION,
        team=views.get_sender_workspace_id(body),
        user=body["user"]["id"],
        channel=channel,
        thread_ts=thread_ts,
        body=_serialize_interaction(body),
    )


def _serialize_interaction(body: dict[str, Any]) -> str:
    """Return a click or submission as the JSON text to store, without secrets and layout.

    The blocks of the message or view and the look of the button are left out; nothing reads them
    again.
    """
    kept = {name: value for name, value in body.items() if name not in _UNSTORED_PAYLOAD_KEYS}
    if message := body.get("message"):
        kept["message"] = {each: message[each] for each in ("ts", "thread_ts") if each in message}
    if view := body.get("view"):
        kept["view"] = {name: value for name, value in view.items() if name != "blocks"}
    if actions := body.get("actions"):
        kept["actions"] = [
            {name: value for name, value in each.items() if name not in _BUTTON_STYLE_KEYS}
            for each in actions
        ]
    return _dump_storable_json(kept)


def _serialize_event(body: dict[str, Any]) -> str:
    """Return an event as the JSON text to store; of a message's blocks only its tables."""
    kept = {name: value for name, value in body.items() if name not in _UNSTORED_PAYLOAD_KEYS}
    event = kept["event"] = _remove_blocks(body["event"])
    named = _list_files_in_blocks(body["event"]) if event.get("type") == "app_mention" else []
    if named and not event.get("files"):
        event["files"] = named
    for name in ("message", "previous_message"):
        if isinstance(event.get(name), dict):
            event[name] = _remove_blocks(event[name])
    return _dump_storable_json(kept)


def _list_files_in_blocks(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return descriptions of the files that a message's blocks name, to be looked up.

    Slack sends some mentions with files in their blocks alone, ahead of the `message` that has them
    in full and counts as a repetition.
    """
    parts = list(event.get("blocks") or ())
    found = []
    for part in parts:
        parts += part.get("elements") or ()
        if part.get("type") == "file" and part.get("file_id"):
            posted = {"channel": event.get("channel"), "ts": event.get("ts")}
            name = str(part.get("text") or "")
            found.append({"id": part["file_id"], "name": name, "named_in": posted})
    return found


def _dump_storable_json(kept: dict[str, Any]) -> str:
    """Return compact JSON with lone surrogates replaced: no database stores them as text."""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _remove_blocks(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without its blocks, but for the tables in them: no text has their cells."""
    tables = [each for each in message.get("blocks") or () if each.get("type") == "table"]
    kept = {name: value for name, value in message.items() if name != "blocks"}
    return kept | ({"blocks": tables} if tables else {})
