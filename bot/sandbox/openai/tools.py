"""The tools of a request as the stand-in planner sees them, and which of them a person's words call
for.

It reads names, descriptions and JSON schemas; it may not know any tool by heart beyond common
English verbs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from bot.sandbox.openai import words as words

REASON_FIELD = "reason_for_approver"
# What people say for what tools are called: first word of a tool's name -> phrases.
VERBS: dict[str, str] = {
    "refund": r"refund|reimburse|pay back|give .{1,60}? back|give back|money back|credit|compensate",
    "look": r"look up|look at|lookup|look|show|get|find|check|fetch|see|tell me|what|where|how|details|status|who",
    "get": r"get|show|look up|find|check|fetch|see|tell me|what|read|display",
    "search": r"search|find|list|show|which|look for|look up|any|all|what|how many|give me|get",
    "list": r"list|show|which|what|who|give me|tell me|get|see",
    "find": r"find|search|look for|look up|show|which",
    "change": r"change|update|correct|edit|modify|fix|redirect|set|move|replace|adjust",
    "update": r"update|change|correct|edit|modify|set|adjust",
    "cancel": r"cancel|call off|void|annul|stop",
    "post": r"post|say|tell(?! me)|send(?! me)|write|announce|message|inform|let|notify|share|ask|ping",
    "send": r"send(?! me)|post|tell(?! me)|write|message|notify|e-?mail|mail",
    "create": r"create|make|open|start|set up|new|add|build",
    "invite": r"invite|add|bring|pull in|get",
    "set": r"set|change|update|make|put",
    "schedule": r"schedule|plan|remind|post|send(?! me)|say|tell(?! me)|announce|message",
    "restart": r"restart|reboot|bounce|reload|cycle",
    "delete": r"delete|remove|drop|erase|get rid of",
    "remove": r"remove|delete|drop|kick|take out",
    "add": r"add|create|put|insert|append",
    "start": r"start|launch|begin|boot|run",
    "stop": r"stop|halt|shut down|end|kill",
    "run": r"run|execute|start|trigger|kick off",
    "deploy": r"deploy|roll out|release|ship|push",
    "scale": r"scale|resize",
    "approve": r"approve|accept",
}
# These verbs say little by themselves: the thing they act on must be named as well.
BROAD = {
    "look",
    "get",
    "search",
    "list",
    "find",
    "change",
    "update",
    "create",
    "set",
    "delete",
    "remove",
    "add",
}
BROAD |= {"start", "stop", "run", "approve", "scale"}
READING = {
    "look",
    "get",
    "search",
    "list",
    "find",
    "read",
    "check",
    "show",
    "fetch",
    "count",
    "describe",
}
Schema = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One function tool of the request."""

    name: str
    description: str
    schema: Schema = field(repr=False)

    @cached_property
    def verb(self) -> str:
        """The first word of its name."""
        return re.split(r"[_-]", self.name.lower())[0]

    @cached_property
    def objects(self) -> list[str]:
        """What it acts on: the other words of its name, in the singular."""
        rest = re.split(r"[_-]", self.name.lower())[1:]
        return [
            re.sub(r"s$", "", word)
            for word in rest
            if word not in ("up", "a", "the", "of", "by", "for", "to")
        ]

    @cached_property
    def phrases(self) -> re.Pattern[str]:
        """What people say when they mean its verb."""
        return re.compile(
            rf"\b(?:{VERBS.get(self.verb, re.escape(self.verb))})(?:s|es|d|ed|ing)?\b", re.I
        )

    @cached_property
    def properties(self) -> dict[str, Schema]:
        """Its arguments by name, references and optional types resolved."""
        return {
            name: resolve(each, self.schema)
            for name, each in self.schema.get("properties", {}).items()
        }

    @cached_property
    def required(self) -> list[str]:
        """The arguments it cannot do without."""
        return [name for name in self.schema.get("required", []) if name != REASON_FIELD]

    @property
    def reads(self) -> bool:
        """Whether it seems only to look: no reason for an approver in its schema, and a verb of
        looking.
        """
        return self.verb in READING and REASON_FIELD not in self.properties

    @cached_property
    def id_field(self) -> str | None:
        """The whole number that says which thing is meant, if it has one."""
        names = [name for name, each in self.properties.items() if kind(each) == "integer"]
        return next(
            (name for name in names if name == "id" or name.endswith(("_id", "_number", "_no"))),
            None,
        )

    @cached_property
    def nouns(self) -> list[str]:
        """The words in front of an id that this tool takes."""
        own = re.sub(r"_?(id|number|no)$", "", self.id_field or "").replace("_", " ")
        return [own] if own else self.objects

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ").replace("-", " ")


def tools_of(body: dict[str, Any]) -> list[Tool]:
    """The function tools of a request."""
    if body.get("tool_choice") == "none":
        return []
    return [
        Tool(each["name"], each.get("description") or "", each.get("parameters") or {})
        for each in body.get("tools") or []
    ]


def resolve(schema: Any, root: Schema) -> Schema:
    """A schema with its $ref followed and the null of an optional taken away.

    Numbers in several forms are one.
    """
    if not isinstance(schema, dict):
        return {}
    if reference := schema.get("$ref"):
        target: Any = root
        for step in str(reference).removeprefix("#/").split("/"):
            target = target.get(step, {})
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    choices = [
        resolve(each, root)
        for each in schema.get("anyOf", schema.get("oneOf", schema.get("allOf", [])))
    ]
    real = [each for each in choices if each.get("type") != "null"]
    if not real:
        return dict(schema)
    merged = {
        **real[0],
        **{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf")},
    }
    types = {each.get("type") for each in real}
    if types == {"number", "string"}:
        merged["type"], merged["textual"] = "number", True
    return merged


def kind(schema: Schema) -> str:
    """The JSON type, or enum, date-time, date, email or uri where that says more."""
    if "enum" in schema or "const" in schema:
        return "enum"
    declared = schema.get("type", "string")
    if isinstance(declared, list):
        declared = next((each for each in declared if each != "null"), "string")
    said = schema.get("format") if declared == "string" else None
    return str(said if said in ("date-time", "date", "email", "uri") else declared)


def has_address(tool: Tool) -> bool:
    """Whether it takes a postal address."""
    return any(
        {"street", "city"} <= set(each.get("properties", {})) for each in tool.properties.values()
    )


def begins_action(tools: list[Tool], text: str) -> bool:
    """Whether the text begins with a word that stands for one of the tools' verbs."""
    return any(tool.phrases.match(text) for tool in tools)


def score(tool: Tool, clause: str) -> float:
    """How well a clause (quotes masked) calls for the tool; from 3 on it is worth a plan."""
    text = words.FILLER.sub("", clause)
    head = words.SAYING.split(text, maxsplit=1)[0]
    verb = tool.phrases.search(head)
    named = sum(
        1 for each in tool.objects if re.search(rf"\b{re.escape(each)}(?:e?s)?\b", head, re.I)
    )
    points = 2.0 * named
    if verb:
        points += 3 if verb.start() == 0 else 1.5
        # the tool's own word beats a word that merely can mean it
        points += 0.5 if re.match(re.escape(tool.verb), verb[0], re.I) else 0
    placed = has_address(tool) and bool(words.address(head))
    if tool.verb in BROAD and tool.objects and not (named or placed):
        points -= 2
    if tool.id_field:
        points += 1 if words.numbers(head, tool.nouns)[0] else -0.4
    if "channel" in tool.properties and words.channels(head):
        points += 1
    if has_address(tool):
        points += 3 if placed else -1
    if any(
        kind(each) == "date-time" and name in tool.required
        for name, each in tool.properties.items()
    ):
        points += 1.5 if words.moment(head, datetime.now(UTC)) else -2
    return points if verb or placed else 0


def pick(tools: list[Tool], clause: str, *, bare: bool = True) -> Tool | None:
    """The tool a clause calls for, or None.

    `bare`: a few words with an id in them ask to look at it.
    """
    ranked = sorted(tools, key=lambda tool: -score(tool, clause))
    if ranked and score(ranked[0], clause) >= 3:
        return ranked[0]
    if bare and len(clause.split()) <= 4:
        looks = (tool for tool in tools if tool.reads and tool.id_field)
        return next((tool for tool in looks if words.numbers(clause, tool.nouns)[0]), None)
    return None
