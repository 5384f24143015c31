"""Steps that tests of decisions share: vote, edit, record how an unknown call ended."""

from __future__ import annotations

import json

from storage import decisions
from storage.decisions import AppliedDecision, DecisionOutcome, EarlierDecision
from tests.storage.builders import ALLOWED, AT, HOUR, ONE, Seeded, build_vote

ANA, CLEO = "UANA00001", "UCLEO0001"


def vote(
    seeded: Seeded, verb: str = "approve", person: str = ANA, *, revision: int = 1, index: int = 0
) -> DecisionOutcome:
    """Vote now."""
    with seeded.store.write() as tx:
        return decisions.apply_vote(
            tx, build_vote(seeded.ids[index], revision, verb, person, reason="too dear"), ONE
        )


def edit(
    seeded: Seeded, text: str = "new", *, revision: int = 1, person: str = ANA
) -> DecisionOutcome:
    """Edit now."""
    with seeded.store.write() as tx:
        return decisions.apply_edit(
            tx,
            seeded.ids[0],
            revision,
            person,
            at=AT,
            arguments=json.dumps({"text": text}),
            digest=f"digest {text}",
            gate=ALLOWED,
            deadline=AT + 2 * HOUR,
            preview="as new",
        )


def resolve(seeded: Seeded, verb: str, *, revision: int = 1) -> DecisionOutcome:
    """Record how an unknown call ended."""
    with seeded.store.write() as tx:
        rerun = build_vote(seeded.ids[0], revision + 1, "approve", ANA, digest="rerun")
        return decisions.resolve_unknown_call(
            tx,
            seeded.ids[0],
            revision,
            ANA,
            verb,
            at=AT,
            rerun=rerun if verb == "again" else None,
        )


def get_status(outcome: DecisionOutcome) -> object:
    """The call's status as the outcome has it; the outcome itself if it has no call."""
    return (
        outcome.call.status if isinstance(outcome, EarlierDecision | AppliedDecision) else outcome
    )
