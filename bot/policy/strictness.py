"""Two gates that both have to be met, as one; and a gate with what other rules add to it. PURE."""

from __future__ import annotations

from collections.abc import Sequence

from bot.policy.gates import Addition, Allow, Ask, Editors, Reasons, Stage


def stricter(shown: Ask, now: Ask) -> Ask:
    """The gate that holds where the one shown and the one that applies now differ: both must be
    met.

    Whoever meets it has met every stage of either gate, with as many different people of the same
    approvers. The stages of `shown` stay first and in place, so a vote counts where it was let
    through; what `now` asks besides comes after them. Nothing is remembered of what two gates ask.
    Doing it again changes nothing: stricter(stricter(a, b), b) == stricter(a, b).
    """
    if shown == now:
        return shown
    alike = shown.hours == now.hours  # else all hours count, and nobody is let in sooner by that
    return now.model_copy(
        update={
            "stages": _both_met(shown.stages, now.stages),
            "any_order": shown.any_order and now.any_order,
            "deadline": min(shown.deadline, now.deadline),
            "good_for": min(shown.good_for, now.good_for),
            "self_approval": shown.self_approval and now.self_approval,
            "editor_counts": shown.editor_counts and now.editor_counts,
            "editors": _fewer(shown.editors, now.editors),
            "editable": _both_allow(shown.editable, now.editable),
            "veto": min(shown.veto, now.veto),
            "reasons": _more_words(shown.reasons, now.reasons),
            "hours": now.hours if alike else None,
            "escalation": tuple(
                step for step in now.escalation if alike and step in shown.escalation
            ),
        }
    ).forgetful()


def hastened(gate: Ask, shown: Ask) -> Ask:
    """The gate with the shorter of both deadlines; where one counts business hours and the other
    counts others, all hours count, and nobody is let in by an escalation.
    """
    changed: dict[str, object] = {"deadline": min(shown.deadline, gate.deadline)}
    if shown.hours != gate.hours:
        changed |= {"hours": None, "escalation": ()}
    return gate.model_copy(update=changed)


def tightened(gate: Allow | Ask, additions: Sequence[tuple[Addition, bool]]) -> Allow | Ask:
    """The gate with what these rules add, each with whether that it applies is known for sure.

    What may run unasked is asked about where one of them names who decides. Nothing is ever taken
    away: whoever meets the result before any escalation has met `gate`. A rule of which it cannot
    be told whether it applies adds no escalation, for that lets more people decide.
    """
    if isinstance(gate, Allow):
        asking = next((each.ask for each, _ in additions if each.ask), None)
        if asking is None:
            return gate
        gate = asking
    for addition, sure in additions:
        if changed := _changes(gate, addition, sure):
            names = gate.added if addition.rule == gate.rule else (*gate.added, addition.rule)
            gate = gate.model_copy(update={**changed, "added": names})
    return gate


def _changes(gate: Ask, addition: Addition, sure: bool) -> dict[str, object]:
    """What the addition makes of the gate, where that differs."""
    steps = addition.escalation if sure else ()
    new = [step for step in steps if step not in gate.escalation]
    wanted: dict[str, object] = {
        "stages": _both_met(gate.stages, addition.stages),
        "deadline": min(gate.deadline, addition.deadline or gate.deadline),
        "good_for": min(gate.good_for, addition.good_for or gate.good_for),
        "self_approval": gate.self_approval and addition.self_approval is not False,
        "editor_counts": gate.editor_counts and addition.editor_counts is not False,
        "editors": _fewer(gate.editors, addition.editors or gate.editors),
        "editable": _both_allow(gate.editable, addition.editable),
        "veto": min(gate.veto, addition.veto or gate.veto),
        "reasons": _more_words(gate.reasons, addition.reasons or gate.reasons),
        "reminders": tuple(sorted({*gate.reminders, *addition.reminders})),
        "escalation": tuple(sorted((*gate.escalation, *new), key=lambda step: step.after)),
    }
    return {key: value for key, value in wanted.items() if value != getattr(gate, key)}


def _both_met(first: tuple[Stage, ...], second: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The n-th stage of the same approvers in one is the n-th in the other: the larger quorum
    counts.
    """
    stages = list(first)
    free = list(range(len(first)))
    for stage in second:
        same = next((at for at in free if _people(stages[at]) == _people(stage)), None)
        if same is None:
            stages.append(stage)
            continue
        free.remove(same)
        stages[same] = stages[same].model_copy(
            update={"quorum": max(stages[same].quorum, stage.quorum)}
        )
    return tuple(stages)


def _people(stage: Stage) -> tuple[frozenset[str], frozenset[str], bool, bool]:
    found = stage.approvers
    return frozenset(found.users), frozenset(found.groups), found.channel, found.requester


def _fewer(one: Editors, other: Editors) -> Editors:
    order: tuple[Editors, ...] = ("nobody", "approvers", "approvers_and_requester")
    return min(one, other, key=order.index)


def _both_allow(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(field for field in one if field in other)


def _more_words(one: Reasons, other: Reasons) -> Reasons:
    if one == other or other == "never":
        return one
    return other if one == "never" else "always"
