"""Delegations, by which one person decides for another.

A delegation lasts until a time, or until it is ended; both are up to the delegator alone.

Whether a delegate's vote counts is checked at each click, by what the delegator may do then:
`PermissionChecker`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.approvals import card_routing
from bot.approvals.call_state import describe_call_effect
from bot.approvals.permissions import PermissionChecker, reply_privately
from bot.cards import delegation_dialog
from bot.cards.action_names import Action, DialogId, InputBlockId
from bot.cards.button_codec import Click, DelegationTarget, DialogSubject
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, LookupPendingError, Permission
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from storage import calls, delegations, inbox, outbox, request_lists, runs, trail
from storage.record import Call, Delivery, Message, Run, Store, Transaction
from storage.states import CallStatus, CallVerb, MessageKind

ONLY_MEMBERS_DECIDE_ERROR = "Only full members of this workspace can decide."


@dataclass(frozen=True, slots=True)
class DelegateFinder:
    """Finds the people who now decide for others, so that they are asked as well."""

    store: Store
    clock: Clock
    team: str

    def list_delegates(self, people: Collection[str]) -> frozenset[str]:
        """Return the ids of everybody who decides for any of these people now."""
        with self.store.read() as tx:
            found = delegations.list_delegations_given_by(tx, self.team, people, self.clock.now())
        return frozenset(each.delegate for each in found)


@dataclass(frozen=True, slots=True)
class DelegationManager:
    """Gives, lists and ends delegations in one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    authority: Authority

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handlers of the delegation dialog and of the button that ends a delegation."""
        return {DialogId.DELEGATE: self.give_delegation, Action.END_DELEGATION: self.end_delegation}

    def list_delegations(self, person: str) -> list[delegation_dialog.DelegationView]:
        """Return the delegations in force that this person gave or received."""
        with self.store.read() as tx:
            found = delegations.list_delegations_involving_person(
                tx, self.authority.team, person, self.clock.now()
            )
        return [
            delegation_dialog.DelegationView(
                id=each.id,
                delegator=each.giver,
                delegate=each.delegate,
                until=each.until,
                words=each.words,
                is_own=each.giver == person,
            )
            for each in found
        ]

    def parse_submitted_delegation(
        self, state: dict[str, Any], delegator: str
    ) -> delegation_dialog.DelegationInput | dict[str, str]:
        """Return the delegation a submitted dialog asks for, or its errors by block id.

        Looks people up; raises LookupFailedError.
        """
        found = delegation_dialog.parse_delegation_input(state, delegator, self.clock.now())
        if isinstance(
            found, delegation_dialog.DelegationInput
        ) and not self.authority.is_active_colleague(found.delegate):
            return {InputBlockId.DELEGATE: ONLY_MEMBERS_DECIDE_ERROR}
        return found

    def give_delegation(
        self, delivery: Delivery, _asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Store the delegation a dialog asks for, tell both people, and mark it handled."""
        delegator, at, team = delivery.user, delivery.received_at, self.authority.team
        parsed = self.parse_submitted_delegation(payload["view"]["state"]["values"], delegator)
        if isinstance(
            parsed, delegation_dialog.DelegationInput
        ) and not self.authority.is_active_colleague(delegator):
            parsed = {InputBlockId.DELEGATE: ONLY_MEMBERS_DECIDE_ERROR}
        with self.store.write() as tx:
            if isinstance(parsed, dict):  # something has changed since the dialog was checked
                reply_privately(tx, delivery, next(iter(parsed.values())))
                inbox.mark_delivery_done(tx, delivery, "not delegated")
                return
            row = delegations.Delegation(
                team=team,
                giver=delegator,
                delegate=parsed.delegate,
                words=parsed.words,
                given_at=at,
                until=parsed.until,
            )
            for old in delegations.give_delegation(tx, row):
                if old.delegate != row.delegate:
                    _queue_end_notice(tx, old)
            reply_privately(
                tx, delivery, delegation_dialog.delegation_started_notice(row.delegate, row.until)
            )
            outbox.queue_private_message(
                tx,
                f"delegated:{row.id}",
                person=row.delegate,
                text=delegation_dialog.delegate_appointed_notice(delegator, row.until, row.words),
            )
            inbox.mark_delivery_done(tx, delivery, "delegated")

    def end_delegation(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """End a delegation, if the person who clicked gave it, and mark the click as handled."""
        assert isinstance(asked.target, DelegationTarget)
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = delegations.find_delegation(tx, asked.target.delegation)
            is_own = row is not None and (row.team, row.giver) == (self.authority.team, person)
            was_ended = (
                row is not None and is_own and delegations.revoke_delegation(tx, row.id, person, at)
            )
            if row is not None and was_ended:
                _queue_end_notice(tx, row)
            else:
                reply_privately(tx, delivery, delegation_dialog.DELEGATION_ALREADY_ENDED_REPLY)
            inbox.mark_delivery_done(
                tx, delivery, "delegation ended" if was_ended else "no delegation to end"
            )


def _queue_end_notice(tx: Transaction, row: delegations.Delegation) -> None:
    """Tell a delegate that they no longer decide for somebody."""
    text = delegation_dialog.delegation_ended_notice(row.giver)
    outbox.queue_private_message(tx, f"undelegated:{row.id}", person=row.delegate, text=text)


# Shows a new delegate, once, the calls that are waiting already. Runs on the loop.

log = logging.getLogger("countersign.delegations")
MAX_CALLS_EXAMINED = 50  # to find those the new delegate may decide; Home shows the rest


class DelegateNotifier:
    """Shows waiting calls to new delegates, once each.

    One per process; `notify_new_delegates` is called by the loop only.
    """

    def __init__(self, store: Store, clock: Clock, tools: Registry, authority: Authority) -> None:
        """Store the dependencies; `authority` looks people up, `tools` describe what calls do."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._authority = authority
        self._permissions = PermissionChecker(store, clock, authority)

    def notify_new_delegates(self) -> bool:
        """Show waiting calls to every new delegate; return whether there was one."""
        now = self._clock.now()
        with self._store.read() as tx:
            new = delegations.list_delegations_awaiting_call_list(tx, self._authority.team, now)
        for each in new:
            try:
                self._notify_delegate(each, now)
            except LookupPendingError:  # the loop is woken once it is known
                log.debug("delegation %s: people are being looked up", each.id)
            except LookupFailedError as error:  # tried again on the next tick
                log.warning("delegation %s: the waiting calls were not shown: %s", each.id, error)
            except Exception:
                log.exception("delegation %s: the waiting calls were not shown", each.id)
        return bool(new)

    def _notify_delegate(self, row: delegations.Delegation, now: datetime) -> None:
        runs_with_calls = [
            (
                run,
                card_routing.CallWithCardPlace(
                    call, gate, self._resolve_place(run, gate, row.delegate)
                ),
            )
            for call, run, gate in self._list_waiting_calls(row, now)
        ]
        plans: dict[str, list[tuple[Run, card_routing.CallWithCardPlace]]] = {}
        for run, call_with_place in runs_with_calls:
            key = json.dumps(
                [
                    call_with_place.call.plan_id,
                    call_with_place.place.targets,
                    card_routing.build_card_routing_key(call_with_place.gate),
                ]
            )
            plans.setdefault(key, []).append((run, call_with_place))
        with self._store.write() as tx:
            if not delegations.mark_delegate_shown_waiting_calls(tx, row.id, now):
                return
            told_call_ids: list[str] = []
            for together in plans.values():
                still = [
                    call_with_place
                    for _, call_with_place in together
                    if _is_still_pending(tx, call_with_place.call)
                ]
                self._queue_messages(tx, row, together[0][0], still)
                told_call_ids += [call_with_place.call.id for call_with_place in still]
            if told_call_ids:
                data = {"delegation": row.id, "delegate": row.delegate, "calls": told_call_ids}
                trail.record_event(tx, "delegation.shown", at=now, actor="system", data=data)

    def _list_waiting_calls(
        self, row: delegations.Delegation, now: datetime
    ) -> list[tuple[Call, Run, Ask]]:
        """Return the calls the delegate may approve by this delegation only. Looks people up."""
        with self._store.read() as tx:
            pending = request_lists.list_waiting_calls(tx, row.team, now, MAX_CALLS_EXAMINED)
            calls_with_runs = [(call, runs.get_run(tx, call.run_id)) for call in pending]
            voted = {
                call.id: calls.list_votes_on_revision(tx, call.id, call.revision)
                for call in pending
            }
        waiting = []
        for call, run in calls_with_runs:
            gate = load_gate(call.gate)
            voters = {who for vote in voted[call.id] for who in (vote.person, vote.counted_person)}
            if not isinstance(gate, Ask) or voters & {row.giver, row.delegate}:
                continue
            verdict = self._permissions.judge_action(
                CallVerb.APPROVE, call, run, row.delegate, at=now
            )
            if isinstance(verdict, Permission) and verdict.delegator == row.giver:
                waiting.append((call, run, gate))
        return waiting

    def _resolve_place(self, run: Run, gate: Ask, delegate: str) -> card_routing.CardPlace:
        """Return where the delegate sees a card: where others do, else in a direct message.

        Looks people up.
        """
        place = card_routing.resolve_card_place_for_people(self._authority, run, gate, [delegate])
        if (
            place.kind is card_routing.CardPlaceKind.PEOPLE
        ):  # a place resolved for the delegate would include the delegate's own delegates
            place = card_routing.CardPlace(card_routing.CardPlaceKind.PEOPLE, (delegate,))
        return replace(place, groups=card_routing.find_group_ids_of_gate(self._authority, gate))

    def _queue_messages(
        self,
        tx: Transaction,
        row: delegations.Delegation,
        run: Run,
        waiting: Sequence[card_routing.CallWithCardPlace],
    ) -> None:
        """Tell the delegate what waits, below cards they see; queue cards of the other calls."""
        if not waiting:
            return
        plan, targets, left = waiting[0].call.plan_id, waiting[0].place.targets, list(waiting)
        for card in outbox.list_cards_of_plan(tx, plan):
            here = outbox.parse_message_body(card)["calls"]
            on_it = [each for each in left if each.call.id in here]
            thread = card.thread_ts or card.ts
            if on_it and thread and card.key.rpartition(":")[2] in targets:
                left = [each for each in left if each not in on_it]
                outbox.queue_message(
                    tx, self._build_notice(tx, row, run, on_it, (card.channel, thread))
                )
        parts = [
            left[at : at + card_routing.CALLS_PER_CARD]
            for at in range(0, len(left), card_routing.CALLS_PER_CARD)
        ]
        for number, part in enumerate(parts, 1):
            for target in targets:
                outbox.queue_message(
                    tx, card_routing.build_card_message(run, plan, part, target, number, len(parts))
                )

    def _build_notice(
        self,
        tx: Transaction,
        row: delegations.Delegation,
        run: Run,
        shown: Sequence[card_routing.CallWithCardPlace],
        place: tuple[str, str],
    ) -> Message:
        """Return the message that tells the delegate, in a card's thread, what waits on it."""
        effects = [describe_call_effect(self._tools, tx, each.call) for each in shown]
        deadline = min((each.call.deadline for each in shown if each.call.deadline), default=None)
        text = delegation_dialog.waits_for_delegate_notice(
            row.delegate, row.giver, effects, deadline
        )
        return Message(
            key=f"handover:{row.id}:{shown[0].call.id}",
            kind=MessageKind.NOTICE,
            run_id=run.id,
            channel=place[0],
            thread_ts=place[1],
            body=outbox.dump_message_body(
                {"text": text, "mrkdwn": True, outbox.NOTIFIED_KEY: [row.delegate]}
            ),
        )


def _is_still_pending(tx: Transaction, call: Call) -> bool:
    """Return whether the call is still pending, in the revision that was judged."""
    now = calls.get_call(tx, call.id)
    return (now.status, now.revision) == (CallStatus.PENDING, call.revision)
