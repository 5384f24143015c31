"""Parses requests in plain English into calls of the offered tools, for the stand-in for the model.

It knows the requests that the demo suggests and, for any other tool, the words of the tool's name
in order: "put Ana on duty for 12 hours" calls put_on_duty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]
REASON_FIELD = "reason_for_approver"
NUMBER_REGEX = r"\d+(?:[.,]\d\d?)?"
AMOUNT_REGEX = rf"(?:€ ?{NUMBER_REGEX}|{NUMBER_REGEX} ?(?:EUR|€))"
ORDER_REGEX = r"(?:(?:the )?order #?|#?(?=\d{4}))(?P<order_id>\d+)"
CHANNEL_REGEX = r"(?P<channel><#C\w+(?:\|[^>]*)?>|#[a-z][\w-]*)"
MENTION_PATTERN = re.compile(r"<@([UW]\w+)(?:\|[^>]*)?>")
WHY = r"(?:(?:,|,? because) (?P<why>.+))?"
# Phrases for a whole request, by the tool that it asks for.
REGEXES_BY_TOOL = (
    ("look_up_order", rf"(?:(?:look up|show me|what is the status of) {ORDER_REGEX})"),
    ("look_up_order", r"#?(?P<order_id>\d{4,})"),
    (
        "refund_order",
        rf"refund(?: (?P<amount>(?:(?!\border\b).)+?))??(?:(?: of| for)? {ORDER_REGEX})?{WHY}",
    ),
    ("cancel_order", rf"cancel (?:{ORDER_REGEX}|the order){WHY}"),
    ("post_message", rf"post (?P<text>.+) in {CHANNEL_REGEX}"),
    ("post_message", rf"tell {CHANNEL_REGEX}(?:(?: that|:)? (?P<text>.+))?"),
    (
        "ask_person",
        rf"ask {MENTION_PATTERN.pattern.replace('(', '(?P<to>', 1)}[:,]? (?P<question>.+)",
    ),
    ("query", r"run `(?P<sql>select\b[^`]+)` on (?P<database>[\w-]+)"),
    ("change", r"run `(?P<sql>(?:insert|update|delete)\b[^`]+)` on (?P<database>[\w-]+)"),
)
# Phrases that change or complete a request.
CHANGE_PATTERN = re.compile(
    r"(?:(?:make it|only|i meant|it is) )?"
    rf"(?:(?P<amount>{AMOUNT_REGEX})|(?:order )?#?(?P<order_id>\d{{4,}})){WHY}",
    re.I | re.S,
)
QUOTED_TEXT_PATTERN = re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")
POLITE_WORDS_PATTERN = re.compile(
    r"^(?:(?:hi|please|can you|could you|(?:i|we)(?: want|['’]d like| would like| need) to)"
    r"\b[\s,]*)+|,? (?:please|instead)$",
    re.I,
)
# The beginning of the next order, even of one that has no tool, so that it is not overlooked.
NEXT_ORDER_PATTERN = re.compile(
    r"(?:[,;.]? +(?:and|then|and then)|[,;.]) +(?=(?:please )?(?:refund|cancel|look|tell|post"
    r"|archive|block|call|change|charge|close|create|delete|e?-?mail|invite|message|notify|put"
    r"|remind|remove|replace|resend|send|ship|update)\b)",
    re.I,
)
NEGATION_PATTERN = re.compile(r"\b(?:don['’]?t|do not|never)\b", re.I)
LEADING_FILLER_PATTERN = re.compile(
    r"^(?:(?:an?|all|the|me|for|to|of|in|on|with|is|called|channel)\b[\s:,]*)+", re.I
)
WORDS_REGEX_BY_REASON = {
    "damaged": r"broken|chipped|damaged|cracked|open|torn",
    "wrong_item": r"wrong|mistake",
    "late": r"late|delayed",
    "goodwill": r"goodwill|sorry|gesture",
}

SENTENCE_BY_REASON = {  # what the approver reads
    "damaged": "Something in the order was damaged.",
    "wrong_item": "Something in the order was wrong.",
    "late": "The order came late.",
    "goodwill": "It is a gesture of goodwill.",
}


@dataclass(frozen=True)
class RequestedCall:
    """A call that a request asks for, and the required arguments that are missing."""

    tool: str
    arguments: Values
    missing: tuple[str, ...] = ()


def parse_requested_calls(
    request: str, tools: Mapping[str, Values], known: Values
) -> tuple[list[RequestedCall], list[str]]:
    """Return the calls that a request asks for, and the parts of it that fit no tool.

    `known`: argument values from elsewhere, used where the request names none.
    """
    requested: list[RequestedCall] = []
    unmatched: list[str] = []
    for order in _split_orders(request):
        if call := _parse_order(order, tools, known):
            requested.append(call)
            known = {**known, **{k: v for k, v in call.arguments.items() if k == "order_id"}}
            if call.tool == "cancel_order":
                known["text"] = f"Order {call.arguments.get('order_id', '')} has been cancelled."
        else:
            unmatched.append(order)
    return requested, unmatched


def parse_order_amount_reason(text: str) -> Values:
    """Return the order number, amount and reason that an answer or correction names; {} if none."""
    found = CHANGE_PATTERN.fullmatch(_strip_polite_words(text))
    return _parse_match_values(found) if found else {}


def missing_arguments_question(lacking: Iterable[RequestedCall]) -> str:
    """Return a question for the arguments that these calls still need."""
    return "\n".join(
        f"For “{identifier_to_words(each.tool)}” I still need the "
        f"{' and the '.join(_describe_argument(name) for name in each.missing)}. Can you tell me?"
        for each in lacking
    )


def _describe_argument(name: str) -> str:
    if name == "amount":
        return "amount in EUR, above zero"
    return identifier_to_words(re.sub("_id$", " number", name))


def identifier_to_words(name: str) -> str:
    """Return the words of an identifier, with spaces between them."""
    return name.replace("_", " ").replace("-", " ")


def _split_orders(request: str) -> list[str]:
    """Return the single instructions of a request, split where a new one begins outside quotes."""
    hidden = QUOTED_TEXT_PATTERN.sub(
        lambda quoted: quoted[0].replace(" ", "\0"), request.replace("\0", "")
    )
    orders = (
        _strip_polite_words(part.replace("\0", " ")) for part in NEXT_ORDER_PATTERN.split(hidden)
    )
    return [order for order in orders if order]


def _strip_polite_words(text: str) -> str:
    return POLITE_WORDS_PATTERN.sub("", text.strip(" .,!?\n"))


def _parse_order(order: str, tools: Mapping[str, Values], known: Values) -> RequestedCall | None:
    for name, form in REGEXES_BY_TOOL:
        if name in tools and (found := re.fullmatch(form, order, re.I | re.S)):
            return _complete_call(
                name, known | _parse_match_values(found), tools[name]["parameters"], order
            )
    offered = tools.keys() - {name for name, _ in REGEXES_BY_TOOL}
    for name in (each for each in tools if each in offered):
        gaps, schema = _split_at_tool_words(name, order), tools[name]["parameters"]
        values = None if gaps is None else _guess_arguments(schema, gaps, order)
        if values is not None:
            return _complete_call(name, values, schema, order)
    return None


def _complete_call(name: str, values: Values, schema: Values, order: str) -> RequestedCall:
    known, why = schema.get("properties", {}), values.get("why", "")
    if name == "refund_order":
        values = {"reason": "other"} | values
    elif name == "cancel_order":
        reason = why or f"As asked: {order}"
        values = values | {"reason": f"{reason[:1].upper()}{reason[1:]}"[:300]}
    values = {key: value for key, value in values.items() if key in known}
    if REASON_FIELD in known:  # a reason of its own, since the card already quotes the request
        values[REASON_FIELD] = SENTENCE_BY_REASON.get(values.get("reason", ""), "")
    missing = [key for key in schema.get("required", []) if key not in {*values, REASON_FIELD}]
    return RequestedCall(name, values, tuple(missing))


def _parse_match_values(found: re.Match[str]) -> Values:
    """Return the values of a regex match as tool arguments; an unreadable amount is left out."""
    values: Values = {key: said for key, said in found.groupdict().items() if said}
    if "order_id" in values:
        values["order_id"] = int(values["order_id"])
    amount = values.pop("amount", "")
    if re.fullmatch(AMOUNT_REGEX, amount, re.I):
        whole, _, cents = amount.strip("€EUReur ").replace(",", ".").partition(".")
        values["amount"] = f"{whole}.{cents:0<2}"
    for reason, words in WORDS_REGEX_BY_REASON.items():
        if re.search(rf"\b(?:{words})\b", values.get("why", ""), re.I):
            values.setdefault("reason", reason)
    if "text" in values:
        values["text"] = _find_quoted_text(values["text"]) or values["text"]
    if "channel" in values:
        values["channel"] = _parse_channel(values["channel"])
    if "question" in values:
        values["question"] = f"{values['question'][:1].upper()}{values['question'][1:]}?"
    return values


def _parse_channel(said: str) -> str:
    known, _, name = said.strip("<>").partition("|")
    return f"#{name}" if name else known.removeprefix("#") if said[0] == "<" else said


def _find_quoted_text(text: str) -> str | None:
    found = QUOTED_TEXT_PATTERN.search(text)
    return next(filter(None, found.groups()), None) if found else None


# Calls of any other tool, found by the words of its name.


def _split_at_tool_words(name: str, text: str) -> list[str] | None:
    """Return the text before, between and after the words of a tool's name.

    None if the words are not all there in order, or the text says "never" or "do not".
    """
    gaps, rest = [], text
    if NEGATION_PATTERN.search(text):
        return None
    for word in re.split(r"[_-]", name):
        word_match = re.search(rf"\b{re.escape(word)}(?:es|s)?\b", rest, re.I)
        if not word_match:
            return None
        gaps.append(rest[: word_match.start()])
        rest = rest[word_match.end() :]
    return [*gaps, rest]


def _guess_arguments(schema: Values, gaps: list[str], order: str) -> Values | None:
    """Return guessed arguments for any tool, by name and type; numbers count only beside a name.

    None if words are left that no argument takes.
    """
    fields = schema.get("properties", {})
    named = ((name, _find_choice(schema, each, order)) for name, each in fields.items())
    choices = {name: choice for name, choice in named if choice}
    values: Values = dict(choices)
    for choice in choices.values():
        gaps = [re.sub(rf"(\b(in|on|at|to) )?{re.escape(choice)}\b", "", gap) for gap in gaps]
    text = next((said for said in map(_strip_small_words, gaps) if said), "")
    for name, each in fields.items():
        kinds = {each.get("type"), *(one.get("type") for one in each.get("anyOf", []))}
        beside = re.search(
            rf"\b(\d+)\s+{re.escape(name)}\b|\b{re.escape(name)}\W+(\d+)\b", order, re.I
        )
        if name == "channel":
            place = re.search(CHANNEL_REGEX, order, re.I)
            values |= {name: _parse_channel(place[0])} if place else {}
        elif kinds & {"integer", "number"}:
            values |= {name: int(beside[1] or beside[2])} if beside else {}
        elif (
            "string" in kinds
            and name not in choices
            and name in schema.get("required", [])
            and text
        ):
            values[name] = _find_quoted_text(order) or text
        elif "array" in kinds and text:
            values[name] = [text]
    is_taken = any(
        isinstance(each, str | list)
        for key, each in values.items()
        if key not in {"channel", *choices}
    )
    return values if is_taken or not text else None


def _find_choice(schema: Values, field: Values, order: str) -> str | None:
    """Return the first choice of an enumeration that the order names; None for other fields."""
    described = schema.get("$defs", {}).get(field.get("$ref", "").rpartition("/")[2], field)
    choices = [each for each in described.get("enum", []) if isinstance(each, str)]
    return next((each for each in choices if re.search(rf"\b{re.escape(each)}\b", order)), None)


def _strip_small_words(said: str) -> str:
    """Return a text's words without numbers and small words; for a mention, the person's id."""
    if mention := MENTION_PATTERN.search(said):
        return mention[1]
    words = re.sub(CHANNEL_REGEX, " ", re.split(r"\s(?:for\s+)?\d", said)[0], flags=re.I)
    return LEADING_FILLER_PATTERN.sub("", words.strip(" .,!?")).strip(" .,!?")
