"""A database, a directory and waiting calls, for tests of who may decide and what counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import insert, update
from sqlmodel import col

from bot.approvals.permissions import PermissionChecker
from bot.core import Core
from bot.policy.authority import LookupFailedError, Person
from bot.policy.condition_values import Facts
from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage import calls
from storage.columns import get_column_values
from storage.delegations import Delegation
from storage.models import Call, Revision, Run, Vote
from storage.states import CallStatus, CallVerb
from storage.store import Store
from tests.runs.fakes import BEN, POLICY, FakeDirectory, StillClock, make_core, make_tools
from tests.storage.builders import AT, HOUR, TEAM, Seeded, seed


class PartlyUnreachableDirectory(FakeDirectory):
    """A directory whose look-ups of some people fail."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown_people: set[str] = set()

    def find_person(self, user: str) -> Person | None:
        """The person, unless their look-up fails."""
        if user in self.unknown_people:
            raise LookupFailedError("ratelimited")
        return super().find_person(user)


class World:
    """The core on one database; each call added to it has a run of its own."""

    def __init__(self, store: Store, policy: str = POLICY) -> None:
        self.store, self.clock, self.directory = store, StillClock(), PartlyUnreachableDirectory()
        tools = make_tools(lambda *_: "done")
        self.core: Core = make_core(store, self.clock, self.directory, tools, policy)

    @property
    def permissions(self) -> PermissionChecker:
        """The permission checks."""
        return self.core.build_permission_checker()

    def get_gate(self, tool: str = "note") -> Ask:
        """The gate that policy has for a call of that tool."""
        facts = Facts(tool=tool, effect="write", requester=BEN, args={"text": "note 0"})
        found = self.core.policy.policy.get_gate(facts)
        assert isinstance(found, Ask)
        return found

    def add_calls(
        self,
        gate: Ask | str,
        *statuses: CallStatus,
        requester: str = BEN,
        editors: Sequence[str] = (),
        votes: Sequence[Vote] = (),
        **columns: Any,
    ) -> Seeded:
        """Calls that wait under this gate, the first of them with these editors and votes."""
        made = seed(self.store, *statuses, gate=gate if isinstance(gate, str) else dump_gate(gate))
        with self.store.write() as tx:
            tx.execute(update(Run).where(col(Run.id) == made.run_id).values(requester=requester))
            for number, editor in enumerate(editors, 2):
                calls.insert_revision(
                    tx,
                    Revision(
                        call_id=made.ids[0],
                        number=number,
                        digest="d",
                        author=editor,
                        created_at=AT,
                    ),
                )
            for each in votes:
                each.call_id = made.ids[0]
                calls.insert_vote(tx, each)
            if columns:
                tx.execute(update(Call).where(col(Call.id) == made.ids[0]).values(**columns))
        return made

    def add_delegation(self, giver: str, delegate: str) -> None:
        """Somebody decides for another for an hour from now."""
        row = Delegation(team=TEAM, giver=giver, delegate=delegate, given_at=AT, until=AT + HOUR)
        with self.store.write() as tx:
            tx.execute(insert(Delegation).values(get_column_values(row)))


def make_vote(person: str, verb: CallVerb = CallVerb.APPROVE, stage: int = 0, **more: Any) -> Vote:
    """A vote on the first revision."""
    given = {"revision": 1, "digest": "digest-0", "created_at": AT, **more}
    return Vote(call_id="", person=person, verb=verb, stage=stage, **given)


def make_gate(*stages: Collection[str] | Approvers, **options: Any) -> Ask:
    """A gate with a stage of one approval for each of these lists."""
    made = [
        Stage(approvers=each if isinstance(each, Approvers) else Approvers(users=tuple(each)))
        for each in stages
    ]
    return Ask(rule="r", stages=tuple(made), **options)
