"""Decided calls, written straight into a record, for reports and suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage.columns import Row
from storage.models import Audit, Call, Plan, Revision, Run, Vote
from storage.states import CallStatus, CallVerb, RunStatus
from storage.store import Store
from storage.transaction import insert_row
from tests.storage.builders import AT, TEAM

ANA, BEN, CLEO = "UANA00001", "UBEN00001", "UCLEO0001"


def asked_by(rule: str = "default", quorum: int = 1) -> str:
    """The gate of a rule that asks the shop leads."""
    stage = Stage(approvers=Approvers(groups=("shop-leads",)), quorum=quorum)
    return dump_gate(Ask(rule=rule, stages=(stage,)))


@dataclass(frozen=True)
class Decided:
    """One call that people were asked about, and what they did."""

    tool: str
    arguments: dict[str, Any]
    status: CallStatus = CallStatus.SUCCEEDED
    votes: Sequence[tuple[str, CallVerb, float]] = ((ANA, CallVerb.APPROVE, 60.0),)  # seconds later
    at: datetime = AT
    gate: str = field(default_factory=asked_by)
    requester: str = BEN
    editor: str = ""
    does: str = "write"
    opened: Sequence[str] = ()  # people who opened Review


def write_decided(store: Store, calls: Iterable[Decided], first: int = 0, note: str = "") -> None:
    """Write these calls straight into the record, each in a request of its own."""
    with store.write() as tx:
        for number, each in enumerate(calls, first):
            for row in _build_rows(number, each, note):
                insert_row(tx, row)


def _build_rows(number: int, each: Decided, note: str) -> Iterator[Row]:
    at, newest = each.at, 2 if each.editor else 1
    run = Run(
        id=f"run-{number}",
        team=TEAM,
        channel="C0SUPPORT",
        thread_ts=f"{number}.0",
        requester=each.requester,
        root_id=f"run-{number}",
        status=RunStatus.COMPLETED,
        created_at=at,
        updated_at=at,
    )
    plan = Plan(id=f"plan-{number}", run_id=run.id, turn=1, created_at=at)
    call = Call(
        id=f"call-{number}",
        run_id=run.id,
        plan_id=plan.id,
        position=0,
        provider_id="call_0",
        tool=each.tool,
        does=each.does,
        status=each.status,
        revision=newest,
        digest=f"digest-{number}",
        gate=each.gate,
        note=note,
        asked_at=at,
        created_at=at,
        decided_at=at + timedelta(minutes=1),
    )
    yield from (run, plan, call)
    for revision in range(1, newest + 1):
        yield Revision(
            call_id=call.id,
            number=revision,
            arguments=json.dumps(each.arguments, sort_keys=True, separators=(",", ":")),
            digest=call.digest,
            author=each.editor if revision == 2 else "agent",
            created_at=at,
        )
    yield from _build_decisions(each, call)


def _build_decisions(each: Decided, call: Call) -> Iterator[Row]:
    for person, verb, after in each.votes:
        yield Vote(
            call_id=call.id,
            revision=call.revision,
            person=person,
            verb=verb,
            digest=call.digest,
            created_at=each.at + timedelta(seconds=after),
        )
    for person in each.opened:
        yield Audit(
            at=each.at + timedelta(seconds=1),
            run_id=call.run_id,
            call_id=call.id,
            actor=person,
            event="call.shown",
            key_id="",
            previous="",
            hash=f"{call.id}-{person}",
        )
