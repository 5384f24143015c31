"""What a person may ask for with a form, and the form of one of these. Looks people up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bot.approvals.facts import Sources, facts_about
from bot.cards.button_codec import FormKind, FormTarget
from bot.cards.request_form import (
    FormChoice,
    RequestForm,
    blank_values,
    can_ask_with_form,
    invitation,
    prefill_message,
    template_misfits,
)
from bot.config.startup import StartupError
from bot.policy.authority import Authority
from bot.policy.current_policy import CurrentPolicy
from bot.policy.directory import Directory
from bot.policy.evaluation import Policy
from bot.policy.gates import Deny
from bot.policy.rules import Template
from bot.tools import Registry, Tool
from bot.tools.arguments import readable_arguments
from storage import calls, outbox, runs
from storage.masking import mask_secrets
from storage.models import Delivery, Message
from storage.states import MessageKind
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Offers:
    """One for all forms; any thread."""

    sources: Sources
    authority: Authority
    tools: Registry

    def choices(self, person: str, channel: str) -> list[FormChoice]:
        """Return what this person may ask for there, by title; raises LookupFailedError."""
        found = [
            FormChoice(FormKind.TOOL, tool.name, tool.title, tool.stated_effect)
            for tool in self.tools
            if self._may_ask(tool, person, channel)
        ]
        for each in self.sources.policy.policy.templates:
            if tool := self._prepared(each, person, channel):
                found.append(
                    FormChoice(FormKind.TEMPLATE, each.title, each.title, tool.stated_effect)
                )
        return sorted(found, key=lambda each: each.title.casefold())

    def called(self, words: str, person: str, channel: str) -> FormChoice | None:
        """Return what this person means by these words, its name or its title; None for nothing."""
        meant = " ".join(words.split()).casefold()
        found = self.choices(person, channel)
        named = (each for each in found if meant in (each.name.casefold(), each.title.casefold()))
        return next(named, None)

    def title(self, target: FormTarget) -> str:
        """Return what people call it, whether or not they may ask for it."""
        tool = self.tools.get(target.name) if target.kind is FormKind.TOOL else None
        return tool.title if tool else target.name

    def form(self, target: FormTarget, person: str) -> RequestForm | None:
        """Return the form, as this person gets it; None where they may not ask for that.

        The same each time, so that what is submitted is read as it was shown.
        """
        channel, template = target.setting.channel, None
        if target.kind is FormKind.TEMPLATE:
            every = self.sources.policy.policy.templates
            template = next((each for each in every if each.title == target.name), None)
            tool = self._prepared(template, person, channel) if template else None
        else:
            tool = self.tools.get(target.name)
            tool = tool if tool and self._may_ask(tool, person, channel) else None
        if tool is None:
            return None
        initial = blank_values(tool)
        if target.again:
            initial |= self._earlier(tool, target.again, person)
        fixed = template.fixed if template else {}
        values = prefill_message(tool, {**initial, **fixed}, target.setting.quoted)
        return RequestForm(
            tool, template.title if template else tool.title, values, frozenset(fixed)
        )

    def _prepared(self, template: Template, person: str, channel: str) -> Tool[Any] | None:
        """Return the tool of a template that this person may use."""
        tool, who = self.tools.get(template.tool), template.who
        if tool is None or template_misfits(tool, template.fixed):  # since the policy was read anew
            return None
        if who is not None and person not in self.authority.named(
            who, requester=person, channel=channel
        ):
            return None
        return None if self._is_barred(tool, person, channel) else tool

    def _may_ask(self, tool: Tool[Any], person: str, channel: str) -> bool:
        """Return whether a form can hold it, and policy might let this person have it."""
        return can_ask_with_form(tool) and not self._is_barred(tool, person, channel)

    def _is_barred(self, tool: Tool[Any], person: str, channel: str) -> bool:
        """Return whether policy denies it to this person there, whatever the arguments."""
        rules = self.sources.policy.policy.rules
        denying = [
            rule
            for rule in rules
            if isinstance(rule.gate, Deny)
            and not rule.when
            and rule.is_about(tool.name, tool.does, tool.risk)
        ]
        if not denying:
            return False
        facts = facts_about(self.sources, person, channel, tool, {})
        return any(rule.fits(facts, tool.does)[0] is True for rule in denying)

    def _earlier(self, tool: Tool[Any], call_id: str, person: str) -> Mapping[str, Any]:
        """Return the values of an earlier call of this person's; none where it is not theirs."""
        with self.sources.store.read() as tx:
            shown = calls.shown(tx, call_id)
            run = runs.get(tx, shown.call.run_id) if shown else None
        if shown is None or run is None or run.requester != person or shown.call.tool != tool.name:
            return {}
        try:
            found = readable_arguments(tool, shown.revision.arguments)
        except ValueError:  # the tool has changed since, or what was said is purged
            return {}
        secret = {path[0] for path in tool.secret_paths(found)}
        return {
            name: value
            for name, value in found.items()
            if name not in secret and mask_secrets(str(value)) == str(value)
        }


# Where a request begins, and in which channels none is worked on. Looks people and channels up.


@dataclass(frozen=True, slots=True)
class StartingPlaces:
    """One door for messages, forms and programs; any thread."""

    directory: Directory
    policy: CurrentPolicy
    bot_user: str

    def of(self, channel: str, person: str) -> str:
        """Return the channel if the person and the bot are both in it, else "".

        Direct messages are "" as well, since the bot has its own with each person, and channels
        where another company reads along, but for those that the policy names. Raises
        LookupFailedError.
        """
        if not channel or channel.startswith("D"):
            return ""
        if not {person, self.bot_user} <= self.directory.members(channel):
            return ""
        is_shared = self.directory.outsiders_read(channel)
        return "" if self.is_closed(channel, is_shared=is_shared) else channel

    def is_closed(self, channel: str, *, is_shared: bool) -> bool:
        """Return whether requests are not worked on in this channel, but in private.

        `is_shared`: another company reads along there. Raises LookupFailedError.
        """
        named = self.policy.policy.shared_channels
        return is_shared and channel not in {self.directory.channel(each) for each in named}


# The templates of a policy beside the tools there are: each has to fit one of them.


def misfitting(policy: Policy, tools: Registry) -> list[str]:
    """Return what is wrong with the templates: file, line, what is wrong, what to do."""
    found = []
    for each in policy.templates:
        tool = tools.get(each.tool)
        if tool is None:
            close = get_close_matches(each.tool, [known.name for known in tools], 1)
            hint = f"; is {close[0]} meant?" if close else ""
            found.append(f"{each.place}: there is no tool {each.tool!r}{hint}")
        else:
            found += [
                f"{each.place}: {why}; correct it" for why in template_misfits(tool, each.fixed)
            ]
    return found


def insist(policy: Policy, tools: Registry) -> None:
    """Raise StartupError where a template fits no tool."""
    if problems := misfitting(policy, tools):
        raise StartupError((), problems)


# Who writes to a bot without a model is shown how to ask with a form; sends nothing.


def invite(tx: Transaction, delivery: Delivery, *, in_private: bool) -> None:
    """Answer a message where it was written: one sentence, and a button for what can be asked.

    `in_private`: only who wrote it sees the answer, for another company reads along.
    """
    text, blocks = invitation(delivery.user, delivery.channel)
    row = Message(
        key=f"invited:{delivery.seq}",
        kind=MessageKind.PRIVATE if in_private else MessageKind.NOTICE,
        recipient=delivery.user if in_private else "",
        channel=delivery.channel,
        thread_ts=delivery.thread_ts,
        body=outbox.dump_body({"text": text, "blocks": blocks}),
    )
    outbox.put_message(tx, row)
