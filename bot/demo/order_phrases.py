"""The orders that the stand-in for the model understands, as calls of the tools it is offered.

A few patterns for what the demo suggests, and for any other tool the words of its name, in order:
"put Ana on duty for 12 hours" calls put_on_duty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]
REASON_FIELD = "reason_for_approver"
NUMBER = r"(?<![\d.,])\d+(?:[.,]\d{1,2})?(?![.,]?\d)"
PLUS = r"(?<![−–-])(?<![−–-]\s)(?<!minus\s)(?<!negative\s)"
MONEY = re.compile(
    rf"{PLUS}(?:€|\bEUR)\s?({NUMBER})|{PLUS}({NUMBER})\s?(?:€|EUR\b|euros?\b(?!\s+cents?))", re.I
)
# An amount without a currency, only where the words around it leave nothing else for it to be.
BARE = re.compile(
    r"(?:^|[.,:;]\s|\b(?:refund|reimburse|amount|by|of|it|only|just|to|rather|meant|pay|give)\s)"
    rf"\s*({NUMBER})(?=\s*$|[.,:;!?]|\s+(?:of|for|from|on|to|back|because|as|since|instead|please)\b)",
    re.I,
)
# Four digits and more are an order's number, where no currency stands beside them.
ORDER = re.compile(
    r"\border\s+(?:number\s+|no\.?\s+)?#?(\d+)|#(\d+)\b"
    r"|(?<![\d.,€])(?<!€\s)(?<!EUR)(?<!EUR\s)(\d{4,})\b(?![.,]\d|\s?(?:€|EUR\b|euros?\b)(?!\s?\d))",
    re.I,
)
CHANNEL = re.compile(r"<#(C\w+)(?:\|([^>]*))?>|(#[a-z][\w-]*)", re.I)
MENTION = re.compile(r"<@([UW]\w+)(?:\|[^>]*)?>")
QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’|`([^`]+)`|(?<!\w)'((?:[^']|'(?=\w))+)'(?!\w)"
)
STATEMENT = re.compile(
    r"`*\b((?:select|insert\s+into|update\s+\w+\s+set|delete\s+from)\b[^`;]*)`*", re.I
)
FILLER = re.compile(
    r"^(?:(?:please|hi|hello|hey|now|then|help me|can you|could you|would you"
    r"|i(?: want| need)(?: you to| to| a))\b[\s,]*)+",
    re.I,
)
# Where an order begins, also one that no tool is for, so that none is passed over.
NEXT = re.compile(
    r"(?:[,;.]? +(?:and|then|and then)|[,;.]) +(?=(?:please )?(?:refund|cancel|look|tell|post"
    r"|archive|block|call|change|charge|close|create|delete|e?-?mail|invite|message|notify|put"
    r"|remind|remove|replace|resend|send|ship|update)\b)",
    re.I,
)
NEVER = re.compile(r"\b(?:don['’]?t|do not|never)\b", re.I)
WHY = re.compile(
    r"(?:,|\bbecause|\bsince|\bas)\s+(?!(?:€|EUR)?\s?\d|please\b|order\b)"
    r"(.{3,}?)(?=[\s.]*$|\.\s+(?:order\b|#?\d))",
    re.I | re.S,
)
SMALL = re.compile(
    r"^(?:(?:a|an|all|the|me|please|for|to|of|in|on|with|as|is|called|named|channel)\b[\s:,]*)+",
    re.I,
)
REASONS = {
    "damaged": r"broken?|chipped|damaged|cracked|defect\w*|open(?:ed)?|torn",
    "wrong": r"wrong|mistake",
    "late": r"late|delayed",
    "goodwill": r"goodwill|sorry|gesture",
}


@dataclass(frozen=True)
class PhrasedOrder:
    """One order of a request, with what the orders before it said."""

    text: str
    known: Mapping[str, Any]
    news: str  # what the steps before it will have done, as sentences


@dataclass(frozen=True)
class PhrasedCall:
    """A call that an order asks for, and the required arguments that nobody named."""

    tool: str
    arguments: Values
    missing: tuple[str, ...] = ()


def proposals(
    request: str, tools: Mapping[str, Values], known: Values
) -> tuple[list[PhrasedCall], list[str]]:
    """Return the calls that a request asks for, and its orders that no tool is for.

    `known` is what "it" may stand for.
    """
    found: list[PhrasedCall] = []
    left: list[str] = []
    for text in _orders(request):
        news = " ".join(_news(each) for each in found if each.tool == "cancel_order")
        order = PhrasedOrder(text, known, news)
        if picked := _picked(order, tools):
            name, values = picked
            found.append(_completed(name, values, tools[name]["parameters"], order))
            known = {**known, **values}
        else:
            left.append(text)
    return found, left


def corrected(text: str) -> Values:
    """Return the values of an order of the shop that a correction names."""
    return _refund(PhrasedOrder(text, {}, ""))


def _orders(request: str) -> list[str]:
    """Cut a request where a new order begins, not within a quotation."""
    hidden = QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), request.replace("\0", ""))
    parts = (FILLER.sub("", part.strip()) for part in NEXT.split(hidden))
    return [part.replace("\0", " ") for part in parts if part]


def _picked(order: PhrasedOrder, tools: Mapping[str, Values]) -> tuple[str, Values] | None:
    for name, begins, read in FORMS:
        if name in tools and re.match(begins, order.text, re.I):
            return None if name.endswith("_order") and _is_several(order) else (name, read(order))
    for name, tool in tools.items():
        gaps = None if name in KNOWN_BY_HEART else _gaps(name, order.text)
        if gaps is not None:
            values = _generic(tool["parameters"], gaps, order)
            return None if values is None else (name, values)
    return None


def _completed(name: str, values: Values, schema: Values, order: PhrasedOrder) -> PhrasedCall:
    known = schema.get("properties", {})
    values = {key: value for key, value in values.items() if key in known}
    if REASON_FIELD in known:
        why = _why(order) if name in ("refund_order", "cancel_order") else ""
        said = " ".join((why or order.text).split())
        quoted = f"“{said if len(said) < 400 else said[:400] + '…'}”."
        values[REASON_FIELD] = f"{'The request says' if why else 'I was asked'}: {quoted}"
    missing = [key for key in schema.get("required", []) if key not in {*values, REASON_FIELD}]
    return PhrasedCall(name, values, tuple(missing))


# the demo's shop, posts, databases


def _numbers(text: str) -> list[int]:
    return [int(next(filter(None, found.groups()))) for found in ORDER.finditer(text)]


def _is_several(order: PhrasedOrder) -> bool:
    """Return whether it names several orders or amounts, of which a call would take one."""
    asked = WHY.sub(" ", order.text)
    return len(set(_numbers(asked))) > 1 or len(MONEY.findall(ORDER.sub(" ", asked))) > 1


def _number(order: PhrasedOrder) -> Values:
    if numbers := _numbers(WHY.sub(" ", order.text)) or _numbers(order.text):
        return {"order_id": numbers[0]}
    return {key: value for key, value in order.known.items() if key == "order_id"}


def _refund(order: PhrasedOrder) -> Values:
    rest = ORDER.sub(" ", order.text)
    amount = MONEY.search(rest) or BARE.search(rest)
    values = _number(order)
    if amount:
        whole, _, cents = (
            next(each for each in amount.groups() if each).replace(",", ".").partition(".")
        )
        values["amount"] = f"{whole}.{cents:0<2}"
    reason = next(
        (key for key, said in REASONS.items() if re.search(rf"\b(?:{said})\b", rest, re.I)), None
    )
    return values | ({"reason": "wrong_item" if reason == "wrong" else reason} if reason else {})


def _why(order: PhrasedOrder) -> str:
    said = WHY.search(order.text)
    return said[1].strip(" .") if said else ""


def _cancel(order: PhrasedOrder) -> Values:
    reason = _why(order) or f"As asked: {order.text}"
    return _number(order) | {"reason": (reason[:1].upper() + reason[1:])[:300]}


def _post(order: PhrasedOrder) -> Values:
    place = CHANNEL.search(order.text)
    values = (
        {} if not place else {"channel": place[3] or (f"#{place[2]}" if place[2] else place[1])}
    )
    said = re.search(r"\s(?:that|saying)\s+(.+)$|:\s+(.+)$", order.text, re.S)
    rest = re.sub(r"^\w+|\b(?:in|to|on)\s+(?=[<#])|\s+about\s+it\b", "", order.text)
    words = (
        _quoted(order.text)
        or (said and (said[1] or said[2]))
        or CHANNEL.sub("", rest).strip(" .,:")
    )
    return values | ({"text": words} if words else {"text": order.news} if order.news else {})


def _sql(order: PhrasedOrder) -> Values:
    statement = STATEMENT.search(order.text)
    around = STATEMENT.sub(" ", order.text)
    named = re.search(r"\b(?:in|on|database)\s+(?:the\s+)?(?!database)([a-z][\w-]*)", around, re.I)
    values = {"sql": statement[1].strip()} if statement else {}
    return values | ({"database": named[1]} if named else {})


def _news(done: PhrasedCall) -> str:
    return f"Order {done.arguments.get('order_id', '')} has been cancelled."


LOOKING = r"(?:look|show|check|find|get|what|where|how|tell me)\b.*(?:\border|\d{4})|#?\d{4,}\W*$"


def _question(order: PhrasedOrder) -> Values:
    """Read whom to ask, and what."""
    whom = MENTION.search(order.text)
    rest = re.sub(r"^ask\b\s*", "", MENTION.sub("", order.text), flags=re.I).strip(" ,:.?")
    return {"to": whom[1] if whom else "", "question": f"{rest[:1].upper()}{rest[1:]}?"}


FORMS: tuple[tuple[str, str, Callable[[PhrasedOrder], Values]], ...] = (
    ("query", r".*\bselect\b", _sql),
    ("change", r".*\b(?:insert\s+into|update\s+\w+\s+set|delete\s+from)\b", _sql),
    (
        "refund_order",
        r"refund|reimburse|(?:pay|give)\b.*\bback\b",
        lambda o: {"reason": "other"} | _refund(o),
    ),
    ("cancel_order", r"cancel\b", _cancel),
    ("look_up_order", LOOKING, _number),
    ("ask_person", r"ask\s+<@", _question),
    ("post_message", r"(?:post|tell|announce|say|write)\b(?! me\b)", _post),
)
KNOWN_BY_HEART = {name for name, _, _ in FORMS}


# any other tool


def _gaps(name: str, text: str) -> list[str] | None:
    """Return what stands around the words of a tool's name; None where they are not all there."""
    gaps, rest = [], text
    if NEVER.search(text):
        return None
    for word in re.split(r"[_-]", name):
        found = re.search(rf"\b{re.escape(word)}(?:es|s)?\b", rest, re.I)
        if not found:
            return None
        gaps.append(rest[: found.start()])
        rest = rest[found.end() :]
    return [*gaps, rest]


def _generic(schema: Values, gaps: list[str], order: PhrasedOrder) -> Values | None:
    """Read arguments by their names and types; what a word or number is for is said beside it.

    None where words are left that no argument takes.
    """
    values: Values = {}
    left = CHANNEL.sub(" ", " ".join(gaps))
    text = next((said for said in map(_stripped, [*gaps, left]) if said), "")
    for name, each in schema.get("properties", {}).items():
        kinds = {each.get("type"), *(one.get("type") for one in each.get("anyOf", []))}
        beside = re.search(
            rf"\b(\d+)\s+{re.escape(name)}\b|\b{re.escape(name)}\W+(\d+)\b", order.text, re.I
        )
        if name == "channel":
            values |= {key: value for key, value in _post(order).items() if key == name}
        elif "integer" in kinds or "number" in kinds:
            values |= {name: int(beside[1] or beside[2])} if beside else {}
        elif "string" in kinds and name in schema.get("required", []) and text:
            values[name] = _quoted(order.text) or text
        elif "array" in kinds and text:
            values[name] = [text]
    is_taken = any(isinstance(each, str | list) for key, each in values.items() if key != "channel")
    return values if is_taken or not text else None


def _stripped(said: str) -> str:
    """Return the words of a gap without numbers and small words; a mention as the person's id."""
    if mention := MENTION.search(said):
        return mention[1]
    words = CHANNEL.sub(" ", re.split(r"\s(?:for\s+)?\d", said)[0]).strip(" .,!?")
    return SMALL.sub("", words).strip(" .,!?")


def _quoted(text: str) -> str | None:
    found = QUOTED.search(text)
    return next((group for group in found.groups() if group), None) if found else None
