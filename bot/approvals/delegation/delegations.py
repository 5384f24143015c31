"""Has one person decide for another, until a time, and ends it; both for the giver alone.

Whether it counts is settled at each click, by what the giver may do then: `Permissions`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bot.approvals.replies import tell
from bot.clock import Clock
from bot.messages.actions.codec import Click, Subject
from bot.messages.actions.names import Action, Dialog, Field
from bot.messages.actions.targets import DelegationTarget
from bot.messages.delegation.listing import Delegated
from bot.messages.delegation.modal import Wished, read_wish
from bot.messages.sentences import delegations as words
from bot.policy.authority import Authority
from storage import delegations, inbox, outbox
from storage.delegations import Delegation
from storage.models import Delivery
from storage.store import Store

NO_COLLEAGUE = "Only full members of this workspace can decide."


@dataclass(frozen=True, slots=True)
class StandIns:
    """Who is asked besides: whoever decides for these people now."""

    store: Store
    clock: Clock
    team: str

    def of(self, people: Collection[str]) -> frozenset[str]:
        """Return who decides for any of them."""
        with self.store.read() as tx:
            found = delegations.of(tx, self.team, people, self.clock.now())
        return frozenset(each.delegate for each in found)


@dataclass(frozen=True, slots=True)
class Delegations:
    """Gives and ends them in one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    authority: Authority

    def acts(self) -> Mapping[Action | Dialog, Any]:
        """Return what deals with its dialog and its button."""
        return {Dialog.DELEGATE: self.give, Action.END_DELEGATION: self.end}

    def about(self, person: str) -> list[Delegated]:
        """Return what this person has given or been given that holds now."""
        with self.store.read() as tx:
            found = delegations.about(tx, self.authority.team, person, self.clock.now())
        return [
            Delegated(
                id=each.id,
                giver=each.giver,
                delegate=each.delegate,
                until=each.until,
                words=each.words,
                own=each.giver == person,
            )
            for each in found
        ]

    def wished(self, state: dict[str, Any], giver: str) -> Wished | dict[str, str]:
        """Return what a submitted dialog asks for, or its errors by block id.

        Looks people up; raises LookupFailedError.
        """
        found = read_wish(state, giver, self.clock.now())
        if isinstance(found, Wished) and not self.authority.colleague(found.delegate):
            return {Field.DELEGATE: NO_COLLEAGUE}
        return found

    def give(self, delivery: Delivery, _asked: Click | Subject, payload: dict[str, Any]) -> None:
        """Store what a dialog asks for, tell both, and settle the delivery."""
        giver, at, team = delivery.user, delivery.received_at, self.authority.team
        found = self.wished(payload["view"]["state"]["values"], giver)
        if isinstance(found, Wished) and not self.authority.colleague(giver):
            found = {Field.DELEGATE: NO_COLLEAGUE}
        with self.store.write() as tx:
            if isinstance(found, dict):  # something has changed since the dialog was checked
                tell(tx, delivery, next(iter(found.values())))
                inbox.settle(tx, delivery, "not delegated")
                return
            row = Delegation(
                team=team,
                giver=giver,
                delegate=found.delegate,
                words=found.words,
                given_at=at,
                until=found.until,
            )
            delegations.give(tx, row)
            tell(tx, delivery, words.delegated(row.delegate, row.until))
            outbox.private(
                tx,
                f"delegated:{row.id}",
                channel=row.delegate,
                thread_ts="",
                person=row.delegate,
                text=words.asked_to_decide(giver, row.until, row.words),
            )
            inbox.settle(tx, delivery, "delegated")

    def end(self, delivery: Delivery, asked: Click | Subject, _payload: dict[str, Any]) -> None:
        """End one, for who gave it, and settle the delivery."""
        assert isinstance(asked.target, DelegationTarget)
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = delegations.get(tx, asked.target.delegation)
            mine = row is not None and (row.team, row.giver) == (self.authority.team, person)
            ended = row is not None and mine and delegations.revoke(tx, row.id, person, at)
            if row is not None and ended:
                outbox.private(
                    tx,
                    f"undelegated:{row.id}",
                    channel=row.delegate,
                    thread_ts="",
                    person=row.delegate,
                    text=words.no_longer_decides(person),
                )
            else:
                tell(tx, delivery, words.over_already())
            inbox.settle(tx, delivery, "delegation ended" if ended else "no delegation to end")
