"""The gate of a call as policy, channel mode and earlier rejections give it now; and the reasons to
ask about a call again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from bot.approvals.call_state import get_approval_lifetime, load_preview
from bot.approvals.channel_mode import get_strictest_mode, restrict_gate_by_mode
from bot.approvals.facts import FactSources, add_spending_sums, load_facts
from bot.policy.condition_values import Facts
from bot.policy.gates import Allow, Ask, Deny, load_gate, shorten_deadline
from bot.tools import Effect, Preview, Tool
from countersign.durations import format_duration
from storage import call_history, channel_modes
from storage.models import Call, Run
from storage.states import ChannelMode
from storage.transaction import Transaction

# The gate of one call, with people and groups looked up live; nothing is written.

AFTER_REJECTION = (
    "something in this request was rejected, so even what policy allows needs approval"
)


def compute_gate(
    sources: FactSources,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives a call now; to be called outside any transaction.

    `call`, `siblings`: see bot.approvals.facts.add_spending_sums.
    """
    facts = load_facts(sources, run, tool, args)
    with sources.store.read() as tx:
        return compute_gate_in_transaction(
            tx, sources, run, tool, facts, call=call, siblings=siblings
        )


def compute_gate_in_transaction(
    tx: Transaction,
    sources: FactSources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives for these facts, with sums read in this transaction.

    `call`, `siblings`: see bot.approvals.facts.add_spending_sums.
    """
    summed = add_spending_sums(tx, sources, run, tool, facts, beside=call, siblings=siblings)
    gate, _ = apply_channel_mode(tx, sources, run, summed, sources.policy.policy.get_gate(summed))
    # it has proposed nothing that could be rejected
    is_first = not run.parent_call and run.calls == (call is not None)
    reads = facts.effect == Effect.READ
    return gate if reads or is_first else _apply_earlier_rejection(tx, run, gate)


def apply_channel_mode(
    tx: Transaction, sources: FactSources, run: Run, facts: Facts, gate: Allow | Deny | Ask
) -> tuple[Allow | Deny | Ask, ChannelMode]:
    """Return the gate as the mode of the request's channel changes it, and that mode."""
    mode = get_strictest_mode(channel_modes.list_modes_of_run(tx, run))
    default = (
        sources.policy.policy.build_fallback_gate(facts) if mode is ChannelMode.STRICT else None
    )
    return restrict_gate_by_mode(gate, mode, default, reads=facts.effect == Effect.READ), mode


def _apply_earlier_rejection(
    tx: Transaction, run: Run, gate: Allow | Deny | Ask
) -> Allow | Deny | Ask:
    """Return the gate, made stricter if people have rejected a call of this request.

    An allowed call is then asked of the people who could have rejected that call, unless its rule
    says otherwise; and saved approvals do not apply.
    """
    if isinstance(gate, Deny) or (isinstance(gate, Allow) and gate.after_rejection == "allow"):
        return gate
    text = call_history.find_gate_of_last_rejected_call(tx, run.root_id)
    if text is None:
        return gate
    if isinstance(gate, Ask):
        return gate.copy_without_offers()
    asked = load_gate(text)
    if not isinstance(asked, Ask):
        return gate
    return asked.copy_without_offers().model_copy(update={"would_allow": True, "editable": None})


@dataclass(frozen=True, slots=True)
class ReapprovalRequest:
    """A call to be asked again: the gate and the preview for its new card, and why."""

    gate: Ask
    preview: Preview
    reason: str  # for people
    actor: str  # policy | worker


def build_policy_change_reapproval(call: Call, gate: Ask) -> ReapprovalRequest:
    """Return the renewal of a call whose gate by policy now differs from the gate it met.

    The preview stays as it was shown.
    """
    shown = load_gate(call.gate)
    if isinstance(shown, Ask):
        gate = shorten_deadline(gate, shown)
    why = "policy changed after this was approved, so it is asked again"
    if gate.would_allow and isinstance(shown, Allow):
        why = AFTER_REJECTION
    return ReapprovalRequest(gate, load_preview(call), why, "policy")


def describe_expired_approval(call: Call) -> str:
    """Return the reason for asking again about a call whose approval is too old."""
    age = format_duration(round(get_approval_lifetime(call).total_seconds()))
    return f"it was approved more than {age} ago and had not started."


def describe_expired_rerun(call: Call) -> str:
    """Return why an allowed call is not run again as somebody wanted: too much time has passed."""
    age = format_duration(round(get_approval_lifetime(call).total_seconds()))
    return (
        f"it was to be run again, which was said more than {age} ago, and had not started; "
        "whether it happened before that is not known"
    )


def build_invalid_grant_reapproval(call: Call, gate: Ask) -> ReapprovalRequest:
    """Return the renewal of a call whose saved approval no longer holds."""
    why = "the saved approval for this no longer holds, so it is asked"
    return ReapprovalRequest(gate, load_preview(call), why, "policy")


def build_reapproval(call: Call, gate: Ask, why: str) -> ReapprovalRequest:
    """Return the renewal of a call under this gate, with the preview it had."""
    return ReapprovalRequest(gate, load_preview(call), why, "system")


def prepare_preview_for_thread(sources: FactSources, run: Run, seen: Preview) -> Preview:
    """Return the preview, in full for the thread if policy lets the requester read it unasked."""
    if seen.in_thread is None or seen.as_read is None:
        return seen
    allowed = isinstance(compute_gate(sources, run, *seen.as_read), Allow)
    return replace(seen, in_thread=None) if allowed else seen
