"""Requests made with a form: reading and checking a form, and the run without a model.

Called by the loop. The run waits until its first message, which begins its thread, is in Slack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.approvals.call_gates import PolicyFactSources, compute_gate
from bot.approvals.call_state import build_tool_context
from bot.approvals.direct_requests import begin_direct_request
from bot.approvals.form_catalog import FormCatalog, RequestChannelChecker
from bot.approvals.permissions import DeliverySettler
from bot.cards import request_form, sentences
from bot.cards.button_codec import Click, DialogSubject, FormTarget
from bot.cards.field_layout import FieldErrors, place_form_error
from bot.identity import Identity
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError
from bot.policy.gates import Deny
from bot.tools import Registry, Tool, ToolError
from bot.tools.arguments import dump_arguments
from bot.tools.names import SlackIdResolver
from bot.tools.preview import PreviewRunner
from storage import inbox
from storage.record import Call, Delivery, Run
from storage.states import CallStatus, RunSource

# Checks of filled-in forms: the person, the fields, the policy, the tool's preview.


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A filled-in form that passed its checks."""

    target: FormTarget
    form: request_form.RequestForm
    filled: request_form.CompletedRequestForm
    names: Mapping[str, str]  # names by id, for the ids in the form

    @property
    def tool(self) -> Tool[Any]:
        """Return the tool that is asked for."""
        return self.form.tool

    @property
    def effect_sentence(self) -> str:
        """Return the sentence that says what the call would do."""
        return self.tool.effect_sentence(self.filled.arguments, self.names)


@dataclass(frozen=True, slots=True)
class FormRefusal:
    """A form that may not be submitted; the sentence (mrkdwn) is for the person who tried to."""

    sentence: str


class FormReader:
    """Reads and checks filled-in forms; any thread."""

    def __init__(
        self,
        sources: PolicyFactSources,
        authority: Authority,
        offers: FormCatalog,
        team: str,
        *,
        previews: PreviewRunner,
        wake: Callable[[], None],
    ) -> None:
        """Store the dependencies; `wake` is called when a preview that was missing has arrived."""
        self._sources = sources
        self._authority = authority
        self._offers = offers
        self._team = team
        self._previews = previews
        self._wake = wake

    def read_submission(
        self, target: FormTarget, person: str, state: Mapping[str, Any]
    ) -> FilledForm | FieldErrors | FormRefusal:
        """Return the filled-in form, or why it may not be submitted. Looks people up.

        `state`: the values of the form's elements. Raises LookupPendingError and LookupFailedError.
        """
        if not self._authority.is_active_colleague(person):
            return FormRefusal(sentences.MEMBERS_ONLY_REPLY)
        return self.read_form_without_member_check(target, person, state)

    def read_form_without_member_check(
        self, target: FormTarget, person: str, state: Mapping[str, Any]
    ) -> FilledForm | FieldErrors | FormRefusal:
        """Return the filled-in form without checking that the person is a full member."""
        form = self._offers.find_form(target, person)
        if form is None:
            return FormRefusal(sentences.unknown_form_reply(self._offers.get_title(target)))
        names = SlackIdResolver(self._sources.directory, person)
        filled = request_form.parse_form_submission(form, state, names)
        if isinstance(filled, FieldErrors):
            return filled
        return FilledForm(target, form, filled, names.names_by_id)

    def find_submission_problem(
        self, target: FormTarget, person: str, state: Mapping[str, Any], patience: float
    ) -> FieldErrors | FormRefusal | None:
        """Return why a submission may not be stored; None if it may.

        `patience`: seconds to wait for the tool's preview; a later problem is reported in the
        thread.
        """
        try:
            entry = self.read_submission(target, person, state)
            if not isinstance(entry, FilledForm):
                return entry
            return self._find_obstacle(entry, target, person, patience)
        except LookupFailedError:
            return FormRefusal(sentences.LOOKUP_FAILED_REPLY)

    def _find_obstacle(
        self, entry: FilledForm, target: FormTarget, person: str, patience: float
    ) -> FieldErrors | FormRefusal | None:
        """Return why policy or the tool itself would refuse the call; None if neither does."""
        now, args = self._sources.clock.now(), entry.filled.arguments
        run = Run(
            team=self._team,
            channel=target.form_context.channel,
            thread_ts="",
            requester=person,
            source=RunSource.FORM,
            created_at=now,
            updated_at=now,
        )
        gate = compute_gate(self._sources, run, entry.tool, args)
        if isinstance(gate, Deny):
            return FormRefusal(sentences.policy_forbids_sentence(gate.reason))
        call = Call(
            run_id=run.id,
            plan_id="",
            position=0,
            provider_id="",
            tool=entry.tool.name,
            status=CallStatus.PENDING,
            created_at=now,
        )
        key = (f"form:{person}", 0, f"{entry.tool.name}:{dump_arguments(args)}")
        context = build_tool_context(run, call, now)
        try:
            self._previews.get_or_start_edit_preview(
                entry.tool, args, context, key, patience=patience, then=self._wake
            )
        except ToolError as error:
            form = entry.form
            return place_form_error(
                form.tool_with_fillable_fields, form.initial_values, str(error), error.field
            )
        except LookupPendingError:  # not worth waiting for: the request will show the preview
            pass
        return None


@dataclass(frozen=True, slots=True)
class FormServiceFactory:
    """Builds the classes that handle request forms; `wake` wakes the main loop."""

    sources: PolicyFactSources
    authority: Authority
    tools: Registry
    identity: Identity
    previews: PreviewRunner
    wake: Callable[[], None]

    def build_form_catalog(self) -> FormCatalog:
        """Return the tools and templates people may ask for."""
        return FormCatalog(self.sources, self.authority, self.tools)

    def build_form_reader(self) -> FormReader:
        """Return the reader of filled-in forms."""
        team, previews = self.identity.team, self.previews
        return FormReader(
            self.sources,
            self.authority,
            self.build_form_catalog(),
            team,
            previews=previews,
            wake=self.wake,
        )

    def build_request_channel_checker(self) -> RequestChannelChecker:
        """Return the object that decides where requests begin."""
        return RequestChannelChecker(
            self.sources.directory, self.sources.policy, self.identity.user
        )


class FormRequestStarter:
    """Begins requests made with forms. One per process; called on the loop only."""

    def __init__(self, parts: FormServiceFactory) -> None:
        """Store the `parts` that read forms and say where requests begin."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._entries = parts.build_form_reader()
        self._places = parts.build_request_channel_checker()
        self._replies = DeliverySettler(self._store)

    def start_request(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Begin the request of a submitted form, or tell its requester why not. Looks people up."""
        target = asked.target
        assert isinstance(target, FormTarget)
        state = payload["view"]["state"]["values"]
        match self._entries.read_submission(target, delivery.user, state):
            case FormRefusal(sentence=sentence):
                self._replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the form was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse_click(
                    delivery,
                    sentences.request_not_made_reply(why) if why else sentences.FORM_CHANGED_REPLY,
                )
            case FilledForm() as entry:
                self._create_run(delivery, target, entry)

    def _create_run(self, delivery: Delivery, target: FormTarget, entry: FilledForm) -> None:
        setting = target.form_context
        place = self._places.get_channel_if_allowed(setting.channel, delivery.user)
        asked_in = "" if place else setting.asked_in or setting.channel
        with self._store.write() as tx:
            if inbox.is_delivery_still_new(tx, delivery):
                begin_direct_request(
                    tx,
                    delivery,
                    RunSource.FORM,
                    entry.effect_sentence,
                    at=self._clock.now(),
                    place=place,
                    asked_in=asked_in,
                    link=setting.link,
                )
