"""Grants (saved approvals): what may be saved, which calls a grant covers, and a person's list.

A grant is for one requester and one tool, in the place and under the rule it was given for. It
counts only while the person who saved it could still approve such a call alone. One use is taken
inside the transaction that starts the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bot.approvals.call_gates import PolicyFactSources
from bot.approvals.permissions import may_approve_alone, reply_privately
from bot.cards import notices, slack_text
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.cards.field_values import list_argument_values
from bot.cards.views import ArgumentValue
from bot.clock import Clock
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Ask, GrantOffer, load_gate
from bot.tools import Registry, Tool
from storage import calls, grants, inbox
from storage.digest import canonical_json, load_canonical_json
from storage.masking import MASK
from storage.record import Call, Delivery, Run, Store, Transaction

ALREADY_ENDED_NOTICE = "That was revoked already, or has expired."


def list_candidate_grants(
    tx: Transaction,
    sources: PolicyFactSources,
    run: Run,
    tool: Tool[Any],
    gate: Ask,
    arguments: str,
) -> list[grants.Grant]:
    """Return the grants that cover this call, even if their authors may no longer decide.

    Empty if the gate offers no saved approvals: then no grant was given under its rule.
    """
    if not (gate.remember or gate.once):
        return []
    now, policy = sources.clock.now(), sources.policy
    found = grants.list_usable_grants(tx, run, tool.name, tool.schema_digest(), arguments, now)
    return [grant for grant in found if _is_grant_of_rule(policy, gate, grant)]


def find_valid_grant(
    authority: Authority, run: Run, gate: Ask, among: Iterable[grants.Grant]
) -> grants.Grant | None:
    """Return the first of these grants whose author may still decide. Looks people up."""
    return next(
        (each for each in among if may_approve_alone(authority, run, gate, each.given_by)), None
    )


def consume_grant(
    tx: Transaction, policy: CurrentPolicy, call: Call, gate: Ask, now: datetime
) -> bool:
    """Use the call's grant once, as the call starts; return False if the grant no longer holds."""
    grant = grants.find_grant(tx, call.grant_id)
    return (
        grant is not None
        and _is_grant_of_rule(policy, gate, grant)
        and grants.use_grant(tx, grant.id, now, call)
    )


def _is_grant_of_rule(policy: CurrentPolicy, gate: Ask, grant: grants.Grant) -> bool:
    """Return whether the gate comes from the very rule the grant was given under."""
    return bool(grant.rule) and policy.policy.find_rule_digest(gate) == grant.rule


def _has_channel_approvers(gate: Ask) -> bool:
    """Return whether the approvers of any stage or escalation depend on the channel."""
    lists = (
        *(each.approvers for each in gate.stages),
        *(each.approvers for each in gate.escalation),
    )
    return any(each.channel for each in lists)


def get_chosen_or_default_offer(gate: Ask, chosen: int | None) -> GrantOffer | None:
    """Return the terms for saving an approval as a grant: those chosen, or the gate's own.

    None if there is neither.
    """
    if chosen is None:
        return gate.once
    return gate.remember[chosen] if 0 <= chosen < len(gate.remember) else None


def save_approval_as_grant(
    tx: Transaction,
    policy: CurrentPolicy,
    run: Run,
    call: Call,
    person: str,
    offer: GrantOffer,
    *,
    now: datetime,
) -> grants.Grant | None:
    """Save an approval by `person` as a grant on the terms of `offer`, and return the grant.

    None if the gate is not that of a rule in force, or an argument of the offer is missing.
    """
    gate, current = load_gate(call.gate), calls.find_revision(tx, call.id, call.revision)
    if not isinstance(gate, Ask) or current is None:
        return None
    rule = policy.policy.find_rule_digest(gate)
    if not rule:
        return None
    arguments = load_canonical_json(current.arguments)
    fields = sorted(arguments) if offer.fields is None else offer.fields
    if any(name not in arguments for name in fields):
        return None
    here = offer.where == "thread"
    grant = grants.Grant(
        team=run.team,
        requester=run.requester,
        tool=call.tool,
        schema_digest=call.schema_digest,
        pinned=canonical_json({name: arguments[name] for name in fields}),
        rule=rule,
        channel=run.channel if here or _has_channel_approvers(gate) else "",
        thread_ts=run.thread_ts if here else "",
        until=now + timedelta(seconds=offer.lasts),
        uses=offer.uses,
        call_id=call.id,
        given_by=person,
        given_at=now,
    )
    grants.give_grant(tx, grant, run_id=run.id)
    return grant


def describe_grant_scope(tools: Registry, grant: grants.Grant) -> str:
    """Return the argument values a grant is for, with their titles, as mrkdwn: "Order 1042"."""
    tool, pinned = tools.get(grant.tool), json.loads(grant.pinned)
    shown = (
        [each for each in list_argument_values(tool, pinned) if each.path[0] in pinned]
        if tool
        else [ArgumentValue(name, MASK) for name in pinned]
    )
    clean = partial(slack_text.sanitise_for_mrkdwn, limit=60)
    found = (
        f"{clean(each.label)} {slack_text.join_mentions(each.mentions, 5) or clean(each.text)}"
        for each in shown
    )
    return ", ".join(found) or "whatever the values"


@dataclass(frozen=True, slots=True)
class GrantManager:
    """Saves approvals as grants, and lists and ends the grants of one workspace's people."""

    store: Store
    clock: Clock
    tools: Registry
    team: str
    policy: CurrentPolicy

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of the button that ends a grant."""
        return {Action.REVOKE: self.handle_revoke_grants_click}

    def save_approval_as_grant(
        self, tx: Transaction, run: Run, call: Call, person: str, offer: GrantOffer
    ) -> list[str]:
        """Save an approval as a grant; return a list with the notice of it, empty if not saved."""
        now = self.clock.now()
        grant = save_approval_as_grant(tx, self.policy, run, call, person, offer, now=now)
        if grant is None:
            return []
        same = describe_grant_scope(self.tools, grant)
        return [notices.approval_saved_notice(grant.until, grant.uses, same)]

    def describe_grants(self, person: str) -> str:
        """Return the grants that this person requested or gave, as mrkdwn."""
        found = self.list_revocable_grants(person)
        if not found:
            return "You have no saved approvals, of your own or for your requests."
        lines = [f"• {text} (“/approvals revoke {grant.id}” ends it)" for grant, text in found]
        return "\n".join(["Saved approvals (these run without asking):", *lines])

    def list_revocable_grants(self, person: str) -> list[tuple[grants.Grant, str]]:
        """Return each saved approval this person may end, with the sentence that describes it."""
        with self.store.read() as tx:
            found = grants.list_usable_grants_involving_person(
                tx, self.team, person, self.clock.now()
            )
        return [(grant, self._describe_grant(grant)) for grant in found]

    def revoke_grants_given_with_call(
        self, tx: Transaction, call_id: str, person: str, at: datetime
    ) -> bool:
        """End the grants given with this call; return whether any was ended.

        Only grants that the person requested or gave are ended.
        """
        mine = grants.list_usable_grants_involving_person(tx, self.team, person, at)
        given = [grant for grant in mine if grant.call_id == call_id]
        ended = [grants.revoke_grant(tx, grant.id, person, at) for grant in given]
        return any(ended)

    def handle_revoke_grants_click(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """End the saved approval given with this call; Home then shows that it is gone."""
        assert isinstance(asked.target, CallTarget)
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            ended = self.revoke_grants_given_with_call(tx, asked.target.call, person, at)
            reply_privately(tx, delivery, "" if ended else ALREADY_ENDED_NOTICE)
            inbox.mark_delivery_done(tx, delivery, "revoked" if ended else "nothing to revoke")

    def revoke_grant(self, grant_id: str, person: str) -> str:
        """End a grant, if this person requested or gave it; return the reply, as mrkdwn."""
        with self.store.write() as tx:
            grant = grants.find_grant(tx, grant_id)
            if (
                grant is None
                or grant.team != self.team
                or person not in (grant.requester, grant.given_by)
            ):
                return "You have no saved approval with that id. “/approvals grants” lists them."
            if not grants.revoke_grant(tx, grant.id, person, self.clock.now()):
                return "That was revoked already."
        return f"Revoked: {self._describe_grant(grant)}. The next such call needs approval again."

    def _describe_grant(self, grant: grants.Grant) -> str:
        tool, same = self.tools.get(grant.tool), describe_grant_scope(self.tools, grant)
        often = "once more" if grant.uses == 1 else f"{grant.uses} more times"
        where = f"in {slack_text.channel_mention(grant.channel)}" if grant.channel else "everywhere"
        where = "in one thread" if grant.thread_ts else where
        return (
            f"{slack_text.sanitise_for_mrkdwn(tool.title if tool else grant.tool, 80)} "
            f"({same}) "
            f"for {slack_text.user_mention(grant.requester)}, {where}, until "
            f"{slack_text.format_local_time(grant.until)}, "
            f"{often}; given by {slack_text.user_mention(grant.given_by)}"
        )
