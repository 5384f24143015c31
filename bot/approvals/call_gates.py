"""The gate of a call as policy, channel mode and earlier rejections give it now; and the reasons to
ask about a call again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from bot.approvals.call_state import good_for, said_of
from bot.approvals.channel_mode import narrowed, strictest
from bot.approvals.facts import Sources, facts_of, with_sums
from bot.policy.condition_values import Facts
from bot.policy.gates import Allow, Ask, Deny, load_gate, shorten_deadline
from bot.tools import Effect, Preview, Tool
from countersign.durations import in_words
from storage import call_history, channel_modes
from storage.models import Call, Run
from storage.states import Mode
from storage.transaction import Transaction

# The gate of one call, with people and groups looked up live; nothing is written.

AFTER_REJECTION = (
    "something in this request was rejected, so even what policy allows needs approval"
)


def gate_of(
    sources: Sources,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives a call now; to be called outside any transaction.

    `call`, `siblings`: see bot.approvals.facts.with_sums.
    """
    facts = facts_of(sources, run, tool, args)
    with sources.store.read() as tx:
        return gate_within(tx, sources, run, tool, facts, call=call, siblings=siblings)


def gate_within(
    tx: Transaction,
    sources: Sources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives for these facts, with sums read in this transaction.

    `call`, `siblings`: see bot.approvals.facts.with_sums.
    """
    summed = with_sums(tx, sources, run, tool, facts, beside=call, siblings=siblings)
    gate, _ = in_mode(tx, sources, run, summed, sources.policy.policy.gate(summed))
    # it has proposed nothing that could be rejected
    is_first = not run.parent_call and run.calls == (call is not None)
    reads = facts.effect == Effect.READ
    return gate if reads or is_first else _after_rejection(tx, run, gate)


def in_mode(
    tx: Transaction, sources: Sources, run: Run, facts: Facts, gate: Allow | Deny | Ask
) -> tuple[Allow | Deny | Ask, Mode]:
    """Return the gate as the mode of the request's channel changes it, and that mode."""
    mode = strictest(channel_modes.modes_of_run(tx, run))
    default = sources.policy.policy.fallback(facts) if mode is Mode.STRICT else None
    return narrowed(gate, mode, default, reads=facts.effect == Effect.READ), mode


def _after_rejection(tx: Transaction, run: Run, gate: Allow | Deny | Ask) -> Allow | Deny | Ask:
    """Return the gate, made stricter if people have rejected a call of this request.

    An allowed call is then asked of the people who could have rejected that call, unless its rule
    says otherwise; and saved approvals do not apply.
    """
    if isinstance(gate, Deny) or (isinstance(gate, Allow) and gate.after_rejection == "allow"):
        return gate
    text = call_history.gate_of_rejected(tx, run.root_id)
    if text is None:
        return gate
    if isinstance(gate, Ask):
        return gate.forgetful()
    asked = load_gate(text)
    if not isinstance(asked, Ask):
        return gate
    return asked.forgetful().model_copy(update={"would_allow": True, "editable": None})


@dataclass(frozen=True, slots=True)
class Renewal:
    """A call to be asked again: the gate and the preview for its new card, and why."""

    gate: Ask
    seen: Preview
    why: str  # for people
    actor: str  # policy | worker


def stricter(call: Call, gate: Ask) -> Renewal:
    """Return the renewal of a call whose gate by policy now differs from the gate it met.

    The preview stays as it was shown.
    """
    shown = load_gate(call.gate)
    if isinstance(shown, Ask):
        gate = shorten_deadline(gate, shown)
    why = "policy changed after this was approved, so it is asked again"
    if gate.would_allow and isinstance(shown, Allow):
        why = AFTER_REJECTION
    return Renewal(gate, said_of(call), why, "policy")


def aged(call: Call) -> str:
    """Return the reason for asking again about a call whose approval is too old."""
    age = in_words(round(good_for(call).total_seconds()))
    return f"it was approved more than {age} ago and had not started."


def too_old_to_repeat(call: Call) -> str:
    """Return why an allowed call is not run again as somebody wanted: too much time has passed."""
    age = in_words(round(good_for(call).total_seconds()))
    return (
        f"it was to be run again, which was said more than {age} ago, and had not started; "
        "whether it happened before that is not known"
    )


def no_longer_remembered(call: Call, gate: Ask) -> Renewal:
    """Return the renewal of a call whose saved approval no longer holds."""
    why = "the saved approval for this no longer holds, so it is asked"
    return Renewal(gate, said_of(call), why, "policy")


def as_it_was(call: Call, gate: Ask, why: str) -> Renewal:
    """Return the renewal of a call under this gate, with the preview it had."""
    return Renewal(gate, said_of(call), why, "system")


def for_thread(sources: Sources, run: Run, seen: Preview) -> Preview:
    """Return the preview, in full for the thread if policy lets the requester read it unasked."""
    if seen.in_thread is None or seen.as_read is None:
        return seen
    allowed = isinstance(gate_of(sources, run, *seen.as_read), Allow)
    return replace(seen, in_thread=None) if allowed else seen
