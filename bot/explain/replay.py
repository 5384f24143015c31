"""A policy replayed over the recorded calls: which calls it would have decided otherwise.

Nothing is written. Sums are those of the calls on record at the time of each call. Groups and
channels are as they are now, since nobody recorded how they were. If the outcome depends on
something unknown, that is reported as such, never as a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.approvals.call_checks import RefusedError, parse
from bot.approvals.call_state import approvals, standing
from bot.approvals.facts import Sources, facts_of, needed, total
from bot.cards.slack_text import in_utc
from bot.explain.explanation import MentionStyle
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.condition_values import Facts
from bot.policy.evaluation import Judgement
from bot.policy.gates import Allow, Ask, Deny, load_gate
from bot.tools import Registry, Tool
from bot.tools.arguments import load_arguments
from bot.tools.names import NameResolver
from storage import call_history, calls, runs
from storage.models import Call, Run
from storage.states import Balance, CallStatus
from storage.transaction import Transaction

_POLICY = "policy: "  # begins the note of a call that a policy refused
HEADINGS = {
    "allow": "Would have run without asking",
    "deny": "Would have been refused",
    "ask": "Would have been asked",
    "people": "Would have been asked of other people",
    "quorum": "Would have taken another quorum or other steps",
    "terms": "Would have been asked on other terms",
}


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that always shows the same time."""

    moment: datetime

    def now(self) -> datetime:
        """Return the clock's fixed time."""
        return self.moment


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """A recorded call that the replayed policy would have decided otherwise."""

    kind: str  # one of HEADINGS
    line: str


class UndecidableCallError(Exception):
    """Raised if nobody can say how the policy would have decided a call.

    The text says why, without naming the call.
    """


class Replay:
    """One replay of a policy over the calls since a moment; see `lines`."""

    def __init__(
        self, sources: Sources, authority: Authority, tools: Registry, words: MentionStyle
    ) -> None:
        """Prepare a replay of `sources.policy`; database rows are only read."""
        self._sources = sources
        self._authority = authority
        self._tools = tools
        self._words = words
        self._histories: dict[tuple[str, str | None, str], list[call_history.ProposedCall]] = {}

    def lines(self, since: datetime) -> Iterator[str]:
        """Yield the report, line by line, on calls proposed since this time (aware)."""
        found: list[ChangedDecision] = []
        not_told: Counter[str] = Counter()
        with self._sources.store.read() as tx:
            recorded = call_history.since(tx, since)
        for call in recorded:
            try:
                found += self._otherwise(call)
            except UndecidableCallError as error:
                not_told[str(error)] += 1
        same = len(recorded) - len(found) - not_told.total()
        calls_recorded = f"{len(recorded)} {'call' if len(recorded) == 1 else 'calls'} recorded"
        yield f"{calls_recorded} since {in_utc(since)}."
        yield (
            f"{len(found)} would have been decided otherwise, {same} the same;"
            f" {not_told.total()} cannot be told."
        )
        for kind, heading in HEADINGS.items():
            lines = [each.line for each in found if each.kind == kind]
            if lines:
                yield from ("", f"{heading} ({len(lines)}):", *(f"• {line}" for line in lines))
        if not_told:
            yield from (
                "",
                "Cannot be told:",
                *(f"• {count}: {why}" for why, count in not_told.most_common()),
            )

    def _otherwise(self, call: Call) -> Iterator[ChangedDecision]:
        """Yield how the policy would change one call, if it would; raises UndecidableCallError."""
        tool = self._tools.of(call)
        if tool is None:
            raise UndecidableCallError(f"there is no tool {call.tool} any more")
        with self._sources.store.read() as tx:
            run = runs.get(tx, call.run_id)
            if run is not None and run.purged_at is not None:
                raise UndecidableCallError("what it was about was purged")
            was, args = self._as_decided(tx, call, tool)
        if run is None:
            raise UndecidableCallError("its request is not on record")
        judged = self._sources.policy.policy.judged(self._facts(run, call, tool, args))
        _certain(judged)
        kind, change = _difference(was, judged.gate)
        if not kind:
            return
        if isinstance(judged.gate, Ask):
            change += self._enough(was, judged.gate, run, call)
        effect = self._words.quoted(tool.effect_sentence(args))
        who = self._words.person(run.requester)
        yield ChangedDecision(
            kind, f"{in_utc(call.created_at)}, {call.tool}, {who}: {effect} — {change}"
        )

    def _as_decided(
        self, tx: Transaction, call: Call, tool: Tool[Any]
    ) -> tuple[Allow | Ask | Deny, BaseModel]:
        """Return the gate on record and the call's arguments; raises UndecidableCallError."""
        text = call_history.arguments(tx, call)
        try:
            if text is not None:
                return load_gate(call.gate), load_arguments(tool, text)
            if call.status is not CallStatus.REFUSED or not call.note.startswith(_POLICY):
                raise UndecidableCallError("refused before a policy was asked")
            words = call_history.proposed_arguments(tx, call)
            if words is None:
                raise UndecidableCallError("its arguments are not on record")
            return Deny(rule="", reason=call.note.removeprefix(_POLICY)), parse(
                tool, words, NameResolver(self._sources.directory, None)
            )[0]
        except (ValidationError, RefusedError):
            raise UndecidableCallError(
                f"{call.tool} does not take its arguments any more"
            ) from None

    def _facts(self, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> Facts:
        """Return the facts about the call at the time it was proposed, as far as they are known."""
        then = replace(self._sources, clock=FixedClock(call.created_at))
        facts, sums = facts_of(then, run, tool, args), {}
        for each in needed(then.policy, tool).spent:
            whose = None if each.anyone else run.requester
            counted = call_history.counted_before(self._history(run.team, whose, each.tool), call)
            start = call.created_at - timedelta(seconds=each.window)
            within = [one for one in counted if one.at is None or one.at > start]
            sums[each] = total(each, within, facts.arguments)
        return replace(facts, spent=sums)

    def _history(
        self, team: str, requester: str | None, tool: str
    ) -> list[call_history.ProposedCall]:
        key = (team, requester, tool)
        if key not in self._histories:
            with self._sources.store.read() as tx:
                self._histories[key] = call_history.calls_of_tool(tx, *key)
        return self._histories[key]

    def _enough(self, was: Allow | Ask | Deny, now: Ask, run: Run, call: Call) -> str:
        """Return words that say the call's approvers would not have been enough; "" otherwise.

        The groups are looked up as they are now.
        """
        with self._sources.store.read() as tx:
            votes = calls.votes(tx, call.id, call.revision)
            editors = calls.editors(tx, call.id)
        if not isinstance(was, Ask) or standing(was, votes).outcome is not Balance.APPROVED:
            return ""
        try:
            met = self._authority.met(
                now,
                approvals(now, call, votes),
                requester=run.requester,
                editors=editors,
                channel=run.channel,
            )
        except LookupFailedError:
            return ""
        return "" if met else "; those who approved it would not have been enough"


def _certain(judged: Judgement) -> None:
    """Raise UndecidableCallError if the outcome depends on a rule that could not be judged."""
    if isinstance(judged.gate, Deny) and judged.tried and judged.tried[-1].fits:
        return
    decided = False
    for each in judged.tried:
        if each.fits is None and (each.adds or not decided):
            raise UndecidableCallError(f"whether the rule {each.rule!r} applies: {each.why}")
        decided = decided or each.rule == judged.gate.rule


def _difference(was: Allow | Ask | Deny, now: Allow | Ask | Deny) -> tuple[str, str]:
    """Return the kind of the difference ("" for none) and its description."""
    by = " and ".join(f"rule {each!r}" for each in (now.rule, *getattr(now, "added", ())))
    match was, now:
        case Ask(), Ask():
            return _between(was, now, by)
        case (Allow(), Allow()) | (Deny(), Deny()):
            return "", ""
        case Ask(would_allow=True), Allow(after_rejection="ask"):
            return "", ""
        case _, Deny(reason=reason):
            return "deny", f"was {_past(was)}, now refused by {by}: {reason}"
    return now.verdict, f"was {_past(was)}, now {_past(now)} by {by}"


def _past(gate: Allow | Ask | Deny) -> str:
    return {"allow": "allowed", "deny": "refused", "ask": "asked"}[gate.verdict]


def _between(was: Ask, now: Ask, by: str) -> tuple[str, str]:
    if _people(was) != _people(now):
        return "people", f"by {by}"
    if [(_set(each.approvers), each.quorum) for each in was.stages] != [
        (_set(each.approvers), each.quorum) for each in now.stages
    ]:
        return (
            "quorum",
            f"was {was.people} in {len(was.stages)},"
            f" now {now.people} in {len(now.stages)}, by {by}",
        )
    before, after = (
        each.model_dump(exclude={"rule", "added", "stages", "verdict"}) for each in (was, now)
    )
    changed = [key for key in before if before[key] != after[key]]
    return ("terms", f"{', '.join(changed)}, by {by}") if changed else ("", "")


def _people(gate: Ask) -> object:
    return _set(gate.approvers)


def _set(who: Any) -> object:
    return frozenset(who.users), frozenset(who.groups), who.channel, who.requester
