"""Requests made with a form: what can be asked, reading a form, and the run without a model.

Called by the loop. The run waits until its first message, which begins its thread, is in Slack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bot.approvals.call_gates import compute_gate
from bot.approvals.call_state import build_tool_context
from bot.approvals.channel_mode import get_strictest_mode
from bot.approvals.facts import FactSources, load_facts_from_values
from bot.approvals.replies import DeliverySettler
from bot.cards import refusals, request_form, request_sentences
from bot.cards.button_codec import Click, DialogSubject, FormKind, FormTarget
from bot.cards.field_layout import FieldErrors
from bot.cards.slack_text import strip_mrkdwn
from bot.config.startup import StartupError
from bot.identity import Identity
from bot.policy.authority import Authority, Directory, LookupFailedError, LookupPendingError
from bot.policy.evaluation import CurrentPolicy, Policy
from bot.policy.gates import Deny
from bot.policy.policy_file import RequestTemplate
from bot.tools import Registry, Tool, ToolError
from bot.tools.arguments import build_readable_arguments, dump_arguments
from bot.tools.names import NameResolver
from bot.tools.preview import PreviewRunner
from storage import calls, channel_modes, inbox, moves, outbox, runs
from storage.masking import mask_secrets
from storage.models import Call, Delivery, Message, Run
from storage.states import CallStatus, MessageKind, RunSource
from storage.transaction import Transaction

# The tools and templates a person may ask for, and their forms. Looks people up.


@dataclass(frozen=True, slots=True)
class FormCatalog:
    """The tools and templates people may ask for with a form. One for all forms; any thread."""

    sources: FactSources
    authority: Authority
    tools: Registry

    def list_choices(self, person: str, channel: str) -> list[request_form.FormChoice]:
        """Return what this person may ask for there, by title; raises LookupFailedError."""
        found = [
            request_form.FormChoice(FormKind.TOOL, tool.name, tool.title, tool.declared_effect)
            for tool in self.tools
            if self._may_ask(tool, person, channel)
        ]
        for each in self.sources.policy.policy.templates:
            if tool := self._find_template_tool(each, person, channel):
                found.append(
                    request_form.FormChoice(
                        FormKind.TEMPLATE, each.title, each.title, tool.declared_effect
                    )
                )
        return sorted(found, key=lambda each: each.title.casefold())

    def find_choice(self, words: str, person: str, channel: str) -> request_form.FormChoice | None:
        """Return the choice of this person with this name or title; None if there is none."""
        meant = " ".join(words.split()).casefold()
        found = self.list_choices(person, channel)
        named = (each for each in found if meant in (each.name.casefold(), each.title.casefold()))
        return next(named, None)

    def get_title(self, target: FormTarget) -> str:
        """Return the title of a form's tool or template, even if nobody may ask for it."""
        tool = self.tools.get(target.name) if target.kind is FormKind.TOOL else None
        return tool.title if tool else target.name

    def find_form(self, target: FormTarget, person: str) -> request_form.RequestForm | None:
        """Return the form for this person; None if they may not ask for that.

        The form is the same each time, so that a submission is read by the form that was shown.
        """
        channel, template = target.form_context.channel, None
        if target.kind is FormKind.TEMPLATE:
            every = self.sources.policy.policy.templates
            template = next((each for each in every if each.title == target.name), None)
            tool = self._find_template_tool(template, person, channel) if template else None
        else:
            tool = self.tools.get(target.name)
            tool = tool if tool and self._may_ask(tool, person, channel) else None
        if tool is None:
            return None
        initial = request_form.build_default_values(tool)
        if target.repeated_call_id:
            initial |= self._load_earlier_values(tool, target.repeated_call_id, person)
        fixed = template.fixed if template else {}
        values = request_form.prefill_with_message_text(
            tool, {**initial, **fixed}, target.form_context.quoted
        )
        return request_form.RequestForm(
            tool, template.title if template else tool.title, values, frozenset(fixed)
        )

    def _find_template_tool(
        self, template: RequestTemplate, person: str, channel: str
    ) -> Tool[Any] | None:
        """Return the tool of a template if this person may ask for it; None otherwise."""
        tool, who = self.tools.get(template.tool), template.who
        if tool is None or request_form.list_template_value_problems(
            tool, template.fixed
        ):  # since the policy was read anew
            return None
        if who is not None and person not in self.authority.list_named_people(
            who, requester=person, channel=channel
        ):
            return None
        return None if self._is_denied_by_policy(tool, person, channel) else tool

    def _may_ask(self, tool: Tool[Any], person: str, channel: str) -> bool:
        """Return whether a form can hold the tool's fields and policy may allow the tool here."""
        return request_form.can_ask_with_form(tool) and not self._is_denied_by_policy(
            tool, person, channel
        )

    def _is_denied_by_policy(self, tool: Tool[Any], person: str, channel: str) -> bool:
        """Return whether policy denies the tool to this person there, whatever the arguments."""
        rules = self.sources.policy.policy.rules
        denying = [
            rule
            for rule in rules
            if isinstance(rule.gate, Deny)
            and not rule.when
            and rule.can_match(tool.name, tool.does, tool.risk)
        ]
        if not denying:
            return False
        facts = load_facts_from_values(self.sources, person, channel, tool, {})
        return any(rule.match_call(facts, tool.does)[0] is True for rule in denying)

    def _load_earlier_values(self, tool: Tool[Any], call_id: str, person: str) -> Mapping[str, Any]:
        """Return the values of an earlier call of this person's, without secrets; else none."""
        with self.sources.store.read() as tx:
            shown = calls.find_call_with_revision(tx, call_id)
            run = runs.find_run(tx, shown.call.run_id) if shown else None
        if shown is None or run is None or run.requester != person or shown.call.tool != tool.name:
            return {}
        try:
            found = build_readable_arguments(tool, shown.revision.arguments)
        except ValueError:  # the tool has changed since, or what was said is purged
            return {}
        secret = {path[0] for path in tool.list_secret_paths(found)}
        return {
            name: value
            for name, value in found.items()
            if name not in secret and mask_secrets(str(value)) == str(value)
        }


# Where a request begins, and which channels are closed to requests. Looks people and channels up.


@dataclass(frozen=True, slots=True)
class RequestPlacement:
    """Decides in which channel a request begins: for messages, forms and programs; any thread."""

    directory: Directory
    policy: CurrentPolicy
    bot_user: str

    def find_start_channel(self, channel: str, person: str) -> str:
        """Return the channel if a request of this person may begin there, else "".

        The person and the bot both have to be members. "" as well for direct messages, since the
        bot has its own with each person, and for channels where another company reads along, unless
        the policy names them. Raises LookupFailedError.
        """
        if not channel or channel.startswith("D"):
            return ""
        if not {person, self.bot_user} <= self.directory.list_channel_members(channel):
            return ""
        is_shared = self.directory.is_shared_channel(channel)
        return "" if self.is_closed_channel(channel, is_shared=is_shared) else channel

    def is_closed_channel(self, channel: str, *, is_shared: bool) -> bool:
        """Return whether requests are not worked on in this channel, but in private.

        `is_shared`: another company reads along there. Raises LookupFailedError.
        """
        named = self.policy.policy.shared_channels
        return is_shared and channel not in {self.directory.find_channel_id(each) for each in named}


# The check that every template of a policy fits a tool that exists.


def list_template_problems(policy: Policy, tools: Registry) -> list[str]:
    """Return the templates' mistakes, a line each: file, line, what is wrong, what to do."""
    found = []
    for each in policy.templates:
        tool = tools.get(each.tool)
        if tool is None:
            close = get_close_matches(each.tool, [known.name for known in tools], 1)
            hint = f"; is {close[0]} meant?" if close else ""
            found.append(f"{each.place}: there is no tool {each.tool!r}{hint}")
        else:
            found += [
                f"{each.place}: {why}; correct it"
                for why in request_form.list_template_value_problems(tool, each.fixed)
            ]
    return found


def require_fitting_templates(policy: Policy, tools: Registry) -> None:
    """Raise StartupError if a template does not fit its tool."""
    if problems := list_template_problems(policy, tools):
        raise StartupError((), problems)


# The reply to people who write to a bot without a model: how to ask with a form.


def queue_form_invitation(tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
    """Answer a message where it was written, with a button for the form of what can be asked.

    `in_private`: only the writer sees the answer, for another company reads along.
    """
    text, blocks = request_form.render_form_invitation(delivery.user, delivery.channel)
    row = Message(
        key=f"invited:{delivery.seq}",
        kind=MessageKind.PRIVATE if in_private else MessageKind.NOTICE,
        recipient=delivery.user if in_private else "",
        channel=delivery.channel,
        thread_ts=delivery.thread_ts,
        body=outbox.dump_message_body({"text": text, "blocks": blocks}),
    )
    outbox.queue_message(tx, row)


# Filled-in forms, checked: the person, the fields, the policy, the tool's preview.


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A filled-in form that passed its checks."""

    target: FormTarget
    form: request_form.RequestForm
    filled: request_form.CompletedForm
    names: Mapping[str, str]  # of the ids in it

    @property
    def tool(self) -> Tool[Any]:
        """Return the tool that is asked for."""
        return self.form.tool

    @property
    def effect_sentence(self) -> str:
        """Return the sentence that says what the call would do."""
        return self.tool.effect_sentence(self.filled.arguments, self.names)


@dataclass(frozen=True, slots=True)
class DeclinedForm:
    """A form that may not be submitted; the sentence (mrkdwn) is for the person who tried to."""

    sentence: str


class FormReader:
    """Reads and checks filled-in forms; any thread."""

    def __init__(
        self,
        sources: FactSources,
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
    ) -> FilledForm | FieldErrors | DeclinedForm:
        """Return the filled-in form, or why it may not be submitted. Looks people up.

        `state`: of the form's elements. Raises NotYetKnownError and LookupFailedError.
        """
        if not self._authority.is_active_colleague(person):
            return DeclinedForm(request_sentences.members_only_reply())
        return self.read_without_member_check(target, person, state)

    def read_without_member_check(
        self, target: FormTarget, person: str, state: Mapping[str, Any]
    ) -> FilledForm | FieldErrors | DeclinedForm:
        """Return the filled-in form like `read`, without checking that the person is a member."""
        form = self._offers.find_form(target, person)
        if form is None:
            return DeclinedForm(
                request_sentences.unknown_form_reply(self._offers.get_title(target))
            )
        names = NameResolver(self._sources.directory, person)
        filled = request_form.parse_form_submission(form, state, names)
        if isinstance(filled, FieldErrors):
            return filled
        return FilledForm(target, form, filled, names.names_by_id)

    def find_submission_problem(
        self, target: FormTarget, person: str, state: Mapping[str, Any], patience: float
    ) -> FieldErrors | DeclinedForm | None:
        """Return why a submission may not be stored; None where it may.

        `patience`: seconds to wait for the tool's preview; a later problem is reported in the
        thread.
        """
        try:
            entry = self.read_submission(target, person, state)
            if not isinstance(entry, FilledForm):
                return entry
            why = self._describe_obstacle(entry, target, person, patience)
        except LookupFailedError:
            return DeclinedForm(refusals.lookup_failed_reply())
        return request_form.build_error_at_first_input(entry.form, why) if why else None

    def _describe_obstacle(
        self, entry: FilledForm, target: FormTarget, person: str, patience: float
    ) -> str:
        """Return why policy or the tool itself would refuse the call; "" where neither does."""
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
            return strip_mrkdwn(request_sentences.policy_forbids_sentence(gate.reason))
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
            self._previews.get_edit_preview(
                entry.tool, args, context, key, patience=patience, then=self._wake
            )
        except ToolError as error:
            return str(error)
        except LookupPendingError:  # it takes its time: the request says the rest
            pass
        return ""


@dataclass(frozen=True, slots=True)
class FormFactory:
    """The parts that the other classes here are built from; `wake` has the loop look again."""

    sources: FactSources
    authority: Authority
    tools: Registry
    identity: Identity
    previews: PreviewRunner
    wake: Callable[[], None]

    def build_catalog(self) -> FormCatalog:
        """Return the tools and templates people may ask for."""
        return FormCatalog(self.sources, self.authority, self.tools)

    def build_reader(self) -> FormReader:
        """Return the reader of filled-in forms."""
        team, previews = self.identity.team, self.previews
        return FormReader(
            self.sources,
            self.authority,
            self.build_catalog(),
            team,
            previews=previews,
            wake=self.wake,
        )

    def build_placement(self) -> RequestPlacement:
        """Return the object that decides where requests begin."""
        return RequestPlacement(self.sources.directory, self.sources.policy, self.identity.user)


class FormRequestStarter:
    """Begins requests made with forms. One per process; called by `bot.approvals.clicks` only."""

    def __init__(self, parts: FormFactory) -> None:
        """Store the `parts` that read forms and say where requests begin."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._entries = parts.build_reader()
        self._places = parts.build_placement()
        self._replies = DeliverySettler(self._store)

    def start_request(
        self, delivery: Delivery, about: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Begin the request of a submitted form, or tell its requester why not. Looks people up."""
        target = about.target
        assert isinstance(target, FormTarget)
        state = payload["view"]["state"]["values"]
        match self._entries.read_submission(target, delivery.user, state):
            case DeclinedForm(sentence=sentence):
                self._replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the form was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse_click(
                    delivery,
                    request_sentences.request_not_made_reply(why)
                    if why
                    else request_sentences.form_changed_reply(),
                )
            case FilledForm() as entry:
                self._create_run(delivery, target, entry)

    def _create_run(self, delivery: Delivery, target: FormTarget, entry: FilledForm) -> None:
        setting = target.form_context
        place = self._places.find_start_channel(setting.channel, delivery.user)
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
            if not inbox.is_delivery_new(tx, delivery):
                return
            moves.insert_run(tx, run, at=now)
            inbox.hold_message(tx, delivery, run.id, asked_in=asked_in)
            mode = get_strictest_mode(channel_modes.list_modes_of_run(tx, run))
            text, blocks = request_form.render_request_root_message(
                delivery.user, entry.effect_sentence, setting.link, mode
            )
            outbox.queue_thread_root_message(tx, run, text, blocks)
