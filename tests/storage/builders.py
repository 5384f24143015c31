"""Rows and deliveries in any state, written without the functions that the product uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import insert, select, update
from sqlmodel import col

from bot.approvals.call_state import build_vote_counter
from bot.policy.gates import Allow, Approvers, Ask, Stage, dump_gate
from storage import calls, runs
from storage.columns import get_column_values
from storage.models import Audit, Call, Delivery, Message, Plan, Revision, Run, Vote
from storage.states import CallStatus, CallVerb, MessageKind, RunStatus
from storage.store import Store
from storage.transaction import Transaction, fetch_rows

AT = datetime(2026, 3, 2, 12, 0, 0, 250_001, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEAM = "T0SANDBOX"
C, R = CallStatus, RunStatus
SHOP_LEADS = Ask(rule="default", stages=(Stage(approvers=Approvers(groups=("shop-leads",))),))
ASKED = dump_gate(SHOP_LEADS)
ONE = build_vote_counter(SHOP_LEADS)  # one approval is enough
ALLOWED = dump_gate(Allow(rule="default"))


def build_vote(
    call_id: str, revision: int, verb: str, person: str, at: datetime = AT, **columns: Any
) -> Vote:
    """A vote that is not stored yet."""
    about = {"call_id": call_id, "revision": revision, "created_at": at, **columns}
    return Vote(verb=CallVerb(verb), person=person, **about)


@dataclass
class Seeded:
    """One run with one plan, its calls, and a card that shows them; it has only their ids, since
    rows are read when needed.
    """

    store: Store
    run_id: str
    plan_id: str
    ids: list[str]

    def call(self, index: int = 0) -> Call:
        """The call as it is now."""
        with self.store.read() as tx:
            found = calls.find_call(tx, self.ids[index])
        assert found is not None
        return found

    def run(self) -> Run:
        """The run as it is now."""
        with self.store.read() as tx:
            found = runs.find_run(tx, self.run_id)
        assert found is not None
        return found

    def plan(self) -> Plan:
        """The plan as it is now."""
        with self.store.read() as tx:
            found = calls.find_plan(tx, self.plan_id)
        assert found is not None
        return found

    def card(self) -> Message:
        """The row of the card."""
        with self.store.read() as tx:
            return fetch_rows(
                tx, Message, select(Message).where(col(Message.plan_id) == self.plan_id)
            )[0]

    def audit(self) -> list[Audit]:
        """The run's audit rows, oldest first."""
        with self.store.read() as tx:
            return fetch_rows(
                tx,
                Audit,
                select(Audit).where(col(Audit.run_id) == self.run_id).order_by(col(Audit.seq)),
            )

    def events(self) -> list[str]:
        """The names of the run's audit rows."""
        return [row.event for row in self.audit()]

    def votes(self, index: int = 0) -> list[Vote]:
        """Every vote on the call, of all revisions."""
        with self.store.read() as tx:
            return fetch_rows(
                tx,
                Vote,
                select(Vote).where(col(Vote.call_id) == self.ids[index]).order_by(col(Vote.seq)),
            )


@cache
def compute_note_schema_digest() -> str:
    """The digest of the schema of the tool that the calls are of."""
    from tests.runs.fakes import make_tools  # imports this module

    [note] = [each for each in make_tools(lambda *_: "done") if each.name == "note"]
    return note.schema_digest()


def seed(
    store: Store,
    *statuses: CallStatus,
    run: RunStatus = R.WAITING,
    deadline: datetime | None = AT + HOUR,
    gate: str = ASKED,
    fence: int = 1,
) -> Seeded:
    """Store a run in status `run`, and a plan with a call in each of `statuses`, or one PENDING
    call.
    """
    row = Run(
        team=TEAM,
        channel="C0SUPPORT",
        thread_ts="1.0",
        requester="UBEN00001",
        status=run,
        fence=fence,
        created_at=AT,
        updated_at=AT,
    )
    row.root_id = row.id
    if run is R.RUNNING:
        row.lease_until = AT + HOUR
    plan, made = Plan(run_id=row.id, turn=1, created_at=AT), list[str]()
    with store.write() as tx:
        tx.execute(insert(Run).values(get_column_values(row)))
        tx.execute(insert(Plan).values(get_column_values(plan)))
        for position, status in enumerate(statuses or (C.PENDING,)):
            call = Call(
                run_id=row.id,
                plan_id=plan.id,
                position=position,
                provider_id=f"call_{position}",
                tool="note",
                does="write",
                schema_digest=compute_note_schema_digest(),
                status=status,
                digest=f"digest-{position}",
                gate=gate,
                deadline=deadline,
                output=f"output {position}",
                created_at=AT,
            )
            tx.execute(insert(Call).values(get_column_values(call)))
            add_revision(tx, call, json.dumps({"text": f"note {position}"}))
            made.append(call.id)
        tx.execute(insert(Message).values(get_column_values(card_of(plan, made))))
    return Seeded(store, row.id, plan.id, made)


def card_of(plan: Plan, shown: list[str]) -> Message:
    """Return a card, not yet posted, that shows these calls of the plan."""
    return Message(
        key=f"card:{plan.id}",
        kind=MessageKind.CARD,
        run_id=plan.run_id,
        plan_id=plan.id,
        channel="C0SUPPORT",
        body=json.dumps({"calls": shown}),
    )


def set_message(tx: Transaction, row: Message, **columns: Any) -> None:
    """Write columns of a message directly, its status too."""
    tx.execute(update(Message).where(col(Message.seq) == row.seq).values(**columns))


def add_revision(tx: Transaction, call: Call, arguments: str) -> None:
    """Store the current revision of a call."""
    row = Revision(
        call_id=call.id,
        number=call.revision,
        arguments=arguments,
        digest=call.digest,
        author="agent",
        created_at=AT,
    )
    calls.insert_revision(tx, row)


def delivery(
    key: str, kind: str = "message", *, at: datetime = AT, user: str = "UANA00001", body: str = "{}"
) -> Delivery:
    """A delivery from Slack."""
    return Delivery(
        key=key, kind=kind, team=TEAM, user=user, channel="C0SUPPORT", body=body, received_at=at
    )


def click(
    key: str, action: str, value: str, person: str, *, at: datetime = AT, card: str = ""
) -> Delivery:
    """A delivery of a click on a button, on the card with the Slack timestamp `card`."""
    place = {"channel_id": "C0SUPPORT", "message_ts": card}
    body = {"actions": [{"action_id": action, "value": value}], "container": place}
    return Delivery(
        key=key,
        kind="action",
        team=TEAM,
        user=person,
        channel="C0SUPPORT",
        thread_ts="1.0",
        body=json.dumps(body),
        received_at=at,
    )


def submission(
    key: str,
    callback: str,
    about: dict[str, Any],
    values: dict[str, Any],
    person: str,
    *,
    at: datetime = AT,
) -> Delivery:
    """A delivery of a submitted dialog."""
    view = {
        "callback_id": callback,
        "private_metadata": json.dumps(about),
        "state": {"values": values},
    }
    return Delivery(
        key=key,
        kind="submission",
        team=TEAM,
        user=person,
        channel="C0SUPPORT",
        thread_ts="1.0",
        body=json.dumps({"view": view}),
        received_at=at,
    )
