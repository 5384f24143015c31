"""The form in which Block Kit's rules are written down, the small objects they share, rich text.

A rule is a `Check`: given a value and its JSON pointer it yields what is wrong, in Slack's words.
The makers below (`text`, `array`, `record`, `union` …) turn a line of a table into a Check;
`elements` and `blocks` are such tables. Slack counts plain text after escaping `&`, `<` and `>`,
and mrkdwn as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Check = Callable[[Any, str], Iterator[str]]
# takes a record with valid fields, and returns what is wrong with it, or None
Rule = Callable[[Mapping[str, Any]], str | None]

URI = r"[A-Za-z][A-Za-z0-9+.-]*:\S+"
USER, CHANNEL, GROUP, TEAM = "[UW][A-Z0-9]+", "[CG][A-Z0-9]+", "S[A-Z0-9]+", "T[A-Z0-9]+"


def problem(what: str, at: str) -> str:
    """One message as Slack words it: what is wrong, and the JSON pointer to it."""
    return f"{what} [json-pointer:{at}]"


def escaped(value: str) -> str:
    """The text as Slack stores and counts it."""
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Functions that build a Check.


def text(
    high: int | None = None, *, low: int = 1, escape: bool = False, form: str = "", says: str = ""
) -> Check:
    """A string of `low` to `high` characters that matches the whole pattern `form`.

    `escape`: count characters as escaped. `says`: the message if `form` does not match.
    """

    def check(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield problem("must provide a string", at)
            return
        length = len(escaped(value) if escape else value)
        if length < low:
            yield problem(f"must be more than {low - 1} characters", at)
        elif high is not None and length > high:
            yield problem(f"must be less than {high + 1} characters", at)
        elif form and not re.fullmatch(form, value):
            yield problem(says or f"must match the pattern {form}", at)

    return check


def one_of(*choices: str | int) -> Check:
    """Exactly one of these values (True is not 1)."""

    def check(value: Any, at: str) -> Iterator[str]:
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            yield problem(f"must be one of the following: {', '.join(map(str, choices))}", at)

    return check


def flag(value: Any, at: str) -> Iterator[str]:
    """A boolean."""
    if not isinstance(value, bool):
        yield problem("must provide a boolean", at)


def anything(_value: Any, _at: str) -> Iterator[str]:
    """Any value; if it is checked at all, then elsewhere."""
    yield from ()


def number(
    low: float | None = None, high: float | None = None, *, whole: bool = True, above: bool = False
) -> Check:
    """An integer (or any number) from `low` to `high`; `above` excludes `low` itself."""

    def check(value: Any, at: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            yield problem(f"must provide {'an integer' if whole else 'a number'}", at)
        elif low is not None and (value <= low if above else value < low):
            yield problem(f"must be {'more than' if above else 'at least'} {low}", at)
        elif high is not None and value > high:
            yield problem(f"must be at most {high}", at)

    return check


def array(item: Check, high: int | None = None, *, low: int = 1, unique: bool = False) -> Check:
    """A list of `low` to `high` items that each pass `item`; no two alike where `unique`."""

    def check(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield problem("must provide an array", at)
            return
        if len(value) < low:
            yield problem(f"no fewer than {low} items allowed", at)
        if high is not None and len(value) > high:
            yield problem(f"no more than {high} items allowed", at)
            return
        if unique and any(each in value[:index] for index, each in enumerate(value)):
            yield problem("items must be unique", at)
        for index, each in enumerate(value):
            yield from item(each, f"{at}/{index}")

    return check


def record(
    need: Mapping[str, Check], may: Mapping[str, Check] | None = None, *rules: Rule
) -> Check:
    """An object with all fields of `need`, any of `may` and no others.

    `rules` run once its fields are sound.
    """
    known = {**need, **(may or {})}

    def check(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield problem("must provide an object", at)
            return
        found = [
            problem(f"missing required field: {name}", at) for name in need if name not in value
        ]
        for name, each in value.items():
            if name in known:
                found.extend(known[name](each, f"{at}/{name}"))
            else:
                found.append(problem(f"invalid additional property: {name}", at))
        if not found:
            found = [problem(what, at) for what in (rule(value) for rule in rules) if what]
        yield from found

    return check


def union(kinds: Mapping[str, Check]) -> Check:
    """An object whose `type` chooses the Check for its other fields; any other type is refused."""

    def check(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield problem("must provide an object", at)
        elif "type" not in value:
            yield problem("missing required field: type", at)
        elif not isinstance(value["type"], str) or value["type"] not in kinds:
            yield problem(f"unsupported type: {value['type']}", f"{at}/type")
        else:
            yield from kinds[value["type"]]({k: v for k, v in value.items() if k != "type"}, at)

    return check


# Rules that compare fields of one record.


def exactly_one(*names: str) -> Rule:
    """One of these fields is there, and only one."""
    return lambda value: (
        None if sum(n in value for n in names) == 1 else f"must define either {' or '.join(names)}"
    )


def any_of(*names: str) -> Rule:
    """At least one of these fields is there."""
    return lambda value: (
        None if any(n in value for n in names) else f"must define either {' or '.join(names)}"
    )


def not_empty(value: Mapping[str, Any]) -> str | None:
    """At least one field is there."""
    return None if value else "must have at least one property"


# Objects that elements and blocks consist of.


def texts(high: int = 3000) -> dict[str, Check]:
    """Both text objects, of 1 to `high` characters, by type."""
    return {
        "plain_text": record({"text": text(high, escape=True)}, {"emoji": flag}),
        "mrkdwn": record({"text": text(high)}, {"verbatim": flag}),
    }


def plain(high: int = 3000) -> Check:
    """A plain_text object of 1 to `high` characters."""
    return union({"plain_text": texts(high)["plain_text"]})


def words(high: int = 3000) -> Check:
    """A plain_text or a mrkdwn object of 1 to `high` characters."""
    return union(texts(high))


ID = text(255)
LINK = text(form=URI, says="must be a valid URL")
SHORT_LINK = text(3000, form=URI, says="must be a valid URL")
STYLE = one_of("primary", "danger")
PEOPLE = array(text(form=USER), low=0)
PLACEHOLDER = plain(150)
CONFIRM = record(
    {"title": plain(100), "text": words(300), "confirm": plain(30), "deny": plain(30)},
    {"style": STYLE},
)
OPTION = record({"text": plain(75), "value": text(150)}, {"description": plain(75)})
# for radio buttons and checkboxes
CHOICE = record({"text": words(75), "value": text(150)}, {"description": words(75)})
OVERFLOW_OPTION = record(
    {"text": plain(75), "value": text(150)}, {"description": plain(75), "url": SHORT_LINK}
)
OPTION_GROUP = record({"label": plain(75), "options": array(OPTION, 100)})
SLACK_FILE = record({}, {"url": LINK, "id": text()}, exactly_one("url", "id"))
DISPATCH = record(
    {
        "trigger_actions_on": array(
            one_of("on_enter_pressed", "on_character_entered"), 2, unique=True
        )
    }
)
FILTER = record(
    {},
    {
        "include": array(one_of("im", "mpim", "private", "public"), unique=True),
        "exclude_external_shared_channels": flag,
        "exclude_bot_users": flag,
    },
    not_empty,
)

# Rich text: what a leaf, a section, a list and a quote may hold.

_LEAF_STYLES = ("bold", "italic", "strike", "underline", "code", "highlight")
LEAF_STYLE = record(
    {}, dict.fromkeys((*_LEAF_STYLES, "client_highlight", "unlink"), flag), not_empty
)


def _leaf(need: Mapping[str, Check], may: Mapping[str, Check] | None = None) -> Check:
    return record(need, {"style": LEAF_STYLE, **(may or {})})


LEAF = union(
    {
        "text": _leaf({"text": text()}),
        "link": _leaf({"url": LINK}, {"text": text(), "unsafe": flag}),
        "user": _leaf({"user_id": text(form=USER)}),
        "usergroup": _leaf({"usergroup_id": text(form=GROUP)}),
        "channel": _leaf({"channel_id": text(form=CHANNEL)}),
        "team": _leaf({"team_id": text(form=TEAM)}),
        "emoji": _leaf({"name": text()}, {"skin_tone": number(1, 6), "unicode": text()}),
        "broadcast": _leaf({"range": one_of("here", "channel", "everyone")}),
        "color": _leaf({"value": text(form="#?[0-9a-fA-F]{6}")}),
        "date": _leaf(
            {"timestamp": number(0), "format": text()}, {"url": LINK, "fallback": text(low=0)}
        ),
    }
)
_LEAVES = {"elements": array(LEAF, low=0)}
_BORDER = {"border": one_of(0, 1)}
_SECTION = record(_LEAVES)
_LIST = record(
    {
        "style": one_of("bullet", "ordered"),
        "elements": array(union({"rich_text_section": _SECTION})),
    },
    {"indent": number(0), "offset": number(0), **_BORDER},
)
RICH_PARTS = array(
    union(
        {
            "rich_text_section": _SECTION,
            "rich_text_list": _LIST,
            "rich_text_preformatted": record(_LEAVES, {"language": text(), **_BORDER}),
            "rich_text_quote": record(_LEAVES, _BORDER),
        }
    ),
    low=0,
)
RICH_TEXT = record({"elements": RICH_PARTS}, {"block_id": ID})
RICH_TEXT_OBJECT = union({"rich_text": RICH_TEXT})
