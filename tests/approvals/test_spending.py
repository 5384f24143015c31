"""Sums over a requester's calls: which calls count, for how long, and what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, update
from sqlmodel import col

from bot.approvals.call_gates import add_spending_sums_to_facts, load_policy_facts
from bot.core import Core
from bot.policy.condition_values import Facts, SpendingSum
from bot.policy.evaluation import parse
from bot.policy.gates import Ask
from storage import call_history
from storage.columns import get_column_values
from storage.models import Call, Plan, Run
from storage.states import CallStatus, RunStatus
from storage.store import Store
from tests.runs.fakes import BEN, DAN, FakeDirectory, Note, StillClock, make_core, make_tools
from tests.runs.harness import approved
from tests.storage.builders import AT, TEAM, add_revision

C = CallStatus
DAY = timedelta(days=1)
AMOUNT, COUNT = SpendingSum("note", "amount", 86_400), SpendingSum("note", "", 86_400)
POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
when = '''
spent("note", "amount", "24h") > 500.0 || count("note", "24h") > 9
|| spent("put", "amount", "24h") > 500.0
|| count("note", "7d") > 99 || count("note", "24h", "by anyone") > 99
'''
verdict = "ask"

[[rule]]
verdict = "allow"
"""
COUNTED = {C.PENDING, C.APPROVED, C.RUNNING, C.ENTRUSTED, C.SUCCEEDED, C.UNKNOWN}


class Ledger:
    """Calls of one requester, and their sums."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, StillClock()
        self.tools = make_tools(lambda *_: "")
        self.core: Core = make_core(store, self.clock, FakeDirectory(), self.tools, POLICY)

    def add_call(
        self,
        amount: object,
        status: CallStatus = C.SUCCEEDED,
        *,
        tool: str = "note",
        requester: str = BEN,
        at: datetime = AT,
        team: str = TEAM,
        **columns: Any,
    ) -> Call:
        """Store one call; `amount` is in its arguments unless it is None."""
        run = Run(
            team=team,
            channel="C0SUPPORT",
            thread_ts="1.0",
            requester=requester,
            status=RunStatus.WAITING,
            created_at=at,
            updated_at=at,
        )
        plan = Plan(run_id=run.id, turn=1, created_at=at)
        if status is C.SUCCEEDED:  # whatever ends a call writes the time
            columns.setdefault("finished_at", columns.get("decided_at", at))
        row = Call(
            run_id=run.id,
            plan_id=plan.id,
            position=0,
            provider_id="p",
            tool=tool,
            does="write",
            status=status,
            digest="d",
            created_at=at,
            **columns,
        )
        with self.store.write() as tx:
            for model, each in ((Run, run), (Plan, plan), (Call, row)):
                tx.execute(insert(model).values(get_column_values(each)))
            add_revision(tx, row, json.dumps({} if amount is None else {"amount": amount}))
        return row

    def load_facts(self, beside: Call | None = None, siblings: Any = ()) -> Facts:
        """The facts of a note that Ben is about to have written."""
        run = Run(team=TEAM, channel="C0SUPPORT", thread_ts="2.0", requester=BEN)
        run.created_at = run.updated_at = AT
        note = self.tools[0]
        sources = self.core.build_policy_fact_sources()
        facts = load_policy_facts(sources, run, note, Note(text="x"))
        with self.store.read() as tx:
            return add_spending_sums_to_facts(
                tx, sources, run, note, facts, judged_call=beside, siblings=siblings
            )

    def get_sum(self, wanted: SpendingSum = AMOUNT, **how: Any) -> Decimal | None:
        """The sum or count of the calls now."""
        spent = self.load_facts(**how).spent
        assert spent is not None
        return spent[wanted]


@pytest.fixture
def ledger(store: Store) -> Ledger:
    """A ledger without calls."""
    return Ledger(store)


@pytest.mark.parametrize("status", list(CallStatus))
def test_calls_that_wait_run_or_may_have_run_count(ledger: Ledger, status: CallStatus) -> None:
    """Calls that did not run in the end do not count."""
    ledger.add_call("200.00", status)
    assert (ledger.get_sum(), ledger.get_sum(COUNT)) == ((200, 1) if status in COUNTED else (0, 0))


def test_only_calls_of_that_requester_workspace_and_tool_count(ledger: Ledger) -> None:
    """Nobody else's do."""
    ledger.add_call("1.00")
    ledger.add_call("10.00", requester=DAN)
    ledger.add_call("100.00", tool="put")
    ledger.add_call("1000.00", team="T0OTHERCO")
    assert (ledger.get_sum(), ledger.get_sum(SpendingSum("put", "amount", 86_400))) == (1, 100)


@pytest.mark.parametrize("status", [C.PENDING, C.APPROVED, C.RUNNING, C.ENTRUSTED])
def test_open_calls_count_however_old_they_are(ledger: Ledger, status: CallStatus) -> None:
    """One that was requested days ago may be paid today."""
    ledger.add_call("300.00", status, at=AT - 20 * DAY, decided_at=AT - 19 * DAY)
    assert ledger.get_sum() == 300


@pytest.mark.parametrize("status", [C.SUCCEEDED, C.UNKNOWN])
def test_ended_calls_count_for_one_day(ledger: Ledger, status: CallStatus) -> None:
    """The day begins at their end, or at the decision if no end is known."""
    ledger.add_call(
        "1.00",
        status,
        at=AT - 5 * DAY,
        decided_at=AT - 5 * DAY,
        finished_at=AT - DAY + timedelta(seconds=1),
    )
    ledger.add_call("10.00", status, at=AT - 5 * DAY, decided_at=AT - timedelta(hours=1))
    ledger.add_call("100.00", status, at=AT - DAY)
    assert ledger.get_sum() == 11
    ledger.clock.at = AT + timedelta(seconds=1)
    assert ledger.get_sum() == 10


@pytest.mark.parametrize("amount", [None, True, "", "ten", "NaN", "Infinity", [1], {"a": 1}])
def test_a_call_without_a_number_leaves_the_sum_unknown(ledger: Ledger, amount: object) -> None:
    """The policy asks then; the number of calls is still known."""
    ledger.add_call("1.00")
    ledger.add_call(amount)
    assert (ledger.get_sum(), ledger.get_sum(COUNT)) == (None, 2)
    assert isinstance(ledger.core.policy.policy.get_gate(ledger.load_facts()), Ask)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger without calls, for all examples."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('sums')}/db").open()
    yield Ledger(store)
    store.close()


@given(amounts=st.lists(st.decimals(-1_000_000, 1_000_000, places=2), max_size=8))
def test_sums_are_exact_to_the_cent(shared: Ledger, amounts: list[Decimal]) -> None:
    """The amounts are texts or numbers."""
    ledger = shared
    with_text = [json.dumps({"amount": str(each)}) for each in amounts]
    assert ledger.get_sum(siblings=[("note", each) for each in with_text]) == sum(amounts)
    whole = [json.dumps({"amount": int(each)}) for each in amounts]
    assert ledger.get_sum(siblings=[("note", each) for each in whole]) == sum(map(int, amounts))


def test_calls_proposed_together_count_before_they_are_stored(ledger: Ledger) -> None:
    """Those of other tools do not."""
    ledger.add_call("1.00")
    siblings = [
        ("note", '{"amount":"2.00"}'),
        ("put", '{"amount":"4.00"}'),
        ("note", '{"amount":"8.00"}'),
    ]
    assert (ledger.get_sum(siblings=siblings), ledger.get_sum(COUNT, siblings=siblings)) == (11, 3)
    assert ledger.get_sum(SpendingSum("put", "amount", 86_400), siblings=iter(siblings)) == 4


@pytest.mark.parametrize(
    ("status", "earlier", "later"),
    [
        (C.PENDING, 1, 0),
        (C.APPROVED, 1, 0),
        (C.RUNNING, 1, 1),
        (C.ENTRUSTED, 1, 1),
        (C.SUCCEEDED, 1, 1),
        (C.UNKNOWN, 1, 1),
        (C.FAILED, 0, 0),
    ],
)
def test_of_two_open_calls_only_the_earlier_counts_for_the_other(
    ledger: Ledger, status: CallStatus, earlier: int, later: int
) -> None:
    """A later call counts if it has begun."""
    ledger.add_call("1.00", status, at=AT - timedelta(minutes=1))
    call = ledger.add_call("10.00", C.APPROVED)
    ledger.add_call("100.00", status, at=AT + timedelta(minutes=1))
    assert ledger.get_sum(beside=call) == earlier + 100 * later


def test_of_two_calls_created_at_once_only_one_counts_the_other(ledger: Ledger) -> None:
    """Otherwise both would wait, or both would stay below the limit."""
    one, two = ledger.add_call("1.00", C.APPROVED), ledger.add_call("10.00", C.APPROVED)
    assert {(ledger.get_sum(beside=one), ledger.get_sum(beside=two))} <= {(10, 0), (0, 1)}


def test_an_edited_call_counts_with_its_new_amount(ledger: Ledger) -> None:
    """The current revision counts."""
    row = ledger.add_call("1.00", C.PENDING)
    with ledger.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == row.id).values(revision=2))
        row.revision = 2
        add_revision(tx, row, '{"amount":"400.00"}')
        assert [
            each.arguments
            for each in call_history.iterate_calls_counted_towards_limit(tx, TEAM, BEN, "note")
        ] == ['{"amount":"400.00"}']
    assert ledger.get_sum() == 400


def test_each_limit_counts_for_its_own_time_and_people(ledger: Ledger) -> None:
    """A rule may have several limits for one tool."""
    for days, requester in ((0, BEN), (3, BEN), (8, BEN), (0, DAN)):
        ledger.add_call("1.00", requester=requester, at=AT - days * DAY)
    a_week = SpendingSum("note", "", 7 * 86_400)
    by_anyone = SpendingSum("note", "", 86_400, anyone=True)
    assert [ledger.get_sum(each) for each in (COUNT, a_week, by_anyone)] == [1, 2, 2]


def test_no_sums_are_computed_for_a_tool_without_limits(ledger: Ledger) -> None:
    """Its facts have none."""
    run = Run(
        team=TEAM, channel="C0SUPPORT", thread_ts="2.0", requester=BEN, created_at=AT, updated_at=AT
    )
    facts = load_policy_facts(
        ledger.core.build_policy_fact_sources(), run, ledger.tools[1], Note(text="x")
    )
    with ledger.store.read() as tx:
        assert (
            add_spending_sums_to_facts(
                tx, ledger.core.build_policy_fact_sources(), run, ledger.tools[1], facts
            ).spent
            is None
        )


ONE_A_DAY = """
[[rule]]
tool = "note"
when = 'count("note", "24h") >= 1'
verdict = "deny"
reason = "One a day."

[[rule]]
verdict = "ask"
approvers = ["UANA00001"]
"""


def test_a_limit_is_checked_in_the_transaction_that_starts_a_call(tmp_path: Path) -> None:
    """Another call succeeds between policy's answer and the start; this one does not start."""
    harness = approved(tmp_path / "db")
    harness.core.policy.policy = parse(ONE_A_DAY)  # another gate than shown: Ana is looked up
    ledger = Ledger(harness.store)
    look_up, meanwhile = harness.directory.find_person, []

    def person(user: str) -> Any:
        if not meanwhile:
            meanwhile.append(ledger.add_call(None))
        return look_up(user)

    harness.directory.find_person = person  # type: ignore[method-assign] # the directory stands in for the wire
    harness.work()
    [other] = meanwhile
    [call] = [each for each in harness.all()[1] if each.id != other.id]
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "One a day." in call.output
    harness.stop()
