"""What a channel's mode makes of a gate: never more than the policy lets through. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bot.policy.gates import Allow, Ask, Deny
from storage.states import Mode

STRICTNESS: Mapping[Mode, int] = {Mode.ASK: 0, Mode.STRICT: 1, Mode.OBSERVE: 2}
OBSERVED = "observe mode holds here, in which only look-ups run"
NOBODY = "strict mode holds here, and the policy's defaults name nobody who decides"
BY_MODE = "strict mode"  # the rule that asks where the policy would not


def narrowed(
    gate: Allow | Deny | Ask, mode: Mode, default: Ask | None, *, reads: bool
) -> Allow | Deny | Ask:
    """Return what holds in a channel of that mode.

    `default`: whom the policy asks about what no rule fits. What `reads` keeps to the policy.
    """
    if reads or isinstance(gate, Deny):
        return gate
    match mode:
        case Mode.ASK:
            return gate
        case Mode.OBSERVE:
            return Deny(rule="observe mode", reason=OBSERVED)
        case Mode.STRICT if isinstance(gate, Ask):
            return gate.forgetful()
        case Mode.STRICT if default is None:
            return Deny(rule=BY_MODE, reason=NOBODY)
        case _:
            assert default is not None
            return default.forgetful().model_copy(update={"rule": BY_MODE})


def strictest(modes: Iterable[Mode]) -> Mode:
    """Return the mode that lets through the least."""
    return max(modes, key=STRICTNESS.__getitem__)


def is_tighter(now: Mode, before: Mode) -> bool:
    """Return whether a channel lets through less by the one mode than by the other."""
    return STRICTNESS[now] > STRICTNESS[before]
