"""Dialogs to request without the agent, to answer and to delegate, and what opens them.

They are opened by the slash command, by buttons and by the app's shortcuts. Nothing is decided
here: a valid submission is stored for the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slack_bolt import App
from slack_sdk import WebClient

from bot.approvals.delegation import NO_COLLEAGUE, Delegations
from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.form_requests import DeclinedForm
from bot.approvals.person_questions import server_of
from bot.approvals.replies import OUTSIDER
from bot.cards import refusals, request_sentences
from bot.cards.action_names import Action, Dialog, Field, Shortcut
from bot.cards.answers import notice_blocks
from bot.cards.button_codec import (
    CallTarget,
    Click,
    DialogSubject,
    FormKind,
    FormTarget,
    Setting,
    decode_dialog,
    note_thread,
)
from bot.cards.delegation_dialog import delegate_modal
from bot.cards.field_layout import FieldErrors
from bot.cards.notices import who_asks
from bot.cards.question_message import answer_modal, read_answer
from bot.cards.request_form import MOST_QUOTED, form_modal, picker_modal
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import message_text, team_of
from bot.clock import Clock
from bot.policy.authority import Directory, LookupFailedError
from bot.slack.dialogs import Opening, view_of, why_not_opened
from bot.slack.directory import with_names
from storage import calls, runs
from storage.store import Store

if TYPE_CHECKING:
    from bot.approvals.form_requests import FormParts
    from bot.approvals.question_answers import QuestionAnswers


# The dialogs in which a person asks for something without the agent, answers or delegates.

log = logging.getLogger("countersign.requests")


# The dialog in which a question is answered: opened for the person asked, checked at its fields.


@dataclass(frozen=True, slots=True)
class AnswerDialogs:
    """The family of the dialog in which a person answers a question."""

    answers: QuestionAnswers
    clock: Clock
    directory: Directory

    @property
    def actions(self) -> Collection[Action]:
        """The button that opens the dialog."""
        return (Action.ANSWER,)

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The answer dialog."""
        return (Dialog.ANSWER,)

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | DialogRefusal:
        """Return the answer form for a person who was asked, else why they do not get it."""
        if not isinstance(click.target, CallTarget):
            return DialogRefusal(refusals.stale_card())
        found = self.answers.admit(click.target, body["user"]["id"], self.clock.now())
        if isinstance(found, DialogRefusal):
            return found
        message, channel = body.get("message") or {}, (body.get("channel") or {}).get("id", "")
        thread = message.get("thread_ts") or message.get("ts") or ""
        asker = who_asks(found.run.source, server_of(found.run) or found.run.client)
        return Opening(note_thread(answer_modal(found.asked, click.target, asker), channel, thread))

    def check(self, subject: DialogSubject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors by block id; {} if the answer may be stored.

        That the person may not answer any more is reported at the first field.
        """
        if not isinstance(subject.target, CallTarget):
            return {}
        found = self.answers.admit(subject.target, body["user"]["id"], self.clock.now())
        if isinstance(found, DialogRefusal):
            inputs = [each for each in body["view"]["blocks"] if each["type"] == "input"]
            text = strip_mrkdwn(with_names(self.directory, found.sentence))[:150]
            return {inputs[0]["block_id"]: text} if inputs else {}
        read = read_answer(found.asked, body["view"]["state"]["values"])
        return read.errors if isinstance(read, FieldErrors) else {}


# The dialog in which a person lets somebody else decide for them.

ACTIONS, DIALOGS = frozenset({Action.DELEGATE}), frozenset({Dialog.DELEGATE})


@dataclass(frozen=True, slots=True)
class DelegationDialogs:
    """The family of the delegation dialog; for full members of the workspace."""

    delegations: Delegations

    @property
    def actions(self) -> Collection[Action]:
        """The button that opens the dialog."""
        return ACTIONS

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The delegation dialog."""
        return DIALOGS

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | DialogRefusal:
        """Return the dialog, filled with the person's present delegation; or why there is none."""
        person, authority = body["user"]["id"], self.delegations.authority
        try:
            is_ours = team_of(body) == authority.team and authority.colleague(person)
        except LookupFailedError:
            return DialogRefusal(refusals.lookup_failed())
        if not is_ours:
            return DialogRefusal(NO_COLLEAGUE)
        given = [each for each in self.delegations.about(person) if each.own]
        now = self.delegations.clock.now()
        if not given:
            return Opening(delegate_modal(now))
        return Opening(delegate_modal(now, until=given[0].until, delegate=given[0].delegate))

    def check(self, subject: DialogSubject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of the entered values by block id; {} if they may be stored."""
        try:
            found = self.delegations.wished(body["view"]["state"]["values"], body["user"]["id"])
        except LookupFailedError:
            return {Field.DELEGATE: refusals.lookup_failed()}
        return found if isinstance(found, dict) else {}


PATIENCE = 1.0  # seconds that a submission may wait for what the tool foresees


class RequestDialogs:
    """The family of the dialogs that request something without the agent; any thread."""

    actions: Collection[Action] = (Action.REQUEST, Action.PICK, Action.ASK_AGAIN)
    dialogs: Collection[Dialog] = (Dialog.REQUEST,)

    def __init__(self, store: Store, parts: FormParts) -> None:
        """`parts` provide the tools and forms on offer, the places, and the form's reader."""
        self._store = store
        self._authority = parts.authority
        self._offers = parts.offers()
        self._entries = parts.entries()
        self._places = parts.places()

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | DialogRefusal:
        """Return the dialog that a button or a menu asks for, or why this person does not get it.

        Looks people up.
        """
        person, team = body["user"]["id"], team_of(body)
        match click:
            case Click(Action.REQUEST, Setting(channel=channel)):
                return self.picker(person, team, Setting(channel))
            case Click(Action.PICK, FormTarget() as target):
                found = decode_dialog(body.get("view") or {})
                about = found.target if isinstance(found, DialogSubject) else None
                setting = about if isinstance(about, Setting) else Setting()
                return self.form(person, team, replace(target, setting=setting))
            case Click(Action.ASK_AGAIN, CallTarget(call=call)):
                return self._again(person, team, call)
            case _:
                return DialogRefusal(refusals.stale_card())

    def picker(
        self, person: str, team: str, setting: Setting, words: str = ""
    ) -> Opening | DialogRefusal:
        """Return a dialog to choose a form from, or the form that `words` name.

        A refusal if there is none for this person. Looks people up.
        """
        try:
            if turned := self._stranger(person, team):
                return turned
            setting = self._setting(person, setting)
            if words.strip():
                meant = self._offers.called(words, person, setting.channel)
                if meant is None:
                    return DialogRefusal(request_sentences.not_there(words))
                return self._form(person, FormTarget(meant.kind, meant.name, setting))
            choices = self._offers.choices(person, setting.channel)
        except LookupFailedError:
            return DialogRefusal(refusals.lookup_failed())
        if not choices:
            return DialogRefusal(request_sentences.nothing_to_ask())
        return Opening(picker_modal(choices, setting))

    def form(self, person: str, team: str, target: FormTarget) -> Opening | DialogRefusal:
        """Return the form of what was chosen, or why this person does not get it."""
        try:
            return self._stranger(person, team) or self._form(person, target)
        except LookupFailedError:
            return DialogRefusal(refusals.lookup_failed())

    def _form(self, person: str, target: FormTarget) -> Opening | DialogRefusal:
        form = self._offers.form(target, person)
        if form is None:
            return DialogRefusal(request_sentences.not_there(self._offers.title(target)))
        return Opening(form_modal(form, target))

    def _again(self, person: str, team: str, call_id: str) -> Opening | DialogRefusal:
        """Return the form filled with an earlier call's values, if this person requested it."""
        with self._store.read() as tx:
            call = calls.get(tx, call_id)
            run = runs.get(tx, call.run_id) if call else None
        if call is None or run is None:
            return DialogRefusal(refusals.stale_card())
        if run.requester != person:
            return DialogRefusal(request_sentences.not_yours(run.requester), call, "not_requester")
        setting = self._setting(person, Setting(run.origin))
        return self.form(person, team, FormTarget(FormKind.TOOL, call.tool, setting, call.id))

    def _stranger(self, person: str, team: str) -> DialogRefusal | None:
        if team != self._authority.team:
            return DialogRefusal(OUTSIDER)
        if not self._authority.colleague(person):
            return DialogRefusal(request_sentences.members_only())
        return None

    def _setting(self, person: str, asked: Setting) -> Setting:
        """Return `asked` with the channel in which the request is made.

        The channel is "", a direct message, if the channel's members cannot be looked up.
        """
        try:
            place = self._places.of(asked.channel, person)
        except LookupFailedError:
            place = ""
        return replace(asked, channel=place, asked_in="" if place else asked.channel)

    def check(self, subject: DialogSubject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submitted form by block id; {} if it may be stored.

        Looks people up.
        """
        view, person, target = body["view"], body["user"]["id"], subject.target
        if not isinstance(target, FormTarget):
            return {}
        first = next(each["block_id"] for each in view["blocks"] if each["type"] == "input")
        if team_of(body) != self._authority.team:
            return {first: OUTSIDER}
        match self._entries.check(target, person, view["state"]["values"], PATIENCE):
            case FieldErrors(errors=errors):
                return errors
            case DeclinedForm(sentence=sentence):
                return {first: self._plain(sentence)}
            case _:
                return {}

    def _plain(self, text: str) -> str:
        return strip_mrkdwn(with_names(self._authority.directory, text))[:150]


class RequestOpeners:
    """The opener of request dialogs for commands and shortcuts; any thread."""

    def __init__(self, dialogs: RequestDialogs, client: WebClient, team: str) -> None:
        """`client` opens dialogs; `team`: the workspace of people who type the command."""
        self._dialogs = dialogs
        self._client = client
        self._team = team

    def listen(self, app: App) -> None:
        """Register the shortcuts on the Bolt app."""
        for each in Shortcut:
            app.shortcut(each)(self._shortcut)

    def asked(self, person: str, channel: str, trigger: str, words: str) -> str:
        """Open the dialog to choose a form from, or the form that `words` name.

        Returns "", or in mrkdwn why nothing opened. Looks people up.
        """
        return self._open(person, self._team, trigger, Setting(channel), words)

    def _shortcut(self, ack: Callable[[], None], body: dict[str, Any]) -> None:
        ack()
        person, message = body["user"]["id"], body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        quoted = message_text(message, "")[:MOST_QUOTED]
        link = self._link(channel, str(message.get("ts") or "")) if message else ""
        setting = Setting(channel, quoted, link)
        told = self._open(person, team_of(body), body["trigger_id"], setting)
        if told:
            self._tell(person, told)

    def _open(self, person: str, team: str, trigger: str, setting: Setting, words: str = "") -> str:
        view = view_of(self._dialogs.picker(person, team, setting, words))
        if isinstance(view, str):
            return view
        try:
            self._client.views_open(trigger_id=trigger, view=view)
        except Exception as error:  # noqa: BLE001 - the person is told, and may try again
            log.warning("the request dialog for %s: %s", person, error)
            return why_not_opened(error)
        return ""

    def _link(self, channel: str, ts: str) -> str:
        try:
            found = self._client.chat_getPermalink(channel=channel, message_ts=ts)
        except Exception as error:  # noqa: BLE001 - a link is a comfort
            log.info("no link to a message: %s", error)
            return ""
        return str(found["permalink"])

    def _tell(self, person: str, text: str) -> None:
        """Tell the person by direct message why nothing opened; if that fails, only log it."""
        try:
            opened = self._client.conversations_open(users=person)
            self._client.chat_postMessage(
                channel=str(opened["channel"]["id"]),
                text=strip_mrkdwn(text),
                blocks=notice_blocks(text),
            )
        except Exception as error:  # noqa: BLE001 - they can ask again
            log.warning("%s could not be told why: %s", person, error)
