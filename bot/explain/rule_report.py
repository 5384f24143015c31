"""What the decisions say about each rule of the policy: how fast, by whom, of what amounts.

Also at what hour of the day people decide, and which rules applied to nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from bot.approvals.person_views import PersonViewFactory
from bot.cards import block_kit
from bot.cards.action_names import BlockRole
from bot.cards.button_codec import build_block_id
from bot.cards.slack_text import humanise_field_name
from bot.explain import report
from bot.explain.explanation import MentionStyle
from bot.policy.evaluation import Policy
from bot.policy.gates import DEFAULT_RULE, Ask, Deny, load_gate
from bot.tools import Registry, Tool
from bot.tools.declared_values import may_path_hold_secrets
from storage import call_history
from storage.states import CallVerb

MAX_FINDINGS_PER_KIND = 3  # in a Slack message
MAX_FINDINGS_CHARS = 2_900  # in a Slack message
_IDENTIFIER_PATTERN = re.compile(
    r"(?i)(^|_)(id|ids|no|nr|num|number|code|key|version|year)$|[a-z](Id|No)$"
)
_read_exactly = json.JSONDecoder(parse_float=Decimal).decode
ToolWithAmounts = tuple[Tool[Any] | None, tuple[str, ...]]
Extent = tuple[Decimal, Decimal]  # smallest and largest amount


@dataclass(frozen=True, slots=True)
class RuleStats:
    """How people decided about the calls that one rule put to them."""

    counts: report.CallCounts  # `tool` is the rule's name here
    approvals: int
    alone: int  # approvals by one click on the card, without Review or Edit
    hasty: int  # votes given in under three seconds
    approvers: tuple[tuple[str, int], ...]  # how often each person approved, most first
    amounts: dict[str, Extent]  # range of approved amounts, by "tool.field"
    titles: dict[str, str]  # the name that people read, for each key of `amounts`

    @property
    def is_always_approved(self) -> bool:
        """Whether people approved every call that was decided or has expired."""
        yes, no, late = (self.counts.fates[each] for each in report.DECIDED_FATES)
        return yes > 0 == no + late


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The decisions by rule and by hour of the day."""

    rules: tuple[RuleStats, ...]  # most asked first
    hours: tuple[int, ...]  # votes in each hour of the day, from midnight
    zone: str  # time zone of the hours: the policy's, otherwise UTC
    unused: tuple[str, ...]  # the policy's rules that applied to no call


def compute_rule_report(
    asked: Iterable[call_history.CallInReport],
    given: Iterable[tuple[str, str]],
    policy: Policy,
    tools: Registry,
) -> RuleReport:
    """Compute how people decided the calls `asked`, by rule and hour, and which rules are unused.

    `given`: the different gates and refusals of all calls; see `call_history.list_gates_given`.
    """
    decided = [each for each in asked if report.is_decided_by_people(each)]
    groups = report.group_by(decided, lambda each: load_gate(each.gate).rule)
    amounts = AmountReader(tools)
    rules = [_compute_rule_stats(rule, calls, amounts) for rule, calls in groups.items()]
    zone = find_policy_zone(policy)
    time_zone = ZoneInfo(zone)
    hours = Counter(vote.at.astimezone(time_zone).hour for call in decided for vote in call.votes)
    return RuleReport(
        tuple(sorted(rules, key=lambda x: (-x.counts.asked_count, x.counts.tool))),
        tuple(hours[hour] for hour in range(24)),
        zone,
        tuple(_list_unused_rules(policy, given)),
    )


def _compute_rule_stats(
    rule: str, calls: Sequence[call_history.CallInReport], reader: AmountReader
) -> RuleStats:
    approvals = [x for call in calls for x in call.votes if x.verb is CallVerb.APPROVE]
    approvers = Counter(vote.person for vote in approvals)
    times = (report.measure_voting_time(call, vote) for call in calls for vote in call.votes)
    amounts, titles = dict[str, Extent](), dict[str, str]()
    for call in calls:
        if report.get_call_fate(call) is report.CallFate.APPROVED:
            for field, value in reader.read_amounts(call).items():
                name = f"{call.tool}.{field}"
                titles[name] = reader.build_amount_title(call, field)
                low, high = amounts.get(name, (value, value))
                amounts[name] = min(low, value), max(high, value)
    return RuleStats(
        counts=report.count_calls(rule, calls),
        approvals=len(approvals),
        alone=sum(not vote.opened for vote in approvals),
        hasty=sum(map(report.is_hasty, times)),
        approvers=tuple(sorted(approvers.items(), key=lambda each: (-each[1], each[0]))),
        amounts=dict(sorted(amounts.items())),
        titles=titles,
    )


def load_rule_report(
    views: PersonViewFactory, since: datetime, until: datetime
) -> tuple[list[call_history.CallInReport], RuleReport]:
    """Return the calls that people had to decide in this time, and the report on their rules."""
    lists = views.build_overview()
    with lists.store.read() as tx:
        asked = call_history.list_calls_people_had_to_decide(tx, lists.team, since, until)
        gates = call_history.list_gates_given(tx, lists.team, since, until)
    policy, tools = views.policy.policy, views.grants.tools
    return asked, compute_rule_report(asked, gates, policy, tools)


class AmountReader:
    """Reads the amounts in recorded calls' arguments: numbers that are neither ids nor secret."""

    def __init__(self, tools: Registry) -> None:
        self._tools = tools
        self._known_tools: dict[tuple[str, str], ToolWithAmounts] = {}

    def find_tool(self, call: call_history.CallInReport) -> ToolWithAmounts:
        """Return the tool of a call, None if it is gone, and its fields that hold amounts."""
        key = (call.tool, call.action)
        if key not in self._known_tools:
            tools = self._tools
            tool = tools.find_action_tool(call.action) if call.action else tools.get(call.tool)
            self._known_tools[key] = tool, _list_amount_fields(tool) if tool else ()
        return self._known_tools[key]

    def read_amounts(self, call: call_history.CallInReport) -> dict[str, Decimal]:
        """Return the amounts of a call by field; those that are absent or null are left out."""
        fields = self.find_tool(call)[1]
        if not fields or call.is_purged:
            return {}
        values = _read_exactly(call.newest_arguments)
        read = {field: _parse_amount(values.get(field)) for field in fields}
        return {field: value for field, value in read.items() if value is not None}

    def build_amount_title(self, call: call_history.CallInReport, field: str) -> str:
        """Return what people read for an amount of a call: "Refund an order: Amount"."""
        tool = self.find_tool(call)[0]
        fields = tool.arguments.model_fields if tool else {}
        found = (each.title for name, each in fields.items() if field in (name, each.alias))
        title = next(found, None) or humanise_field_name(field)
        return f"{tool.title if tool else call.tool}: {title}"


def _list_amount_fields(tool: Tool[Any]) -> tuple[str, ...]:
    properties: Mapping[str, Any] = tool.schema().get("properties") or {}
    return tuple(
        name
        for name, schema in properties.items()
        if _is_numeric(schema)
        and not _IDENTIFIER_PATTERN.search(name)
        and not is_secret_field(tool, name)
    )


def is_secret_field(tool: Tool[Any], name: str) -> bool:
    """Return whether the value of this argument may be secret."""
    model: type[BaseModel] = tool.arguments
    return name in tool.secret or may_path_hold_secrets(model, (name,))


def _is_numeric(schema: Any) -> bool:
    """Return whether a JSON Schema describes a number, and not one chosen from a list."""
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        return False
    kinds = [schema.get("type"), *(each.get("type") for each in schema.get("anyOf", ()))]
    listed = [each for kind in kinds for each in (kind if isinstance(kind, list) else [kind])]
    return bool({"number", "integer"} & {*filter(None, listed)})


def _parse_amount(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        found = Decimal(value)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def find_policy_zone(policy: Policy) -> str:
    """Return the time zone of the policy's business hours; UTC if it has none."""
    hours = [gate.hours for gate in policy.asks()]
    hours += [policy.calendar.hours] if policy.calendar else []
    return next((each.zone for each in hours if each), "UTC")


def _list_unused_rules(policy: Policy, given: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the policy's rules that no gate in `given` names and that refused no call."""
    used, refusals = set[str](), set[str]()
    for gate, note in given:
        if note:
            refusals.add(note)
        else:
            loaded_gate = load_gate(gate)
            used |= {loaded_gate.rule, *(loaded_gate.added if isinstance(loaded_gate, Ask) else ())}
    for rule in policy.rules:
        denies = isinstance(rule.gate, Deny) and any(
            note.endswith(rule.gate.reason) or repr(rule.name) in note for note in refusals
        )
        if rule.name not in used and not denies:
            yield rule.name


# The report as sentences and tables: for a terminal, a message, and Home.


def list_findings(rule_report: RuleReport, words: MentionStyle, limit: int = 0) -> Iterator[str]:
    """Yield the report's findings, a sentence each; at most `limit` rules of a kind (0: all)."""
    approvals = sum(x.approvals for x in rule_report.rules)
    alone = sum(x.alone for x in rule_report.rules)
    hasty = sum(each.hasty for each in rule_report.rules)
    if approvals:
        yield (
            f"Approved with one click on the card, without Review or Edit: {alone} of {approvals}."
            f" Votes in under {report.HASTY_VOTE_THRESHOLD.seconds} s: {hasty}."
        )
    if any(rule_report.hours):
        hour = max(range(24), key=rule_report.hours.__getitem__)
        yield f"Most votes come between {hour:02}:00 and {hour + 1:02}:00 ({rule_report.zone})."
    approved = [each for each in rule_report.rules if each.is_always_approved]
    for each in approved[: limit or None]:
        yield _always_approved_sentence(each, words)
    if rule_report.unused:
        names = ", ".join(words.quote_text(each) for each in rule_report.unused[: limit or None])
        more = (
            f" and {len(rule_report.unused) - limit} more"
            if limit and limit < len(rule_report.unused)
            else ""
        )
        yield f"Rules that applied to nothing: {names}{more}."


def _always_approved_sentence(rule: RuleStats, words: MentionStyle) -> str:
    """Return a sentence on a rule whose calls were all approved: by whom, and how fast."""
    counts = rule.counts
    people = [f"{words.format_person(who)} ({count})" for who, count in rule.approvers[:5]]
    people += [f"{len(rule.approvers) - 5} more"] if len(rule.approvers) > 5 else []
    facts = [f"by {', '.join(people)}"]
    for name, extent in rule.amounts.items():
        facts.append(f"{words.quote_text(rule.titles[name])} {format_range(extent)}")
    facts += [f"{counts.edited} edited"] if counts.edited else []
    approved = counts.fates[report.CallFate.APPROVED]
    is_default = counts.tool == DEFAULT_RULE
    which = "that no rule matched" if is_default else f"of rule {words.quote_text(counts.tool)}"
    opening = f"All {approved} calls {which} were approved"
    opening = opening if approved > 1 else f"The only call {which} was approved"
    return f"{opening}: {'; '.join(facts)}{report.describe_speed(counts.speed)}."


def format_range(extent: Extent) -> str:
    """Return a range of amounts in words: "10 to 50", or "10" if both ends are equal."""
    low, high = (f"{each:f}" for each in extent)
    return low if low == high else f"{low} to {high}"


def render_rule_report_lines(rule_report: RuleReport, words: MentionStyle) -> Iterator[str]:
    """Yield the rules as a table, then the hours and the findings; nothing if nobody was asked."""
    if rule_report.rules:
        head = (
            "rule",
            *report.COUNT_COLUMNS,
            "median",
            "90% within",
            "one click",
            report.HASTY_LABEL,
        )
        shown = rule_report.rules[: report.MAX_TABLE_ROWS]
        rows = [
            (*report.build_counts_row(x.counts), *report.format_counts_as_cells(x.alone, x.hasty))
            for x in shown
        ]
        yield from ("", *report.render_table(head, rows))
        yield from report.left_out_line(len(rule_report.rules), report.MAX_TABLE_ROWS, "rules")
    if any(rule_report.hours):
        yield from ("", f"votes by the hour of the day ({rule_report.zone})")
        longest = max(rule_report.hours)
        for hour, count in enumerate(rule_report.hours):
            if count:
                yield f"{hour:02}:00  {'█' * -(-count * report.MAX_BAR_CHARS // longest)}  {count}"
    findings = list(list_findings(rule_report, words))
    yield from ["", *findings] if findings else ()


def render_findings_blocks(found: RuleReport, words: MentionStyle) -> list[block_kit.Json]:
    """Draw the report's first findings as a Slack section; no block if there are none."""
    text = render_findings_text(found, words)
    place = build_block_id(BlockRole.OVERVIEW, "findings")
    return [block_kit.section_block(place, block_kit.mrkdwn(text))] if text else []


def render_findings_text(found: RuleReport, words: MentionStyle) -> str:
    """Return the first findings as a list in mrkdwn that fits a Slack section; "" without any."""
    text = ""
    for line in list_findings(found, words, MAX_FINDINGS_PER_KIND):
        if len(text) + len(line) < MAX_FINDINGS_CHARS:
            text += f"• {line}\n"
    return text
