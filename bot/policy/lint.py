"""What a policy says of an approval that can never come true: votes nobody has, moments after the
end. PURE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.policy.gates import Approvers, Ask

if TYPE_CHECKING:
    from bot.policy.file import Options


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
