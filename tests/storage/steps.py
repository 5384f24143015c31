"""What tests of decisions do: vote, edit, say how an unknown call ended."""

from __future__ import annotations

import json

from bot.agent import outputs
from storage import decisions
from storage.decisions import AlreadyDecided, AppliedDecision, Outcome
from tests.storage.builders import ALLOWED, AT, HOUR, ONE, Seeded

ANA, CLEO = "UANA00001", "UCLEO0001"


def vote(
    seeded: Seeded, verb: str = "approve", person: str = ANA, *, revision: int = 1, index: int = 0
) -> Outcome:
    """Vote now."""
    with seeded.store.write() as tx:
        return decisions.vote(
            tx,
            seeded.ids[index],
            revision,
            verb,
            person,
            at=AT,
            weigh=ONE,
            reason="too dear",
            words=outputs,
        )


def edit(seeded: Seeded, text: str = "new", *, revision: int = 1, person: str = ANA) -> Outcome:
    """Edit now."""
    with seeded.store.write() as tx:
        return decisions.edit(
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


def resolve(seeded: Seeded, verb: str, *, revision: int = 1) -> Outcome:
    """Say what became of an unknown call."""
    with seeded.store.write() as tx:
        return decisions.resolve(tx, seeded.ids[0], revision, ANA, verb, at=AT, words=outputs)


def status_of(outcome: Outcome) -> object:
    """What the loser is told about the call."""
    return outcome.call.status if isinstance(outcome, AlreadyDecided | AppliedDecision) else outcome
