"""What a person may ask for with a form, and the form of one of these. Looks people up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from bot.approvals.terms.facts import Sources, facts_about
from bot.messages.actions.targets import FormKind, FormTarget
from bot.messages.requests.form import Form, askable, blank, offered
from bot.messages.requests.picker import Choice
from bot.policy.gates import Deny
from bot.tools import Registry, Tool
from bot.tools.arguments import readable_arguments
from storage import calls, runs


@dataclass(frozen=True, slots=True)
class Offers:
    """One for all forms; any thread."""

    sources: Sources
    tools: Registry

    def choices(self, person: str, channel: str) -> list[Choice]:
        """Return what this person may ask for there, by title; raises LookupFailedError."""
        open_ = [tool for tool in self.tools if self._may_ask(tool, person, channel)]
        found = [Choice(FormKind.TOOL, tool.name, tool.title, tool.does) for tool in open_]
        return sorted(found, key=lambda each: each.title.casefold())

    def called(self, words: str, person: str, channel: str) -> Choice | None:
        """Return what this person means by these words, its name or its title; None for nothing."""
        meant = " ".join(words.split()).casefold()
        names = [(each, {each.name.casefold(), each.title.casefold()}) for each in self.tools]
        tool = next((each for each, known in names if meant in known), None)
        if tool is None or not self._may_ask(tool, person, channel):
            return None
        return Choice(FormKind.TOOL, tool.name, tool.title, tool.does)

    def form(self, target: FormTarget, person: str) -> Form | None:
        """Return the form, as this person gets it; None where they may not ask for that.

        The same each time, so that what is submitted is read as it was shown.
        """
        tool = self.tools.get(target.name)
        if tool is None or not self._may_ask(tool, person, target.setting.channel):
            return None
        initial = blank(tool)
        if target.again:
            initial |= self._earlier(tool, target.again, person)
        return Form(tool, tool.title, offered(tool, initial, target.setting.quoted))

    def _may_ask(self, tool: Tool[Any], person: str, channel: str) -> bool:
        """Return whether a form can hold it, and policy might let this person have it."""
        return askable(tool) and not self._is_barred(tool, person, channel)

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
        except ValidationError:  # the tool has changed since
            return {}
        return {name: value for name, value in found.items() if name not in tool.secret}
