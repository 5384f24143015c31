"""Makes the checks of `countersign doctor` in a running bot.

They are made soon after the start, when the policy has changed, and repeatedly while something is
wrong. Nothing is decided or delayed by them: they have a thread and connections of their own. Each
finding is a line of the log, and is counted in the metrics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from bot.cards.slack_text import format_in_utc
from bot.checks.check import (
    NO_REVIEWER_FINDING,
    CheckLevel,
    CheckResult,
    CheckSubject,
    build_rule_subject,
)
from bot.clock import Clock
from bot.config.entry_points import import_owner_function
from bot.config.settings import Settings
from bot.explain.explanation import describe_next_holidays
from bot.policy import rules
from bot.policy.approver_lists import MANAGER_OF_REQUESTER, list_fields_with_owners
from bot.policy.authority import LookupFailedError
from bot.policy.condition_values import Facts, SlackId
from bot.policy.evaluation import CurrentPolicy, Policy
from bot.policy.gates import Allow, Ask, Deny, GateAddOn
from bot.signals import Signals
from bot.slack.lookups import build_read_only_slack_client
from bot.toml_file import nearest_name_hint
from bot.tools import Effect, Registry, Tool
from storage.record import Store

MAX_NESTING_LEVELS = 5  # of a sample value
SAMPLE_SPENT_SUMS = (Decimal(0), Decimal(1), Decimal(7))  # some conditions divide by the sum
CURRENCY_FIELD = "currency"  # without it, an amount is meaningless
ToolsByName = dict[str, Tool[Any]]
_SAMPLE_TIME_BY_FORMAT: dict[str, Any] = {
    "date": date(2026, 1, 5),
    "date-time": datetime(2026, 1, 5, tzinfo=UTC),
    "time": "09:00:00",
}


def check_policy_rules(registered: Iterable[Tool[Any]], policy: Policy) -> Iterator[CheckResult]:
    """Yield checks that each rule fits a tool, and that its condition fits that tool's fields.

    Then come the checks of rules that let a tool change something without asking anybody.
    """
    tools = {each.name: each for each in registered}
    rule_problems = [
        each
        for rule, lines in zip(policy.rules, policy.lines, strict=True)
        for each in (*_check_rule(rule, tools, lines), *_check_owners(rule, tools, policy))
    ]
    rule_problems += _check_rules_behind_others(policy, tools)
    yield from rule_problems
    yield from _check_owner_functions(policy)
    if not rule_problems:
        yield CheckSubject("rules").confirm(f"each matches a tool; there are {len(tools)} tools")
    yield from _check_unasked_changes(policy, tools)
    for ask in (each for each in policy.asks() if each.break_glass == each.approvers):
        yield build_rule_subject(ask.rule).warn(*NO_REVIEWER_FINDING)


def _check_unasked_changes(policy: Policy, tools: ToolsByName) -> Iterator[CheckResult]:
    """Yield a check of each rule that lets tools change something without asking anybody.

    It is a warning if one of these tools is not named in the rule.
    """
    for index, rule in enumerate(policy.rules):
        if not isinstance(rule.gate, Allow):
            continue
        names = sorted(
            name
            for name, each in tools.items()
            if each.does is not Effect.READ
            and rule.can_match(name, each.does, each.risk)
            and not any(
                _is_unasked_run_prevented(policy, at, index, each)
                for at in range(len(policy.rules))
            )
        )
        about, text = build_rule_subject(rule.name), "these changes run without approval"
        if any(name not in rule.tools for name in names):
            remedy = 'Name the tools that are meant, or say effect = "read"'
            yield about.warn(f"{text}: {', '.join(names)}", remedy)
        elif names:
            yield about.confirm(f"{text}, as the rule names them: {', '.join(names)}")


def _check_rules_behind_others(policy: Policy, tools: ToolsByName) -> Iterator[CheckResult]:
    """Yield a warning for each rule whose calls are all taken by rules before it."""
    for index, rule in enumerate(policy.rules):
        if isinstance(rule.gate, Deny | GateAddOn):  # these apply wherever they stand in the policy
            continue
        takers = [
            next((each for each in policy.rules[:index] if _takes_every_call(each, tool)), None)
            for tool in tools.values()
            if rule.can_match(tool.name, tool.does, tool.risk)
        ]
        # a pattern may also be meant for future tools
        covered_tools = {name for each in takers if each for name in each.tools}
        to_come = {each for each in rule.tools if set(each) & set("*?[")} - covered_tools
        if takers and all(takers) and (not to_come or "*" in covered_tools):
            names = " and ".join(dict.fromkeys(repr(each.name) for each in takers if each))
            text = f"never applies: every call that it is about already matches {names} above it"
            yield build_rule_subject(rule.name).warn(text, "Move it up, or remove one of them")


def _takes_every_call(rule: rules.Rule, tool: Tool[Any]) -> bool:
    """Return whether no later rule, except one that denies, decides about calls of a tool."""
    if rule.channels or rule.requesters or rule.when or isinstance(rule.gate, GateAddOn):
        return False
    passes = isinstance(rule.gate, Allow) and tool.needs_approval
    return rule.can_match(tool.name, tool.does, tool.risk) and not (
        passes and not rule.has_specific_pattern_for(tool.name)
    )


def _is_unasked_run_prevented(policy: Policy, at: int, index: int, tool: Tool[Any]) -> bool:
    """Return whether rule `at` keeps rule `index` from letting this tool run unasked.

    It does if it comes first and takes every call, or if it denies, or adds people to ask.
    """
    rule = policy.rules[at]
    if rule.channels or rule.requesters or rule.when:
        return False
    stricter = isinstance(rule.gate, Deny) or (
        isinstance(rule.gate, GateAddOn) and rule.gate.ask is not None
    )
    first = at < index and not isinstance(rule.gate, GateAddOn)
    return (first or stricter) and rule.can_match(tool.name, tool.does, tool.risk)


def check_freezes_and_business_hours(policy: Policy, now: datetime) -> Iterator[CheckResult]:
    """Yield a check of each freeze (a time of fewer changes), and of holidays in business hours.

    It is a warning if a freeze is over, or no holiday is left out.
    """
    calendar = policy.calendar
    for each in calendar.freezes if calendar else ():
        about = CheckSubject(f"freeze {each.name}")
        if each.ends <= now:
            text = f"ended {format_in_utc(each.ends)}"
            yield about.warn(text, "Remove it, or write its next dates")
        else:
            begins = "is in force" if each.starts <= now else f"from {format_in_utc(each.starts)}"
            yield about.confirm(f"{begins} until {format_in_utc(each.ends)}")
    all_hours = [gate.hours for gate in policy.asks()] + [calendar.hours if calendar else None]
    hours = next(filter(None, all_hours), None)
    if hours is None:
        return
    about = CheckSubject("business hours")
    if off := describe_next_holidays(hours, now):
        yield about.confirm(f"the next days off are {off}")
    else:
        remedy = 'List them under [hours], or name a calendar, such as calendar = "DE-BY"'
        yield about.warn("no holidays are listed for the next year", remedy)


def _check_rule(
    rule: rules.Rule, tools: ToolsByName, lines: Mapping[str, int]
) -> Iterator[CheckResult]:
    about = build_rule_subject(rule.name)
    refused = list(
        rules.list_tool_mismatches(
            rule, {each.name: frozenset(each.arguments.model_fields) for each in tools.values()}
        )
    )
    for key, wrong, remedy in refused:  # with these the bot does not start
        yield about.fail(f"{wrong} (line {lines[key]})", remedy[0].upper() + remedy[1:])
    named = [
        each
        for each in tools.values()
        if any(fnmatchcase(each.name, pattern) for pattern in rule.tools)
    ]
    for pattern in rules.list_unmatched_patterns(rule, tools) if named else ():
        remedy = "Correct the pattern, or remove it" + nearest_name_hint([pattern], tools)
        yield about.warn(f"its pattern {pattern} matches no tool", remedy)
    matching = [each for each in named if rule.can_match(each.name, each.does, each.risk)]
    if not named and any(key == "tool" for key, *_ in refused):
        return
    if not named:
        remedy = "Unless programs ask for it, correct the name, or remove the rule"
        remedy += nearest_name_hint(rule.tools, tools)
        yield about.warn(f"matches no tool ({', '.join(rule.tools)})", remedy)
    elif not matching:
        text = (
            f"matches no call: {', '.join(each.name for each in named)} have other effects or risks"
        )
        yield about.warn(text, "Correct effect or risk, or remove the rule")
    else:
        yield from _check_named_fields(rule, matching)
        yield from _check_rule_condition(rule, matching, tools)


def _check_rule_condition(
    rule: rules.Rule, matching: list[Tool[Any]], tools: ToolsByName
) -> Iterator[CheckResult]:
    if not rule.when:
        return
    about, condition = build_rule_subject(rule.name), rules.parse_cached_condition(rule.when)
    lacking = {
        each.name: sorted(condition.fields - set(each.arguments.model_fields)) for each in matching
    }
    blind = sorted({field for fields in lacking.values() for field in fields})
    if all(lacking.values()):
        near = nearest_name_hint(
            blind, {field for each in matching for field in each.arguments.model_fields}
        )
        text = (
            "its condition cannot be evaluated for any tool it is about: they lack"
            f" {', '.join(blind)}"
        )
        yield about.fail(
            text, "What cannot be evaluated is never allowed: correct the field" + near
        )
    else:
        unasked = {
            name: [f for f in fields if f not in condition.asked]
            for name, fields in lacking.items()
        }
        some = [f"{name} lacks {', '.join(fields)}" for name, fields in unasked.items() if fields]
        if some:
            remedy = f"Name the tools it is meant for, or ask has(args.{blind[0]}) first"
            yield about.warn(
                f"its condition cannot be evaluated for some tools: {'; '.join(some)}", remedy
            )
        else:
            yield from _check_condition_with_samples(rule, matching)
    yield from _check_mixed_currencies(rule, tools)


def _check_mixed_currencies(rule: rules.Rule, tools: ToolsByName) -> Iterator[CheckResult]:
    """Yield a warning for each sum of a rule that adds up amounts in different currencies."""
    for each in sorted(rules.parse_cached_condition(rule.when).spent):
        tool = tools.get(each.tool)
        there = tool.arguments.model_fields if tool else {}
        if each.field and CURRENCY_FIELD in there and CURRENCY_FIELD not in each.same:
            text = f"it sums {each.field} of {each.tool} across currencies"
            yield build_rule_subject(rule.name).warn(
                text, f'Add "same {CURRENCY_FIELD}" after the window'
            )


def _check_condition_with_samples(
    rule: rules.Rule, matching: list[Tool[Any]]
) -> Iterator[CheckResult]:
    """Yield a warning if the rule's condition raises an error with made-up values for every tool.

    Such a condition compares values of different kinds.
    """
    condition, problems = rules.parse_cached_condition(rule.when), []
    for each in matching:
        for spent in SAMPLE_SPENT_SUMS:
            try:
                condition.is_true_for(_build_sample_facts(rule, each, spent))
            except ValueError as error:
                problems.append(str(error))
            else:
                return
    text = f"its condition {problems[0]} (tried with made-up values for every tool it is about)"
    yield build_rule_subject(rule.name).warn(text, "Check that it compares values of the same kind")


def _build_sample_facts(rule: rules.Rule, tool: Tool[Any], spent: Decimal) -> Facts:
    """Return made-up facts about a call of this tool, with everything that the rule looks up."""
    condition = rules.parse_cached_condition(rule.when)
    schema = tool.arguments.model_json_schema(by_alias=False)
    return Facts(
        tool=tool.name,
        effect=tool.does,
        risk=tool.risk,
        requester=SlackId("U0"),
        channel=SlackId("C0"),
        now=_SAMPLE_TIME_BY_FORMAT["date-time"],
        args=_build_sample_value(schema, schema),
        freezes=dict.fromkeys(condition.freezes, False),
        in_freeze=False,
        in_business_hours=False,
        groups=dict.fromkeys(condition.groups, frozenset[str]()),
        channels=dict.fromkeys((f"#{each}" for each in condition.channels), "C0"),
        people=dict.fromkeys(condition.people, "U0"),
        spent=dict.fromkeys(condition.spent, spent),
    )


def _build_sample_value(field: dict[str, Any], schema: dict[str, Any], depth: int = 0) -> Any:
    """Return a made-up value for the JSON schema `field`; of several types, the first but null.

    What is nested more than MAX_NESTING_LEVELS levels deep is None, as a schema may contain itself.
    """
    if depth > MAX_NESTING_LEVELS:
        return None
    make = partial(_build_sample_value, schema=schema, depth=depth + 1)
    if "$ref" in field:
        return make(schema["$defs"][field["$ref"].rpartition("/")[2]])
    for options in ("anyOf", "oneOf", "allOf"):
        if options in field:
            return make(next((each for each in field[options] if each.get("type") != "null"), {}))
    if "enum" in field or "const" in field:
        return field.get("enum", [field.get("const")])[0]
    match field.get("type"):
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return [make(field.get("items", {}))]
        case "object":
            return {name: make(each) for name, each in field.get("properties", {}).items()}
    # a text that may be an id, since nobody knows whether the field holds ids or names
    return _SAMPLE_TIME_BY_FORMAT.get(field.get("format", ""), "TEXT")


def _check_named_fields(rule: rules.Rule, matching: list[Tool[Any]]) -> Iterator[CheckResult]:
    """Yield a warning for each field that a rule's editable or remember names, and no tool has."""
    if not isinstance(rule.gate, Ask | GateAddOn):
        return
    there = {field for each in matching for field in each.arguments.model_fields}
    offers = rule.gate.remember if isinstance(rule.gate, Ask) else ()
    offered = (field for offer in offers for field in offer.fields or ())
    for field in sorted({*(rule.gate.editable or ()), *offered} - there):
        text = f"it names the field {field}, which no tool it is about has"
        yield build_rule_subject(rule.name).warn(
            text, "Correct it" + nearest_name_hint([field], there)
        )


def _check_owners(rule: rules.Rule, tools: ToolsByName, policy: Policy) -> Iterator[CheckResult]:
    """Yield a problem where a rule asks the owner of a field that a tool lacks or nobody owns."""
    for field in set(list_fields_with_owners(rule.gate)) - {MANAGER_OF_REQUESTER}:
        for tool in tools.values():
            if not rule.can_match(tool.name, tool.does, tool.risk):
                continue
            about, fields = build_rule_subject(rule.name), tool.arguments.model_fields
            if field not in fields:
                text = f"it asks the owner of args.{field}, which {tool.name} lacks"
                remedy = "Nobody could decide: correct the field, or name the tools that have it"
                yield about.fail(text, remedy + nearest_name_hint([field], fields))
                continue
            schema = tool.arguments.model_json_schema(by_alias=False)
            own = schema.get("properties", {}).get(field, {})
            own = schema["$defs"][own["$ref"].rpartition("/")[2]] if "$ref" in own else own
            choices = () if field in policy.owner_functions else own.get("enum", ())
            if nobodys := sorted(str(e) for e in choices if str(e) not in policy.owners[field]):
                text = f"nobody owns {', '.join(nobodys)}, a possible {field} of {tool.name}"
                remedy = f"Nobody could decide about them: name owners in [owners.{field}]"
                yield about.warn(text, remedy)


def _check_owner_functions(policy: Policy) -> Iterator[CheckResult]:
    """Yield a check that each function which finds owners can be imported."""
    for field in sorted(policy.owner_functions.keys() - {MANAGER_OF_REQUESTER}):
        name = policy.owner_functions[field]
        try:
            import_owner_function(name)
        except LookupFailedError as error:
            remedy = (
                "Values that the table does not name have no owner: install the function,"
                " or correct its name"
            )
            yield CheckSubject(f"owners of {field}").fail(str(error), remedy)
        else:
            yield CheckSubject(f"owners of {field}").confirm(f"{name} is installed")


log = logging.getLogger("countersign.setup")
FIRST_CHECK_DELAY_SECONDS = 1.0  # leaves time for other work at a start
RECHECK_INTERVAL_SECONDS = 600.0  # while there are problems


class SetupInspector:
    """The thread that checks the setup of a running bot; one per process."""

    def __init__(
        self,
        settings: Settings,
        policy: CurrentPolicy,
        tools: Registry,
        store: Store,
        clock: Clock,
        signals: Signals,
    ) -> None:
        """Prepare the thread; `signals.policy` tells it that another policy is in force."""
        self._settings, self._policy, self._tools = settings, policy, tools
        self._store, self._clock, self._signals = store, clock, signals
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._client = build_read_only_slack_client(
            settings.slack_bot_token.get_secret_value(), settings.slack_api_url, signals.tracer
        )

    def start(self) -> None:
        """Start a thread that soon begins to check the setup."""
        self._thread = threading.Thread(
            target=self._run_until_stopped, name="inspection", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Make no more checks; a check under way is not waited for."""
        self._ended.set()
        self._signals.policy.notify()
        self._client.close()

    def _run_until_stopped(self) -> None:
        already_logged: frozenset[str] = frozenset()
        self._ended.wait(FIRST_CHECK_DELAY_SECONDS)
        while not self._ended.is_set():
            changed = self._signals.policy
            changed.clear()
            try:
                problems = self.find_setup_problems()
            except Exception:
                log.exception("the setup could not be checked")
                problems = []
            if self._ended.is_set():
                return
            already_logged = self._log_new_findings(problems, already_logged)
            changed.wait(RECHECK_INTERVAL_SECONDS if problems else None)
            if changed.is_set():
                already_logged = frozenset()  # after a change of policy, everything is logged again

    def find_setup_problems(self) -> list[CheckResult]:
        """Make all checks of the setup; return the results that are warnings or failures."""
        return [each for each in self._run_all_checks() if each.level is not CheckLevel.OK]

    def _log_new_findings(self, found: list[CheckResult], known: frozenset[str]) -> frozenset[str]:
        """Log the problems not in `known`, and report how many there are; return all as lines."""
        lines = [" ".join(str(each).split()) for each in found]
        for line in lines:
            if line not in known:
                log.warning("the setup: %s", line)
        if not lines:
            log.info("the setup: no problems")
        levels = [each.level for each in found]
        counts: Mapping[str, int] = {
            each: levels.count(each) for each in (CheckLevel.FAIL, CheckLevel.WARN)
        }
        self._signals.tracer.report_setup_problems(counts)
        return frozenset(lines)

    def _run_all_checks(self) -> Iterator[CheckResult]:
        from bot.checks import people_checks, slack

        settings, policy, now = self._settings, self._policy.policy, self._clock.now()
        found = slack.sign_in_to_slack(self._client, self._clock, settings.workspace)
        if isinstance(found, CheckResult):
            yield found
        else:
            with closing(found.workspace.directory):
                yield from people_checks.check_workspace(found, settings, policy, self._store, now)
        yield from check_policy_rules(self._tools, policy)
        yield from people_checks.check_signing_setup(settings, policy)
        yield from check_freezes_and_business_hours(policy, now)
