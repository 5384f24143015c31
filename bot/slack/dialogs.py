"""Opening of dialogs and checks of submitted ones, each by the handlers of its kind of dialog.

Nothing is decided here: a valid submission is stored for the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.dialog_access import CardViewers, DialogAccessChecker, DialogRefusal
from bot.cards import button_codec, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.block_kit import Json, plain_text, section_block
from bot.cards.field_layout import WHOLE_FORM
from bot.cards.slack_text import shorten_to_words
from bot.clock import Clock
from bot.signals import Signal
from bot.slack.client import classify_error, get_genuine_slack_error_code
from storage import outbox
from storage.record import Call, Store

log = logging.getLogger("countersign.dialogs")
# that a submitted dialog may wait for the tool's preview; afterwards the loop waits for it
DIALOG_PREVIEW_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PreparedDialog:
    """A dialog that is built and ready to be opened, for a person who may use it."""

    view: Json
    call: Call | None = None  # the call that it shows in full
    reveals: bool = False  # it shows more of that call than the card does
    is_to_decide: bool = False  # its person is about to decide or edit the call


def dialog_error_sentence(error: Exception) -> str:
    """Return the sentence (mrkdwn) that tells a person why a dialog could not be opened."""
    if not isinstance(error, SlackApiError):
        return sentences.dialog_not_opened_reply("")
    return sentences.dialog_not_opened_reply(
        get_genuine_slack_error_code(error), classify_error(error)
    )


def build_refusal_of_submission(view: Json, errors: Mapping[str, str]) -> Json:
    """Return the acknowledgement that keeps the dialog open: errors at fields, else one on top.

    The blocks keep their ids, so Slack keeps what the person entered.
    """
    if at_fields := {block_id: text for block_id, text in errors.items() if block_id}:
        return {"response_action": "errors", "errors": at_fields}
    kept = {key: view[key] for key in _KEPT_VIEW_KEYS if view.get(key)}
    told = section_block("problem", plain_text(shorten_to_words(f"⚠️ {errors[WHOLE_FORM]}", 2_900)))
    blocks = [told, *(each for each in view["blocks"] if each.get("block_id") != "problem")]
    return {"response_action": "update", "view": {**kept, "blocks": blocks}}


_KEPT_VIEW_KEYS = (
    "type",
    "title",
    "submit",
    "close",
    "callback_id",
    "private_metadata",
    "notify_on_close",
)


class DialogFamily(Protocol):
    """The handlers of one kind of dialog: they open and check it, and decide nothing.

    Called on listener threads.
    """

    @property
    def actions(self) -> Collection[Action]:
        """The buttons that open one of these dialogs; they are in `button_codec.DIALOG_ACTIONS`."""
        ...

    @property
    def dialogs(self) -> Collection[DialogId]:
        """The dialogs that are checked here; `ClickDispatcher` decides about their submissions."""
        ...

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        `body` is the block_actions payload. May look people up, for two seconds.
        """
        ...

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        `body` is the view_submission payload. May look people up, for a second and a half.
        """
        ...


class DialogHandler:
    """The opening and checking of all dialogs; called on listener threads."""

    def __init__(
        self,
        store: Store,
        post: Signal,
        access: DialogAccessChecker,
        families: Collection[DialogFamily],
        viewers: CardViewers,
        clock: Clock,
    ) -> None:
        """`post` wakes the outbox; `access` records who was shown or refused what."""
        self._viewers, self._clock = viewers, clock
        self._store = store
        self._post = post
        self._access = access
        self._family_by_action = {
            action: family for family in families for action in family.actions
        }
        self._family_by_dialog = {
            dialog: family for family in families for dialog in family.dialogs
        }

    def prepare_dialog(self, body: dict[str, Any]) -> PreparedDialog | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        Looks people up.
        """
        try:
            click = button_codec.decode_clicked_element(body["actions"][0])
            if isinstance(click, button_codec.Click) and click.action in self._family_by_action:
                return self._family_by_action[click.action].prepare_dialog(click, body)
            return DialogRefusal(sentences.OUTDATED_CARD_REPLY)
        except Exception as error:
            log.exception("dialog %s: %s", body["actions"][0]["action_id"], error)
            return DialogRefusal(sentences.TRIGGER_EXPIRED_REPLY)

    def validate_submission(self, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        An error that belongs to no single field has the key WHOLE_FORM. Looks people up.
        """
        subject = button_codec.decode_dialog_subject(body["view"])
        if (
            isinstance(subject, button_codec.DialogSubject)
            and subject.dialog in self._family_by_dialog
        ):
            return self._family_by_dialog[subject.dialog].validate_submission(subject, body)
        return {}

    def open_or_refuse_dialog(
        self, client: WebClient, body: dict[str, Any], prepared: PreparedDialog | DialogRefusal
    ) -> None:
        """Open the dialog, or tell the person privately why not.

        That the person was shown the call is stored before it opens.
        """
        action, person = body["actions"][0], body["user"]["id"]
        name = _get_dialog_name(action)
        match prepared:
            case DialogRefusal(sentence=told):
                pass
            case PreparedDialog(view=view, call=call, reveals=reveals):
                try:
                    if call is not None:
                        with self._store.write() as tx:
                            self._access.record_call_shown(tx, call, person, name, more=reveals)
                    _open_or_replace_view(client, body, view)
                    if call is not None and prepared.is_to_decide:
                        self._start_viewing(person, call)
                    return
                except Exception as error:  # noqa: BLE001 - the person is told, and may try again
                    log.warning("dialog %s for %s: %s", name, person, error)
                    told = dialog_error_sentence(error)
        channel = (body.get("channel") or {}).get("id") or person
        message = body.get("message") or {}
        with self._store.write() as tx:
            if isinstance(prepared, DialogRefusal):
                self._access.record_refused_access(tx, prepared, person, name)
            key = f"dialog:{person}:{action.get('action_ts', '')}:{action['action_id']}"
            thread = message.get("thread_ts") or message.get("ts") or ""
            outbox.queue_private_message(
                tx, key, channel=channel, thread_ts=thread, person=person, text=told
            )
        self._post.notify()

    def _start_viewing(self, person: str, call: Call) -> None:
        """Note that a person looks at a call, so that its card in a channel says so."""
        with self._store.read() as tx:
            cards = outbox.list_cards_of_plan(tx, call.plan_id)
        for card in cards:
            if card.channel[:1] in "CG" and call.id in outbox.parse_message_body(card)["calls"]:
                self._viewers.start_viewing(person, (card.channel, card.key), self._clock.now())
        self._post.notify()

    def end_viewing(self, person: str) -> None:
        """Note that a person has decided or closed their dialog, so no card shows them looking."""
        if self._viewers.end_viewing(person, self._clock.now()):
            self._post.notify()


def _open_or_replace_view(client: WebClient, body: dict[str, Any], view: Json) -> None:
    """Open a dialog; if it was asked for in another dialog, replace that one."""
    asked_in = body.get("view") or {}
    if asked_in.get("type") == "modal":
        client.views_update(view_id=asked_in["id"], view=view)
    else:
        client.views_open(trigger_id=body["trigger_id"], view=view)


def _get_dialog_name(action: dict[str, Any]) -> str:
    """Return the name of the dialog that a button asks for, for the audit."""
    click = button_codec.decode_clicked_element(action)
    return click.action if isinstance(click, button_codec.Click) else action["action_id"]
