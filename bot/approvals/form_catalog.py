"""What a person may ask for with a form, and where requests begin. Looks people and channels up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bot.approvals import call_gates
from bot.cards import request_form
from bot.cards.button_codec import FormSource, FormTarget
from bot.config.startup import StartupError
from bot.policy.authority import Authority, Directory
from bot.policy.evaluation import CurrentPolicy, Policy
from bot.policy.gates import Deny
from bot.policy.policy_file import RequestTemplate
from bot.tools import Registry, Tool
from bot.tools.arguments import build_readable_arguments
from storage import calls, outbox, runs
from storage.masking import mask_secrets
from storage.record import Delivery, Message, Transaction
from storage.states import MessageKind


@dataclass(frozen=True, slots=True)
class FormCatalog:
    """The tools and templates people may ask for with a form. One for all forms; any thread."""

    sources: call_gates.PolicyFactSources
    authority: Authority
    tools: Registry

    def list_choices(self, person: str, channel: str) -> list[request_form.RequestFormChoice]:
        """Return the forms this person may use in `channel`, by title; raises LookupFailedError."""
        found = [
            request_form.RequestFormChoice(
                FormSource.TOOL, tool.name, tool.title, tool.declared_effect
            )
            for tool in self.tools
            if self._may_ask(tool, person, channel)
        ]
        for each in self.sources.policy.policy.templates:
            if tool := self._find_template_tool(each, person, channel):
                found.append(
                    request_form.RequestFormChoice(
                        FormSource.TEMPLATE, each.title, each.title, tool.declared_effect
                    )
                )
        return sorted(found, key=lambda each: each.title.casefold())

    def find_choice(
        self, words: str, person: str, channel: str
    ) -> request_form.RequestFormChoice | None:
        """Return the form that this person may use with this name or title; None if none."""
        meant = " ".join(words.split()).casefold()
        found = self.list_choices(person, channel)
        named = (each for each in found if meant in (each.name.casefold(), each.title.casefold()))
        return next(named, None)

    def get_title(self, target: FormTarget) -> str:
        """Return the title of a form's tool or template, even if nobody may ask for it."""
        tool = self.tools.get(target.name) if target.kind is FormSource.TOOL else None
        return tool.title if tool else target.name

    def find_form(self, target: FormTarget, person: str) -> request_form.RequestForm | None:
        """Return the form to show this person; None if they may not ask for its tool or template.

        The form is the same each time, so that a submission is read by the form that was shown.
        """
        channel, template = target.form_context.channel, None
        if target.kind is FormSource.TEMPLATE:
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
        ):  # possible once the policy has been reloaded
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
        plain = call_gates.build_plain_facts(tool, person, channel, {}, self.sources.clock.now())
        facts = call_gates.look_up_policy_facts(self.sources, plain)
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
        except ValueError:  # the tool has changed since, or the request's text has been purged
            return {}
        secret = {path[0] for path in tool.list_secret_paths(found)}
        return {
            name: value
            for name, value in found.items()
            if name not in secret and mask_secrets(str(value)) == str(value)
        }


# Where a request begins, and which channels are closed to requests. Looks people and channels up.


@dataclass(frozen=True, slots=True)
class RequestChannelChecker:
    """Decides in which channel a request begins: for messages, forms and programs; any thread."""

    directory: Directory
    policy: CurrentPolicy
    bot_user: str

    def get_channel_if_allowed(self, channel: str, person: str) -> str:
        """Return the channel if a request of this person may begin there, else "".

        The person and the bot both have to be members. "" as well for direct messages, since the
        bot has its own with each person, and for channels where another company reads along, unless
        the policy names them. Raises LookupFailedError.
        """
        if not channel or channel.startswith("D"):
            return ""
        if not {person, self.bot_user} <= self.directory.list_channel_members(channel):
            return ""
        is_shared = self.directory.is_externally_shared_channel(channel)
        return "" if self.is_disallowed_shared_channel(channel, is_shared=is_shared) else channel

    def is_disallowed_shared_channel(self, channel: str, *, is_shared: bool) -> bool:
        """Return whether requests made in this channel go on in private, because it is shared.

        `is_shared`: whether another company reads along there. Raises LookupFailedError.
        """
        named = self.policy.policy.shared_channels
        return is_shared and channel not in {self.directory.find_channel_id(each) for each in named}


# The check that every template of a policy fits an existing tool.


def list_template_problems(policy: Policy, tools: Registry) -> list[str]:
    """Return the templates' mistakes, a line each: file, line, what is wrong, what to do."""
    found = []
    for each in policy.templates:
        tool = tools.get(each.tool)
        if tool is None:
            close = get_close_matches(each.tool, [known.name for known in tools], 1)
            hint = f"; did you mean {close[0]}?" if close else ""
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


# The reply to people who write to a bot without a model: they can ask with a form.


def queue_form_invitation(tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
    """Answer a message where it was written, with a button that opens the request form.

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
