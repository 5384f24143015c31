"""What the stand-in planner says: introductions, questions, and truthful reports of what became of
its calls.

It says only what the outputs of the calls say. It may not propose anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sandbox.openai.tools import REASON_FIELD, Tool

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
    "invalid": "was not proposed, because its arguments are not valid",
    "failed": "failed",
    "unknown": "is uncertain",
}
ALIASES = {
    "success": "succeeded",
    "ok": "succeeded",
    "denied": "refused",
    "error": "failed",
    "canceled": "cancelled",
    "timeout": "expired",
    "invalid_arguments": "invalid",
    "invalid arguments": "invalid",
}
STATUS = re.compile(
    rf"\s*({'|'.join(sorted([*OUTCOMES, *ALIASES], key=len, reverse=True))})\b(?!\s*=)", re.I
)
# Sentences of an output that are meant for a model's ears only.
FOR_MODELS = re.compile(
    r"\s*\b(?:Do not (?:propose|assume|repeat|call|run)|Propose it|Change it, or)\b[^.]*\.", re.I
)


@dataclass(frozen=True)
class Outcome:
    """What an output says became of a call."""

    status: str  # a key of OUTCOMES
    result: Any = None  # of a success: parsed where it is JSON
    words: str = ""  # what else the output says about it
    ran: Mapping[str, Any] | None = None  # the arguments that ran, where a person edited them


def outcome_of(output: str) -> Outcome:
    """Read an output: a status word with words after it, and a tool's result on the lines below."""
    first, _, rest = output.strip().partition("\n")
    data = _json(output)
    if isinstance(data, dict):
        return _of_object(data)
    if re.search(r"says that it DID happen", first):
        return Outcome("succeeded", words=first)
    status = STATUS.match(first)
    if not status or (status[1].islower() and len(first.split()) > 1 and ":" not in first):
        return Outcome("succeeded", output if data is None else data)
    said = status[1].lower()
    name = ALIASES.get(said, said)
    told, _, edited = first[status.end() :].partition(" and ran with:")
    ran = _json(edited.strip())
    if name == "succeeded":
        result = _json(rest)
        return Outcome(
            name,
            rest if result is None else result,
            told.strip(" .:"),
            ran if isinstance(ran, dict) else None,
        )
    told = FOR_MODELS.sub("", f"{told} {rest}".strip())
    return Outcome(name, words=" ".join(told.strip(" .:;,").split()))


def _of_object(data: dict[str, Any]) -> Outcome:
    """An output that is a JSON object: a call's status only where it holds a result or a reason
    beside it.
    """
    said = str(data.get("status", "")).lower()
    name = ALIASES.get(said, said)
    reason = next(
        (_flat(data[key]) for key in ("reason", "error", "message", "detail") if data.get(key)), ""
    )
    if name in OUTCOMES and (
        "result" in data or set(data) <= {"status", "reason", "error", "message", "detail", "by"}
    ):
        by = f"by {data['by']}" if data.get("by") else ""
        return Outcome(name, data.get("result"), ": ".join(each for each in (by, reason) if each))
    if set(data) <= {"ok", "error", "message", "detail"} and "error" in data:
        return Outcome("failed", words=reason)
    return Outcome("succeeded", data)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def report(tool: str, arguments: Mapping[str, Any], outcome: Outcome, *, reads: bool) -> str:
    """One call and what became of it, in Markdown."""
    shown = values(outcome.result)
    if outcome.status == "succeeded" and reads:
        return shown or "There is nothing to show."
    told = outcome.words.strip(" .")
    if outcome.ran:
        told += f" and ran with {_pairs(outcome.ran)}"
    if told:
        told = (
            f" {told}"
            if told.startswith("by ")
            else f": {told[:1].lower() if told[:1] == 'A' else told[:1]}{told[1:]}"
        )
    text = (
        f"**{label(tool, {**arguments, **(outcome.ran or {})})}** {OUTCOMES[outcome.status]}{told}."
    )
    return f"{text}\n{shown}" if shown else text


def label(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in a few words: its name and what it was about ("refund order 1042, amount 40.00")."""
    about = [
        _flat(value) if key.endswith(("id", "channel", "name")) else f"{_words(key)} {_flat(value)}"
        for key, value in arguments.items()
        if key not in (REASON_FIELD, "note", "text", "reason")
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    ]
    text = f"{_words(tool)} {', '.join(about)}".strip()
    return text[:1].upper() + text[1:]


def values(result: Any, depth: int = 0) -> str:
    """A tool's result as a short Markdown list; long lists are counted, not silently cut."""
    if result is None or result in ("", [], {}):
        return ""
    if isinstance(result, dict):
        lines = []
        for key, value in result.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                lines.append(f"**{_words(key).capitalize()}:**\n{values(value, depth + 1)}")
            elif value not in (None, ""):
                lines.append(f"- **{_words(key).capitalize()}:** {_flat(value)}")
        return "\n".join(lines)
    if isinstance(result, list):
        more = [f"- … and {len(result) - 20} more"] if len(result) > 20 else []
        return "\n".join([*(f"- {_flat(each)}" for each in result[:20]), *more])
    return str(result)


def news(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """A sentence for others on what a call will have done ("Order 1043 has been cancelled.")."""
    thing = " ".join(tool.objects) or "request"
    target = next((str(value) for key, value in arguments.items() if key == tool.id_field), "")
    amount = f": {arguments['amount']} EUR" if "amount" in arguments else ""
    return f"{thing} {target}".strip().capitalize() + f" has been {participle(tool.verb)}{amount}."


def participle(verb: str) -> str:
    """The past participle of a verb, as far as the usual tool names need it."""
    odd = {
        "set": "set",
        "send": "sent",
        "cancel": "cancelled",
        "make": "made",
        "run": "run",
        "stop": "stopped",
    }
    return odd.get(verb, f"{verb}d" if verb.endswith("e") else f"{verb}ed")


def help_text(tools: Sequence[Tool]) -> str:
    """What it is and what it can do with the tools of this request."""
    lines = ["I am the offline stand-in planner: a program with a few rules, not a language model."]
    if tools:
        lines.append("With the tools I was given I can:")
        lines += [f"- **{each.label}**: {_first_sentence(each.description)}" for each in tools]
    said = [f"“{EXAMPLES[each.name]}”" for each in tools if each.name in EXAMPLES]
    if said:
        lines.append(f"For example: {' · '.join(said)}.")
    lines.append("What needs a person's yes is shown on a card first.")
    return "\n".join(lines)


def question(missing: Sequence[tuple[Tool, Sequence[str]]]) -> str:
    """Ask for what a plan still needs."""
    lines = []
    for tool, names in missing:
        wanted = [_words(re.sub(r"_id$", " number", name.rpartition(".")[2])) for name in names]
        lines.append(
            f"To {tool.label} I still need the {' and the '.join(wanted)}. Can you tell me?"
        )
    return "\n".join(lines)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()))[0][:160] or "no description"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _pairs(pairs: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_words(key)} {_flat(value)}" for key, value in pairs.items() if key != REASON_FIELD
    )


def _flat(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(_flat(each) for each in value.values() if each not in (None, ""))
    if isinstance(value, list):
        return "; ".join(_flat(each) for each in value)
    return str(value)
