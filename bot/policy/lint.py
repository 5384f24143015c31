"""What a policy says that means nothing or can never come true: keys out of place, votes nobody
has, moments after the end. PURE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bot.policy.gates import Approvers, Ask
from bot.toml_file import COMPLAINTS, unknown_key

if TYPE_CHECKING:
    from bot.policy.file import Options, RuleEntry

_COMPLAINTS = COMPLAINTS | {
    "int_type": "write a whole number",
    "greater_than_equal": "write a larger number",
    "less_than_equal": "write a smaller number",
    "date_type": "write a date, as 2026-12-25",
    "too_short": "name at least one",
    "too_long": "there are too many; name fewer",
    "string_pattern_mismatch": "write plain text: up to 60 characters for a name, 300 for a reason",
}
_MISSING = {
    "verdict": 'is missing; write "allow", "deny", "ask", "once" or "add"',
    "approvers": 'names no approvers; write approvers = ["@your-group"] in each',
    "after": 'does not say when; write after = "30m" in each',
}


def sentence_for(error: ErrorDetails, model: type[BaseModel]) -> str:
    """What is wrong and what to do, for one of Pydantic's complaints about a file of this model."""
    if error["type"] == "extra_forbidden":
        return unknown_key(error["loc"], model)
    if error["loc"] == ("rule",):
        return "rules are headed [[rule]], with two brackets"
    if error["type"] == "literal_error":
        return f"write {error['ctx']['expected']}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "missing":
        return _MISSING.get(str(error["loc"][-1]), "is missing")
    return _COMPLAINTS.get(error["type"], error["msg"])


def odd_keys(rule: RuleEntry) -> Iterator[tuple[str, str]]:
    """The keys of a rule that its verdict leaves without a meaning, or needs, with what to do."""
    verdict = f'verdict = "{rule.verdict}"'
    if rule.verdict == "add":
        yield from _not_added(rule)
    elif rule.verdict not in ("ask", "once"):
        for key in sorted(rule.said):
            yield key, f"means nothing with {verdict}; remove it"
    if rule.verdict != "allow" and rule.after_rejection is not None:
        yield "after_rejection", f"means nothing with {verdict}; remove it"
    if rule.verdict == "once" and rule.remember is not None:
        yield (
            "remember",
            'means nothing with verdict = "once", which remembers by itself; remove it',
        )
    if rule.remember and (
        (rule.quorum or 1) > 1 or sum(stage.quorum for stage in rule.stages or ()) > 1
    ):
        yield "remember", "would let one person remember what takes several to approve; remove it"
    if rule.effect == ["destructive"] and (rule.remember or rule.verdict == "once"):
        key = "remember" if rule.remember else "verdict"
        yield key, "what cannot be undone is asked every time; nothing is remembered"
    if rule.verdict == "deny" and rule.reason is None:
        yield "reason", 'is missing; tell the person who asks why (reason = "…")'
    if rule.verdict != "deny" and rule.reason is not None:
        yield "reason", f"means nothing with {verdict}; remove it"


def _not_added(rule: RuleEntry) -> Iterator[tuple[str, str]]:
    """The keys of a rule that adds which would loosen what it adds to, or add nothing."""
    said = rule.said
    if not said:
        yield "verdict", 'adds nothing; say what, as in approvers = ["@finance"]'
    for key in sorted(said & {"post_to", "remember"}):
        yield key, 'means nothing with verdict = "add"; say it in the rule that asks'
    for key in sorted(said & {"self_approval", "editor_counts"}):
        if getattr(rule, key):
            yield key, "would loosen what other rules ask; a rule that adds can only say false"
    if rule.quorum is not None and rule.approvers is None:
        yield "quorum", "means nothing without approvers here; name them"


def nonsense(own: Options, defaults: Options, gate: Ask | None) -> Iterator[tuple[str, str]]:
    """Keys of `own` that say what cannot be, with what to do.

    `gate` is what `own` and `defaults` come to.
    """
    if own.stages is not None and (own.approvers is not None or own.quorum is not None):
        yield (
            "stages",
            "name their own approvers and quorums; remove approvers and quorum beside them",
        )
    elif own.quorum is not None and own.approvers is None and defaults.stages is not None:
        yield (
            "quorum",
            "means nothing with the stages of [defaults]; write approvers or stages here",
        )
    if gate is None:
        return
    last = {"reminders": gate.reminders, "escalation": [step.after for step in gate.escalation]}
    for key, moments in last.items():
        if getattr(own, key) and max(moments) >= gate.deadline:
            yield (
                key,
                "comes only when the deadline has passed; name an earlier time, or a later "
                "deadline",
            )
    if own.model_fields_set & {"approvers", "stages", "quorum", "veto"}:
        yield from _too_few(own, gate)


def _too_few(own: Options, gate: Ask) -> Iterator[tuple[str, str]]:
    """Where people are named one by one, there have to be enough of them."""
    who = [
        gate.approvers_of(index, timedelta(seconds=gate.deadline))
        for index in range(len(gate.stages))
    ]
    everybody = gate.approvers | who[0]
    short = any(stage.quorum > _heads(each) for stage, each in zip(gate.stages, who, strict=True))
    if short or gate.people > _heads(everybody):
        key = next((each for each in ("stages", "quorum") if getattr(own, each)), "approvers")
        yield (
            key,
            "takes more different people than are named; name more of them, or lower the quorum",
        )
    elif gate.veto > _heads(everybody):
        key = "veto" if own.veto else "approvers"
        yield (
            key,
            f"takes {gate.veto} rejections, more than there are people; nobody could say no; "
            "lower veto",
        )


def _heads(who: Approvers) -> float:
    """How many people these can be; without end where only Slack knows."""
    return math.inf if who.groups or who.channel else len(who.users) + who.requester
