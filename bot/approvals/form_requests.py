"""Requests begin that were made with a form: a run without a model, and the message it begins with.

Called by the loop. The run waits for that message to stand in Slack, which is its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.approvals.call_gates import gate_of
from bot.approvals.call_state import context_of
from bot.approvals.channel_mode import strictest
from bot.approvals.facts import Sources
from bot.approvals.form_offers import Offers, StartingPlaces
from bot.approvals.replies import Replies
from bot.cards import refusals, request_sentences
from bot.cards.button_codec import Click, DialogSubject, FormTarget
from bot.cards.field_layout import FieldErrors
from bot.cards.request_form import (
    CompletedForm,
    RequestForm,
    error_at_first_input,
    read_form,
    root_message,
)
from bot.cards.slack_text import strip_mrkdwn
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.directory import LookupFailedError, NotYetKnownError
from bot.policy.gates import Deny
from bot.tools import Registry, Tool, ToolError
from bot.tools.arguments import dump_arguments
from bot.tools.names import NameResolver
from bot.tools.preview import Previews
from storage import channel_modes, inbox, moves, outbox
from storage.models import Call, Delivery, Run
from storage.states import CallStatus, RunSource

if TYPE_CHECKING:
    from bot.approvals.form_offers import Offers


# What requests without the agent are made with, put together for the threads that need it.

# What a person filled in, checked: the person, the fields, the policy, what the tool foresees.


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A filled-in form that may be asked."""

    target: FormTarget
    form: RequestForm
    filled: CompletedForm
    names: Mapping[str, str]  # of the ids in it

    @property
    def tool(self) -> Tool[Any]:
        """What is asked for."""
        return self.form.tool

    @property
    def effect(self) -> str:
        """What it would do, in a sentence."""
        return self.tool.effect_sentence(self.filled.arguments, self.names)


@dataclass(frozen=True, slots=True)
class Declined:
    """It may not be asked; the sentence (mrkdwn) is for who filled it in."""

    sentence: str


class Entries:
    """Reads what was filled in; any thread."""

    def __init__(
        self,
        sources: Sources,
        authority: Authority,
        offers: Offers,
        team: str,
        *,
        previews: Previews,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when a preview that was not there is."""
        self._sources = sources
        self._authority = authority
        self._offers = offers
        self._team = team
        self._previews = previews
        self._wake = wake

    def read(
        self, target: FormTarget, person: str, state: Mapping[str, Any]
    ) -> FilledForm | FieldErrors | Declined:
        """Return what was filled in, or why it may not be asked. Looks people up.

        `state`: of the form's elements. Raises NotYetKnownError and LookupFailedError.
        """
        if not self._authority.colleague(person):
            return Declined(request_sentences.members_only())
        return self.filled(target, person, state)

    def filled(
        self, target: FormTarget, person: str, state: Mapping[str, Any]
    ) -> FilledForm | FieldErrors | Declined:
        """Return the same for somebody who was a colleague when they sent it."""
        form = self._offers.form(target, person)
        if form is None:
            return Declined(request_sentences.not_there(self._offers.title(target)))
        names = NameResolver(self._sources.directory, person)
        filled = read_form(form, state, names)
        if isinstance(filled, FieldErrors):
            return filled
        return FilledForm(target, form, filled, names.found)

    def check(
        self, target: FormTarget, person: str, state: Mapping[str, Any], patience: float
    ) -> FieldErrors | Declined | None:
        """Return why a submission may not be stored; None where it may.

        `patience`: seconds to wait for what the tool foresees; the rest is said in the thread.
        """
        try:
            entry = self.read(target, person, state)
            if not isinstance(entry, FilledForm):
                return entry
            why = self._obstacle(entry, target, person, patience)
        except LookupFailedError:
            return Declined(refusals.lookup_failed())
        return error_at_first_input(entry.form, why) if why else None

    def _obstacle(self, entry: FilledForm, target: FormTarget, person: str, patience: float) -> str:
        """Return why policy or the tool itself would refuse it; "" where neither does."""
        now, args = self._sources.clock.now(), entry.filled.arguments
        run = Run(
            team=self._team,
            channel=target.setting.channel,
            thread_ts="",
            requester=person,
            source=RunSource.FORM,
            created_at=now,
            updated_at=now,
        )
        gate = gate_of(self._sources, run, entry.tool, args)
        if isinstance(gate, Deny):
            return strip_mrkdwn(request_sentences.policy_forbids(gate.reason))
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
        context = context_of(run, call, now)
        try:
            self._previews.preview_of_edit(
                entry.tool, args, context, key, patience=patience, then=self._wake
            )
        except ToolError as error:
            return str(error)
        except NotYetKnownError:  # it takes its time: the request says the rest
            pass
        return ""


@dataclass(frozen=True, slots=True)
class FormParts:
    """The parts from which the others are made; `wake` has the loop look again."""

    sources: Sources
    authority: Authority
    tools: Registry
    identity: Identity
    previews: Previews
    wake: Callable[[], None]

    def offers(self) -> Offers:
        """Return what says what people may ask for."""
        return Offers(self.sources, self.authority, self.tools)

    def entries(self) -> Entries:
        """Return what reads filled-in forms."""
        team, previews = self.identity.team, self.previews
        return Entries(
            self.sources, self.authority, self.offers(), team, previews=previews, wake=self.wake
        )

    def places(self) -> StartingPlaces:
        """Return what says where requests begin."""
        return StartingPlaces(self.sources.directory, self.sources.policy, self.identity.user)


class Beginnings:
    """One per process; called by `bot.approvals.clicks` only."""

    def __init__(self, parts: FormParts) -> None:
        """`parts` read what was filled in, and say where it begins."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._entries = parts.entries()
        self._places = parts.places()
        self._replies = Replies(self._store)

    def begin(
        self, delivery: Delivery, about: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Begin the request of a submitted form, or tell its requester why not. Looks people up."""
        target = about.target
        assert isinstance(target, FormTarget)
        state = payload["view"]["state"]["values"]
        match self._entries.read(target, delivery.user, state):
            case Declined(sentence=sentence):
                self._replies.refuse(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the form was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse(
                    delivery,
                    request_sentences.not_begun(why) if why else request_sentences.form_changed(),
                )
            case FilledForm() as entry:
                self._start(delivery, target, entry)

    def _start(self, delivery: Delivery, target: FormTarget, entry: FilledForm) -> None:
        setting = target.setting
        place = self._places.of(setting.channel, delivery.user)
        asked_in = "" if place else setting.asked_in or setting.channel
        now = self._clock.now()
        run = Run(
            team=delivery.team,
            channel=place or delivery.user,
            thread_ts="",
            requester=delivery.user,
            source=RunSource.FORM,
            asked_in=asked_in,
            created_at=now,
            updated_at=now,
        )
        with self._store.write() as tx:
            if not inbox.is_new(tx, delivery):
                return
            moves.insert_run(tx, run, at=now)
            inbox.hold_message(tx, delivery, run.id, asked_in=asked_in)
            mode = strictest(channel_modes.modes_of_run(tx, run))
            text, blocks = root_message(delivery.user, entry.effect, setting.link, mode)
            outbox.put_root(tx, run, text, blocks)
