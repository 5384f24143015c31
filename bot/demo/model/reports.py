"""What the stand-in for the model says: what it is, what it still needs, and what became of calls.

It says only what the outputs of the calls say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.demo.model.phrases import REASON_FIELD, Proposal

NOTICE = "_I am the offline stand-in planner, not a language model._"
EXAMPLES = {
    "refund_order": "Refund 15 EUR of order 1042, the mug was chipped",
    "look_up_order": "Look up order 1042",
    "cancel_order": "Cancel order 1043, the customer changed her mind",
}
OUTCOMES = {
    "succeeded": "is done",
    "rejected": "was rejected",
    "answered": "was answered",
    "sent back": "was sent back",
    "expired": "has expired",
    "cancelled": "was cancelled",
    "superseded": "was set aside",
    "invalidated": "is no longer valid",
    "refused": "was refused",
    "invalid arguments": "was not proposed, because it is not valid",
    "failed": "failed",
    "unknown": "is uncertain",
    "waiting": "waits for people",
}
STATUS = re.compile(rf"({'|'.join(each.upper() for each in OUTCOMES)})\b")
AGAIN = "NOT RUN AGAIN"
HEAD = re.compile(r'(?:[^"\n]|"(?:\\.|[^"\\])*")*', re.S)  # a line; what is quoted may be several
# Sentences of an output that are meant for a model's ears only; what is quoted is a person's.
FOR_MODELS = re.compile(
    r"(\".*\")|\s*\b(?:Do not|Propose|Change it, or|If an earlier call)\b[^.]*\.", re.S
)
EDITED = re.compile(r" and ran with: (\{.*\})$", re.S)
LISTED = 20  # entries of a list that are shown
# What the thread says of a call in a line of its own: not told over again, but what comes next.
TOLD_ABOVE = {
    "succeeded": "That is done.",
    "rejected": "Then I leave it. If something should be different, tell me what, "
    "and I propose it anew.",
    "expired": "Ask me again if it is still needed.",
    "sent back": "Tell me what to change, and I propose it anew.",
}
BEFOREHAND = "before it was run, and nobody was asked: "
NO_ANSWER = "Without an answer I cannot go on. Ask me again once you know."
TASKS = {
    "refund_order": "the refund",
    "cancel_order": "the cancellation",
    "post_message": "the post",
}


@dataclass(frozen=True)
class Outcome:
    """What an output says became of a call."""

    status: str  # a key of OUTCOMES; "" where the output does not say
    result: Any = None  # of a success: parsed where it is JSON
    words: str = ""  # what else the output says about it
    ran: Mapping[str, Any] | None = None  # the arguments that ran, where a person edited them
    again: bool = False  # that of an earlier call which is the same, this one having done nothing


def outcome_of(output: str) -> Outcome:
    """Read an output: a status word with words after it, a tool's result on the lines below."""
    output = output.strip()
    head = HEAD.match(output)
    first = head[0] if head else ""
    if first.startswith(AGAIN):
        return replace(outcome_of(output.partition("\n")[2]), again=True)
    status = STATUS.match(first)
    if not status:
        return Outcome("", _parsed(output))
    if status[1] != "SUCCEEDED":
        told = FOR_MODELS.sub(r"\1", output[status.end() :])
        return Outcome(status[1].lower(), words=" ".join(told.strip(" .:;,\n").split()))
    edited = EDITED.search(first)
    ran = _parsed(edited[1]) if edited else None
    words = first[status.end() : edited.start() if edited else None].strip(" .:")
    result = _parsed(output[len(first) :].strip())
    return Outcome("succeeded", result, words, ran if isinstance(ran, dict) else None)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def report(tool: str, arguments: Mapping[str, Any], outcome: Outcome, *, alone: bool = True) -> str:
    """Say in Markdown what became of one call; `alone`: of the only one of its request."""
    shown = values(outcome.result)
    looked = REASON_FIELD not in arguments and not outcome.words
    if outcome.status in ("succeeded", "") and looked:
        return shown or "There is nothing to show."
    about = f"**{label(tool, {**arguments, **(outcome.ran or {})})}**"
    if not outcome.status:
        return f"{about}: {shown}"
    if tool == "query" and outcome.status == "succeeded" and not outcome.again:
        return "That is what the database says."
    if outcome.again:
        about += " was not run again; what I proposed before"
    elif alone and outcome.status in TOLD_ABOVE:
        return TOLD_ABOVE[outcome.status]
    if alone and outcome.words.startswith(BEFOREHAND) and not outcome.again:
        return f"That would not work, so I asked nobody: {outcome.words.removeprefix(BEFOREHAND)}."
    told = "" if outcome.status in TOLD_ABOVE else outcome.words
    if told:
        joined = told.startswith(("by ", "before "))
        told = f" {told}" if joined else f": {told.removesuffix('.')}"
    return f"{about} {OUTCOMES[outcome.status]}{told}."


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
    name = f"**{_capital(_words(re.sub('_id$', '', key)))}:**"
    return f"{name}\n{values(value)}" if rows else f"- {name} {_flat(value)}"


def help_text(tools: Iterable[str], *, is_lost: bool) -> str:
    """Say what the stand-in is, and up to three requests to copy: what it says has no buttons."""
    names = list(tools)
    lost = "I did not understand that, or have no tool for it. " if is_lost else ""
    who = f"{lost}I am the offline stand-in planner, not a language model."
    said = [f"- `{text}`" for name, text in EXAMPLES.items() if name in names]
    can = f"I can {', '.join(map(_words, names))}." if names else "I was given no tools."
    return f"{who}\n\n" + "\n".join(["Copy one of these and change it:", *said] if said else [can])


def waits(calls: Iterable[str]) -> str:
    """Say what waits for people, and how it can be changed."""
    lines = [f"- **{each}** waits for a decision, and has not run." for each in calls]
    return "\n".join([*lines, "\nTell me what to change, and I take it back and propose it anew."])


def no_tool(left: Iterable[str]) -> str:
    """Refuse a request of which no tool does a part."""
    orders = " and ".join(f"“{each}”" for each in left)
    return f"I have no tool for {orders}, so I did nothing. Ask me for the rest alone, please."


def answer(words: str) -> str:
    """Pass on what somebody has answered whom the requester wanted to be asked."""
    return f"The answer is: “{words}”."


def question(lacking: Iterable[Proposal]) -> str:
    """Ask for what proposals still need."""
    return "\n".join(
        f"For {TASKS.get(each.tool, f'“{_words(each.tool)}”')} I still need the "
        f"{' and the '.join(_wanted(name) for name in each.missing)}. "
        "Can you tell me?"
        for each in lacking
    )


def _wanted(name: str) -> str:
    return (
        "amount in EUR, above zero" if name == "amount" else _words(re.sub("_id$", " number", name))
    )


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
