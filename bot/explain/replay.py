"""A policy replayed over the recorded calls: which calls it would have decided otherwise.

Nothing is written. Sums are those of the calls on record at the time of each call, and so is the
channel's mode. Groups and channels are as they are now, since nobody recorded how they were. If the
outcome depends on something unknown, that is reported as such, never as a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.approvals import call_gates, call_state
from bot.approvals.call_checks import CallRefusedError, parse_arguments_and_reason
from bot.cards.slack_text import format_in_utc
from bot.explain.explanation import MentionStyle
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.condition_values import Facts
from bot.policy.evaluation import Judgement
from bot.policy.gates import ADD_PASSKEY, Allow, Ask, Deny, combine_gates, load_gate
from bot.tools import Registry, Tool
from bot.tools.arguments import load_arguments
from bot.tools.names import SlackIdResolver
from storage import call_history, calls, runs
from storage.columns import copy_row_with_changes
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, VoteOutcome

_POLICY_REFUSAL_PREFIX = "policy: "  # how the note of a call begins that policy refused
HEADINGS = {
    "allow": "Would have run without asking",
    "deny": "Would have been refused",
    "ask": "Would have been asked",
    "people": "Would have gone to other people",
    "quorum": "Would have taken another quorum or other steps",
    "terms": "Would have been asked under other terms",
}


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that always shows the same time."""

    moment: datetime

    def now(self) -> datetime:
        """Return the clock's fixed time."""
        return self.moment


class UndecidableCallError(Exception):
    """Raised if nobody can say how the policy would have decided a call.

    The text says why, without naming the call.
    """


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """Replays a policy over recorded calls, to report which it would have decided otherwise."""

    _sources: call_gates.PolicyFactSources
    _authority: Authority
    _tools: Registry
    _words: MentionStyle
    _histories: dict[tuple[str, str | None, str], list[call_history.PastCall]] = field(
        default_factory=dict
    )

    def build_report_lines(self, since: datetime) -> Iterator[str]:
        """Yield the lines of the report on all calls proposed since this (aware) time."""
        lines_by_kind: dict[str, list[str]] = {kind: [] for kind in HEADINGS}
        not_told: Counter[str] = Counter()
        with self._sources.store.read() as tx:
            recorded = call_history.list_calls_proposed_since(tx, since)
        for call in recorded:
            try:
                kind, line = self._find_changed_decision(call)
                if kind:
                    lines_by_kind[kind].append(line)
            except UndecidableCallError as error:
                not_told[str(error)] += 1
        changed = sum(map(len, lines_by_kind.values()))
        same = len(recorded) - changed - not_told.total()
        calls_recorded = f"{len(recorded)} {'call' if len(recorded) == 1 else 'calls'} recorded"
        yield f"{calls_recorded} since {format_in_utc(since)}."
        yield (
            f"{changed} would have been decided differently, {same} the same;"
            f" {not_told.total()} not known."
        )
        for kind, lines in lines_by_kind.items():
            if lines:
                heading = f"{HEADINGS[kind]} ({len(lines)}):"
                yield from ("", heading, *(f"• {line}" for line in lines))
        if not_told:
            yield from (
                "",
                "Not known:",
                *(f"• {count}: {why}" for why, count in not_told.most_common()),
            )

    def _find_changed_decision(self, call: Call) -> tuple[str, str]:
        """Return the HEADINGS key and a line for a call decided otherwise; "" for both if not."""
        tool = self._tools.find_tool_of_call(call)
        if tool is None:
            raise UndecidableCallError(f"the tool {call.tool} no longer exists")
        with self._sources.store.read() as tx:
            run = runs.get_run(tx, call.run_id)
            if run.purged_at is not None:
                raise UndecidableCallError("what it was about was purged")
            was, versions = self._load_recorded_decision(tx, call, tool)
            rejected = call_history.find_gate_of_last_rejected_call(tx, run.root_id)
        gate, *edited = (self._judge_at(run, call, tool, *each) for each in versions)
        for now in edited:
            if isinstance(gate, Ask) and not isinstance(now, Allow):  # else nobody could edit it
                gate = now if isinstance(now, Deny) else combine_gates(gate, now)
        if isinstance(gate, Ask) and isinstance(was, Ask) and rejected:
            gate = gate if was.remember or was.once else gate.copy_without_offers()
        kind, change = _classify_difference(was, gate)
        if not kind:
            return "", ""
        if call.revision > len(versions):
            raise UndecidableCallError("asked or run again later, by the policy of then")
        if isinstance(gate, Ask):
            change += self._describe_lacking_approvals(was, gate, run, call)
        effect = self._words.quote_text(tool.effect_sentence(versions[-1][0]))
        who = self._words.format_person(run.requester)
        return kind, f"{format_in_utc(call.created_at)}, {call.tool}, {who}: {effect} — {change}"

    def _load_recorded_decision(
        self, tx: Transaction, call: Call, tool: Tool[Any]
    ) -> tuple[Allow | Ask | Deny, list[tuple[BaseModel, datetime]]]:
        """Return the gate on record and the call's arguments, also those before each edit.

        Each with the time since which the call has them. Raises UndecidableCallError.
        """
        revisions = calls.list_revisions(tx, call.id)
        firsts = [next(same) for _, same in groupby(revisions, key=lambda each: each.arguments)]
        try:
            if firsts:
                return load_gate(call.gate), [
                    (load_arguments(tool, each.arguments), each.created_at) for each in firsts
                ]
            if call.status is not CallStatus.REFUSED or not call.note.startswith(
                _POLICY_REFUSAL_PREFIX
            ):
                raise UndecidableCallError("refused before a policy was asked")
            words = call_history.find_proposed_arguments(tx, call)
            if words is None:
                raise UndecidableCallError("its arguments are not on record")
            names = SlackIdResolver(self._sources.directory, None)
            args, _ = parse_arguments_and_reason(tool, words, names)
            return Deny(rule="", reason=call.note.removeprefix(_POLICY_REFUSAL_PREFIX)), [
                (args, call.created_at)
            ]
        except (ValidationError, CallRefusedError):
            raise UndecidableCallError(f"{call.tool} no longer takes its arguments") from None

    def _judge_at(
        self, run: Run, call: Call, tool: Tool[Any], args: BaseModel, at: datetime
    ) -> Allow | Ask | Deny:
        """Return the gate of these arguments at the time when they were proposed or edited.

        Raises UndecidableCallError.
        """
        call = copy_row_with_changes(call, created_at=at)
        facts = self._load_facts_at_proposal(run, call, tool, args)
        judged = self._sources.policy.policy.judge_call(facts)
        _require_certain_outcome(judged)
        with self._sources.store.read() as tx:
            return call_gates.apply_channel_mode_to_gate(
                tx, self._sources, run, facts, judged.gate, until=call.created_at
            )[0]

    def _load_facts_at_proposal(
        self, run: Run, call: Call, tool: Tool[Any], args: BaseModel
    ) -> Facts:
        """Return the facts about the call at the time it was proposed, as far as they are known."""
        then = replace(self._sources, clock=FixedClock(call.created_at))
        facts, sums = call_gates.load_policy_facts(then, run, tool, args), {}
        for each in call_gates.get_lookups_needed_by_rules(then.policy, tool).spent:
            whose = None if each.anyone else run.requester
            counted = call_history.iterate_calls_counted_at_proposal(
                self._load_tool_history(run.team, whose, each.tool), call
            )
            start = call.created_at - timedelta(seconds=each.window)
            within = [one for one in counted if one.at is None or one.at > start]
            sums[each] = call_gates.sum_field_or_count_calls(each, within, facts.arguments)
        return replace(facts, spent=sums)

    def _load_tool_history(
        self, team: str, requester: str | None, tool: str
    ) -> list[call_history.PastCall]:
        key = (team, requester, tool)
        if key not in self._histories:
            with self._sources.store.read() as tx:
                self._histories[key] = call_history.list_past_calls_of_tool(tx, *key)
        return self._histories[key]

    def _describe_lacking_approvals(
        self, was: Allow | Ask | Deny, now: Ask, run: Run, call: Call
    ) -> str:
        """Return words that say the call's approvers would not have been enough; "" otherwise.

        The groups are looked up as they are now.
        """
        with self._sources.store.read() as tx:
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
            editors = calls.list_editors(tx, call.id)
        if (
            not isinstance(was, Ask)
            or call_state.tally_votes(was, votes).outcome is not VoteOutcome.APPROVED
        ):
            return ""
        try:
            met = self._authority.is_gate_met(
                now,
                call_state.list_approvers_with_response_times(now, call, votes),
                signers=call_state.list_signers(votes),
                requester=run.requester,
                editors=editors,
                channel=run.channel,
            )
        except LookupFailedError:
            return ""
        return "" if met else "; those who approved it would not have been enough"


def _require_certain_outcome(judged: Judgement) -> None:
    """Raise UndecidableCallError if the outcome depends on a rule that could not be judged."""
    if isinstance(judged.gate, Deny) and judged.tried and judged.tried[-1].fits:
        return
    decided = False
    for each in judged.tried:
        if each.fits is None and (each.adds or not decided):
            raise UndecidableCallError(f"whether the rule {each.rule!r} applies: {each.why}")
        decided = decided or each.rule == judged.gate.rule


def _classify_difference(was: Allow | Ask | Deny, now: Allow | Ask | Deny) -> tuple[str, str]:
    """Return a key of HEADINGS ("" for none) and words that say how the two gates differ."""
    by = " and ".join(f"rule {each!r}" for each in (now.rule, *getattr(now, "added", ())))
    match was, now:
        case Ask(), Ask():
            return _classify_ask_difference(was, now, by)
        case (Allow(), Allow()) | (Deny(), Deny()):
            return "", ""
        case Ask(would_allow=True), Allow(after_rejection="ask"):
            return "", ""
        case _, Deny(reason=reason):
            return "deny", f"was {_describe_past_verdict(was)}, now refused by {by}: {reason}"
    return (
        now.verdict,
        f"was {_describe_past_verdict(was)}, now {_describe_past_verdict(now)} by {by}",
    )


def _describe_past_verdict(gate: Allow | Ask | Deny) -> str:
    return {"allow": "allowed", "deny": "refused", "ask": "asked"}[gate.verdict]


def _dump_terms(gate: Ask) -> dict[str, Any]:
    """Return a gate's terms other than its approvers and quorums, by their keys in a policy."""
    stages = {
        # for a new passkey, it depends on who could sign at the time
        "signature": [each.signature for each in gate.stages if gate.rule != ADD_PASSKEY],
        "silent": [{*each.approvers.silent} for each in gate.stages],
    }
    return gate.model_dump(exclude={"rule", "added", "stages", "verdict"}) | stages


def _classify_ask_difference(was: Ask, now: Ask, by: str) -> tuple[str, str]:
    if was.approvers.as_sets != now.approvers.as_sets:
        return "people", f"by {by}"
    steps = [[(each.approvers.as_sets, each.quorum) for each in gate.stages] for gate in (was, now)]
    if steps[0] != steps[1]:
        return (
            "quorum",
            f"was {was.required_approvers} in {len(was.stages)},"
            f" now {now.required_approvers} in {len(now.stages)}, by {by}",
        )
    before, after = map(_dump_terms, (was, now))
    changed = [key for key in before if before[key] != after[key]]
    return ("terms", f"{', '.join(changed)}, by {by}") if changed else ("", "")
