"""What the stand-in for the model says: what it is, what it still needs, and what became of calls.

It says only what the outputs of the calls say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.sandbox.openai.phrases import REASON_FIELD, Proposal

NOTICE = "_I am the offline stand-in planner, not a language model._"
EXAMPLES = {
    "refund_order": "Refund 40 EUR of order 1042, it arrived broken",
    "look_up_order": "Look up order 1042",
    "cancel_order": "Cancel order 1043 and tell #support",
    "post_message": "Post 'hello' in #general",
}
OUTCOMES = {
    "succeeded": "is done",
    "rejected": "was rejected",
    "expired": "was not done",
    "cancelled": "was cancelled",
    "superseded": "was replaced and did not run",
    "invalidated": "did not run",
    "refused": "was refused",
    "invalid arguments": "was not proposed, because its arguments are not valid",
    "failed": "failed",
    "unknown": "is uncertain",
}
STATUS = re.compile(rf"({'|'.join(each.upper() for each in OUTCOMES)})\b")
# Sentences of an output that are meant for a model's ears only.
FOR_MODELS = re.compile(r"\s*\b(?:Do not|Propose it|Change it, or)\b[^.]*\.")
LISTED = 20  # entries of a list that are shown


@dataclass(frozen=True)
class Outcome:
    """What an output says became of a call."""

    status: str  # a key of OUTCOMES
    result: Any = None  # of a success: parsed where it is JSON
    words: str = ""  # what else the output says about it
    ran: Mapping[str, Any] | None = None  # the arguments that ran, where a person edited them


def outcome_of(output: str) -> Outcome:
    """Read an output: a status word with words after it, a tool's result on the lines below."""
    first, _, rest = output.strip().partition("\n")
    if "says that it DID happen" in first:
        return Outcome("succeeded", words=first)
    status = STATUS.match(first)
    if not status:
        return Outcome("succeeded", _parsed(output))
    told, _, edited = first[status.end() :].partition(" and ran with:")
    if status[1] == "SUCCEEDED":
        ran = _parsed(edited.strip())
        words = told.strip(" .:")
        return Outcome("succeeded", _parsed(rest), words, ran if isinstance(ran, dict) else None)
    told = FOR_MODELS.sub("", f"{told} {rest}")
    return Outcome(status[1].lower(), words=" ".join(told.strip(" .:;,\n").split()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def report(tool: str, arguments: Mapping[str, Any], outcome: Outcome) -> str:
    """Say in Markdown what became of one call."""
    shown = values(outcome.result)
    looked = REASON_FIELD not in arguments and not outcome.words
    if outcome.status == "succeeded" and looked:
        return shown or "There is nothing to show."
    told = re.sub("^Approved", "approved", outcome.words)
    if outcome.ran:
        pairs = (f"{_words(key)} {_flat(value)}" for key, value in outcome.ran.items())
        told += f" and ran with {', '.join(pairs)}"
    if told:
        told = f" {told}" if told.startswith("by ") else f": {told.removesuffix('.')}"
    about = label(tool, {**arguments, **(outcome.ran or {})})
    return f"**{about}** {OUTCOMES[outcome.status]}{told}.\n{shown}".strip()


def label(tool: str, arguments: Mapping[str, Any]) -> str:
    """Name a call and what it was about: "Refund order 1042, amount 40.00"."""
    about = [
        _flat(value) if key.endswith(("id", "channel", "name")) else f"{_words(key)} {_flat(value)}"
        for key, value in arguments.items()
        if key not in (REASON_FIELD, "note", "text", "reason", "sql")
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    ]
    return _capital(f"{_words(tool)} {', '.join(about)}".strip())


def values(result: Any) -> str:
    """Write a tool's result as a short Markdown list; what is left out is counted."""
    if result in (None, "", [], {}):
        return ""
    match result:
        case dict():
            return "\n".join(
                _member(key, each) for key, each in result.items() if each not in (None, "")
            )
        case list():
            left = len(result) - LISTED
            more = [f"- … and {left} more"] if left > 0 else []
            return "\n".join([*(f"- {_flat(each)}" for each in result[:LISTED]), *more])
    return str(result)


def _member(key: str, value: Any) -> str:
    rows = isinstance(value, list) and value and isinstance(value[0], dict)
    name = f"**{_capital(_words(key))}:**"
    return f"{name}\n{values(value)}" if rows else f"- {name} {_flat(value)}"


def help_text(tools: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what the stand-in is and what it can do with these tools."""
    lines = ["I am the offline stand-in planner: a program with a few rules, not a language model."]
    if tools:
        lines.append("With the tools I was given I can:")
        lines += [
            f"- **{_words(name)}**: {_first_sentence(tool.get('description') or '')}"
            for name, tool in tools.items()
        ]
    said = [f"“{text}”" for name, text in EXAMPLES.items() if name in tools]
    if said:
        lines.append(f"For example: {' · '.join(said)}.")
    lines.append("What needs a person's yes is shown on a card first.")
    return "\n".join(lines)


def question(lacking: Iterable[Proposal]) -> str:
    """Ask for what proposals still need."""
    return "\n".join(
        f"To {_words(each.tool)} I still need the "
        f"{' and the '.join(_words(re.sub('_id$', ' number', name)) for name in each.missing)}. "
        "Can you tell me?"
        for each in lacking
    )


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()))[0][:160] or "no description"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _flat(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(_flat(each) for each in value.values() if each not in (None, ""))
        case list():
            return "; ".join(_flat(each) for each in value)
    return str(value)
