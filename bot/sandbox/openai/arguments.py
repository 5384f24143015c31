"""Arguments for a tool out of a person's words, led by the names, types, enums and formats of its
JSON schema.

It guesses only what a reader of the request would guess; what the words do not say is reported as
missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.sandbox.openai import words as words
from bot.sandbox.openai.tools import REASON_FIELD, Schema, Tool, has_address, kind

MISSING: Any = object()
MESSAGE_FIELDS = {"text", "message", "body", "content"}
PEOPLE_FIELDS = {
    "people",
    "users",
    "members",
    "person",
    "user",
    "names",
    "invitees",
    "assignee",
    "assignees",
}
# What people say -> words that enum values of that meaning contain.
SENSES = {
    "damaged": r"broken|damag\w+|crack\w+|defect\w*|smash\w+|torn|faulty|scratch\w+|bent|shattered|leak\w+",
    "wrong": r"wrong|mistake\w*|mixed up|not what|different item",
    "late": r"late|delay\w*|too slow|never (?:arrived|came)|overdue",
    "goodwill": r"goodwill|gesture|apolog\w+|sorry|kindness|courtesy|annoyed|unhappy",
}
BECAUSE = re.compile(
    r"(?:\b(?:because|since|due to|reason(?:\s+is|:)?|as(?=\s+(?:it|the|he|she|they|we|this|that|customer)\b))\s*"
    r"|[,.!?–—]\s+|\s-\s)(?!please|thanks|thank|and\s|don't|do not|without)(.{3,}?)"
    r"(?:,?\s+(?:and\s+)?(?:don't|don’t|do not|please|without|thanks)\b.*)?$",
    re.I | re.S,
)


@dataclass(frozen=True)
class Clause:
    """One order within a request, with what is known around it."""

    text: str  # quotes masked
    masked: words.Masked
    request: str  # the whole request, for enums and reasons
    now: datetime
    known: Mapping[str, Any] = field(default_factory=dict)  # values of earlier calls it may lean on
    news: str = ""  # what an earlier step of the same plan did, as a sentence
    facts: Mapping[int, str] = field(default_factory=dict)  # an amount looked up, by id
    guess: bool = True  # False: only what is said, for corrections

    @property
    def head(self) -> str:
        """The order itself, without the message it carries."""
        return words.SAYING.split(self.text, maxsplit=1)[0]


def fill(tool: Tool, clause: Clause) -> tuple[list[dict[str, Any]], list[str]]:
    """(one set of arguments for each thing that is meant, the required arguments nobody named)."""
    ids, numbers = words.numbers(_without_address(tool, clause.text), tool.nouns or ["order"])
    if not tool.id_field:
        numbers, ids = [*map(str, ids), *numbers], []
    amounts = words.money(clause.text) or [words.decimal_text(each) for each in numbers]
    if tool.id_field and not ids and tool.id_field in clause.known:
        ids = [int(clause.known[tool.id_field])]
    sets, missing = [], []
    for index, number in enumerate(ids or [None]):
        amount = (
            amounts[index if len(amounts) == len(ids) else 0]
            if amounts
            else clause.facts.get(number or 0)
        )
        values: dict[str, Any] = {}
        for name, schema in tool.properties.items():
            if name == tool.id_field:
                value = MISSING if number is None else number
            elif name == REASON_FIELD:
                value = why(clause, schema, looked_up=not amounts and amount is not None)
            elif kind(schema) == "number":
                value = _number(schema, amount)
            else:
                value = _value(tool, name, schema, clause)
            if value is not MISSING:
                values[name] = value
        sets.append(values)
        missing += [name for name in tool.required if name not in values and name not in missing]
        missing += [
            f"{name}.{inner}"
            for name in values
            for inner in _gaps(tool.properties[name], values[name])
        ]
    return sets, list(dict.fromkeys(missing))


def _without_address(tool: Tool, text: str) -> str:
    """The text without the postal address in it, whose numbers are no ids."""
    tail = words.address_tail(text) if has_address(tool) and words.address(text) else ""
    return text.removesuffix(tail) if tail else text


def why(clause: Clause, schema: Schema, *, looked_up: bool = False) -> str:
    """The reason for the approver, in the first person, out of the request."""
    limit = int(schema.get("maxLength", 500))
    tail = " The amount is what I found on the order." if looked_up else ""
    said = " ".join(clause.request.split())
    room = limit - len(tail) - len("I was asked: “”.")
    return f"I was asked: “{said if len(said) <= room else said[: room - 1] + '…'}”.{tail}"[:limit]


def _number(schema: Schema, amount: str | None) -> Any:
    if amount is None or Decimal(amount) <= 0:
        return (
            schema["default"] if amount is None and schema.get("default") is not None else MISSING
        )
    return (
        amount
        if schema.get("textual")
        else float(amount)
        if "." in amount.rstrip("0").rstrip(".")
        else int(Decimal(amount))
    )


def _gaps(schema: Schema, value: Any) -> list[str]:
    """Required members a nested object lacks."""
    return (
        [name for name in schema.get("required", []) if name not in value]
        if isinstance(value, dict)
        else []
    )


def _value(tool: Tool, name: str, schema: Schema, clause: Clause) -> Any:
    match kind(schema):
        case "enum":
            return _enum(name, schema, clause, name in tool.required)
        case "boolean":
            return _boolean(name, schema, clause)
        case "integer":
            return _integer(name, clause, name in tool.required)
        case "object":
            return words.address(clause.text) or MISSING
        case "array":
            return _people(tool, clause) or clause.masked.quoted(clause.text) or MISSING
        case "date-time":
            found = words.moment(clause.head, clause.now) or words.moment(clause.text, clause.now)
            return found.isoformat().replace("+00:00", "Z") if found else MISSING
        case "date":
            found = words.moment(clause.head, clause.now)
            return found.date().isoformat() if found else MISSING
        case "email":
            return _first(r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)", clause.text)
        case "uri":
            return _first(r"<?(https?://[^\s>|]+)", clause.text)
        case _:
            return _string(tool, name, clause)


def _enum(name: str, schema: Schema, clause: Clause, required: bool) -> Any:
    choices = [str(each) for each in schema.get("enum", [schema.get("const")])]
    said = clause.text if not clause.guess else f"{clause.text}\n{clause.request}"
    for choice in choices:
        if re.search(rf"\b{re.escape(choice).replace('_', '[ _-]')}\b", said, re.I):
            return choice
    for sense, phrases in SENSES.items():
        choice = next((each for each in choices if sense in each.lower()), "")
        if choice and re.search(rf"\b(?:{phrases})\b", said, re.I):
            return choice
    if "default" in schema or not required or not clause.guess:
        return schema["default"] if clause.guess and schema.get("default") is not None else MISSING
    return "other" if "other" in choices else clause.known.get(name, MISSING)


def _boolean(name: str, schema: Schema, clause: Clause) -> Any:
    said = clause.request if clause.guess else clause.text
    cue = rf"{re.escape(name.split('_')[-1][:6])}\w*"
    if "customer" in str(schema).lower():
        cue += f"|{words.TO_CUSTOMER.pattern}"
    if re.search(
        rf"\b(?:without|don't|don’t|do not|not|no|never)\s+(?:to\s+|any\s+)?(?:{cue})", said, re.I
    ):
        return False
    if re.search(rf"\b(?:{cue})", said, re.I):
        return True
    return schema.get("default", False) if clause.guess else MISSING


def _integer(name: str, clause: Clause, required: bool) -> Any:
    cue = re.escape(name.split("_")[-1])
    near = re.search(
        rf"\b(?:{cue}|top|first|last|latest|newest|at most|up to)\s*(?:to|of|is|=|:)?\s*(\d+)\b",
        clause.text,
        re.I,
    )
    near = near or re.search(rf"\b(\d+)\s+{cue}", clause.text, re.I)
    if near:
        return int(near[1])
    bare = re.findall(r"(?<![\w.,#:-])(\d+)(?![\w.:-])", clause.text) if required else []
    return int(bare[0]) if bare else MISSING


def _people(tool: Tool, clause: Clause) -> list[str]:
    verb = tool.phrases.search(clause.head)
    return words.people(clause.head[verb.end() :]) if verb else []


def _string(tool: Tool, name: str, clause: Clause) -> Any:
    quotes = clause.masked.quoted(clause.text)
    if name == "channel" or name.endswith("_channel"):
        return _channel(clause)
    if name in MESSAGE_FIELDS:
        return _message(tool, clause, quotes)
    if name in PEOPLE_FIELDS:
        return next(iter(_people(tool, clause)), MISSING)
    if name == "reason":
        return _reason(clause)
    if name in ("note", "comment"):
        return _plain(clause, _first(rf"\b{name}\s*(?:is|:|saying|that)?\s*(.+)$", clause.text))
    if name in ("customer", "query", "client"):
        return _first(
            r"\b(?:of|for|by|from|customer|named|called)\s+(?!the\b|all\b|order)([^\W\d][\w.@+'-]*(?:\s[A-Z][\w'-]*)*)",
            clause.text,
        )
    if quotes:
        return quotes[0]
    if name == "name":
        return _name(tool, clause)
    said = _first(
        rf"\b{re.escape(name)}\b[^\x00]*?(?:\bto\b|\bas\b|\bis\b|=|:)\s*(.+)$", clause.text
    )
    if said is not MISSING:
        return _plain(clause, said)
    return _identifier(tool, name, clause)


def _channel(clause: Clause) -> Any:
    if found := words.channels(clause.head) or words.channels(clause.text):
        return found[0]
    said = _first(r"\b(?:in|to|on|into)\s+(?:the\s+)?([a-z0-9][\w-]+)\s+channel\b", clause.head)
    said = (
        said
        if said is not MISSING
        else _first(r"\bchannel\s+(?!to\b|with\b|and\b|topic\b)([a-z0-9][\w-]+)", clause.head)
    )
    said = (
        said
        if said is not MISSING
        else _first(
            r"\b(?:in|to|on|into|of)\s+([a-z][\w]*-[\w-]+|general|random|support)\b", clause.head
        )
    )
    if said is not MISSING:
        return f"#{said}"
    if "channel" in clause.known:
        return clause.known["channel"]
    return f"#{clause.known['name']}" if "name" in clause.known else MISSING


def _message(tool: Tool, clause: Clause, quotes: list[str]) -> Any:
    if quotes:
        return quotes[0]
    parts = words.SAYING.split(clause.text, maxsplit=1)
    if len(parts) == 2 and parts[1].strip():
        return parts[1].strip(" ,\n")
    rest = words.FILLER.sub("", clause.text)
    verb = tool.phrases.search(rest)
    rest = rest[verb.end() :] if verb else rest
    rest = re.sub(r"\b(?:in|to|on|into)\s+(?=<#|#)", "", rest)
    rest = words.CHANNEL.sub(" ", rest)
    rest = re.sub(
        r"\b(?:in|to|on)\s+the\s+[\w-]+\s+channel\b|\b(?:a|the)?\s*message\b|\bknow\b|\bplease\b",
        " ",
        rest,
    )
    rest = rest.strip(" .,:")
    if clause.news and (
        not rest or re.fullmatch(r"(?:about|of)?\s*(?:it|this|that|so|the (?:news|result))", rest)
    ):
        return clause.news
    return rest if rest and clause.guess else MISSING


def _reason(clause: Clause) -> Any:
    said = BECAUSE.search(clause.masked.plain(clause.text))
    if said:
        text = said[1].strip(" ,.\n")
        return (text[:1].upper() + text[1:])[:300]
    return f"As asked: {' '.join(clause.request.split())}"[:300] if clause.guess else MISSING


def _name(tool: Tool, clause: Clause) -> Any:
    if found := words.channels(clause.text):
        return found[0].removeprefix("#")
    said = _first(r"\b(?:called|named|name)\s+([\w.-]*\w)", clause.text)
    nouns = "|".join(map(re.escape, tool.objects)) or "name"
    return (
        said
        if said is not MISSING
        else _first(rf"\b(?:{nouns})\s+(?!for\b|with\b|in\b)([\w.-]*\w)", clause.text)
    )


def _identifier(tool: Tool, name: str, clause: Clause) -> Any:
    """A word like a service's name: beside the argument's own name, or what follows the verb."""
    word = re.escape(name.replace("_", " "))
    for pattern in (
        rf"\bthe\s+([\w./-]*\w)\s+{word}\b",
        rf"\b{word}\s+([\w./-]*\w)",
        rf"\b([\w./-]*\w)\s+{word}\b",
    ):
        said = _first(pattern, clause.text)
        if said is not MISSING and not tool.phrases.fullmatch(said):
            return said
    if name not in tool.required or not clause.guess:
        return clause.known.get(name, MISSING)
    verb = tool.phrases.search(clause.text)
    rest = clause.text[verb.end() :] if verb else ""
    return _first(r"^\s*(?:(?:the|a|an|our|my)\s+)?(?!(?:it|this|that)\b)([\w./-]*\w)", rest)


def _first(pattern: str, text: str) -> Any:
    found = re.search(pattern, text, re.I if "A-Z" not in pattern else 0)
    return found[1].strip(" ,.") if found else MISSING


def _plain(clause: Clause, said: Any) -> Any:
    """The quotation where what was said is or holds one, else the words themselves."""
    if said is MISSING:
        return MISSING
    return next(iter(clause.masked.quoted(said)), said.strip())
