"""Delegations: one person has another decide for them until a time, and ends that; both are up to
the giver alone.

Whether a delegate's vote counts is checked at each click, by what the giver may do then:
`Permissions`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.approvals.call_state import effect_of
from bot.approvals.card_routing import (
    CALLS_PER_CARD,
    Place,
    PlaceKind,
    RoutedCall,
    card_row,
    group_ids,
    place_for,
    route,
)
from bot.approvals.permissions import Permissions
from bot.approvals.replies import tell
from bot.cards import request_sentences as words
from bot.cards.action_names import Action, Dialog, Field
from bot.cards.button_codec import Click, DelegationTarget, DialogSubject
from bot.cards.delegation_dialog import DelegationRow, DelegationWish, read_wish
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, NotYetKnownError, Yes
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from storage import calls, delegations, inbox, outbox, request_lists, runs, trail
from storage.delegations import Delegation
from storage.models import Call, Delivery, Message, Run
from storage.states import CallStatus, MessageKind, Verb
from storage.store import Store
from storage.transaction import Transaction

NO_COLLEAGUE = "Only full members of this workspace can decide."


@dataclass(frozen=True, slots=True)
class StandIns:
    """The people who currently decide for others, to be asked as well."""

    store: Store
    clock: Clock
    team: str

    def of(self, people: Collection[str]) -> frozenset[str]:
        """Return the ids of everybody who decides for any of these people now."""
        with self.store.read() as tx:
            found = delegations.delegations_by(tx, self.team, people, self.clock.now())
        return frozenset(each.delegate for each in found)


@dataclass(frozen=True, slots=True)
class Delegations:
    """Gives, lists and ends delegations in one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    authority: Authority

    def acts(self) -> Mapping[Action | Dialog, Any]:
        """Return the handlers of the delegation dialog and its button."""
        return {Dialog.DELEGATE: self.give, Action.END_DELEGATION: self.end}

    def about(self, person: str) -> list[DelegationRow]:
        """Return the delegations in force that this person gave or received."""
        with self.store.read() as tx:
            found = delegations.delegations_about(tx, self.authority.team, person, self.clock.now())
        return [
            DelegationRow(
                id=each.id,
                giver=each.giver,
                delegate=each.delegate,
                until=each.until,
                words=each.words,
                own=each.giver == person,
            )
            for each in found
        ]

    def wished(self, state: dict[str, Any], giver: str) -> DelegationWish | dict[str, str]:
        """Return the delegation a submitted dialog asks for, or its errors by block id.

        Looks people up; raises LookupFailedError.
        """
        found = read_wish(state, giver, self.clock.now())
        if isinstance(found, DelegationWish) and not self.authority.colleague(found.delegate):
            return {Field.DELEGATE: NO_COLLEAGUE}
        return found

    def give(
        self, delivery: Delivery, _asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Store the delegation a dialog asks for, tell both people, and settle the delivery."""
        giver, at, team = delivery.user, delivery.received_at, self.authority.team
        found = self.wished(payload["view"]["state"]["values"], giver)
        if isinstance(found, DelegationWish) and not self.authority.colleague(giver):
            found = {Field.DELEGATE: NO_COLLEAGUE}
        with self.store.write() as tx:
            if isinstance(found, dict):  # something has changed since the dialog was checked
                tell(tx, delivery, next(iter(found.values())))
                inbox.settle_delivery(tx, delivery, "not delegated")
                return
            row = Delegation(
                team=team,
                giver=giver,
                delegate=found.delegate,
                words=found.words,
                given_at=at,
                until=found.until,
            )
            delegations.give_delegation(tx, row)
            tell(tx, delivery, words.delegated(row.delegate, row.until))
            outbox.put_private(
                tx,
                f"delegated:{row.id}",
                channel=row.delegate,
                thread_ts="",
                person=row.delegate,
                text=words.asked_to_decide(giver, row.until, row.words),
            )
            inbox.settle_delivery(tx, delivery, "delegated")

    def end(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """End a delegation, if the person who clicked gave it, and settle the delivery."""
        assert isinstance(asked.target, DelegationTarget)
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = delegations.get(tx, asked.target.delegation)
            mine = row is not None and (row.team, row.giver) == (self.authority.team, person)
            ended = row is not None and mine and delegations.revoke(tx, row.id, person, at)
            if row is not None and ended:
                outbox.put_private(
                    tx,
                    f"undelegated:{row.id}",
                    channel=row.delegate,
                    thread_ts="",
                    person=row.delegate,
                    text=words.no_longer_decides(person),
                )
            else:
                tell(tx, delivery, words.over_already())
            inbox.settle_delivery(
                tx, delivery, "delegation ended" if ended else "no delegation to end"
            )


# Shows the calls that already wait to a new delegate, once. Runs on the loop.

log = logging.getLogger("countersign.delegations")
LOOKED_AT = 50  # calls of which it is judged whether they are to be shown; Home has the others


class Handover:
    """Shows waiting calls to new delegates, once each.

    One per process; `show` is called by the loop only.
    """

    def __init__(self, store: Store, clock: Clock, tools: Registry, authority: Authority) -> None:
        """Store the dependencies; `authority` looks people up, `tools` word what waits."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority
        self._permissions = Permissions(store, clock, authority)

    def show(self) -> bool:
        """Show waiting calls to every new delegate; return whether there was one."""
        now = self._clock.now()
        with self._store.read() as tx:
            new = delegations.unshown_delegations(tx, self._authority.team, now)
        for each in new:
            try:
                self._show(each, now)
            except NotYetKnownError:  # the loop is woken once it is known
                log.debug("delegation %s: people are being looked up", each.id)
            except LookupFailedError as error:  # tried again
                log.warning("delegation %s: what waits was not shown: %s", each.id, error)
            except Exception:
                log.exception("delegation %s: what waits was not shown", each.id)
        return bool(new)

    def _show(self, row: Delegation, now: datetime) -> None:
        found = [
            (run, RoutedCall(call, gate, self._place(run, gate, row.delegate)))
            for call, run, gate in self._waiting(row, now)
        ]
        plans: dict[str, list[tuple[Run, RoutedCall]]] = {}
        for run, asked in found:
            key = json.dumps([asked.call.plan_id, asked.place.targets, route(asked.gate)])
            plans.setdefault(key, []).append((run, asked))
        with self._store.write() as tx:
            if not delegations.mark_shown(tx, row.id, now):
                return
            told: list[str] = []
            for together in plans.values():
                still = [asked for _, asked in together if _waits(tx, asked.call)]
                self._put(tx, row, together[0][0], still)
                told += [asked.call.id for asked in still]
            if told:
                data = {"delegation": row.id, "delegate": row.delegate, "calls": told}
                trail.record(tx, "delegation.shown", at=now, actor="system", data=data)

    def _waiting(self, row: Delegation, now: datetime) -> list[tuple[Call, Run, Ask]]:
        """Return the calls this delegate may approve only for the giver. Looks people up."""
        with self._store.read() as tx:
            pending = request_lists.waiting_calls(tx, row.team, now, LOOKED_AT)
            found = [(call, runs.get(tx, call.run_id)) for call in pending]
            voted = {call.id: calls.votes(tx, call.id, call.revision) for call in pending}
        waiting = []
        for call, run in found:
            gate = load_gate(call.gate)
            said = {who for vote in voted[call.id] for who in (vote.person, vote.counts_for)}
            if run is None or not isinstance(gate, Ask) or said & {row.giver, row.delegate}:
                continue
            verdict = self._permissions.verdict(Verb.APPROVE, call, run, row.delegate, at=now)
            if isinstance(verdict, Yes) and verdict.giver == row.giver:
                waiting.append((call, run, gate))
        return waiting

    def _place(self, run: Run, gate: Ask, delegate: str) -> Place:
        """Return where the delegate sees a card: where others do, else in a direct message.

        Looks people up.
        """
        place = place_for(self._authority, run, gate, [delegate])
        if place.kind is PlaceKind.PEOPLE:  # without those who decide for the delegate in turn
            place = Place(PlaceKind.PEOPLE, (delegate,))
        return replace(place, groups=group_ids(self._authority, gate))

    def _put(
        self, tx: Transaction, row: Delegation, run: Run, waiting: Sequence[RoutedCall]
    ) -> None:
        """Put a line under the cards the delegate sees, and new cards for calls on none of them."""
        if not waiting:
            return
        plan, targets, left = waiting[0].call.plan_id, waiting[0].place.targets, list(waiting)
        for card in outbox.cards(tx, plan):
            here = outbox.body(card)["calls"]
            on_it = [each for each in left if each.call.id in here]
            thread = card.thread_ts or card.ts
            if on_it and thread and card.key.rpartition(":")[2] in targets:
                left = [each for each in left if each not in on_it]
                outbox.put_message(tx, self._line(tx, row, run, on_it, (card.channel, thread)))
        parts = [left[at : at + CALLS_PER_CARD] for at in range(0, len(left), CALLS_PER_CARD)]
        for number, part in enumerate(parts, 1):
            for target in targets:
                outbox.put_message(tx, card_row(run, plan, part, target, number, len(parts)))

    def _line(
        self,
        tx: Transaction,
        row: Delegation,
        run: Run,
        shown: Sequence[RoutedCall],
        place: tuple[str, str],
    ) -> Message:
        """Return the message that tells the delegate, in this channel and thread, what waits."""
        effects = [effect_of(self._tools, tx, each.call) for each in shown]
        deadline = min((each.call.deadline for each in shown if each.call.deadline), default=None)
        text = words.waits_for_you(row.delegate, row.giver, effects, deadline)
        return Message(
            key=f"handover:{row.id}:{shown[0].call.id}",
            kind=MessageKind.NOTICE,
            run_id=run.id,
            channel=place[0],
            thread_ts=place[1],
            body=outbox.dump_body({"text": text, "mrkdwn": True}),
        )


def _waits(tx: Transaction, call: Call) -> bool:
    """Return whether the call is still pending, in the revision that was judged."""
    now = calls.get(tx, call.id)
    return now is not None and (now.status, now.revision) == (CallStatus.PENDING, call.revision)
