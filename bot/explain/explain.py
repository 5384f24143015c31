"""What would become of a call, in words: which rule, why, who decides, who is told, when.

It only reads and looks up. The command line and the slash command say the same; only people, groups
and channels are written as each place does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from bot.approvals import grants
from bot.approvals.call_gates import in_mode
from bot.approvals.facts import facts_of, needed, with_sums
from bot.cards.request_sentences import ICONS
from bot.cards.text import in_utc
from bot.explain.gate_words import GateWords, Words
from bot.policy.condition_values import Facts
from bot.policy.gates import Allow, Ask, Deny
from bot.tools import Tool
from bot.tools.arguments import dump_arguments
from storage.models import Run
from storage.states import Mode

if TYPE_CHECKING:
    from bot.explain.gate_words import Grounds
    from bot.policy.evaluate import Judged


def explain(
    grounds: Grounds, words: Words, run: Run, tool: Tool[Any], args: BaseModel, *, sums: bool = True
) -> list[str]:
    """Explain a call that `run` would propose, in lines. `sums`: whether the rows can be read.

    What Slack cannot be asked about is said to be not known; nothing is raised for it.
    """
    facts = facts_of(grounds.sources, run, tool, args)
    gate: Allow | Deny | Ask | None = None
    mode = Mode.ASK
    if sums:
        with grounds.sources.store.read() as tx:
            facts = with_sums(tx, grounds.sources, run, tool, facts)
            judged = grounds.sources.policy.policy.judged(facts)
            gate, mode = in_mode(tx, grounds.sources, run, facts, judged.gate)
    else:
        judged = grounds.sources.policy.policy.judged(facts)
    who = f"asked by {words.person(run.requester) if run.requester else 'somebody'}"
    where = f" in {words.channel(run.channel)}" if run.channel else ""
    lines = [
        words.quoted(tool.effect_sentence(args)),
        f"The tool is {tool.name} ({_class(tool)}, {tool.risk} risk), {who}{where}.",
        "",
        _verdict(judged, words),
        *_trail(judged, words),
        *_by_mode(judged.gate, gate, mode, words),
    ]
    gate = gate or judged.gate
    if isinstance(gate, Ask):
        lines += _instead(grounds, words, run, tool, args, gate) if sums else []
        lines += ["", *GateWords(grounds, words, run, tool, gate).lines()]
    return lines + _unknown(facts, grounds, tool, words)


def _class(tool: Tool[Any]) -> str:
    """Return its effect class, and whether that is only assumed."""
    return tool.does if tool.said_to_do else f"taken as {tool.does}, as it is not known"


def _by_mode(
    policy: Allow | Deny | Ask, gate: Allow | Deny | Ask | None, mode: Mode, words: Words
) -> Iterator[str]:
    """Say what the mode of the place changes about the policy's word, where it does."""
    if gate is None or gate == policy:
        return
    yet = f"{ICONS[mode]} Yet {mode} mode holds here"
    match gate:
        case Deny(reason=reason):
            yield f"{yet}, and it is refused: {words.quoted(reason)}."
        case Ask() if isinstance(policy, Ask):
            yield f"{yet}: nothing is remembered, and it is asked each time."
        case _:
            yield f"{yet}: people are asked all the same, those of [defaults]."


def _instead(
    grounds: Grounds, words: Words, run: Run, tool: Tool[Any], args: BaseModel, gate: Ask
) -> Iterator[str]:
    """Say what comes before anybody is asked: a remembered approval, or a limit that is reached."""
    with grounds.sources.store.read() as tx:
        given = grants.candidates(tx, grounds.sources, run, tool, gate, dump_arguments(args))
        reached = grounds.limits.on_asking(tx, run, 0)
    if grant := grants.find(grounds.authority, run, gate, given):
        by, until = words.person(grant.given_by), in_utc(grant.until)
        uses = f"{grant.uses} more {'time' if grant.uses == 1 else 'times'}"
        yield f"★ Yet it runs without asking: {by} had this remembered, until {until}, {uses}."
    elif reached:
        yield f"⚠ Just now nobody would be asked: {words.quoted(reached.note)}."


def _verdict(judged: Judged, words: Words) -> str:
    gate = judged.gate
    named = any(each.rule == gate.rule for each in judged.tried)
    by = f"the rule {words.quoted(gate.rule)}" if named else "no rule: [defaults] hold"
    match gate:
        case Allow():
            by = by if named else "no rule: what only reads is allowed"
            return f"It runs without asking, by {by}."
        case Deny(reason=reason):
            return f"It is refused, by {by if named else 'no rule'}: {words.quoted(reason)}"
    also = " and ".join(words.quoted(each) for each in gate.added)
    adds = f" {also} {'adds' if len(gate.added) == 1 else 'add'} to it." if also else ""
    return f"People are asked, by {by}.{adds}"


def _trail(judged: Judged, words: Words) -> Iterator[str]:
    """What each rule said, those about other tools together."""
    answers = {True: "applies", False: "does not apply", None: "cannot be told, so it applies"}
    added = getattr(judged.gate, "added", ())
    others = 0
    for each in judged.tried:
        if each.why == "it is about other tools":
            others += 1
            continue
        applied = each.rule == judged.gate.rule
        answer = answers[each.fits]
        if each.adds and each.fits is not False and each.rule in added:
            answer = "adds to it" if each.fits else "cannot be told, so it adds to it"
        elif each.fits is not False and not applied:
            idle = "has nothing to add" if each.adds else "another rule applies"
            answer = f"fits, but {idle}" if each.fits else "cannot be told"
        why = "" if each.why == "it matches" else f": {words.quoted(each.why)}"
        yield f"• {words.quoted(each.rule)} {answer}{why}"
    if others:
        yield f"• {others} {'rule is' if others == 1 else 'rules are'} about other tools"


def _unknown(facts: Facts, grounds: Grounds, tool: Tool[Any], words: Words) -> list[str]:
    missing = [
        words.group(handle) for handle, found in (facts.groups or {}).items() if found is None
    ]
    missing += [
        words.channel(name) for name, found in (facts.channels or {}).items() if found is None
    ]
    sums = facts.spent or {}
    missing += [
        f"what was spent with {each.tool}"
        for each in sorted(needed(grounds.sources.policy, tool).spent)
        if sums.get(each) is None
    ]
    return (
        ["", f"Not known: {', '.join(missing)}. What is not known never allows."] if missing else []
    )
