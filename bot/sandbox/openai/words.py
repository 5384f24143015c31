"""What can be read out of a person's words: quotes, amounts, numbers, channels, people, addresses,
times.

Pure text work, in English, with the patience of a regular expression. It knows no tool and no
schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

CURRENCY = r"(?:€|eur(?:os?)?\b|\$|usd\b|dollars?\b|£|gbp\b|pounds?\b|bucks?\b)"
NUMBER = r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,2})?"
MONEY = re.compile(
    rf"(?:{CURRENCY})\s?({NUMBER})(?![\w])|(?<![\w.,])({NUMBER})\s?(?:{CURRENCY})(?!\s?\d)", re.I
)
QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|„([^“”]+)[“”]|‘([^’]+)’|«([^»]+)»|`([^`]+)`|(?<![\w])'((?:[^']|'(?=\w))+)'(?!\w)"
)
CHANNEL = re.compile(r"<#(C\w+)(?:\|([^>]*))?>|#([a-z0-9][\w-]*[\w]|[a-z])", re.I)
MENTION = re.compile(r"<@([UW]\w+)(?:\|[^>]*)?>")
AUTHOR = re.compile(
    r"^\s*(?:\[[^\]\n]*\]|<(?![@#])[^>\n]*>|(?:from|author|message from|request(?:er)?|user)\b[^\n:]*:|"
    r"[^\n:]{0,60}[(<]@?[UW][A-Z0-9]{4,}[)>]{1,2}[^\n:]{0,40}:|(?:[A-Z][\w.'-]*\s){1,3}(?:said|wrote|asks?):|"
    r"[A-Z][\w'-]+ [A-Z][\w'-]+:)[ \t]*"
)
FILLER = re.compile(
    r"^(?:[\s,.!-]+|(?:please|pls|kindly|hey|hi|hello|ok|okay|so|now|then|also|and|just|bitte|afterwards"
    r"|countersign|bot|can you|could you|would you|will you|i (?:want|need) (?:you )?to|i'd like (?:you )?to"
    r"|we (?:need|want|have) to"
    r"|let's|let us|go ahead and|you should|you can|after that)\b)+",
    re.I,
)
SEPARATOR = re.compile(
    r"\s*[;\n]+\s*|[.!?]\s+|,?\s+(?:and|then|afterwards|also|plus)\s+|,\s+", re.I
)
TO_CUSTOMER = re.compile(
    r"(?:tell|notify|inform|e-?mail|let)\s+(?:the\s+)?(?:customer|buyer|client|them|him|her)\b",
    re.I,
)
SAYING = re.compile(
    r"\s*(?::\s|,?\s+(?:that|saying|to say|reading|with the text|the following)\s+)", re.I
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Masked:
    """A text whose quoted parts are taken out, so that words inside a quotation are not taken for
    orders.
    """

    def __init__(self, text: str) -> None:
        self.quotes: list[str] = []
        self.text = QUOTED.sub(self._take, text.replace("\x00", " "))

    def _take(self, match: re.Match[str]) -> str:
        self.quotes.append(next(group for group in match.groups() if group is not None))
        return f"\x00{len(self.quotes) - 1}\x00"

    def quoted(self, part: str) -> list[str]:
        """The quotations that stand in this part of the masked text."""
        return [self.quotes[int(number)] for number in re.findall(r"\x00(\d+)\x00", part)]

    def plain(self, part: str) -> str:
        """The part with its quotations put back, in typographic quotes."""
        return re.sub(r"\x00(\d+)\x00", lambda match: f"“{self.quotes[int(match[1])]}”", part)


def request_of(text: str, bots: set[str]) -> str:
    """What a message asks for: without its author line, quoted history and mentions of the bot."""
    lines = (
        re.sub(r"<(\w+)(?: [^>]*)?>.*?</\1>|```.*?```", "", text, flags=re.S).strip().splitlines()
    )
    said = "\n".join(line for line in lines if not line.lstrip().startswith((">", "&gt;")))
    said = AUTHOR.sub("", said, count=1)
    for bot in {"UBOT00001", *bots}:
        said = said.replace(f"<@{bot}>", " ")
    said = re.sub(r"^\s*<@[UW]\w+>\s*(?=\S)", "", said) if MENTION.match(said.strip()) else said
    for code, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        said = said.replace(code, character)
    return re.sub(r"[ \t]+", " ", said).strip()


def clauses(text: str, begins_action: Callable[[str], bool]) -> list[str]:
    """The text cut where a new order begins.

    What follows a separator without one stays with what it follows.
    """
    found, start = [], 0
    for match in SEPARATOR.finditer(text):
        rest = FILLER.sub("", text[match.end() : match.end() + 200])
        if match.start() > start and not TO_CUSTOMER.match(rest) and begins_action(rest):
            found.append(text[start : match.start()])
            start = match.end()
    return [each for each in (part.strip() for part in [*found, text[start:]]) if each]


def decimal_text(number: str) -> str:
    """A number as people write it ("1.234,5", "40") as a plain decimal with two places."""
    whole, _, cents = number, "", ""
    if match := re.search(r"[.,](\d{1,2})$", number):
        whole, cents = number[: match.start()], match[1]
    return f"{re.sub('[.,]', '', whole)}.{cents:0<2}"


def money(text: str) -> list[str]:
    """Amounts that name a currency, as plain decimals, in order."""
    return [decimal_text(match[1] or match[2]) for match in MONEY.finditer(text)]


def numbers(text: str, nouns: list[str]) -> tuple[list[int], list[str]]:
    """(ids, other numbers): ids follow one of the nouns or a #, or have four digits and more.

    Money is neither.
    """
    rest = re.sub(r"\b\d{1,2}:\d\d\b|\b\d{4}-\d\d-\d\d\b|\x00\d+\x00", " ", MONEY.sub(" | ", text))
    noun = "|".join(re.escape(each) + "s?" for each in nouns) or "order"
    listed = re.compile(
        rf"(?:\b(?:{noun})\b\s*(?:no\.?|nr\.?|number|id|numbers)?\s*|#)#?(\d+)((?:\s*(?:,\s*and|,|and|&|\+)\s*#?\d{{3,}})*)",
        re.I,
    )
    ids: list[int] = []

    def take(match: re.Match[str]) -> str:
        ids.extend(int(each) for each in re.findall(r"\d+", match[0]))
        return " | "

    rest = listed.sub(take, rest)
    listed_some = bool(ids)
    others: list[str] = []
    for number in re.findall(rf"(?<![\w.,#-])({NUMBER})(?![\w%-])", rest):
        if number.isdigit() and len(number) >= 4 and not listed_some:
            ids.append(int(number))
        else:
            others.append(number)
    return list(dict.fromkeys(ids)), others


def channels(text: str) -> list[str]:
    """Channels as #name, or by id where Slack gave no name."""
    return [
        f"#{m[3] or m[2]}" if m[3] or m[2] else m[1]
        for m in CHANNEL.finditer(text)
        if not (m[3] or "").isdigit()
    ]


def people(text: str) -> list[str]:
    """People named after the verb: mentions as ids, otherwise the names as written."""
    text = CHANNEL.sub(" ", text)
    text = re.split(r"\s(?:to|into|in|from|for|there|as)\b", text + " ")[0]
    found = []
    for part in re.split(r",|;|&|\band\b|\bas well as\b", text):
        if mention := MENTION.search(part):
            found.append(mention[1])
        elif name := re.search(r"@?[^\W\d_][\w.'-]*(?:\s[A-Z][\w'-]*)*", part.strip(" .!?")):
            found.append(name[0].lstrip("@"))
    return found


def address_tail(text: str) -> str:
    """What follows "to" or a colon and may be an address; empty where nothing follows."""
    parts = re.split(
        r"\bto\b(?!.*\bto\b\s*\S)|:\s|\baddress\s+is\b", text, maxsplit=1, flags=re.I | re.S
    )
    return parts[1] if len(parts) == 2 else ""


def address(text: str) -> dict[str, str]:
    """Street, postal_code, city and country as far as they stand after "to" or a colon."""
    tail = address_tail(text) or text
    if tail is text and "," not in text:
        return {}
    tail = re.sub(
        r"\s+(?:please|instead|without .*|and (?:don't|do not|notify|tell).*)$",
        "",
        tail.strip(" .!?"),
        flags=re.I,
    )
    if "," not in tail:
        tail = re.sub(r"(?<=\d|[a-z])\s+(?=\d{4,5}\s)", ", ", tail, count=1)
    parts = [part.strip() for part in tail.split(",") if part.strip()]
    for index, part in enumerate(parts):
        code, city = _postal(part)
        if not code or index == 0:
            continue
        before = parts[:index] if city else parts[: index - 1]
        found = {"street": ", ".join(before), "postal_code": code, "city": city or parts[index - 1]}
        found["country"] = re.sub(r"^country\s+", "", ", ".join(parts[index + 1 :]), flags=re.I)
        return {key: value for key, value in found.items() if value}
    return {}


def _postal(part: str) -> tuple[str, str]:
    """(postal code, city) of one part of an address; empty where it holds none."""
    if match := re.fullmatch(r"((?:[A-Z]{1,2}-)?\d{3,6}(?:\s?[A-Z]{2}\b)?)\s+(\D+)", part):
        return match[1], match[2]
    if match := re.fullmatch(
        r"([^\d,]*?)\s*([A-Z]{2}\s\d{5}|[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}|\d{4,6})", part
    ):
        return match[2], match[1]
    return "", ""


def moment(text: str, now: datetime) -> datetime | None:
    """The time a text speaks of, in UTC; None when it speaks of none."""
    try:
        if match := re.search(
            r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?", text
        ):
            parsed = datetime.fromisoformat(match[0].replace("Z", "+00:00"))
            return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        if match := re.search(r"\bin (\d+|an?|half an) (minute|min|hour|day|week)s?\b", text, re.I):
            count = {"a": 1.0, "an": 1.0, "half an": 0.5}.get(match[1].lower()) or float(match[1])
            unit = {"min": "minute"}.get(match[2].lower(), match[2].lower())
            return now + count * timedelta(**{f"{unit}s": 1})
    except (ValueError, OverflowError):
        return None  # no such day
    day = _day(text, now)
    clock = re.search(
        r"\b(?:at |@ ?)?(\d{1,2})(?::(\d\d))?\s*(am|pm|o'clock|h\b|uhr)|\b(\d{1,2}):(\d\d)|\bat (\d{1,2})\b(?!:)",
        text,
        re.I,
    )
    if not clock and not day and not re.search(r"\bnoon\b", text, re.I):
        return None
    hour = (
        int(clock[1] or clock[4] or clock[6])
        if clock
        else 12
        if re.search(r"\bnoon\b", text, re.I)
        else 9
    )
    minute = int(clock[2] or clock[5] or 0) if clock else 0
    if clock and (clock[3] or "").lower() in ("am", "pm"):
        hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    if hour > 23 or minute > 59:
        return None
    found = (day or now).replace(hour=hour, minute=minute, second=0, microsecond=0)
    return found if day or found > now else found + timedelta(days=1)


def _day(text: str, now: datetime) -> datetime | None:
    lower = text.lower()
    if "tomorrow" in lower:
        return now + timedelta(days=1)
    for index, name in enumerate(WEEKDAYS):
        if re.search(rf"\b{name}\b", lower):
            return now + timedelta(days=(index - now.weekday() - 1) % 7 + 1)
    return now if re.search(r"\btoday\b|\btonight\b", lower) else None
