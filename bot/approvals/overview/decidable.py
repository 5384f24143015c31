"""On which calls a person has a say now. Looks people up: for a thread that may wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.approvals.permissions import Permissions
from bot.policy.authority import No, Yes
from storage import calls, request_lists, runs
from storage.models import Call, Run
from storage.states import CallStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

LOOKED_AT = 50  # calls of which it is judged whether the person may decide
_VERBS = {CallStatus.PENDING: Verb.APPROVE, CallStatus.UNKNOWN: Verb.RESOLVE}


@dataclass(frozen=True, slots=True)
class Say:
    """The calls on which somebody has a say."""

    calls: tuple[tuple[Call, Run], ...]
    unsure: int  # of how many calls Slack did not say
    unread: bool  # whether there are more to look at


@dataclass(frozen=True, slots=True)
class Decidable:
    """Answers for one workspace; holds no state of its own."""

    store: Store
    permissions: Permissions

    def of(self, person: str, now: datetime) -> Say:
        """Return the calls on which this person has a say now: theirs to approve and not voted on,
        after those of which they may say what became of them.
        """
        with self.store.read() as tx:
            team, most = self.permissions.team, LOOKED_AT + 1
            unknown = request_lists.waiting_calls(tx, team, now, most, CallStatus.UNKNOWN)
            found = [*unknown, *request_lists.waiting_calls(tx, team, now, most)]
            judged: list[tuple[Call, Run]] = []
            for call in found[:LOOKED_AT]:
                run = runs.get(tx, call.run_id)
                if run is not None and not _voted(tx, call, person):
                    judged.append((call, run))
        verdicts = [
            self.permissions.verdict(_VERBS[call.status], call, run, person, at=now)
            for call, run in judged
        ]
        mine = [
            each for each, verdict in zip(judged, verdicts, strict=True) if isinstance(verdict, Yes)
        ]
        return Say(tuple(mine), verdicts.count(No("lookup")), len(found) > LOOKED_AT)


def _voted(tx: Transaction, call: Call, person: str) -> bool:
    """Return whether they have said already what they can say of a call that is pending."""
    votes = calls.votes(tx, call.id, call.revision)
    said = {who for vote in votes for who in (vote.person, vote.for_person)}
    return call.status is CallStatus.PENDING and person in said
