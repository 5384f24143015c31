"""A call to be asked again, as it would stand on its new card."""

from __future__ import annotations

from dataclasses import dataclass

from bot.approvals.terms.context import said_of
from bot.approvals.terms.gating import AFTER_REJECTION
from bot.approvals.terms.progress import good_for
from bot.policy.gates import Allow, Ask, load_gate
from bot.policy.strictness import hastened
from bot.tools import Preview
from countersign.durations import in_words
from storage.models import Call


@dataclass(frozen=True, slots=True)
class Renewal:
    """A call to be asked again: the gate and the preview for its new card, and why."""

    gate: Ask
    seen: Preview
    why: str  # for people
    actor: str  # policy | worker


def stricter(call: Call, gate: Ask) -> Renewal:
    """Return the renewal of a call of which policy asks something else than the gate it met.

    What would happen is as it was shown.
    """
    shown = load_gate(call.gate)
    if isinstance(shown, Ask):
        gate = hastened(gate, shown)
    why = "policy changed after this was approved, so it is asked again"
    if gate.would_allow and isinstance(shown, Allow):
        why = AFTER_REJECTION
    return Renewal(gate, said_of(call), why, "policy")


def aged(call: Call) -> str:
    """Say why a call whose approval is too old is asked again."""
    age = in_words(round(good_for(call).total_seconds()))
    return f"it was approved more than {age} ago and had not started."


def too_old_to_repeat(call: Call) -> str:
    """Say why a call that policy allows, and somebody had run again, is not run after all."""
    age = in_words(round(good_for(call).total_seconds()))
    return (
        f"it was to be run again, which was said more than {age} ago, and had not started; "
        "whether it happened before that is not known"
    )


def no_longer_remembered(call: Call, gate: Ask) -> Renewal:
    """Return the renewal of a call whose remembered approval no longer holds."""
    why = "the approval that was remembered for this no longer holds, so it is asked"
    return Renewal(gate, said_of(call), why, "policy")


def as_it_was(call: Call, gate: Ask, why: str) -> Renewal:
    """Return the renewal of a call under the gate and with the preview that it had."""
    return Renewal(gate, said_of(call), why, "system")
