"""The looks at the policy's rules beside the tools there are and the calls on record.

They need no Slack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from bot.approvals.forms.templates import misfitting
from bot.cli.doctor.check import Check, fail, ok, warn
from bot.cli.readonly.directory import NotLookedUp
from bot.config.settings import Settings
from bot.explain.gate_words import days_off_in_words
from bot.policy.conditions.facts import Facts
from bot.policy.evaluate import Policy
from bot.policy.gates import Addition, Ask
from bot.policy.rules import Rule, condition, fitting_none, unfit
from bot.toml_file import meant
from bot.toolbox import ToolsError, toolbox
from bot.tools import Registry, Tool

DEEPEST = 5  # levels of a made-up value
CURRENCY = "currency"  # what a field is called that amounts mean nothing without
Tools = dict[str, Tool[Any]]
_MOMENTS: dict[str, Any] = {
    "date": date(2026, 1, 5),
    "date-time": datetime(2026, 1, 5, tzinfo=UTC),
    "time": "09:00:00",
}


def check_rules(settings: Settings, policy: Policy) -> Iterator[Check]:
    """Whether each rule is about a tool there is, and its condition about fields that tool has."""
    try:
        tools = {
            each.name: each
            for each in toolbox(settings, None, NotLookedUp("rules are compared without Slack"))
        }
    except ToolsError as error:
        yield warn(
            "rules",
            f"not compared with the tools: {error}",
            "Correct what is wrong with them first",
        )
        return
    found = [
        each
        for rule, lines in zip(policy.rules, policy.lines, strict=True)
        for each in _rule(rule, tools, lines)
    ]
    wrong = misfitting(policy, Registry(tools))
    found += [fail("templates", each, "Countersign does not start with it") for each in wrong]
    yield from found
    if not found:
        yield ok("rules", f"each fits a tool; there are {len(tools)} tools")


def check_hours(policy: Policy, now: datetime) -> Iterator[Check]:
    """Whether the holidays that business hours leave out are kept up."""
    hours = next((gate.hours for gate in policy.asks() if gate.hours), None)
    if hours is None:
        return
    if off := days_off_in_words(hours, now):
        yield ok("business hours", f"the next days off are {off}")
    else:
        remedy = 'List them under [hours], or name whose they are, as in calendar = "DE-BY"'
        yield warn("business hours", "no holiday within a year is left out", remedy)


def _rule(rule: Rule, tools: Tools, lines: Mapping[str, int]) -> Iterator[Check]:
    about = f"rule {rule.name!r}"
    refused = list(
        unfit(rule, {each.name: frozenset(each.arguments.model_fields) for each in tools.values()})
    )
    for key, wrong, remedy in refused:  # the bot does not start with these
        yield fail(about, f"{wrong} (line {lines[key]})", remedy[0].upper() + remedy[1:])
    named = [
        each
        for each in tools.values()
        if any(fnmatchcase(each.name, pattern) for pattern in rule.tools)
    ]
    for pattern in fitting_none(rule, tools) if named else ():
        remedy = "Correct the pattern, or remove it" + meant([pattern], tools)
        yield warn(about, f"its pattern {pattern} fits no tool there is", remedy)
    matching = [each for each in named if rule.is_about(each.name, each.does, each.risk)]
    if not named and any(key == "tool" for key, *_ in refused):
        return
    if not named:
        remedy = "Correct the name, or remove the rule" + meant(rule.tools, tools)
        yield warn(about, f"fits no tool there is ({', '.join(rule.tools)})", remedy)
    elif not matching:
        text = f"fits no call: {', '.join(each.name for each in named)} have other effects or risks"
        yield warn(about, text, "Correct effect or risk, or remove the rule")
    else:
        yield from _fields(rule, matching)
        yield from _condition(rule, matching, tools)


def _condition(rule: Rule, matching: list[Tool[Any]], tools: Tools) -> Iterator[Check]:
    if not rule.when:
        return
    about, told = f"rule {rule.name!r}", condition(rule.when)
    lacking = {
        each.name: sorted(told.fields - set(each.arguments.model_fields)) for each in matching
    }
    blind = sorted({field for fields in lacking.values() for field in fields})
    if all(lacking.values()):
        near = meant(blind, {field for each in matching for field in each.arguments.model_fields})
        text = f"its condition can be told of no tool it is about: they lack {', '.join(blind)}"
        yield fail(about, text, "What cannot be told is never allowed: correct the field" + near)
    else:
        unasked = {
            name: [f for f in fields if f not in told.asked] for name, fields in lacking.items()
        }
        some = [f"{name} lacks {', '.join(fields)}" for name, fields in unasked.items() if fields]
        if some:
            remedy = f"Name the tools it is meant for, or ask has(args.{blind[0]}) first"
            yield warn(
                about,
                f"its condition cannot be told of some tools: {'; '.join(some)}",
                remedy,
            )
        else:
            yield from _tried(rule, matching)
    yield from _mixed(rule, tools)


def _mixed(rule: Rule, tools: Tools) -> Iterator[Check]:
    """Sums that add up amounts of several currencies."""
    for each in sorted(condition(rule.when).spent):
        tool = tools.get(each.tool)
        there = tool.arguments.model_fields if tool else {}
        if each.field and CURRENCY in there and CURRENCY not in each.same:
            text = f"it adds up {each.field} of {each.tool} in whatever currency"
            yield warn(f"rule {rule.name!r}", text, f'Add "same {CURRENCY}" after the window')


def _tried(rule: Rule, matching: list[Tool[Any]]) -> Iterator[Check]:
    """Tell the condition with made-up values of the right kinds.

    Where that never works, kinds are mixed up.
    """
    told, problems = condition(rule.when), []
    for each in matching:
        schema = each.arguments.model_json_schema(by_alias=False)
        facts = Facts(
            tool=each.name,
            effect=each.does,
            risk=each.risk,
            requester="U0",
            channel="C0",
            now=_MOMENTS["date-time"],
            args=_sample(schema, schema),
            groups=dict.fromkeys(told.groups, frozenset[str]()),
            spent=dict.fromkeys(told.spent, Decimal(1)),
        )
        try:
            told.holds(facts)
        except ValueError as error:
            problems.append(str(error))
        else:
            return
    text = f"its condition {problems[0]} (tried with made-up values for every tool it is about)"
    yield warn(f"rule {rule.name!r}", text, "See whether it compares things of one kind")


def _sample(field: dict[str, Any], schema: dict[str, Any], depth: int = 0) -> Any:
    """A value such as the JSON schema describes; the first kind that is not null.

    What contains itself ends.
    """
    if depth > DEEPEST:
        return None
    make = partial(_sample, schema=schema, depth=depth + 1)
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
    return _MOMENTS.get(field.get("format", ""), "text")


def _fields(rule: Rule, matching: list[Tool[Any]]) -> Iterator[Check]:
    """Fields that may be edited or remembered, and that no tool of the rule has."""
    if not isinstance(rule.gate, Ask | Addition):
        return
    there = {field for each in matching for field in each.arguments.model_fields}
    offers = rule.gate.remember if isinstance(rule.gate, Ask) else ()
    offered = (field for offer in offers for field in offer.fields or ())
    for field in sorted({*(rule.gate.editable or ()), *offered} - there):
        text = f"it names the field {field}, which no tool it is about has"
        yield warn(f"rule {rule.name!r}", text, "Correct it" + meant([field], there))
