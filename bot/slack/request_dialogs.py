"""Dialogs to request a call by a form, answer a question or delegate, and what opens them.

They are opened by the slash command, by buttons and by the app's shortcuts. Nothing is decided
here: a valid submission is stored for the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from slack_bolt import App
from slack_sdk import WebClient

from bot.approvals.delegation import ONLY_MEMBERS_DECIDE_ERROR, DelegationManager
from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.form_requests import FormRefusal, FormServiceFactory
from bot.approvals.permissions import ONLY_MEMBERS_USE_BUTTONS_ERROR
from bot.approvals.person_questions import get_asking_server_name
from bot.approvals.question_answers import AnswerHandler
from bot.cards import button_codec, request_form, sentences
from bot.cards.action_names import Action, DialogId, InputBlockId, ShortcutId
from bot.cards.answers import render_notice_sentence
from bot.cards.delegation_dialog import render_delegation_dialog
from bot.cards.field_layout import WHOLE_FORM, FieldErrors
from bot.cards.notices import describe_asker
from bot.cards.question_message import render_question_answer_dialog
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import extract_message_text, get_sender_workspace_id
from bot.clock import Clock
from bot.policy.authority import Denial, Directory, LookupFailedError
from bot.slack.dialogs import DIALOG_PREVIEW_TIMEOUT_SECONDS, PreparedDialog, dialog_error_sentence
from bot.slack.directory import format_field_error
from storage.calls import find_call
from storage.record import Store
from storage.runs import get_run

log = logging.getLogger("countersign.requests")


# The dialog in which a question is answered: opened for the person asked, checked at its fields.


@dataclass(frozen=True, slots=True)
class AnswerDialogFamily:
    """The handlers of the dialog in which a person answers a question."""

    answers: AnswerHandler
    clock: Clock
    directory: Directory

    actions: ClassVar[Collection[Action]] = (Action.ANSWER,)
    dialogs: ClassVar[Collection[DialogId]] = (DialogId.ANSWER,)

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the answer form for a person who was asked, else why they do not get it."""
        if not isinstance(click.target, button_codec.CallTarget):
            return DialogRefusal(sentences.OUTDATED_CARD_REPLY)
        question = self.answers.get_question_or_refusal(
            click.target, body["user"]["id"], self.clock.now()
        )
        if isinstance(question, DialogRefusal):
            return question
        message, channel = body.get("message") or {}, (body.get("channel") or {}).get("id", "")
        thread = message.get("thread_ts") or message.get("ts") or ""
        asker = describe_asker(
            question.run.source, get_asking_server_name(question.run) or question.run.client
        )
        view = render_question_answer_dialog(question.asked, click.target, asker)
        return PreparedDialog(button_codec.add_thread_to_metadata(view, channel, thread))

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors by block id; {} if the answer may be stored.

        If the person may not answer any more, the error has the key WHOLE_FORM.
        """
        if not isinstance(subject.target, button_codec.CallTarget):
            return {}
        question = self.answers.get_question_or_refusal(
            subject.target, body["user"]["id"], self.clock.now()
        )
        if isinstance(question, DialogRefusal):
            return {WHOLE_FORM: format_field_error(self.directory, question.sentence)}
        parsed = self.answers.parse_submission(question, body["view"]["state"]["values"])
        return parsed.errors if isinstance(parsed, FieldErrors) else {}


# The dialog in which a person lets somebody else decide for them.


@dataclass(frozen=True, slots=True)
class DelegationDialogFamily:
    """The handlers of the dialog in which a member lets a colleague decide for them."""

    delegations: DelegationManager

    actions: ClassVar[Collection[Action]] = (Action.DELEGATE,)
    dialogs: ClassVar[Collection[DialogId]] = (DialogId.DELEGATE,)

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog, with the person's present delegation; or why they do not get it."""
        person, authority = body["user"]["id"], self.delegations.authority
        try:
            is_here = get_sender_workspace_id(body) == authority.team
            is_ours = is_here and authority.is_active_colleague(person)
        except LookupFailedError:
            return DialogRefusal(sentences.LOOKUP_FAILED_REPLY)
        if not is_ours:
            return DialogRefusal(ONLY_MEMBERS_DECIDE_ERROR)
        own_delegations = [
            each for each in self.delegations.list_delegations(person) if each.is_own
        ]
        now = self.delegations.clock.now()
        if not own_delegations:
            return PreparedDialog(render_delegation_dialog(now))
        return PreparedDialog(
            render_delegation_dialog(
                now, until=own_delegations[0].until, delegate=own_delegations[0].delegate
            )
        )

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors of the entered values by block id; {} if they may be stored."""
        try:
            state = body["view"]["state"]["values"]
            found = self.delegations.parse_submitted_delegation(state, body["user"]["id"])
        except LookupFailedError:
            return {InputBlockId.DELEGATE: sentences.LOOKUP_FAILED_REPLY}
        return found if isinstance(found, dict) else {}


class RequestDialogFamily:
    """The handlers of the dialogs in which a person requests a call by a form; thread-safe."""

    actions: Collection[Action] = (Action.REQUEST, Action.PICK, Action.ASK_AGAIN)
    dialogs: Collection[DialogId] = (DialogId.REQUEST,)

    def __init__(self, store: Store, parts: FormServiceFactory) -> None:
        """`parts` make the list of forms, the check of channels, and the reader of forms."""
        self._store = store
        self._authority = parts.authority
        self._offers = parts.build_form_catalog()
        self._entries = parts.build_form_reader()
        self._places = parts.build_request_channel_checker()

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog that a button or a menu asks for, or why this person does not get it.

        Looks people up.
        """
        person, team = body["user"]["id"], get_sender_workspace_id(body)
        match click:
            case button_codec.Click(Action.REQUEST, button_codec.FormContext(channel=channel)):
                return self.prepare_form_picker(person, team, button_codec.FormContext(channel))
            case button_codec.Click(Action.PICK, button_codec.FormTarget() as target):
                subject = button_codec.decode_dialog_subject(body.get("view") or {})
                about = subject.target if isinstance(subject, button_codec.DialogSubject) else None
                setting = (
                    about
                    if isinstance(about, button_codec.FormContext)
                    else button_codec.FormContext()
                )
                return self.prepare_request_form(
                    person, team, replace(target, form_context=setting)
                )
            case button_codec.Click(Action.ASK_AGAIN, button_codec.CallTarget(call=call)):
                return self._prepare_repeat_form(person, team, call)
            case _:
                return DialogRefusal(sentences.OUTDATED_CARD_REPLY)

    def prepare_form_picker(
        self, person: str, team: str, setting: button_codec.FormContext, words: str = ""
    ) -> PreparedDialog | DialogRefusal:
        """Return a dialog to choose a form from, or the form that `words` name.

        A refusal if there is none for this person. Looks people up.
        """
        try:
            if refusal := self._find_person_refusal(person, team):
                return refusal
            setting = self._resolve_setting(person, setting)
            if words.strip():
                choice = self._offers.find_choice(words, person, setting.channel)
                if choice is None:
                    return DialogRefusal(sentences.unknown_form_reply(words))
                return self._build_form_opening(
                    person, button_codec.FormTarget(choice.kind, choice.name, setting)
                )
            choices = self._offers.list_choices(person, setting.channel)
        except LookupFailedError:
            return DialogRefusal(sentences.LOOKUP_FAILED_REPLY)
        if not choices:
            return DialogRefusal(sentences.NO_FORMS_REPLY)
        return PreparedDialog(request_form.render_request_picker_dialog(choices, setting))

    def prepare_request_form(
        self, person: str, team: str, target: button_codec.FormTarget
    ) -> PreparedDialog | DialogRefusal:
        """Return the form that a person has chosen, or why this person does not get it."""
        try:
            refusal = self._find_person_refusal(person, team)
            return refusal or self._build_form_opening(person, target)
        except LookupFailedError:
            return DialogRefusal(sentences.LOOKUP_FAILED_REPLY)

    def _build_form_opening(
        self, person: str, target: button_codec.FormTarget
    ) -> PreparedDialog | DialogRefusal:
        form = self._offers.find_form(target, person)
        if form is None:
            title = self._offers.get_title(target)
            return DialogRefusal(sentences.unknown_form_reply(title))
        return PreparedDialog(request_form.render_request_form_dialog(form, target))

    def _prepare_repeat_form(
        self, person: str, team: str, call_id: str
    ) -> PreparedDialog | DialogRefusal:
        """Return the form filled with an earlier call's values, if this person requested it."""
        with self._store.read() as tx:
            if (call := find_call(tx, call_id)) is None:
                return DialogRefusal(sentences.OUTDATED_CARD_REPLY)
            run = get_run(tx, call.run_id)
        if run.requester != person:
            sentence = sentences.ask_again_not_allowed_reply(run.requester)
            return DialogRefusal(sentence, call, Denial.NOT_REQUESTER)
        setting = self._resolve_setting(person, button_codec.FormContext(run.origin_channel))
        target = button_codec.FormTarget(button_codec.FormSource.TOOL, call.tool, setting, call.id)
        return self.prepare_request_form(person, team, target)

    def _find_person_refusal(self, person: str, team: str) -> DialogRefusal | None:
        if team != self._authority.team:
            return DialogRefusal(ONLY_MEMBERS_USE_BUTTONS_ERROR)
        if not self._authority.is_active_colleague(person):
            return DialogRefusal(sentences.MEMBERS_ONLY_REPLY)
        return None

    def _resolve_setting(
        self, person: str, asked: button_codec.FormContext
    ) -> button_codec.FormContext:
        """Return the form's context `asked` with the channel in which the request is to be made.

        The channel is "", a direct message, if the channel's members cannot be looked up.
        """
        try:
            place = self._places.get_channel_if_allowed(asked.channel, person)
        except LookupFailedError:
            place = ""
        return replace(asked, channel=place, asked_in="" if place else asked.channel)

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors of a submitted form by block id; {} if it may be stored.

        Looks people up.
        """
        view, person, target = body["view"], body["user"]["id"], subject.target
        if not isinstance(target, button_codec.FormTarget):
            return {}
        if get_sender_workspace_id(body) != self._authority.team:
            return {WHOLE_FORM: ONLY_MEMBERS_USE_BUTTONS_ERROR}
        state = view["state"]["values"]
        match self._entries.find_submission_problem(
            target, person, state, DIALOG_PREVIEW_TIMEOUT_SECONDS
        ):
            case FieldErrors(errors=errors):
                return errors
            case FormRefusal(sentence=sentence):
                return {WHOLE_FORM: format_field_error(self._authority.directory, sentence)}
            case _:
                return {}


@dataclass(frozen=True, slots=True)
class RequestDialogOpener:
    """The opener of request dialogs for commands and shortcuts; any thread."""

    dialogs: RequestDialogFamily
    client: WebClient
    team: str  # the workspace of those who use the command

    def register_shortcuts(self, app: App) -> None:
        """Register the shortcuts on the Bolt app."""
        for each in ShortcutId:
            app.shortcut(each)(self._handle_shortcut)

    def open_dialog_for_command(self, person: str, channel: str, trigger: str, words: str) -> str:
        """Open the dialog to choose a form from, or the form that `words` name.

        Returns "", or in mrkdwn why nothing opened. Looks people up.
        """
        return self._open_dialog(
            person, self.team, trigger, button_codec.FormContext(channel), words
        )

    def _handle_shortcut(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        person, message = body["user"]["id"], body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        quoted = extract_message_text(message, "")[: request_form.MAX_QUOTE_CHARS]
        link = self._find_permalink(channel, str(message.get("ts") or "")) if message else ""
        setting = button_codec.FormContext(channel, quoted, link)
        told = self._open_dialog(person, get_sender_workspace_id(body), body["trigger_id"], setting)
        if told:
            self._send_direct_message(person, told)

    def _open_dialog(
        self,
        person: str,
        team: str,
        trigger: str,
        setting: button_codec.FormContext,
        words: str = "",
    ) -> str:
        dialog = self.dialogs.prepare_form_picker(person, team, setting, words)
        if isinstance(dialog, DialogRefusal):
            return dialog.sentence
        try:
            self.client.views_open(trigger_id=trigger, view=dialog.view)
        except Exception as error:  # noqa: BLE001 - the person is told, and may try again
            log.warning("the request dialog for %s: %s", person, error)
            return dialog_error_sentence(error)
        return ""

    def _find_permalink(self, channel: str, ts: str) -> str:
        try:
            found = self.client.chat_getPermalink(channel=channel, message_ts=ts)
        except Exception as error:  # noqa: BLE001 - a link is a comfort
            log.info("no link to a message: %s", error)
            return ""
        return str(found["permalink"])

    def _send_direct_message(self, person: str, text: str) -> None:
        """Tell the person by direct message why nothing opened; if that fails, only log it."""
        try:
            opened = self.client.conversations_open(users=person)
            self.client.chat_postMessage(
                channel=str(opened["channel"]["id"]),
                text=strip_mrkdwn(text),
                blocks=render_notice_sentence(text),
            )
        except Exception as error:  # noqa: BLE001 - they can ask again
            log.warning("%s could not be told why: %s", person, error)
