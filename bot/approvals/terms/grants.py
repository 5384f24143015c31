"""Approve and remember: what may be remembered, what a remembered approval covers, and its list.

A grant is for one requester and one tool, never wider than what the policy offers, and counts only
while the policy still offers it. It is used up inside the transaction that starts the call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.clock import Clock
from bot.messages import sentences
from bot.messages.text import mention, when
from bot.policy.gates import Ask, Offer, load_gate
from bot.tools import Registry, Tool
from storage import calls, grants
from storage.digest import canonical
from storage.models import Call, Grant, Run
from storage.store import Store
from storage.transaction import Transaction


def offers(gate: Ask) -> list[Offer]:
    """Return what an approver may choose to have remembered."""
    return list(gate.remember)


def find(
    tx: Transaction, run: Run, tool: Tool[Any], gate: Ask, arguments: str, now: datetime
) -> Grant | None:
    """Return the remembered approval on which this call may run, while policy still offers it."""
    found = grants.usable(tx, run, tool.name, tool.schema_digest(), arguments, now)
    return next((grant for grant in found if still_offered(gate, grant)), None)


def still_offered(gate: Ask, grant: Grant) -> bool:
    """Return whether the policy offers today what this grant remembers."""
    return Offer.model_validate_json(grant.offer) in (*gate.remember, gate.once)


def use(tx: Transaction, call: Call, gate: Ask, now: datetime) -> bool:
    """Use the call's grant once, as it starts; False when the grant no longer holds."""
    grant = grants.get(tx, call.grant_id)
    return grant is not None and still_offered(gate, grant) and grants.take(tx, grant.id, now)


def remember(
    tx: Transaction, run: Run, call: Call, person: str, chosen: int | None, *, now: datetime
) -> Grant | None:
    """Remember an approval, where its gate does so by itself or offers what was chosen."""
    gate, current = load_gate(call.gate), calls.revision(tx, call.id, call.revision)
    if not isinstance(gate, Ask) or current is None:
        return None
    available = offers(gate)
    offer = (
        gate.once if chosen is None else available[chosen] if 0 <= chosen < len(available) else None
    )
    if offer is None:
        return None
    arguments = json.loads(current.arguments)
    fields = sorted(arguments) if offer.fields is None else offer.fields
    if any(name not in arguments for name in fields):
        return None
    here = offer.where == "thread"
    grant = Grant(
        team=run.team,
        requester=run.requester,
        tool=call.tool,
        schema_digest=call.schema_digest,
        pinned=canonical({name: arguments[name] for name in fields}),
        channel=run.channel if here else "",
        thread_ts=run.thread_ts if here else "",
        until=now + timedelta(seconds=offer.lasts),
        uses=offer.uses,
        offer=offer.model_dump_json(),
        call_id=call.id,
        given_by=person,
        given_at=now,
    )
    grants.give(tx, grant, run_id=run.id)
    return grant


@dataclass(frozen=True, slots=True)
class GrantList:
    """What is remembered in one workspace, as its people may see and end it."""

    store: Store
    clock: Clock
    tools: Registry
    team: str

    def listed(self, person: str) -> str:
        """Return what is remembered that this person asked for or approved, as mrkdwn."""
        with self.store.read() as tx:
            found = grants.open_for(tx, self.team, person, self.clock.now())
        if not found:
            return "Nothing is remembered for you, and nothing that you approved."
        return "\n".join(f"• `{grant.id}`  {self._described(grant)}" for grant in found)

    def revoke(self, grant_id: str, person: str) -> str:
        """End what is remembered; only who asked for it or gave it may.

        Returns what to tell them, as mrkdwn.
        """
        with self.store.write() as tx:
            grant = grants.get(tx, grant_id)
            if (
                grant is None
                or grant.team != self.team
                or person not in (grant.requester, grant.given_by)
            ):
                return (
                    "There is no remembered approval of yours with that id. "
                    "`/approvals grants` lists them."
                )
            if not grants.revoke(tx, grant.id, person, self.clock.now()):
                return "That was revoked already."
        return f"Revoked: {self._described(grant)}. The next such call is asked again."

    def _described(self, grant: Grant) -> str:
        tool = self.tools.get(grant.tool)
        pinned = json.loads(grant.pinned)
        shown = tool.masked(pinned) if tool else dict.fromkeys(pinned, "••••••••")
        same = (
            ", ".join(f"{name} {sentences.said(str(value), 60)}" for name, value in shown.items())
            or "any arguments"
        )
        where = "in one thread" if grant.channel else "everywhere"
        return (
            f"{sentences.said(tool.title if tool else grant.tool, 80)} ({same}) "
            f"for {mention(grant.requester)}, {where}, until {when(grant.until)}, "
            f"{grant.uses} more times; given by {mention(grant.given_by)}"
        )
